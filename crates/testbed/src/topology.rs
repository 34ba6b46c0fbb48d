//! Topologies, sets with constraints, and what to expect of their gangs.

use std::fmt::Write as _;

use crate::kinds::{GANGS, PODS, SETS, TOPOLOGY_BINDINGS};
use crate::mirror::{Namespace, condition, send, text};
use crate::sets;
use http::Method;
use serde_json::{Value, json};

pub const BLOCK: &str = "topology.kubernetes.io/block";
pub const RACK: &str = "topology.kubernetes.io/rack";
pub const HOST: &str = "kubernetes.io/hostname";

/// Domains and keys of levels.
pub type Levels<'a> = [(&'a str, &'a str)];

/// Lines of a configuration whose operator manages a topology with these levels.
pub fn managing(rest: &str, levels: &Levels<'_>) -> String {
    let mut text = format!("{rest}\ntopology:\n  enabled: true\n  levels:\n");
    for (domain, key) in levels {
        writeln!(text, "  - {{domain: {domain}, key: {key}}}").unwrap();
    }
    text
}

pub fn levels(levels: &Levels<'_>) -> Value {
    let one = |(domain, key): &(&str, &str)| json!({ "domain": domain, "key": key });
    levels.iter().map(one).collect()
}

/// The small set with constraints of the set, the group and the worker.
pub fn packed(name: &str, own: &Value, group: &Value, worker: &Value) -> Value {
    let mut set = sets::small(name);
    let template = &mut set["spec"]["template"];
    template["topologyConstraint"] = own.clone();
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = group.clone();
    template["cliques"][2]["topologyConstraint"] = worker.clone();
    set
}

/// Lines of a configuration whose operator knows the topologies of users only.
pub const BINDINGS: &str = "topologyAwareScheduling: {enabled: true}";

/// Creates the binding `dc` with the level rack, and returns the refusal of a set that names it.
pub async fn refusal_of(namespace: &Namespace, set: &Value) -> String {
    let binding = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
        "metadata": { "name": "dc" }, "spec": { "levels": levels(&[("rack", RACK)]) },
    });
    let path = TOPOLOGY_BINDINGS.everywhere();
    send(namespace.client(), Method::POST, &path, &binding).await.unwrap();
    namespace.try_create(SETS, set).await.unwrap_err()
}

/// The number of pods of such a set.
pub const PODS_OF_SET: usize = 5;

/// The constraint of a part of a gang.
pub fn pack(part: &Value) -> &Value {
    &part["topologyConstraint"]["packConstraint"]
}

/// Waits until the constraint of a gang is this one.
pub async fn until_packed(namespace: &Namespace, gang: &str, expected: Value) {
    let pointer = "/spec/topologyConstraint/packConstraint";
    namespace.until_field(GANGS, gang, pointer, expected).await;
}

/// Waits until a set reports this about its constraints, for its current generation.
pub async fn until_said(
    namespace: &Namespace,
    set: &str,
    type_: &str,
    (status, reason): (&str, &str),
    says: &str,
) {
    let what = format!("{set} says {type_} {status} {reason}: {says}");
    namespace
        .until_is(&what, |state| {
            let Some(set) = state.get(SETS, set) else { return false };
            let said = condition(set, type_);
            said["status"] == status
                && said["reason"] == reason
                && text(&said["message"]).contains(says)
                && said["observedGeneration"] == set["metadata"]["generation"]
        })
        .await;
}

/// The pods of a namespace by uid, with their nodes: what must not change.
pub fn pods(namespace: &Namespace) -> Vec<(String, String)> {
    let of = |pod: &Value| {
        (text(&pod["metadata"]["uid"]).to_owned(), text(&pod["spec"]["nodeName"]).to_owned())
    };
    let mut pods: Vec<_> =
        namespace.look(|state| state.of(PODS).iter().map(|pod| of(pod)).collect());
    pods.sort();
    pods
}
