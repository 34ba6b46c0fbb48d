use std::sync::Arc;

use grove_core::topology::{Hierarchy, Level, SetTopology};
use serde_json::{Value, json};

use super::*;
use crate::testkit::{CREATED, MINIMAL, SetObjects, after};
use crate::tree::analyse;
use crate::tree::render::{Room, text};

const RACK: &str = "example.com/rack";
const HOST: &str = "kubernetes.io/hostname";
const ROUTER: &str = "demo-0-router-0";
const WORKER: &str = "demo-0-decode-1-worker-1";

fn levels() -> Arc<Hierarchy> {
    let level =
        |(domain, key): (&str, &str)| Level { domain: domain.to_owned(), key: key.to_owned() };
    let levels = [("rack", RACK), ("host", HOST)].map(level).into();
    Arc::new(Hierarchy { name: "h100".to_owned(), levels })
}

/// Constraints of the set, the group and the clique of workers.
fn manifest(set: &Value, group: &Value, workers: &Value) -> String {
    let mut manifest: Value = serde_saphyr::from_str(MINIMAL).unwrap();
    let template = &mut manifest["spec"]["template"];
    template["topologyConstraint"] = set.clone();
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = group.clone();
    template["cliques"][2]["topologyConstraint"] = workers.clone();
    manifest.to_string()
}

/// Pods are on node-1 in rack r1; node-2 is in rack r2, and node-3 in none.
fn placed(manifest: &str, topology: &SetTopology) -> SetObjects {
    let mut set = SetObjects::ready_with(manifest, topology);
    let node = |(name, rack): (&str, &str)| {
        let host = [(HOST.to_owned(), name.to_owned())];
        let rack = (!rack.is_empty()).then(|| (RACK.to_owned(), rack.to_owned()));
        (name.to_owned(), host.into_iter().chain(rack).collect())
    };
    let nodes = [("node-1", "r1"), ("node-2", "r2"), ("node-3", "")];
    set.nodes = Some(nodes.into_iter().map(node).collect());
    set
}

fn bind(set: &mut SetObjects, pod: &str, node: &str) {
    set.patch_pod(pod, &json!({ "spec": { "nodeName": node } }));
}

fn shown(set: &SetObjects) -> String {
    text(&analyse(&set.objects()), after(300), Room::default())
}

/// Where a part is shown to be.
fn placement_of(set: &SetObjects, title: &str) -> String {
    let text = shown(set);
    let heading = text.lines().next().unwrap();
    let Some(start) = heading.find("PLACEMENT") else { return String::new() };
    let end = heading.find("WAITS FOR").unwrap();
    let line = text.lines().find(|line| line.contains(&format!("{title} "))).unwrap();
    line.chars().skip(start).take(end - start).collect::<String>().trim().to_owned()
}

/// The whole of each replica in a rack, each replica of the group on a host if possible, workers on one host.
fn constrained() -> String {
    manifest(
        &json!({ "packDomain": "rack" }),
        &json!({ "pack": { "required": "rack", "preferred": "host" } }),
        &json!({ "pack": { "preferred": "host" } }),
    )
}

#[test]
fn every_part_with_a_constraint_shows_it_with_its_domains() {
    let mut set = placed(&constrained(), &SetTopology::Managed(levels()));
    bind(&mut set, ROUTER, "node-2");
    bind(&mut set, "demo-0-decode-0-worker-0", "node-3");
    bind(&mut set, WORKER, "node-2");

    insta::assert_snapshot!(shown(&set));
    insta::assert_json_snapshot!(analyse(&set.objects()).children[0].children[0].placement);
}

#[test]
fn sets_that_name_a_topology_show_its_name() {
    let named = json!({ "topologyName": "h100", "pack": { "required": "rack" } });
    let set =
        placed(&manifest(&named, &Value::Null, &Value::Null), &SetTopology::Binding(levels()));

    assert_eq!(placement_of(&set, "pcs/demo"), "packed in rack of h100");
    assert_eq!(placement_of(&set, "pg/demo-0"), "packed in rack of h100: r1");
    // The scaled gang is packed like the set.
    assert_eq!(placement_of(&set, "pg/demo-0-decode-0"), "packed in rack of h100: r1");
    assert_eq!(placement_of(&set, "pclq/demo-0-decode-0-worker"), "");
}

#[test]
fn a_constraint_that_was_not_translated_is_not_in_effect() {
    for topology in [SetTopology::Disabled, SetTopology::NotFound] {
        let set = placed(&constrained(), &topology);
        assert_eq!(placement_of(&set, "pg/demo-0"), "packed in rack, not in effect");
        assert_eq!(nodes(&set.objects()), [""; 0]);
    }
}

#[test]
fn pods_that_leave_or_have_ended_are_nowhere() {
    for change in [
        json!({ "metadata": { "deletionTimestamp": CREATED } }),
        json!({ "status": { "phase": "Failed" } }),
        json!({ "spec": { "nodeName": "unknown" } }),
        json!({ "spec": { "nodeName": null } }),
    ] {
        let mut set = placed(&constrained(), &SetTopology::Managed(levels()));
        bind(&mut set, ROUTER, "node-2");
        assert_eq!(placement_of(&set, "pg/demo-0"), "packed in rack: VIOLATED: r1, r2");
        set.patch_pod(ROUTER, &change);
        assert_eq!(placement_of(&set, "pg/demo-0"), "packed in rack: r1", "{change}");
    }
}

#[test]
fn without_labels_of_nodes_constraints_are_shown_alone() {
    let mut set = placed(&constrained(), &SetTopology::Managed(levels()));
    set.nodes = None;
    assert_eq!(placement_of(&set, "pg/demo-0"), "packed in rack");
}

#[test]
fn nodes_are_needed_for_constraints_of_the_user_only() {
    let mut set = placed(&constrained(), &SetTopology::Managed(levels()));
    bind(&mut set, ROUTER, "node-2");
    assert_eq!(nodes(&set.objects()), ["node-1", "node-2"]);

    // A managed topology makes every gang prefer its narrowest level.
    let set = placed(MINIMAL, &SetTopology::Managed(levels()));
    assert_eq!(nodes(&set.objects()), [""; 0]);
    assert!(!shown(&set).contains("PLACEMENT"));
}
