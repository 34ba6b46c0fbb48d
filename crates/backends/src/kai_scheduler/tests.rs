use grove_runtime::class::{Class, Classed};
use serde_json::{Value, json};

use super::*;
use crate::contract::PodProgress;
use crate::objects::testkit::Given;

fn kai() -> KaiScheduler {
    KaiScheduler { default_queue: None, creates_pod_groups: true }
}

fn set(labels: &Value, annotations: &Value, cliques: &Value) -> PodCliqueSet {
    serde_json::from_value(json!({
        "metadata": { "name": "inf", "namespace": "team-a", "labels": labels,
            "annotations": annotations },
        "spec": { "template": { "cliques": cliques } },
    }))
    .unwrap()
}

fn in_queue(queue: &str) -> PodCliqueSet {
    set(&json!({ QUEUE: queue }), &json!({}), &json!([]))
}

/// A gang with a constraint at every level.
fn inf(change: impl FnOnce(&mut Value)) -> PodGang {
    let pack = |pack: Value| json!({ "packConstraint": pack });
    let mut gang = json!({
        "metadata": {
            "name": "inf-0", "namespace": "team-a", "uid": "gang",
            "labels": {
                "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "inf",
                "app.kubernetes.io/component": "podgang",
                "grove.io/scheduler-name": "kai-scheduler", QUEUE: "test",
            },
            "annotations": { "grove.io/topology-name": "dc1", SKIP_POD_GROUPER: "true" },
            "ownerReferences": [{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "name": "inf", "uid": "set", "controller": true }],
        },
        "spec": {
            "priorityClassName": "high",
            "topologyConstraint": pack(json!({ "required": "topo/block" })),
            "topologyConstraintGroupConfigs": [{
                "name": "inf-0-decode-0",
                "podGroupNames": ["inf-0-decode-0-leader", "inf-0-decode-0-worker"],
                "topologyConstraint":
                    pack(json!({ "required": "topo/rack", "preferred": "kubernetes.io/hostname" })),
            }],
            "podgroups": [
                { "name": "inf-0-router", "minReplicas": 1, "podReferences": [] },
                { "name": "inf-0-decode-0-leader", "minReplicas": 1, "podReferences": [] },
                { "name": "inf-0-decode-0-worker", "minReplicas": 3, "podReferences": [],
                    "topologyConstraint": pack(json!({ "required": "topo/rack" })) },
            ],
        },
    });
    change(&mut gang);
    serde_json::from_value(gang).unwrap()
}

fn plan(gang: &PodGang, set: &PodCliqueSet, objects: &Given) -> Result<Vec<Write>, BackendError> {
    kai().plan(&GangInput {
        object: gang,
        set: Some(set),
        progress: &PodProgress::default(),
        topology: None,
        objects,
    })
}

/// The PodGroup that a plan creates.
fn created(gang: &PodGang, set: &PodCliqueSet) -> Value {
    let mut writes = plan(gang, set, &Given::default()).unwrap();
    let Verb::Create { body } = writes.pop().unwrap().verb else { panic!("not created") };
    body
}

/// The patch of a plan for a gang whose PodGroup was created and then changed.
fn patched(gang: &PodGang, change: impl FnOnce(&mut Value)) -> Option<Value> {
    let mut live = created(&inf(|_| {}), &in_queue("test"));
    change(&mut live);
    let objects = Given::default().with(POD_GROUPS, live);
    let mut writes = plan(gang, &in_queue("other"), &objects).unwrap();
    assert!(writes.len() <= 1, "{writes:?}");
    writes.pop().map(|write| match write.verb {
        Verb::Merge { patch, only_if, .. } => {
            assert_eq!(only_if, Precondition::version(&"u".into(), 7));
            patch
        }
        other => panic!("not patched: {other:?}"),
    })
}

#[test]
fn every_field_of_a_gang_is_in_its_pod_group() {
    insta::assert_json_snapshot!(created(&inf(|_| {}), &in_queue("test")));
}

