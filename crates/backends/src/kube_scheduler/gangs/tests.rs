use grove_runtime::class::{Class, Classed};
use serde_json::{Value, json};

use super::*;
use crate::contract::{PodProgress, SucceededPods};
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

fn outcome(gang: &PodGang, api: Api, objects: &Given) -> Result<Vec<Write>, BackendError> {
    outcome_with(gang, api, objects, &[])
}

/// The same when pods of members have succeeded: which ones, and how many remain.
fn outcome_with(
    gang: &PodGang,
    api: Api,
    objects: &Given,
    succeeded: &[(&str, &[u32], u32)],
) -> Result<Vec<Write>, BackendError> {
    let succeeded = succeeded.iter().map(|(member, indices, remaining)| {
        ((*member).to_owned(), SucceededPods { indices: indices.to_vec(), remaining: *remaining })
    });
    let progress = &PodProgress { released: true, succeeded: succeeded.collect() };
    plan(&GangInput { object: gang, set: None, progress, topology: None, objects }, api)
}

fn planned(gang: &PodGang, api: Api, objects: &Given) -> Vec<Write> {
    outcome(gang, api, objects).unwrap()
}

/// Everything that is created until there is nothing left to do, as `kind name`, and the bodies.
fn settled(gang: &PodGang, api: Api) -> (Given, Vec<(String, Value)>) {
    let (mut objects, mut made) = (Given::default(), Vec::new());
    loop {
        let writes = planned(gang, api, &objects);
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
fn several_members_become_a_tree_created_from_workload_to_root() {
    let (_, made) = settled(&serve(), Api::Composite);
    insta::assert_json_snapshot!(made);
}

#[test]
fn one_member_needs_no_tree() {
    let alone = gang(&[("serve-0-worker", 3)], |gang| {
        gang["spec"]["topologyConstraint"] = json!({ "packConstraint": { "required": "zone" } });
    });
    for api in [Api::V1alpha2, Api::V1beta1, Api::Composite] {
        let (_, made) = settled(&alone, api);
        assert_eq!(names(&made), ["Workload serve-0", "PodGroup serve-0-worker"], "{api:?}");
        let spec = &made[1].1["spec"];
        assert_eq!(spec["schedulingPolicy"], json!({ "gang": { "minCount": 3 } }));
        assert_eq!(spec["schedulingConstraints"], json!({ "topology": [{ "key": "zone" }] }));
    }
}

#[test]
fn without_composites_one_group_has_the_minima_and_another_the_other_pods() {
    let two = gang(&[("serve-0-leader", 1), ("serve-0-worker", 3)], |_| {});
    for api in [Api::V1alpha2, Api::V1beta1] {
        let (objects, made) = settled(&two, api);
        let expected = ["Workload serve-0", "PodGroup serve-0", "PodGroup serve-0-extra"];
        assert_eq!(names(&made), expected, "{api:?}");
        let policy = |index: usize| made[index].1["spec"]["schedulingPolicy"].clone();
        assert_eq!(policy(1), json!({ "gang": { "minCount": 4 } }));
        assert_eq!(policy(2), json!({ "basic": {} }));
        let described = made[0].1["spec"]["podGroupTemplates"].as_array().unwrap();
        let described: Vec<_> = described.iter().map(|one| one["name"].clone()).collect();
        assert_eq!(described, ["serve-0", "serve-0-extra"], "1.36 looks for them");

        // Pods cannot change their group, so a cluster that learns composites changes nothing.
        if api == Api::V1beta1 {
            assert_eq!(planned(&two, Api::Composite, &objects), []);
        }
    }
    let (objects, _) = settled(&two, Api::Composite);
    assert_eq!(planned(&two, Api::V1beta1, &objects), [], "nor does one that forgets them");
}

#[test]
fn the_root_of_a_tree_waits_until_the_pods_are_released() {
    let (everything, _) = settled(&serve(), Api::Composite);
    let mut objects = everything;
    objects.objects.retain(|(resource, _), _| *resource != composites());
    let reported = |released| {
        let serve = serve();
        let progress = &PodProgress { released, ..PodProgress::default() };
        let gang =
            GangInput { object: &serve, set: None, progress, topology: None, objects: &objects };
        let writes = plan(&gang, Api::Composite).unwrap();
        writes.iter().map(|write| write.key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(reported(false), [] as [&str; 0]);
    assert_eq!(reported(true), ["serve-0"]);
}

#[test]
fn groups_of_1_36_use_its_fields() {
    let (_, made) = settled(&gang(&[("serve-0-worker", 3)], |_| {}), Api::V1alpha2);
    insta::assert_json_snapshot!(made);
}

#[test]
fn constraint_groups_are_composites_and_optional_members_are_outside_the_tree() {
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
    let (_, made) = settled(&nested, Api::Composite);
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
fn a_changed_minimum_updates_the_group_and_its_template_if_mutable() {
    let members = |min| gang(&[("serve-0-a", 1), ("serve-0-b", min)], |_| {});
    let minimum = |min: i32| json!({ "gang": { "minCount": min } });
    let (objects, made) = settled(&members(3), Api::Composite);
    let writes = planned(&members(2), Api::Composite, &objects);
    let patches: Vec<_> = writes
        .iter()
        .map(|write| {
            let Verb::Merge { patch, .. } = &write.verb else { panic!("not patched: {write:?}") };
            (&*write.resource.kind, patch)
        })
        .collect();
    let mut templates = made[0].1["spec"]["compositePodGroupTemplates"].clone();
    templates[0]["podGroupTemplates"][1]["schedulingPolicy"] = minimum(2);
    let of_workload = json!({ "spec": { "compositePodGroupTemplates": templates } });
    let of_group = json!({ "spec": { "schedulingPolicy": minimum(2) } });
    assert_eq!(patches, [("Workload", &of_workload), ("PodGroup", &of_group)]);

    let (objects, _) = settled(&members(3), Api::V1beta1);
    let writes = planned(&members(2), Api::V1beta1, &objects);
    assert_eq!(writes.len(), 2, "the template and the group with all minima");

    let (objects, _) = settled(&members(3), Api::V1alpha2);
    let error = outcome(&members(2), Api::V1alpha2, &objects).unwrap_err();
    assert_eq!((error.reason(), error.class()), ("MinimumOutOfSync", Class::Invalid));
    let said =
        "PodGroup ns-1/serve-0: spec.schedulingPolicy.gang.minCount cannot be changed to \"3\"";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn a_composite_does_not_require_completed_groups() {
    let members = [("serve-0-router", 2), ("serve-0-d-0-leader", 1), ("serve-0-d-0-worker", 2)];
    let nested = gang(&members, |gang| {
        gang["spec"]["topologyConstraintGroupConfigs"] = json!([{
            "name": "serve-0-d-0",
            "podGroupNames": ["serve-0-d-0-leader", "serve-0-d-0-worker"],
        }]);
    });
    let reported = |succeeded: &[(&str, &[u32], u32)]| {
        let (objects, _) = settled(&nested, Api::Composite);
        let writes = outcome_with(&nested, Api::Composite, &objects, succeeded).unwrap();
        writes.iter().map(|write| write.key.name.to_string()).collect::<Vec<_>>()
    };
    let (leader, worker) =
        (("serve-0-d-0-leader", &[0][..], 0), ("serve-0-d-0-worker", &[0, 1][..], 0));
    assert_eq!(reported(&[leader]), ["serve-0-serve-0-d-0"], "what is left of it counts");
    assert_eq!(
        reported(&[leader, worker]),
        ["serve-0-d-0-worker", "serve-0-serve-0-d-0", "serve-0"],
        "nothing of it is left"
    );
}

#[test]
fn succeeded_pods_lower_the_minima() {
    type Ends<'a> = &'a [(&'a str, &'a [u32], u32)];
    let (leader, worker) = ("serve-0-leader", "serve-0-worker");
    let none: &[&str] = &[];
    let cases: [(&str, Api, Ends<'_>, &[&str]); 8] = [
        ("one above the minimum", Api::Composite, &[(worker, &[3], 3)], none),
        (
            "two of four",
            Api::Composite,
            &[(worker, &[0, 3], 2)],
            &["merge-patch PodGroup serve-0-worker 2"],
        ),
        (
            "a whole group, which the composite does not wait for either",
            Api::Composite,
            &[(worker, &[0, 1, 2, 3], 0)],
            &["merge-patch PodGroup serve-0-worker 1", "delete CompositePodGroup serve-0"],
        ),
        (
            "a group of one",
            Api::Composite,
            &[(leader, &[0], 0)],
            &["delete CompositePodGroup serve-0"],
        ),
        (
            "one of the minima",
            Api::V1beta1,
            &[(worker, &[1], 3)],
            &["merge-patch PodGroup serve-0 3"],
        ),
        ("one of the others", Api::V1beta1, &[(worker, &[3], 3)], none),
        (
            "all the minima",
            Api::V1beta1,
            &[(leader, &[0], 0), (worker, &[0, 1, 2], 1)],
            &["merge-patch PodGroup serve-0 1"],
        ),
        ("where nothing can be changed", Api::V1alpha2, &[(worker, &[0, 1], 2)], none),
    ];
    let gang = gang(&[(leader, 1), (worker, 3)], |_| {});
    for (what, api, succeeded, expected) in cases {
        let (objects, _) = settled(&gang, api);
        let writes = outcome_with(&gang, api, &objects, succeeded).unwrap();
        let reported = writes.iter().map(|write| {
            let (verb, kind, name) = (write.verb.as_str(), &write.resource.kind, &write.key.name);
            let count = match &write.verb {
                Verb::Merge { patch, .. } => {
                    format!(" {}", patch["spec"]["schedulingPolicy"]["gang"]["minCount"])
                }
                _ => String::new(),
            };
            format!("{verb} {kind} {name}{count}")
        });
        assert_eq!(reported.collect::<Vec<_>>(), expected, "{what}");
    }
}

#[test]
fn differences_in_immutable_fields_are_errors() {
    type Change = fn(&mut PodGang);
    let (objects, _) = settled(&serve(), Api::Composite);
    let differing: [(&str, Change); 2] = [
        ("TopologyOutOfSync", |gang| gang.spec.pod_groups[1].topology_constraint = None),
        ("PriorityOutOfSync", |gang| gang.spec.priority_class_name = Some("low".to_owned())),
    ];
    for (reason, change) in differing {
        let mut gang = serve();
        change(&mut gang);
        let error = outcome(&gang, Api::Composite, &objects).unwrap_err();
        assert_eq!((error.reason(), error.class()), (reason, Class::Invalid), "{error}");
    }
}

#[test]
fn a_composite_is_recreated_when_its_groups_change() {
    let (objects, _) = settled(&serve(), Api::Composite);
    let more = [("serve-0-leader", 1), ("serve-0-worker", 3), ("serve-0-new", 1)];
    let writes = planned(&gang(&more, |_| {}), Api::Composite, &objects);
    let reported: Vec<_> = writes
        .iter()
        .map(|write| format!("{} {} {}", write.verb.as_str(), write.resource.kind, write.key.name))
        .collect();
    let expected = [
        "merge-patch Workload serve-0",
        "create PodGroup serve-0-new",
        "delete CompositePodGroup serve-0",
    ];
    assert_eq!(reported, expected);
}

#[test]
fn dropped_fields_and_terminating_groups_are_errors() {
    let broken = |change: fn(&mut Value)| {
        let (objects, made) = settled(&serve(), Api::Composite);
        let (_, group) = made.iter().find(|(name, _)| name == "PodGroup serve-0-leader").unwrap();
        let mut group = group.clone();
        change(&mut group);
        let objects = objects.with(Api::Composite.pod_groups(), group);
        outcome(&serve(), Api::Composite, &objects).unwrap_err()
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
fn objects_of_other_gangs_are_kept_and_reported() {
    let (objects, made) = settled(&serve(), Api::Composite);
    for (resource, index) in [(Api::Composite.pod_groups(), 1), (composites(), 3)] {
        let mut foreign = made[index].1.clone();
        foreign["metadata"]["ownerReferences"] = json!([]);
        let name = &foreign["metadata"]["name"].as_str().unwrap().to_owned();
        let mut objects = Given { objects: objects.objects.clone(), ..Given::default() };
        objects = objects.with(resource, foreign);
        let error = outcome(&serve(), Api::Composite, &objects).unwrap_err();
        let said = format!("ns-1/{name} is not owned by PodGang ns-1/serve-0");
        assert!(error.to_string().contains(&said), "{error}");
    }
}
