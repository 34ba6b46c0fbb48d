use std::collections::BTreeMap;

use grove_api::{PodCliqueSet, PodGang, annotations::MIRRORED_KEYS, pod_gang::PodGangStatus};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Initialization::{PodsPending, Ready, RefsSyncing},
    Member, Surroundings, can_wait, initialization, pod_gang, references, status,
};
use crate::{
    layout::Layout,
    pods::{
        ObservedPod,
        testkit::{any_pods, pod, running},
    },
    topology::SetTopology,
};

fn set(metadata: &Value, schedulers: [&str; 2]) -> PodCliqueSet {
    let clique = |(name, scheduler): (&str, &str)| {
        let spec =
            json!({ "replicas": 3, "minAvailable": 2, "podSpec": { "schedulerName": scheduler } });
        json!({ "name": name, "spec": spec })
    };
    let cliques: Vec<_> = ["a", "b"].into_iter().zip(schedulers).map(clique).collect();
    let mut set: PodCliqueSet = serde_json::from_value(json!({
        "metadata": metadata,
        "spec": { "replicas": 1, "template": {
            "priorityClassName": "high",
            "cliques": cliques,
        }},
    }))
    .unwrap();
    set.metadata.name = Some("x".to_owned());
    set.metadata.namespace = Some("ns".to_owned());
    set
}

fn gang_of(set: &PodCliqueSet, live: Option<&PodGang>) -> PodGang {
    let layout = Layout::of(set);
    let (default_scheduler, topology) = ("fallback", &SetTopology::Disabled);
    let surroundings = Surroundings { default_scheduler, topology };
    pod_gang(&layout, &layout.base_gang(0), &BTreeMap::new(), surroundings, live)
}

#[test]
fn new_gang_has_members_with_empty_reference_lists() {
    let gang = serde_json::to_value(gang_of(&set(&json!({}), ["", ""]), None)).unwrap();

    assert_eq!(
        gang["spec"],
        json!({
            "podgroups": [
                { "name": "x-0-a", "minReplicas": 2, "podReferences": [] },
                { "name": "x-0-b", "minReplicas": 2, "podReferences": [] },
            ],
            "priorityClassName": "high",
        })
    );
    assert_eq!(gang["metadata"].get("annotations"), None);
}

#[test]
fn empty_priority_class_is_none() {
    let mut set = set(&json!({}), ["", ""]);
    set.spec.template.priority_class_name = Some(String::new());

    assert_eq!(gang_of(&set, None).spec.priority_class_name, None);
}

#[test]
fn the_scheduler_label_names_the_first_scheduler_of_a_clique() {
    for (schedulers, expected) in
        [(["", ""], "fallback"), (["", "kai"], "kai"), (["volcano", ""], "volcano")]
    {
        let gang = gang_of(&set(&json!({}), schedulers), None);

        assert_eq!(gang.metadata.labels.unwrap()["grove.io/scheduler-name"], expected);
    }
}

#[test]
fn references_are_all_pods_of_the_gang_that_are_not_terminating() {
    let leaving = ObservedPod { deleting: true, ..running("c", 2) };
    let elsewhere = ObservedPod { gang: Some("other".into()), ..running("d", 3) };
    let pods = [running("b", 1), leaving, elsewhere, pod("a", 0)];

    let references = references("ns", "gang", &pods);

    let found: Vec<_> =
        references.iter().map(|r| (r.namespace.as_str(), r.name.as_str())).collect();
    assert_eq!(found, [("ns", "a"), ("ns", "b")]);
}