#[test]
fn a_gang_without_constraints_has_a_flat_group() {
    let flat = inf(|gang| {
        let spec = gang["spec"].as_object_mut().unwrap();
        spec.retain(|field, _| field == "podgroups");
        gang["spec"]["podgroups"][2]["topologyConstraint"] = json!({ "packConstraint": {} });
        gang["metadata"]["annotations"] = json!({ "grove.io/mirrored-keys": "{}", "note": "n" });
    });
    let group = created(&flat, &in_queue("test"));
    let sub_groups = json!([
        { "name": "inf-0-router", "minMember": 1 },
        { "name": "inf-0-decode-0-leader", "minMember": 1 },
        { "name": "inf-0-decode-0-worker", "minMember": 3 },
    ]);
    let spec = json!({
        "minMember": 5, "queue": "test", "topologyConstraint": {}, "subGroups": sub_groups,
    });
    assert_eq!(group["spec"], spec);
    let annotations = json!({ SKIP_POD_GROUPER: "true", "note": "n" });
    assert_eq!(group["metadata"]["annotations"], annotations);

    let writes = plan(&flat, &in_queue("test"), &Given::default()).unwrap();
    assert_eq!(writes[0].resource, Resource::of::<PodGang>(), "the marker comes first");
}

#[test]
fn a_scaled_gang_has_the_constraint_of_its_group_at_the_top_and_no_parents() {
    let scaled = inf(|gang| {
        gang["metadata"]["name"] = json!("inf-0-decode-0");
        let spec = gang["spec"].as_object_mut().unwrap();
        let configs = spec.remove("topologyConstraintGroupConfigs").unwrap();
        spec["topologyConstraint"] = configs[0]["topologyConstraint"].clone();
        spec["podgroups"].as_array_mut().unwrap().remove(0);
    });
    let group = created(&scaled, &in_queue("test"));
    assert_eq!(group["metadata"]["name"], "inf-0-decode-0");
    let top = json!({ "topology": "dc1", "requiredTopologyLevel": "topo/rack",
        "preferredTopologyLevel": "kubernetes.io/hostname" });
    assert_eq!(group["spec"]["topologyConstraint"], top);
    let sub_groups = group["spec"]["subGroups"].as_array().unwrap();
    let reported: Vec<_> = sub_groups.iter().map(|one| (&one["name"], &one["parent"])).collect();
    let names = [json!("inf-0-decode-0-leader"), json!("inf-0-decode-0-worker")];
    assert_eq!(reported, [(&names[0], &Value::Null), (&names[1], &Value::Null)]);
}

#[test]
fn only_fields_that_grove_owns_are_corrected() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, Option<Value>); 9] = [
        ("nothing", |_| {}, None),
        ("the queue is KAI's", |it| it["spec"]["queue"] = json!("moved"), None),
        ("its label too", |it| it["metadata"]["labels"][QUEUE] = json!("moved"), None),
        (
            "fields of others",
            |it| {
                it["spec"]["preemptibility"] = json!("preemptible");
                it["spec"]["markUnschedulable"] = json!(true);
                it["spec"]["schedulingBackoff"] = json!(1);
                it["spec"]["subGroups"][1]["new"] = json!("field");
                it["metadata"]["labels"][NODE_POOL] = json!("pool");
                it["metadata"]["annotations"]["theirs"] = json!("x");
                it["status"] = json!({ "phase": "Running" });
            },
            None,
        ),
        (
            "a minimum",
            |it| it["spec"]["minMember"] = json!(1),
            Some(json!({ "spec": { "minMember": 5 } })),
        ),
        (
            "a level",
            |it| it["spec"]["topologyConstraint"]["preferredTopologyLevel"] = json!("x"),
            Some(json!({ "spec": { "topologyConstraint": { "preferredTopologyLevel": null } } })),
        ),
        (
            "a label",
            |it| it["metadata"]["labels"]["app.kubernetes.io/part-of"] = json!("x"),
            Some(json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "inf" } } })),
        ),
        (
            "the marker",
            |it| it["metadata"]["annotations"][SKIP_POD_GROUPER] = json!("false"),
            Some(json!({ "metadata": { "annotations": { SKIP_POD_GROUPER: "true" } } })),
        ),
        (
            "a lost queue",
            |it| it["spec"]["queue"] = json!(""),
            Some(json!({ "spec": { "queue": "other" } })),
        ),
    ];
    for (what, change, expected) in cases {
        assert_eq!(patched(&inf(|_| {}), change), expected, "{what}");
    }
    let changed = patched(&inf(|_| {}), |it| {
        it["spec"]["subGroups"][1]["new"] = json!("field");
        it["spec"]["subGroups"][3]["parent"] = Value::Null;
        it["metadata"]["ownerReferences"] = json!([]);
    });
    let changed = changed.unwrap();
    assert_eq!(changed["spec"]["subGroups"][1]["new"], "field", "of others, in a list of ours");
    assert_eq!(changed["spec"]["subGroups"][3]["parent"], "inf-0-decode-0");
    assert_eq!(changed["metadata"]["ownerReferences"][0]["uid"], "gang");
}

