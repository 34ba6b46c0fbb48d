//! Topology constraints: sets that name a topology, sets that refer to the managed one, and their changes.

use std::sync::Arc;

use grove_api::PodCliqueSet;
use serde_json::json;

use super::*;
use crate::admission::validate_update;
use crate::topology::{Hierarchy, Level, Lookup};

mod change;
mod generated;
mod managed;
mod named;
mod objects;

/// A topology with these domains, broadest first.
fn hierarchy(name: &str, domains: &[&str]) -> Hierarchy {
    let level = |domain: &&str| Level {
        domain: (*domain).to_owned(),
        key: format!("example.com/{domain}"),
    };
    Hierarchy { name: name.to_owned(), levels: domains.iter().map(level).collect() }
}

/// The operator manages a topology.
fn managing(domains: &[&str]) -> Mode {
    Mode::Managed(Arc::new(hierarchy("grove-topology", domains)))
}

/// The topology of a set in a cluster with the one binding `t`. The binding `unread` cannot be read.
fn resolved(set: &PodCliqueSet, mode: &Mode) -> SetTopology {
    SetTopology::of(set, mode, |name| match name {
        "t" => Lookup::Found(hierarchy("t", &["zone", "block", "rack", "host"])),
        "unread" => Lookup::Unknown,
        _ => Lookup::NotFound,
    })
}

fn create_validation(mode: &Mode, set: &Value) -> Validation {
    let set = decode(set).unwrap();
    validate_create(&set, &context(), &resolved(&set, mode))
}

fn created(mode: &Mode, change: Change) -> Vec<String> {
    texts(&create_validation(mode, &changed(change)))
}

fn update_validation(mode: &Mode, before: Change, after: Change) -> Validation {
    let old = changed(before);
    let mut new = old.clone();
    after(&mut new);
    let (new, old) = (decode(&new).unwrap(), decode(&old).unwrap());
    validate_update(&new, &old, &context(), &resolved(&new, mode))
}

fn updated(mode: &Mode, before: Change, after: Change) -> Vec<String> {
    texts(&update_validation(mode, before, after))
}

/// Creates the changed set and compares the errors.
fn assert_constraints(mode: &Mode, rows: &[(&str, Change, &[&str])]) {
    for (what, change, expected) in rows {
        assert_eq!(created(mode, *change), *expected, "{what}");
    }
}

fn constrain(part: &mut Value, constraint: Value) {
    part["topologyConstraint"] = constraint;
}

/// A clique of the group.
fn leader(set: &mut Value) -> &mut Value {
    &mut template(set)["cliques"][1]
}

const OFF: &str = "topology constraints are not allowed when Topology Aware Scheduling is disabled: topology support \
                   is not enabled in the operator; set topology.enabled in its configuration";

#[test]
fn constraints_of_new_sets_are_refused_while_the_feature_is_off() {
    let everywhere: Change = |s| {
        constrain(
            template(s),
            json!({"topologyName": "t", "pack": {"required": "rack", "preferred": "host"}}),
        );
        constrain(leader(s), json!({"pack": {"preferred": "host"}}));
        constrain(group(s), json!({"packDomain": "rack"}));
    };
    let pack_domain = "spec.template.podCliqueScalingGroups: Forbidden: packDomain is deprecated and cannot be used \
                       on new workloads; use pack.required";
    assert_eq!(
        created(&Mode::Disabled, everywhere),
        [
            pack_domain.to_owned(),
            format!("spec.template.topologyConstraint: Invalid value: [\"rack\",\"host\"]: {OFF}"),
            format!(
                "spec.template.cliques[1].topologyConstraint: Invalid value: [\"host\"]: {OFF}"
            ),
            format!(
                "spec.template.podCliqueScalingGroups[0].topologyConstraint: Invalid value: [\"rack\"]: {OFF}"
            ),
        ]
    );
    let unnamed: Change = |s| constrain(template(s), json!({"packDomain": "rack"}));
    assert_eq!(
        created(&Mode::Disabled, unnamed),
        [format!("spec.template.topologyConstraint: Invalid value: [\"rack\"]: {OFF}")]
    );
}

#[test]
fn stored_constraints_do_not_prevent_changes_while_the_feature_is_off() {
    let unnamed: Change = |s| constrain(template(s), json!({"packDomain": "rack"}));
    let named: Change = |s| {
        constrain(template(s), json!({"topologyName": "gone", "pack": {"required": "rack"}}));
    };
    let scale: Change = |s| s["spec"]["replicas"] = json!(7);
    let narrower: Change = |s| constrain(template(s), json!({"packDomain": "host"}));
    let removed: Change = |s| remove(template(s), "topologyConstraint");
    for (before, after) in
        [(unnamed, scale), (named, scale), (unnamed, narrower), (unnamed, removed)]
    {
        assert_eq!(updated(&Mode::Disabled, before, after), [""; 0]);
    }
    assert_eq!(
        updated(&Mode::Disabled, named, removed),
        [
            "spec.template.topologyConstraint.topologyName: Forbidden: topologyName cannot be changed from \"gone\" to \
          \"\""
        ]
    );
}

#[test]
fn a_topology_that_cannot_be_read_hides_only_what_depends_on_it() {
    let set: Change =
        |s| constrain(template(s), json!({"topologyName": "unread", "pack": {"required": "x"}}));
    assert_eq!(created(&Mode::Bindings, set), [""; 0]);
    let different: Change = |s| {
        constrain(template(s), json!({"topologyName": "unread", "pack": {"required": "x"}}));
        constrain(router(s), json!({"topologyName": "t", "pack": {"required": "x"}}));
    };
    assert_eq!(created(&Mode::Bindings, different).len(), 1);
    let undecided =
        decode(&changed(|s| constrain(template(s), json!({"packDomain": "x"})))).unwrap();
    let validation = validate_create(&undecided, &context(), &SetTopology::Unknown);
    assert_eq!(texts(&validation), [""; 0]);
}