#[test]
fn metadata_of_the_set_is_mirrored_and_foreign_keys_stay() {
    let full = json!({
        "labels": {
            "team": "t", "app.kubernetes.io/managed-by": "Helm", "grove.io/own": "x",
            "app.kubernetes.io/name": "shop",
        },
        "annotations": {
            "kai.scheduler/queue": "q", "grove.io/reconcile-trigger": "1", "scheduling.grove.io/volcano-queue": "v",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    });
    let mut gang = gang_of(&set(&full, ["", ""]), None);
    let labels = gang.metadata.labels.as_mut().unwrap();
    assert_eq!(labels["team"], "t");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "grove-operator");
    assert_eq!(labels["app.kubernetes.io/name"], "shop");
    assert!(!labels.contains_key("grove.io/own"));
    labels.insert("foreign".to_owned(), "l".to_owned());
    let annotations = gang.metadata.annotations.as_mut().unwrap();
    assert_eq!(annotations["kai.scheduler/queue"], "q");
    assert_eq!(annotations.len(), 3);
    let memory: Value = serde_json::from_str(&annotations[MIRRORED_KEYS]).unwrap();
    assert_eq!(memory["labels"], json!(["app.kubernetes.io/name", "team"]));
    annotations.insert("kai.scheduler/skip".to_owned(), "a".to_owned());
    annotations.insert("grove.io/terminating-podcliques".to_owned(), "t".to_owned());

    let unchanged = gang_of(&set(&full, ["", ""]), Some(&gang));
    let bare = gang_of(&set(&json!({}), ["", ""]), Some(&gang));

    assert_eq!(unchanged.metadata, gang.metadata);
    let keys = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&bare.metadata.labels.unwrap()),
        [
            "app.kubernetes.io/component",
            "app.kubernetes.io/managed-by",
            "app.kubernetes.io/part-of",
            "foreign",
            "grove.io/scheduler-name",
        ]
    );
    assert_eq!(
        keys(&bare.metadata.annotations.unwrap()),
        ["grove.io/terminating-podcliques", "kai.scheduler/skip"]
    );
}

#[test]
fn only_mirrored_keys_that_the_scheduler_ignores_can_wait() {
    type Change = fn(&mut PodCliqueSet, &mut PodGang);
    let metadata =
        json!({ "labels": { "team": "t" }, "annotations": { "queue": "q", "note": "n" } });
    let live = gang_of(&set(&metadata, ["", ""]), None);
    let cases: [(&str, Change, bool); 9] = [
        ("nothing", |_, _| {}, true),
        ("note changed", |set, _| annotate(set, "note", "other"), true),
        ("note added", |set, _| annotate(set, "more", "m"), true),
        ("label removed", |set, _| set.metadata.labels = None, true),
        ("what is acted on", |set, _| annotate(set, "queue", "other"), false),
        ("spec", |set, _| set.spec.template.priority_class_name = None, false),
        ("owner", |_, live| live.metadata.owner_references = None, false),
        ("managed label", |_, live| live.metadata.labels = None, false),
        ("all annotations but a note", |_, live| forget(live), false),
    ];
    for (what, change, expected) in cases {
        let (mut set, mut live) = (set(&metadata, ["", ""]), live.clone());
        change(&mut set, &mut live);
        let desired = gang_of(&set, Some(&live));
        assert_eq!(can_wait(&live, &desired, |key| key == "queue"), expected, "{what}");
    }
}

fn annotate(set: &mut PodCliqueSet, key: &str, value: &str) {
    let annotations = set.metadata.annotations.as_mut().unwrap();
    annotations.insert(key.to_owned(), value.to_owned());
}

/// Removes the record of mirrored keys, as another tool might.
fn forget(gang: &mut PodGang) {
    gang.metadata.annotations.as_mut().unwrap().retain(|key, _| key == "note");
}