#[test]
fn members_removed_from_the_gang_are_removed_from_the_group() {
    let less = inf(|gang| {
        let spec = gang["spec"].as_object_mut().unwrap();
        spec.retain(|field, _| field == "podgroups");
        gang["spec"]["podgroups"][2]["topologyConstraint"] = Value::Null;
        gang["spec"]["podgroups"][2]["minReplicas"] = json!(2);
    });
    let spec = patched(&less, |_| {}).unwrap()["spec"].clone();
    assert_eq!(spec["minMember"], 4);
    assert_eq!(spec["priorityClassName"], Value::Null);
    let levels = json!({ "topology": null, "requiredTopologyLevel": null });
    assert_eq!(spec["topologyConstraint"], levels);
    assert_eq!(spec["subGroups"].as_array().unwrap().len(), 3);
    assert_eq!(spec["subGroups"][2], json!({ "name": "inf-0-decode-0-worker", "minMember": 2 }));
}

#[test]
fn mapping_errors_report_the_topology_before_the_queue() {
    let no_topology = |gang: &mut Value| gang["metadata"]["annotations"] = json!({});
    let other = |owner: Value| move |gang: &mut Value| gang["metadata"]["ownerReferences"] = owner;
    let deployment = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
        "uid": "d", "controller": true }]);
    let without = set(&json!({}), &json!({}), &json!([]));
    let test = in_queue("test");
    let cases = [
        (
            inf(no_topology),
            Some(&without),
            "topology name cannot be empty when topology constraints are defined",
        ),
        (
            inf(|_| {}),
            Some(&without),
            "no KAI queue is configured on PodCliqueSet team-a/inf or its PodClique templates",
        ),
        (
            inf(other(json!([]))),
            Some(&test),
            "podgang team-a/inf-0 has no controlling PodCliqueSet",
        ),
        (
            inf(other(deployment)),
            Some(&test),
            "podgang team-a/inf-0 is controlled by apps/v1 \"Deployment\", expected PodCliqueSet",
        ),
        (inf(|_| {}), None, "get controlling PodCliqueSet team-a/inf: not found"),
    ];
    for (gang, set, expected) in cases {
        let objects = Given::default();
        let error = kai()
            .plan(&GangInput {
                object: &gang,
                set,
                progress: &PodProgress::default(),
                topology: None,
                objects: &objects,
            })
            .unwrap_err();
        assert_eq!(error.to_string(), format!("scheduler backend \"kai-scheduler\": {expected}"));
        assert_eq!((error.reason(), error.class()), (MAPPING_FAILED, Class::Invalid));
    }
    let absent = Given { absent: vec![POD_GROUPS], ..Given::default() };
    let error = plan(&inf(|_| {}), &test, &absent).unwrap_err();
    assert_eq!(error.reason(), "SchedulerNotInstalled");
    assert!(error.to_string().contains("podgroups.scheduling.run.ai/v2alpha2"), "{error}");
    let by_annotation =
        inf(|gang| gang["metadata"]["annotations"] = json!({ TOPOLOGY: "kai-topology" }));
    let topology = &created(&by_annotation, &test)["spec"]["topologyConstraint"]["topology"];
    assert_eq!(topology, "kai-topology");
}

#[test]
fn a_topology_of_another_owner_is_named_in_every_constraint() {
    let (gang, set, objects) = (inf(|_| {}), in_queue("test"), Given::default());
    let input = GangInput {
        object: &gang,
        set: Some(&set),
        progress: &PodProgress::default(),
        topology: Some("theirs"),
        objects: &objects,
    };
    let mut writes = kai().plan(&input).unwrap();
    let Verb::Create { body } = writes.pop().unwrap().verb else { panic!("not created") };
    let spec = &body["spec"];
    for constraint in [
        &spec["topologyConstraint"],
        &spec["subGroups"][0]["topologyConstraint"],
        &spec["subGroups"][3]["topologyConstraint"],
    ] {
        assert_eq!(constraint["topology"], "theirs", "{spec}");
    }
}

