use grove_runtime::class::{Class, Classed};
use serde_json::{Value, json};

use super::*;
use crate::objects::testkit::Given;

fn gang(members: &[(&str, i32)], change: impl FnOnce(&mut Value)) -> PodGang {
    let members: Vec<Value> = members
        .iter()
        .map(|(name, min)| json!({ "name": name, "minReplicas": min, "podReferences": [] }))
        .collect();
    let mut gang = json!({
        "metadata": {
            "name": "serve-0", "namespace": "ns-1", "uid": "gang",
            "labels": { "app.kubernetes.io/part-of": "serve" },
            "ownerReferences": [{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "name": "serve", "uid": "set", "controller": true }],
        },
        "spec": { "podgroups": members, "priorityClassName": "high" },
    });
    change(&mut gang);
    serde_json::from_value(gang).unwrap()
}

/// A leader and workers: workers in one rack, all of them in one zone.
fn serve() -> PodGang {
    let same = |key: &str| json!({ "packConstraint": { "required": key } });
    gang(&[("serve-0-leader", 1), ("serve-0-worker", 3)], |gang| {
        gang["spec"]["topologyConstraint"] = same("topology.kubernetes.io/zone");
        gang["spec"]["podgroups"][1]["topologyConstraint"] = same("topology.kubernetes.io/rack");
    })
}

fn set(cliques: &[(i32, i32)]) -> PodCliqueSet {
    let cliques: Vec<Value> = cliques
        .iter()
        .map(|(replicas, min)| json!({ "spec": { "replicas": replicas, "minAvailable": min } }))
        .collect();
    serde_json::from_value(json!({ "spec": { "template": { "cliques": cliques } } })).unwrap()
}

fn planned(gang: &PodGang, set: Option<&PodCliqueSet>, api: Api, objects: &Given) -> Vec<Write> {
    plan(&Gang { object: gang, set, objects }, api).unwrap()
}

/// Everything that is created until there is nothing left to do, as `kind name`, and the bodies.
fn settled(gang: &PodGang, set: Option<&PodCliqueSet>, api: Api) -> (Given, Vec<(String, Value)>) {
    let (mut objects, mut made) = (Given::default(), Vec::new());
    loop {
        let writes = planned(gang, set, api, &objects);
        if writes.is_empty() {
            return (objects, made);
        }
        for write in writes {
            let Verb::Create { body } = write.verb else { panic!("not created: {write:?}") };
            made.push((format!("{} {}", write.resource.kind, write.key.name), body.clone()));
            objects = objects.with(write.resource, body);
        }
    }
}

fn names(made: &[(String, Value)]) -> Vec<&str> {
    made.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn several_members_are_a_tree_made_from_the_workload_to_the_root() {
    let (_, made) = settled(&serve(), None, Api::Composite);
    insta::assert_json_snapshot!(made);
}

#[test]
fn one_member_needs_no_tree() {
    let alone = gang(&[("serve-0-worker", 3)], |gang| {
        gang["spec"]["topologyConstraint"] = json!({ "packConstraint": { "required": "zone" } });
    });
    for api in [Api::V1alpha2, Api::V1beta1, Api::Composite] {
        let (_, made) = settled(&alone, None, api);
        assert_eq!(names(&made), ["Workload serve-0", "PodGroup serve-0-worker"], "{api:?}");
        let spec = &made[1].1["spec"];
        assert_eq!(spec["schedulingPolicy"], json!({ "gang": { "minCount": 3 } }));
        assert_eq!(spec["schedulingConstraints"], json!({ "topology": [{ "key": "zone" }] }));
    }
}

#[test]
fn without_composites_one_group_holds_all_if_every_pod_counts() {
    let two = gang(&[("serve-0-leader", 1), ("serve-0-worker", 3)], |_| {});
    let whole = set(&[(1, 1), (3, 3)]);
    for api in [Api::V1alpha2, Api::V1beta1] {
        let (_, made) = settled(&two, Some(&whole), api);
        assert_eq!(names(&made), ["Workload serve-0", "PodGroup serve-0"], "{api:?}");
        assert_eq!(made[1].1["spec"]["schedulingPolicy"], json!({ "gang": { "minCount": 4 } }));
    }
    let part = set(&[(1, 1), (4, 3)]);
    let (_, made) = settled(&two, Some(&part), Api::V1beta1);
    let each = ["Workload serve-0", "PodGroup serve-0-leader", "PodGroup serve-0-worker"];
    assert_eq!(names(&made), each);

    for (begun, changed) in [(&whole, &part), (&part, &whole)] {
        let (objects, _) = settled(&two, Some(begun), Api::V1beta1);
        assert_eq!(planned(&two, Some(changed), Api::V1beta1, &objects), [], "pods stay in groups");
    }
}

#[test]
fn groups_of_1_36_are_said_in_its_words() {
    let (_, made) = settled(&gang(&[("serve-0-worker", 3)], |_| {}), None, Api::V1alpha2);
    insta::assert_json_snapshot!(made);
}

#[test]
fn constraint_groups_are_composites_below_the_root_and_optional_members_stand_beside() {
    let members = [
        ("serve-0-router", 1),
        ("serve-0-d-0-leader", 1),
        ("serve-0-d-0-worker", 2),
        ("serve-0-x", 0),
    ];
    let nested = gang(&members, |gang| {
        gang["spec"]["topologyConstraintGroupConfigs"] = json!([{
            "name": "serve-0-d-0",
            "podGroupNames": ["serve-0-d-0-leader", "serve-0-d-0-worker"],
            "topologyConstraint": { "packConstraint": { "required": "rack" } },
        }]);
    });
    let (_, made) = settled(&nested, None, Api::Composite);
    let expected = [
        "Workload serve-0",
        "PodGroup serve-0-router",
        "PodGroup serve-0-d-0-leader",
        "PodGroup serve-0-d-0-worker",
        "PodGroup serve-0-x",
        "CompositePodGroup serve-0-serve-0-d-0",
        "CompositePodGroup serve-0",
    ];
    assert_eq!(names(&made), expected);
    let parent = |index: usize| made[index].1["spec"]["parentCompositePodGroupName"].clone();
    assert_eq!((parent(1), parent(2)), (json!("serve-0"), json!("serve-0-serve-0-d-0")));
    assert_eq!((parent(4), parent(6)), (Value::Null, Value::Null));
    let policy = |index: usize| made[index].1["spec"]["schedulingPolicy"].clone();
    assert_eq!(policy(4), json!({ "basic": {} }));
    assert_eq!(policy(5), json!({ "gang": { "minGroupCount": 2 } }));
    assert_eq!(policy(6), json!({ "gang": { "minGroupCount": 2 } }), "the router and the group");
    let optional = &made[4].1["spec"];
    assert!(optional["workloadRef"].is_null() && optional["disruptionMode"].is_null());
}

#[test]
fn another_minimum_changes_the_group_where_that_is_possible() {
    let members = |min| gang(&[("serve-0-a", 1), ("serve-0-b", min)], |_| {});
    let (objects, _) = settled(&members(3), None, Api::Composite);
    let writes = planned(&members(2), None, Api::Composite, &objects);
    assert_eq!(writes.len(), 1);
    let Verb::Merge { patch, .. } = &writes[0].verb else { panic!("not patched") };
    let min = json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } } });
    assert_eq!(*patch, min);

    let (objects, _) = settled(&members(3), None, Api::V1alpha2);
    assert_eq!(planned(&members(2), None, Api::V1alpha2, &objects), [], "it cannot be changed");
}

