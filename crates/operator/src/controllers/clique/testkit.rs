//! A small set for tests: a standalone clique `a` of two pods, and a group `g` with one clique `b`,
//! of which one replica is in the base gang and one is scaled.

use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, finalizers};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::caches::views::{Pod, Set};
use grove_runtime::object::Object;

/// An object as a cache reads it.
pub(super) fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

fn owner(kind: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": "owner", "uid": uid,
        "controller": true }])
}

pub(super) fn set() -> Arc<Set> {
    let clique = |name| {
        json!({ "name": name, "spec": {
            "roleName": name, "replicas": 2, "minAvailable": 1,
            "podSpec": { "containers": [{ "name": "c", "image": "app:2" }] },
        }})
    };
    Arc::new(read(&json!({
        "metadata": { "name": "x", "namespace": "ns", "uid": "set", "generation": 1 },
        "spec": { "replicas": 2, "template": {
            "cliqueStartupType": "CliqueStartupTypeInOrder",
            "cliques": [clique("a"), clique("b")],
            "podCliqueScalingGroups": [
                { "name": "g", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1 },
            ],
        }},
        "status": { "currentGenerationHash": "generation" },
    })))
}

pub(super) fn group() -> Object<PodCliqueScalingGroup> {
    read(&json!({
        "metadata": { "name": "x-0-g", "namespace": "ns", "uid": "group",
            "ownerReferences": owner("PodCliqueSet", "set") },
        "spec": { "replicas": 2, "minAvailable": 1, "cliqueNames": ["b"] },
    }))
}

/// The standalone PodClique.
pub(super) fn clique() -> Value {
    json!({
        "metadata": {
            "name": "x-0-a", "namespace": "ns", "uid": "clique", "resourceVersion": "7",
            "generation": 3, "finalizers": [finalizers::POD_CLIQUE],
            "ownerReferences": owner("PodCliqueSet", "set"),
            "labels": {
                "app.kubernetes.io/part-of": "x", "grove.io/podgang": "x-0",
                "grove.io/podcliqueset-replica-index": "0", "grove.io/pod-template-hash": "old",
            },
        },
        "spec": {
            "roleName": "a", "replicas": 2, "minAvailable": 1,
            "podSpec": { "containers": [{ "name": "c", "image": "app:1" }] },
        },
    })
}

/// A PodClique of the group.
pub(super) fn member(replica: u32) -> Value {
    let mut clique = clique();
    let metadata = &mut clique["metadata"];
    metadata["name"] = format!("x-0-g-{replica}-b").into();
    metadata["ownerReferences"] = owner("PodCliqueScalingGroup", "group");
    metadata["labels"]["grove.io/podcliquescalinggroup"] = "x-0-g".into();
    metadata["labels"]["grove.io/podcliquescalinggroup-replica-index"] = replica.to_string().into();
    clique
}

/// A gated pod of the standalone PodClique, with a gate of another owner in front of ours.
pub(super) fn pod(name: &str, index: u32) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid of {name}"),
            "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
                "name": "x-0-a", "uid": "clique", "controller": true }],
            "labels": { "grove.io/podclique": "x-0-a", "grove.io/podgang": "x-0",
                "app.kubernetes.io/part-of": "x", "grove.io/podcliqueset-replica-index": "0" },
        },
        "spec": {
            "hostname": format!("x-0-a-{index}"),
            "schedulingGates": [{ "name": "theirs" }, { "name": finalizers::SCHEDULING_GATE }],
        },
        "status": { "phase": "Pending" },
    })
}

/// Cached pods of the standalone PodClique, with the indices in this order.
pub(super) fn pods(names: &[&str]) -> Vec<Arc<Pod>> {
    (0..).zip(names).map(|(index, name)| Arc::new(read(&pod(name, index)))).collect()
}

/// A gang that lists these pods of the standalone PodClique.
pub(super) fn gang(initialized: bool, pods: &[&str]) -> Value {
    let reference = |name: &&str| json!({ "namespace": "ns", "name": name });
    json!({
        "metadata": { "name": "x-0", "namespace": "ns", "uid": "gang",
            "ownerReferences": owner("PodCliqueSet", "set") },
        "spec": { "podgroups": [{ "name": "x-0-a", "minReplicas": 1,
            "podReferences": pods.iter().map(reference).collect::<Vec<_>>() }] },
        "status": { "phase": "Pending", "conditions": [{ "type": "Initialized",
            "status": if initialized { "True" } else { "False" }, "reason": "r" }] },
    })
}

/// A PodClique, changed.
pub(super) fn changed(
    mut object: Value,
    change: impl FnOnce(&mut Value),
) -> Arc<Object<PodClique>> {
    change(&mut object);
    Arc::new(read(&object))
}