#[test]
fn a_preference_without_a_topology_is_no_constraint() {
    let gang = inf(|gang| {
        gang["metadata"]["annotations"] = json!({});
        let prefers = json!({ "packConstraint": { "preferred": "kubernetes.io/hostname" } });
        gang["spec"]["topologyConstraint"] = prefers.clone();
        gang["spec"]["topologyConstraintGroupConfigs"][0]["topologyConstraint"] = prefers.clone();
        gang["spec"]["podgroups"][2]["topologyConstraint"] = prefers;
    });
    let group = created(&gang, &in_queue("test"));
    assert!(!group["spec"].to_string().contains("hostname"), "{group}");
}

#[test]
fn a_set_resolves_to_one_queue_or_an_error() {
    let none = || json!({});
    let queue = |queue: &str| json!({ QUEUE: queue });
    let clique = |name: &str, labels: Value| json!({ "name": name, "labels": labels });
    let who = "PodCliqueSet team-a/inf";
    let conflict = format!("conflicting KAI queues on {who} PodClique templates: [x y]");
    let missing = format!("no KAI queue is configured on {who} or its PodClique templates");
    let other = format!(
        "KAI queue on {who} is \"test\" but PodClique template \"a\" resolves to \"other\""
    );
    let cases = [
        (queue("test"), none(), none(), none(), Ok("test")),
        (none(), queue("prod"), none(), queue("prod"), Ok("prod")),
        (queue("test"), queue("prod"), none(), none(), Ok("test")),
        (queue("test"), none(), queue("other"), none(), Err(other)),
        (none(), none(), queue("x"), none(), Ok("x")),
        (none(), none(), queue("x"), queue("y"), Err(conflict)),
        (none(), none(), none(), none(), Err(missing)),
    ];
    for (labels, annotations, a, b, expected) in cases {
        let set = set(&labels, &annotations, &json!([clique("a", a), clique("b", b)]));
        let expected = expected.map(str::to_owned);
        assert_eq!(queue::of(&set, None), expected, "{set:?}");
        assert_eq!(kai().accepts(&set), expected.map(|_| ()));
    }
    let unnamed = set(&json!({}), &json!({}), &json!([]));
    assert_eq!(queue::of(&unnamed, Some("fallback")), Ok("fallback".to_owned()));
}

#[test]
fn names_that_subgroups_cannot_have_are_refused() {
    let dotted = set(&json!({ QUEUE: "q" }), &json!({}), &json!([{ "name": "a.b" }]));
    let error = kai().accepts(&dotted).unwrap_err();
    assert!(error.starts_with("KAI cannot use the name \"a.b\" of PodClique"), "{error}");
}

#[test]
fn pods_name_their_group_and_subgroup() {
    let labelled = |labels: Value| json!({ "metadata": { "labels": labels } });
    let gang = json!({ "grove.io/podgang": "inf-0", "grove.io/podclique": "inf-0-router" });
    let mut pod = labelled(gang.clone());
    kai().prepared(&labelled(gang.clone())).unwrap().apply(0, &mut pod);
    assert_eq!(pod["spec"]["schedulerName"], "kai-scheduler");
    let annotations = json!({ SKIP_POD_GROUPER: "true", POD_GROUP_NAME: "inf-0" });
    assert_eq!(pod["metadata"]["annotations"], annotations);
    assert_eq!(pod["metadata"]["labels"][SUBGROUP_NAME], "inf-0-router");

    for missing in ["grove.io/podgang", "grove.io/podclique"] {
        let mut rest = gang.clone();
        rest.as_object_mut().unwrap().remove(missing);
        let error = kai().prepared(&labelled(rest)).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn the_pod_grouper_of_kai_can_create_the_groups() {
    let kai = KaiScheduler { default_queue: None, creates_pod_groups: false };
    let unnamed = set(&json!({}), &json!({}), &json!([]));
    let gang = inf(|gang| gang["metadata"]["annotations"] = json!({}));
    let objects = Given::default();
    let handed = GangInput {
        object: &gang,
        set: Some(&unnamed),
        progress: &PodProgress::default(),
        topology: None,
        objects: &objects,
    };
    assert_eq!(kai.plan(&handed).unwrap(), []);
    assert_eq!(kai.accepts(&unnamed), Ok(()));
    assert_eq!(kai.kinds(), []);
    let mut pod = json!({});
    kai.prepared(&json!({})).unwrap().apply(0, &mut pod);
    assert_eq!(pod["spec"]["schedulerName"], "kai-scheduler");
    assert_eq!(pod["metadata"], Value::Null);
}
