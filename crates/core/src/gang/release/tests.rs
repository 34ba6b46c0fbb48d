use grove_api::PodGang;
use grove_api::pod_gang::{PodGangSpec, PodGroup};
use proptest::prelude::*;
use serde_json::json;

use super::{GangPods, GateDecision, Hold, OwnGang, gates, is_scheduled, restarts_after};
use crate::pods::{
    ObservedPod, Phase,
    testkit::{any_pods, pod, running},
};

fn gang(initialized: &str, references: &[&str]) -> PodGang {
    let references: Vec<_> =
        references.iter().map(|name| json!({ "namespace": "ns", "name": name })).collect();
    serde_json::from_value(json!({
        "metadata": { "name": "gang" },
        "spec": { "podgroups": [
            { "name": "other", "podReferences": [{ "namespace": "ns", "name": "c" }] },
            { "name": "x", "podReferences": references, "minReplicas": 1 },
        ]},
        "status": { "phase": "Pending", "conditions": [
            { "type": "Scheduled", "status": "True" },
            { "type": "Initialized", "status": initialized },
        ]},
    }))
    .unwrap()
}

#[test]
fn a_gate_is_removed_when_the_gang_is_initialized_and_lists_the_pod() {
    let pods = [pod("b", 1), pod("a", 0), pod("c", 2), running("d", 3)];
    let [ready, pending] = [gang("True", &["a", "b", "d"]), gang("False", &["a", "b", "c"])];
    let complete = gang("True", &["c", "b", "a"]);
    let scaled = |base_scheduled| OwnGang::Scaled { gang: Some(&complete), base_scheduled };
    for (stored, lift, hold) in [
        (OwnGang::Base(None), vec![], Some(Hold::NoGang)),
        (OwnGang::Base(Some(&pending)), vec![], Some(Hold::NotInitialized)),
        (OwnGang::Base(Some(&ready)), vec!["a", "b"], Some(Hold::NotReferenced)),
        (OwnGang::Base(Some(&complete)), vec!["a", "b", "c"], None),
        (scaled(false), vec![], Some(Hold::BaseNotScheduled)),
        (scaled(true), vec!["a", "b", "c"], None),
    ] {
        let decision = gates("x", &pods, stored);

        let names: Vec<_> = decision.lift.iter().map(|pod| &*pod.name).collect();
        assert_eq!((names, decision.hold), (lift, hold));
    }
    let ungated = [running("a", 0), ObservedPod { deleting: true, ..pod("b", 1) }];
    assert_eq!(gates("x", &ungated, OwnGang::Base(None)), GateDecision::default());
}

#[test]
fn a_recreated_gang_waits_for_the_last_of_its_former_pods() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let (new, stays) = (pod("new", 0), running("stays", 0));
    let going = ObservedPod { deleting: true, ..running("going", 0) };
    let ended = ObservedPod { phase: Phase::Succeeded, ..running("ended", 0) };
    let cases: [(&str, Vec<_>, Option<i64>); 5] = [
        ("the first pods of a gang", vec![(&new, None)], None),
        ("all are going", vec![(&going, Some(7)), (&new, None), (&going, Some(9))], Some(9)),
        ("one stays", vec![(&going, Some(7)), (&stays, None), (&new, None)], None),
        ("one has done its work", vec![(&going, Some(7)), (&ended, None)], Some(7)),
        ("all are gone", vec![(&new, None), (&new, None)], None),
    ];
    let needing = |pods: i32| {
        let group = PodGroup { min_replicas: pods, ..PodGroup::default() };
        PodGangSpec { pod_groups: vec![group], ..PodGangSpec::default() }
    };
    for (what, pods, until) in cases {
        let pods = || pods.iter().map(|(pod, gone_by)| (*pod, gone_by.map(at)));
        assert_eq!(restarts_after(&needing(2), pods()), until.map(at), "{what}");
        assert_eq!(restarts_after(&needing(1), pods()), None, "{what}, and it needs one pod");
    }
}

#[test]
fn the_pods_of_a_gang_are_scheduled_waiting_or_gated() {
    let waiting = ObservedPod { has_gate: false, ..pod("w", 5) };
    let terminating = ObservedPod { deleting: true, ..running("t", 6) };
    let finished = ObservedPod { phase: Phase::Succeeded, ..running("f", 7) };
    let of = |minimum: i32, pods: &[ObservedPod]| {
        let GangPods { scheduled, waiting, gated, .. } =
            GangPods::of([(1, &[running("other", 0)][..]), (minimum, pods)]);
        [scheduled, waiting, gated]
    };
    let cases = [
        (1, vec![running("a", 0)], [true, false, false]),
        (2, vec![running("a", 0), waiting], [false, true, false]),
        (1, vec![running("a", 0), pod("b", 1)], [true, false, true]),
        (1, vec![terminating], [false, false, false]),
        (1, vec![finished], [true, false, false]),
    ];
    for (minimum, pods, expected) in cases {
        assert_eq!(of(minimum, &pods), expected, "{pods:?}");
    }
}

#[test]
fn base_gang_is_scheduled_when_every_member_has_its_minimum() {
    let gang: PodGang = serde_json::from_value(json!({ "spec": { "podgroups": [
        { "name": "a", "minReplicas": 2 }, { "name": "b", "minReplicas": 1 },
    ]}}))
    .unwrap();
    for (a, b, expected) in [
        (Some(2), Some(1), true),
        (Some(3), Some(2), true),
        (Some(1), Some(1), false),
        (Some(2), Some(0), false),
        (Some(2), None, false),
    ] {
        let scheduled = |name: &str| if name == "a" { a } else { b };

        assert_eq!(is_scheduled(&gang.spec, scheduled), expected, "{a:?} {b:?}");
    }
}

proptest! {
    #[test]
    fn the_order_of_the_pods_does_not_matter(
        (pods, shuffled) in any_pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
    ) {
        let stored = gang("True", &["p1", "p3", "p5", "p7"]);
        let base = OwnGang::Base(Some(&stored));
        prop_assert_eq!(gates("x", &pods, base), gates("x", &shuffled, base));
    }

    #[test]
    fn the_gate_of_an_unreferenced_pod_is_never_removed(
        pods in any_pods(),
        listed in prop::sample::subsequence(vec!["p0", "p1", "p2", "p3", "p4", "p5"], 0..6),
        initialized in any::<bool>(),
        base_scheduled in any::<bool>(),
    ) {
        let stored = gang(if initialized { "True" } else { "False" }, &listed);

        let decision = gates("x", &pods, OwnGang::Scaled { gang: Some(&stored), base_scheduled });

        for pod in &decision.lift {
            prop_assert!(pod.has_gate && !pod.deleting && initialized && base_scheduled);
            prop_assert!(listed.contains(&&*pod.name));
        }
        let gated = pods.iter().filter(|pod| pod.has_gate && !pod.deleting).count();
        prop_assert_eq!(decision.hold.is_some(), decision.lift.len() < gated);
    }
}
