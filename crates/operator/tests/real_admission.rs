//! The operator's webhooks on the real API server, under the operator's own role.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use grove_api::OperatorConfiguration;
use serde_json::{Value, json};
use support::{DEADLINE, NAMESPACE, World};
use xtask::cluster::{Cluster, Options as ClusterOptions, Parts};

const SET: &str = include_str!("../../../examples/minimal.yaml");

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
    let world = World::start(Parts::ApiServer);
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
    let world = World::start(Parts::ApiServer);
    let operator = world.operator("authorizer: {enabled: true}").await;
    world.apply(&set()).unwrap();
    let alice = world.cluster.user("alice", &["system:masters"]).unwrap();
    let made = ["wait", "service/service-0", "--for=create", "--timeout=60s"];
    world.cluster.kubectl(&made).unwrap();

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
