//! What the scheduler itself does to gated pods, without the operator: the reason why their gates are lifted
//! before they are deleted.

use serde_json::{Value, json};

use super::Room;
use grove_testbed::fixture::Fixture;
use grove_testbed::kinds::{ACCOUNTS, KUBE_GROUPS, PODS};
use grove_testbed::mirror::{Namespace, State};
use grove_testbed::rules;

rules! {
    a_deleted_gated_pod_blocks_its_group,
}

const GATE: &str = "example.com/wait";

/// A group of two, one more pod with a gate, and the names of the others.
async fn group(namespace: &Namespace, name: &str) -> [String; 2] {
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } },
    });
    namespace.create(KUBE_GROUPS, &group).await;
    let pod = |suffix: &str, gates: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("{name}-{suffix}") },
            "spec": {
                "schedulingGroup": { "podGroupName": name }, "schedulingGates": gates,
                "containers": [{ "name": "c", "image": "busybox" }],
            },
        })
    };
    namespace.create(PODS, &pod("gated", json!([{ "name": GATE }]))).await;
    for suffix in ["a", "b"] {
        namespace.create(PODS, &pod(suffix, json!([]))).await;
    }
    ["a", "b"].map(|suffix| format!("{name}-{suffix}"))
}

fn are_bound(state: &State, pods: &[String]) -> bool {
    pods.iter()
        .all(|pod| state.get(PODS, pod).is_some_and(|pod| pod["spec"]["nodeName"].is_string()))
}

async fn a_deleted_gated_pod_blocks_its_group(fixture: Fixture, namespace: Namespace) {
    Room::new(fixture, &namespace, 1).await;
    namespace.until_is("pods can be made", |state| state.get(ACCOUNTS, "default").is_some()).await;
    let trapped = group(&namespace, "trapped").await;
    namespace.delete(PODS, "trapped-gated").await;
    namespace.until_gone(PODS, "trapped-gated").await;

    // The same with the gate lifted first.
    let free = group(&namespace, "free").await;
    namespace.patch(PODS, "free-gated", json!({ "spec": { "schedulingGates": null } })).await;
    namespace.delete(PODS, "free-gated").await;
    namespace.until_is("the second group is placed", |state| are_bound(state, &free)).await;
    assert!(!namespace.look(|state| are_bound(state, &trapped)), "and the first one still waits");

    // Any change of a pod that waits wakes it.
    let note = json!({ "metadata": { "annotations": { "example.com/note": "look again" } } });
    namespace.patch(PODS, &trapped[0], note).await;
    namespace.until_is("the first group is placed", |state| are_bound(state, &trapped)).await;
}
