//! The operator's webhooks on the real API server, under the operator's own role.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::time::Duration;

use grove_api::OperatorConfiguration;
use grove_operator::{Identity, Options, WebhookAddress};
use grove_runtime::clock::Clock;
use grove_runtime::process::Env;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use xtask::cluster::{Cluster, Options as ClusterOptions, Parts, User};

const NAMESPACE: &str = "grove-system";
const RBAC: &str = include_str!("../../../deploy/operator/rbac.yaml");
const SET: &str = include_str!("../../../examples/minimal.yaml");
const DEADLINE: Duration = Duration::from_secs(60);

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

struct World {
    cluster: Cluster,
    operator: User,
}

impl World {
    fn start() -> Self {
        let options = ClusterOptions { parts: Parts::ApiServer, ..ClusterOptions::default() };
        let cluster = Cluster::start(options).unwrap();
        cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
        for manifests in [RBAC, OUTSIDE] {
            cluster.kubectl_with_stdin(&["apply", "-f", "-"], manifests).unwrap();
        }
        let name = format!("system:serviceaccount:{NAMESPACE}:grove-operator");
        let operator = cluster.user(&name, &["system:serviceaccounts"]).unwrap();
        Self { cluster, operator }
    }

    async fn operator(&self, configuration: &str) -> Operator {
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
        };
        let env = Env::new(Clock::system(), 1);
        let client = self.operator.client().await.unwrap();
        let task = tokio::task::spawn(grove_operator::run(client, options, env.clone()));
        let operator = Operator { env, task };
        operator.ready().await;
        operator
    }

    fn apply(&self, object: &Value) -> Result<String, String> {
        let applied = self
            .cluster
            .kubectl_with_stdin(&["apply", "-f", "-", "-o", "json"], &object.to_string());
        applied.map_err(|error| format!("{error:#}"))
    }

    fn as_user(&self, user: &User, args: &[&str]) -> Result<String, String> {
        self.cluster.kubectl_as(user, args).map_err(|error| format!("{error:#}"))
    }
}

struct Operator {
    env: Env,
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

    async fn stop(self) {
        self.env.shutdown.start();
        let stopped = self.env.clock.timeout(DEADLINE, self.task).await;
        stopped.expect("stops in time").unwrap().unwrap();
    }
}

fn set() -> Value {
    let clique = |name: &str, replicas: i32| {
        json!({"name": name, "spec": {
            "roleName": name, "replicas": replicas,
            "podSpec": {"containers": [{"name": "c", "image": "busybox"}]},
        }})
    };
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": "service", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"cliques": [clique("leader", 1), clique("worker", 3)]}},
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn sets_are_completed_and_checked_before_they_are_stored() {
    let world = World::start();
    let operator = world.operator("leaderElection: {enabled: true}").await;

    world.cluster.kubectl_with_stdin(&["apply", "-f", "-"], SET).unwrap();
    let stored: Value = serde_json::from_str(&world.apply(&set()).unwrap()).unwrap();
    let template = &stored["spec"]["template"];
    assert_eq!(template["terminationDelay"], "4h0m0s");
    assert_eq!(template["headlessServiceConfig"]["publishNotReadyAddresses"], true);
    assert_eq!(template["cliques"][1]["spec"]["minAvailable"], 3);
    assert_eq!(template["cliques"][1]["spec"]["podSpec"]["restartPolicy"], "Always");

    let mut changed = set();
    changed["spec"]["template"]["cliques"][1]["spec"]["minAvailable"] = json!(2);
    let refused = world.apply(&changed).unwrap_err();
    assert!(refused.contains("pcs.validating.webhooks.grove.io"), "{refused}");
    assert!(refused.contains("field is immutable"), "{refused}");
    let mut broken = set();
    broken["metadata"]["name"] = json!("broken");
    broken["spec"]["template"]["terminationDelay"] = json!("abc");
    let refused = world.apply(&broken).unwrap_err();
    assert!(refused.contains("time: invalid duration"), "{refused}");

    operator.stop().await;
    let holder = ["get", "lease", "grove-operator-leader-election", "-n", NAMESPACE];
    let path = ["-o", "jsonpath={.spec.holderIdentity}"];
    let holder = world.cluster.kubectl(&[&holder[..], &path].concat()).unwrap();
    assert_eq!(holder, "", "the lease is released");
    let down = world.apply(&broken).unwrap_err();
    assert!(down.contains("failed calling webhook"), "nothing is stored unchecked: {down}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn managed_objects_are_changed_by_the_operator_only() {
    let world = World::start();
    let operator = world.operator("authorizer: {enabled: true}").await;
    world.apply(&set()).unwrap();
    let alice = world.cluster.user("alice", &["system:masters"]).unwrap();
    let labels =
        ["app.kubernetes.io/managed-by=grove-operator", "app.kubernetes.io/part-of=service"];
    let create = ["create", "service", "clusterip", "service-0", "--clusterip=None"];
    world.cluster.kubectl(&create).unwrap();
    world.cluster.kubectl(&[&["label", "service", "service-0"], &labels[..]].concat()).unwrap();

    let annotate = ["annotate", "service", "service-0", "touched=yes"];
    let denied = world.as_user(&alice, &annotate).unwrap_err();
    assert!(
        denied.contains("creation/updation of resource: default/service-0 is not allowed"),
        "{denied}"
    );
    let denied = world.as_user(&alice, &["delete", "service", "service-0"]).unwrap_err();
    assert!(denied.contains("deletion of resource: default/service-0 is not allowed"), "{denied}");

    let off = ["annotate", "pcs", "service", "grove.io/disable-managed-resource-protection=true"];
    world.cluster.kubectl(&off).unwrap();
    // The authorizer answers from its cache, which hears of the annotation a moment later.
    let allowed = async {
        while world.as_user(&alice, &annotate).is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(operator.env.clock.timeout(DEADLINE, allowed).await.is_some());
    operator.stop().await;

    // With nobody to ask, managed objects stay as they are, and the certificate can be replaced.
    let unreachable = world.as_user(&alice, &annotate).unwrap_err();
    assert!(unreachable.contains("failed calling webhook"), "{unreachable}");
    let secret = ["delete", "secret", "grove-webhook-server-cert", "-n", NAMESPACE];
    world.cluster.kubectl(&secret).unwrap();
    let again = world.operator("authorizer: {enabled: true}").await;
    world
        .as_user(&alice, &["annotate", "service", "service-0", "touched=again", "--overwrite"])
        .unwrap();
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_installation_is_accepted_as_it_is() {
    let options = ClusterOptions { parts: Parts::ApiServer, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).unwrap();
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

    // Twice: an upgrade is the same command.
    for _ in 0..2 {
        cluster.kubectl(&["apply", "--server-side", "-k", deploy]).unwrap();
    }

    let args = ["get", "configmap", "grove-operator", "-n", NAMESPACE, "-o"];
    let path = ["jsonpath={.data.config\\.yaml}"];
    let configuration = cluster.kubectl(&[&args[..], &path].concat()).unwrap();
    OperatorConfiguration::from_yaml(&configuration).unwrap();
}
