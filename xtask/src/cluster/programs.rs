//! Command lines and health endpoints of the programs.
//!
//! Pure text from paths and ports; [`super::Cluster`] runs it.

use std::path::Path;

use super::gates::{GateFlags, feature_gates, flags, runtime_config};
use super::options::{ClientLimits, Options, Parts};
use crate::tools::Part;

/// Ports of one instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) api_server: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
}

/// Input of the command lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) ports: Ports,
    pub(crate) options: &'a Options,
}

/// Stage objects for KWOK.
pub(crate) const STAGES: &str = include_str!("stages.yaml");
/// Files of the audit log and of its policy in the directory of an instance.
pub(crate) const AUDIT_LOG: &str = "audit.log";
pub(crate) const AUDIT_POLICY: &str = "audit-policy.json";

/// Scheduler names that kube-scheduler places pods for: its own, and those of schedulers that cannot run
/// here, whose pods it places one by one.
const PROFILES: [&str; 5] =
    ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler", "crew-scheduler"];

impl Setting<'_> {
    /// Arguments of a program; kubectl has none.
    pub(crate) fn arguments(&self, part: Part) -> Vec<String> {
        match part {
            Part::Etcd => self.etcd(),
            Part::ApiServer(_) => self.api_server(),
            Part::ControllerManager(_) => self.controller_manager(),
            Part::Scheduler(_) => self.scheduler(),
            Part::Kwok => self.kwok(),
            Part::Kubectl(_) => Vec::new(),
        }
    }

    /// Configuration file of kube-scheduler.
    pub(crate) fn scheduler_config(&self) -> String {
        serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": self.directory.join("kube-scheduler.kubeconfig"),
                "qps": 5000,
                "burst": 5000,
            },
            "leaderElection": { "leaderElect": false },
            "profiles": PROFILES.map(|name| serde_json::json!({ "schedulerName": name })),
        })
        .to_string()
    }

    /// Logs each write once. Reads are not logged, because logging would slow down the measured requests;
    /// reviews are not either, because they store nothing.
    pub(crate) fn audit_policy() -> String {
        serde_json::json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
            "rules": [
                {
                    "level": "None",
                    "resources": [
                        { "group": "authentication.k8s.io" },
                        { "group": "authorization.k8s.io" },
                    ],
                },
                {
                    "level": "Metadata",
                    "verbs": ["create", "update", "patch", "delete", "deletecollection"],
                },
                { "level": "None" },
            ],
        })
        .to_string()
    }

    fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        vec![
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            "--listen-peer-urls=http://127.0.0.1:0".into(),
            "--log-level=warn".into(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let gates = self.gates();
        // Without the controller manager there are no service accounts, which this admission plugin requires
        // for every pod.
        let disabled = match self.options.parts {
            Parts::ApiServer => "TaintNodesByCondition,ServiceAccount",
            Parts::Full => "TaintNodesByCondition",
        };
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--cert-dir={}", self.file("certificates")),
            "--bind-address=127.0.0.1".into(),
            // Otherwise the host's address is looked up, which fails without a network.
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--secure-port={}", self.ports.api_server),
            format!("--client-ca-file={}", self.file("ca.crt")),
            // No client may impersonate through a proxy; without these two the other programs log errors.
            format!("--requestheader-client-ca-file={}", self.file("ca.crt")),
            "--requestheader-allowed-names=nobody".into(),
            "--authorization-mode=RBAC".into(),
            "--service-cluster-ip-range=10.0.0.0/16".into(),
            "--service-account-issuer=https://localhost".into(),
            format!("--service-account-key-file={}", self.file("sa.pub")),
            format!("--service-account-signing-key-file={}", self.file("sa.key")),
            format!("--disable-admission-plugins={disabled}"),
        ];
        args.extend(self.serving());
        args.extend(feature_gates(gates.server));
        args.extend(runtime_config(gates.versions));
        if self.options.audit {
            args.extend([
                format!("--audit-policy-file={}", self.file(AUDIT_POLICY)),
                format!("--audit-log-path={}", self.file(AUDIT_LOG)),
                // A single file, so that its end can be followed.
                "--audit-log-maxsize=0".into(),
            ]);
        }
        args.extend(self.options.api_server_flags.iter().cloned());
        args
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut args = self.client("kube-controller-manager");
        args.extend([
            format!("--kubeconfig={}", self.file("kube-controller-manager.kubeconfig")),
            format!("--service-account-private-key-file={}", self.file("sa.key")),
            format!("--root-ca-file={}", self.file("ca.crt")),
            "--leader-elect=false".into(),
            format!("--secure-port={}", self.ports.controller_manager),
            "--use-service-account-credentials=true".into(),
            "--controllers=*,-node-lifecycle-controller,-bootstrap-signer-controller,\
             -token-cleaner-controller"
                .into(),
        ]);
        if self.options.controller_manager_limits == ClientLimits::Raised {
            args.extend([
                "--kube-api-qps=2000".into(),
                "--kube-api-burst=4000".into(),
                "--concurrent-gc-syncs=50".into(),
            ]);
        }
        args.extend(feature_gates(self.gates().controller_manager));
        args
    }

    fn scheduler(&self) -> Vec<String> {
        let mut args = self.client("kube-scheduler");
        args.extend([
            format!("--config={}", self.file("kube-scheduler.json")),
            format!("--secure-port={}", self.ports.scheduler),
        ]);
        args.extend(feature_gates(self.gates().server));
        args
    }

    fn kwok(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.file("kwok.kubeconfig")),
            format!("--config={}", self.file("stages.yaml")),
            "--manage-all-nodes=true".into(),
            "--node-lease-duration-seconds=40".into(),
            "--cidr=10.0.0.0/8".into(),
            format!("--server-address=127.0.0.1:{}", self.ports.kwok),
        ]
    }

    /// Flags of the programs that serve health and delegate authentication to the API server.
    fn client(&self, name: &str) -> Vec<String> {
        let kubeconfig = self.file(&format!("{name}.kubeconfig"));
        let mut args = vec![
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--bind-address=127.0.0.1".into(),
        ];
        args.extend(self.serving());
        args
    }

    fn serving(&self) -> [String; 2] {
        [
            format!("--tls-cert-file={}", self.file("serving.crt")),
            format!("--tls-private-key-file={}", self.file("serving.key")),
        ]
    }

    fn gates(&self) -> GateFlags {
        flags(self.options.kube, self.options.gates)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Gates;
    use crate::tools::Kube;

    fn arguments(part: Part, options: &Options) -> Vec<String> {
        let ports = Ports { etcd: 1, api_server: 2, controller_manager: 3, scheduler: 4, kwok: 5 };
        Setting { directory: Path::new("/i"), ports, options }.arguments(part)
    }

    #[test]
    fn every_program_names_the_instance_directory() {
        let options = Options::default();
        for part in Part::all(Kube::V1_37) {
            let args = arguments(part, &options);
            let named = args.iter().any(|arg| arg.contains("=/i/"));
            assert_eq!(named, part.name() != "kubectl", "{part}");
        }
    }

    #[test]
    fn service_accounts_are_required_only_where_they_are_created() {
        let disabled = |parts| {
            arguments(Part::ApiServer(Kube::V1_37), &Options { parts, ..Options::default() })
                .into_iter()
                .find(|arg| arg.starts_with("--disable-admission-plugins"))
                .unwrap()
        };
        assert!(disabled(Parts::ApiServer).ends_with(",ServiceAccount"));
        assert!(!disabled(Parts::Full).contains("ServiceAccount"));
    }

    #[test]
    fn own_flags_come_last_and_default_gates_add_none() {
        let options = Options {
            gates: Gates::Defaults,
            api_server_flags: vec!["--max-requests-inflight=3".into()],
            ..Options::default()
        };
        let args = arguments(Part::ApiServer(Kube::V1_37), &options);
        assert_eq!(args.last().unwrap(), "--max-requests-inflight=3");
        assert!(!args.iter().any(|arg| arg.starts_with("--feature-gates")));
    }

    #[test]
    fn writes_are_logged_only_on_request() {
        let audited = |audit| {
            arguments(Part::ApiServer(Kube::V1_37), &Options { audit, ..Options::default() })
                .iter()
                .filter(|arg| arg.starts_with("--audit"))
                .count()
        };
        assert_eq!(audited(false), 0);
        assert_eq!(audited(true), 3);
    }

    #[test]
    fn a_controller_manager_at_its_defaults_gets_no_limit() {
        let limited = |controller_manager_limits| {
            let options = Options { controller_manager_limits, ..Options::default() };
            let args = arguments(Part::ControllerManager(Kube::V1_37), &options);
            args.iter().filter(|arg| arg.contains("kube-api") || arg.contains("gc-syncs")).count()
        };
        assert_eq!(limited(ClientLimits::Raised), 3);
        assert_eq!(limited(ClientLimits::Defaults), 0);
    }
}
