//! An operator on a real control plane, under its own role.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::time::Duration;

use grove_api::OperatorConfiguration;
use grove_operator::{Identity, Options, WebhookAddress};
use grove_runtime::clock::Clock;
use grove_runtime::process::Env;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::util::MapRequestLayer;
use xtask::cluster::{Cluster, Options as ClusterOptions, Parts, User};

pub const NAMESPACE: &str = "grove-system";
const RBAC: &str = include_str!("../../../../deploy/operator/rbac.yaml");
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Registering webhooks by URL and installing CRDs is for operators outside a cluster and needs
/// more than the installed role grants.
const OUTSIDE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: grove-operator-outside}
rules:
  - apiGroups: [admissionregistration.k8s.io]
    resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
    verbs: [create]
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions]
    verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: grove-operator-outside}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: grove-operator-outside}
subjects: [{kind: ServiceAccount, name: grove-operator, namespace: grove-system}]
";

pub struct World {
    pub cluster: Cluster,
    operator: User,
}

impl World {
    pub fn start(parts: Parts) -> Self {
        let cluster =
            Cluster::start(ClusterOptions { parts, ..ClusterOptions::default() }).unwrap();
        cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
        for manifests in [RBAC, OUTSIDE] {
            cluster.kubectl_with_stdin(&["apply", "-f", "-"], manifests).unwrap();
        }
        let name = format!("system:serviceaccount:{NAMESPACE}:grove-operator");
        let operator = cluster.user(&name, &["system:serviceaccounts"]).unwrap();
        Self { cluster, operator }
    }

    pub async fn operator(&self, configuration: &str) -> Operator {
        let mut configuration = OperatorConfiguration::from_yaml(&format!(
            "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n\
             {configuration}"
        ))
        .unwrap();
        // The system chooses free ports.
        let server = &mut configuration.server;
        for port in [
            &mut server.webhooks.endpoint.port,
            &mut server.health_probes.port,
            &mut server.metrics.port,
        ] {
            *port = 0;
        }
        let options = Options {
            configuration,
            identity: Identity {
                instance: "operator-0".to_owned(),
                namespace: NAMESPACE.to_owned(),
                service_account: "grove-operator".to_owned(),
            },
            webhooks: WebhookAddress::Host("127.0.0.1".to_owned()),
            install_crds: true,
            init_image: Some("grove-initc:test".to_owned()),
        };
        let env = Env::new(Clock::system(), 1);
        let (client, writes) = self.counting_client().await;
        let task = tokio::task::spawn(grove_operator::run(client, options, env.clone()));
        let operator = Operator { env, writes, task };
        operator.ready().await;
        operator
    }

    /// A client of the operator's user, and how many writes it has sent, leases left out.
    async fn counting_client(&self) -> (kube::Client, watch::Receiver<usize>) {
        let kubeconfig = Kubeconfig::read_from(self.operator.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        let (count, writes) = watch::channel(0);
        let layer = MapRequestLayer::new(move |request: http::Request<Body>| {
            let reads = request.method() == http::Method::GET;
            if !reads && !request.uri().path().contains("/leases") {
                count.send_modify(|count| *count += 1);
            }
            request
        });
        let client = ClientBuilder::try_from(config).unwrap().with_layer(&layer).build();
        (client, writes)
    }

    pub fn apply(&self, object: &Value) -> Result<String, String> {
        let args = ["apply", "-f", "-", "-o", "json"];
        let applied = self.cluster.kubectl_with_stdin(&args, &object.to_string());
        applied.map_err(|error| format!("{error:#}"))
    }

    pub fn as_user(&self, user: &User, args: &[&str]) -> Result<String, String> {
        self.cluster.kubectl_as(user, args).map_err(|error| format!("{error:#}"))
    }
}

pub struct Operator {
    pub env: Env,
    /// How many writes it has sent, leases left out.
    pub writes: watch::Receiver<usize>,
    task: JoinHandle<Result<(), grove_operator::OperatorError>>,
}

impl Operator {
    async fn ready(&self) {
        // The parts announce themselves before the first of them is ready.
        let ready = async {
            while self.env.readiness.missing().is_empty() {
                tokio::task::yield_now().await;
            }
            self.env.readiness.until_ready().await;
        };
        let in_time = self.env.clock.timeout(DEADLINE, ready).await;
        assert!(in_time.is_some(), "not ready: {:?}", self.env.readiness.missing());
    }

    /// Waits until nothing is written for a while: the caches have seen everything and no key is
    /// on its way.
    pub async fn settled(&self) {
        let mut writes = self.writes.clone();
        let quiet = Duration::from_secs(3);
        while let Some(changed) = self.env.clock.timeout(quiet, writes.changed()).await {
            changed.unwrap();
        }
    }

    pub async fn stop(self) {
        self.env.shutdown.start();
        let stopped = self.env.clock.timeout(DEADLINE, self.task).await;
        stopped.expect("stops in time").unwrap().unwrap();
    }

    /// A crash: nothing is finished, nothing is released.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}