#[test]
fn a_damaged_record_of_mirrored_keys_removes_no_key() {
    let metadata = json!({ "annotations": { "a": "1" } });
    let mut gang = gang_of(&set(&metadata, ["", ""]), None);
    let annotations = gang.metadata.annotations.as_mut().unwrap();
    assert_eq!(annotations[MIRRORED_KEYS], r#"{"annotations":["a"]}"#);
    annotations.insert(MIRRORED_KEYS.to_owned(), "garbage".to_owned());

    let bare = gang_of(&set(&json!({}), ["", ""]), Some(&gang));

    assert_eq!(bare.metadata.annotations, Some([("a".to_owned(), "1".to_owned())].into()));
}

fn with_references(names: &[&str]) -> PodGang {
    let reference = |name: &&str| json!({ "namespace": "ns", "name": name });
    let listed: Vec<_> = names.iter().map(reference).collect();
    let groups = json!([{ "name": "x", "podReferences": listed, "minReplicas": 1 }]);
    serde_json::from_value(json!({ "spec": { "podgroups": groups } })).unwrap()
}

#[test]
fn gang_waits_for_pods_then_for_references() {
    let strange = ObservedPod { gang: None, ..pod("c", 2) };
    let leaving = ObservedPod { deleting: true, ..pod("c", 2) };
    let two = vec![pod("a", 0), pod("b", 1)];
    let with = |extra: &ObservedPod| [two.clone(), vec![extra.clone()]].concat();
    for (desired, pods, listed, expected) in [
        (2, vec![], &[] as &[_], PodsPending),
        (3, two.clone(), &["a", "b"], PodsPending),
        (3, with(&leaving), &["a", "b", "c"], PodsPending),
        (2, two.clone(), &["a"], RefsSyncing),
        (3, with(&strange), &["a", "b", "c"], RefsSyncing),
        (2, two.clone(), &["a", "b"], Ready),
        (2, with(&leaving), &["a", "b"], Ready),
        (0, vec![], &[], Ready),
    ] {
        let gang = with_references(listed);
        let member = |name: &str| {
            (name == "x").then_some(Member { desired, pods: &pods, missing_claim: None })
        };

        assert_eq!(initialization("gang", &gang.spec, member), expected, "{desired} {listed:?}");
        assert_eq!(initialization("gang", &gang.spec, |_| None), PodsPending);
        let missing_claim = Some("x-0-a-all-gpu");
        let without_claim = |_: &str| Some(Member { desired, pods: &pods, missing_claim });
        assert_eq!(initialization("gang", &gang.spec, without_claim), PodsPending);
    }
}

#[test]
fn an_initialized_gang_stays_initialized_and_foreign_conditions_are_kept() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let foreign = json!({ "type": "Scheduled", "status": "False", "reason": "r", "message": "" });
    let by_scheduler: PodGangStatus = serde_json::from_value(
        json!({ "phase": "Starting", "placementScore": 0.5, "conditions": [foreign] }),
    )
    .unwrap();
    let first = |state| status(None, Some(1), at(0), state, None);
    assert_eq!(first(PodsPending).phase.as_str(), "Pending");
    assert_eq!(first(RefsSyncing), first(PodsPending), "a gang always starts as PodsPending");
    assert_ne!(first(Ready), first(PodsPending), "a complete gang whose state was lost");

    let pending = status(Some(&by_scheduler), Some(1), at(1), PodsPending, None);
    let syncing = status(Some(&pending), Some(2), at(2), RefsSyncing, None);
    let ready = status(Some(&syncing), Some(3), at(3), Ready, None);

    insta::assert_json_snapshot!([&pending, &syncing, &ready]);
    for later in [PodsPending, RefsSyncing, Ready] {
        assert_eq!(status(Some(&ready), Some(4), at(4), later, None), ready);
    }
}

proptest! {
    #[test]
    fn a_gang_with_all_references_is_ready_exactly_when_enough_pods_exist(
        pods in any_pods(), desired in 0_u32..10,
    ) {
        let names = references("ns", "gang", &pods);
        let listed: Vec<_> = names.iter().map(|reference| reference.name.as_str()).collect();
        let gang = with_references(&listed);

        let state = initialization("gang", &gang.spec, |_| Some(Member { desired, pods: &pods, missing_claim: None }));

        let enough = listed.len() >= desired as usize;
        prop_assert_eq!(state, if enough { Ready } else { PodsPending });
        prop_assert!(listed.is_sorted());
        let shuffled: Vec<_> = pods.iter().rev().cloned().collect();
        prop_assert_eq!(references("ns", "gang", &shuffled), names);
    }
}
