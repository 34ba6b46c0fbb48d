//! One row per rule: a change of a valid set, and the exact messages that follow.

use serde_json::{Value, json};

use super::{Context, Validation, decode, validate_create};
use crate::topology::{Mode, SetTopology};

mod arbitrary;
mod cliques;
mod defaulting;
mod groups;
mod set;
mod topology;
mod update;

/// A change of the valid set.
type Change = fn(&mut Value);

fn context() -> Context {
    Context {
        enabled_schedulers: ["default-scheduler", "kai-scheduler"].map(str::to_owned).into(),
        default_scheduler: "default-scheduler".to_owned(),
        mnnvl_enabled: true,
        topology: Mode::Disabled,
    }
}

/// A set with defaults that violates no rule.
fn good() -> Value {
    let pod = json!({
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "busybox", "env": [{"name": "A"}, {"name": "B.c-d"}]}],
        "initContainers": [{"name": "i", "image": "busybox", "env": [{"name": "A"}]}],
    });
    let clique = |name: &str| {
        json!({
            "name": name,
            "labels": {"app": name},
            "annotations": {"Example.com/Note": "x"},
            "spec": {"roleName": name, "replicas": 3, "minAvailable": 2, "podSpec": pod},
        })
    };
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "demo", "namespace": "team-a"},
        "spec": {
            "replicas": 1,
            "template": {
                "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                "terminationDelay": "4h0m0s",
                "headlessServiceConfig": {"publishNotReadyAddresses": true},
                "resourceClaimTemplates": [
                    {"name": "gpu", "templateSpec": {"spec": {"devices": {"requests": [{"name": "g"}]}}}},
                ],
                "resourceSharing": [{
                    "name": "gpu",
                    "scope": "AllReplicas",
                    "filter": {"childCliqueNames": ["router"], "childScalingGroupNames": ["decode"]},
                }],
                "cliques": [clique("router"), clique("leader"), clique("worker")],
                "podCliqueScalingGroups": [{
                    "name": "decode",
                    "cliqueNames": ["leader", "worker"],
                    "replicas": 3,
                    "minAvailable": 2,
                }],
            },
        },
    })
}

fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"]
}

/// The standalone clique.
fn router(set: &mut Value) -> &mut Value {
    &mut template(set)["cliques"][0]
}

fn group(set: &mut Value) -> &mut Value {
    &mut template(set)["podCliqueScalingGroups"][0]
}

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().unwrap().remove(key);
}

fn changed(change: Change) -> Value {
    let mut set = good();
    change(&mut set);
    set
}

fn create_in(context: &Context, change: Change) -> Validation {
    validate_create(&decode(&changed(change)).unwrap(), context, &SetTopology::Disabled)
}

fn texts(validation: &Validation) -> Vec<String> {
    validation.errors.iter().map(ToString::to_string).collect()
}

/// Creates the changed set and compares the errors.
fn assert_created(rows: &[(&str, Change, &[&str])]) {
    for (what, change, expected) in rows {
        assert_eq!(texts(&create_in(&context(), *change)), *expected, "{what}");
    }
}

#[test]
fn the_valid_set_is_accepted() {
    assert_created(&[("nothing", |_| {}, &[])]);
}