#[test]
fn a_composite_is_replaced_when_its_groups_are_others() {
    let (objects, _) = settled(&serve(), None, Api::Composite);
    let more = [("serve-0-leader", 1), ("serve-0-worker", 3), ("serve-0-new", 1)];
    let writes = planned(&gang(&more, |_| {}), None, Api::Composite, &objects);
    let told: Vec<_> = writes
        .iter()
        .map(|write| format!("{} {} {}", write.verb.as_str(), write.resource.kind, write.key.name))
        .collect();
    assert_eq!(told, ["create PodGroup serve-0-new", "delete CompositePodGroup serve-0"]);
}

#[test]
fn what_the_server_dropped_or_still_holds_is_noticed() {
    let broken = |change: fn(&mut Value)| {
        let (objects, made) = settled(&serve(), None, Api::Composite);
        let (_, group) = made.iter().find(|(name, _)| name == "PodGroup serve-0-leader").unwrap();
        let mut group = group.clone();
        change(&mut group);
        let objects = objects.with(Api::Composite.pod_groups(), group);
        plan(&Gang { object: &serve(), set: None, objects: &objects }, Api::Composite).unwrap_err()
    };
    let error = broken(|group| group["spec"]["parentCompositePodGroupName"] = Value::Null);
    assert_eq!((error.reason(), error.class()), ("FieldDropped", Class::Invalid));
    assert!(error.to_string().contains("feature gate CompositePodGroup"), "{error}");
    let error = broken(|group| {
        group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(error.class(), Class::Conflict, "its pods will go");
    let error = broken(|group| group["metadata"]["ownerReferences"][0]["uid"] = json!("former"));
    assert_eq!(error.class(), Class::Conflict, "and so will what an earlier gang left");
}

#[test]
fn many_members_share_templates_and_too_many_kinds_are_refused() {
    let many = |min: fn(i32) -> i32| -> PodGang {
        let names: Vec<(String, i32)> =
            (0..12).map(|index| (format!("serve-0-m{index}"), min(index))).collect();
        let members: Vec<_> = names.iter().map(|(name, min)| (name.as_str(), *min)).collect();
        gang(&members, |_| {})
    };
    let (_, made) = settled(&many(|index| 1 + index % 2), None, Api::Composite);
    let root = &made[0].1["spec"]["compositePodGroupTemplates"][0];
    assert_eq!(root["podGroupTemplates"].as_array().unwrap().len(), 2);
    assert_eq!(made.len(), 1 + 12 + 1);

    let objects = Given::default();
    let different = many(|index| 1 + index);
    let handed = Gang { object: &different, set: None, objects: &objects };
    let error = plan(&handed, Api::Composite).unwrap_err();
    assert_eq!(error.reason(), "TooManyGroups");
}

#[test]
fn names_of_templates_are_short_and_differ() {
    assert_eq!(safe("serve-0-worker"), "serve-0-worker");
    let long = "a".repeat(70);
    for name in [long.as_str(), "with.dots", &format!("{long}b")] {
        let safe = safe(name);
        assert!(safe.len() <= LABEL_LENGTH && !safe.contains('.'), "{safe}");
    }
    assert_ne!(safe(&long), safe(&format!("{long}b")));
}
