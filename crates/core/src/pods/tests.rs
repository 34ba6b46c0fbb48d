use std::collections::BTreeSet;

use grove_api::PodGang;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::{
    Gang, GangPods, GateDecision, Hold, ObservedPod, Phase, balance, claimed_indices, ended, gates,
    index_of, is_scheduled, restarts_after,
    testkit::{any_pods, pod, running},
};

mod building;

#[test]
fn index_is_read_from_a_hostname_of_the_same_clique_only() {
    for (hostname, index) in [
        ("x-0-a-0", Some(0)),
        ("x-0-a-12", Some(12)),
        ("x-0-a-012", None),
        ("x-0-a-+1", None),
        ("x-0-a-b-1", None),
        ("x-0-a", None),
        ("x-0-b-1", None),
        ("", None),
    ] {
        assert_eq!(index_of("x-0-a", hostname), index, "{hostname}");
    }
}

#[test]
fn created_pods_get_the_lowest_free_indices() {
    let terminating = ObservedPod { deleting: true, ..running("b", 1) };
    let failed = ObservedPod { phase: Phase::Failed, ..running("d", 0) };
    let cases = [
        (3, vec![], vec![0, 1, 2]),
        // Two are left, four are wanted; the terminating pod holds no index.
        (4, vec![running("a", 0), terminating, running("c", 2)], vec![1, 3]),
        // The failed pod counts as existing, but its index is free.
        (2, vec![failed], vec![0]),
        (2, vec![running("a", 0), running("b", 5)], vec![]),
    ];
    for (wanted, pods, expected) in cases {
        let balance = balance("x", wanted, "hash", 0, &pods).unwrap();

        assert_eq!(balance.create, expected);
        assert!(balance.delete.is_empty());
    }
}

#[test]
fn unreadable_indices_are_reported_and_only_matter_when_pods_are_created() {
    let nameless = ObservedPod { index: None, ..running("a", 0) };

    let unreadable = balance("x", 2, "hash", 0, std::slice::from_ref(&nameless)).unwrap_err();

    assert_eq!((unreadable.pod_clique.as_str(), unreadable.pod.as_str()), ("x", "a"));
    assert_eq!(unreadable.code().as_str(), "ERR_GET_AVAILABLE_POD_HOSTNAME_INDICES");
    assert!(balance("x", 1, "hash", 0, std::slice::from_ref(&nameless)).is_ok());
    let ended = ObservedPod { phase: Phase::Succeeded, ..nameless };
    assert_eq!(balance("x", 2, "hash", 0, &[ended]).unwrap().create, [0]);
}

#[test]
fn of_two_pods_with_one_index_the_less_valuable_goes_before_anything_is_created() {
    let pending = |name, index| ObservedPod { phase: Phase::Pending, ..running(name, index) };
    let ended = ObservedPod { phase: Phase::Failed, ..running("c", 0) };
    let cases = [
        ("the count is right", 2, vec![running("a", 0), pending("b", 0)], vec!["b"]),
        ("one is missing, too", 3, vec![pending("a", 0), running("b", 0)], vec!["a"]),
        (
            "one is too many, too",
            1,
            vec![running("a", 0), pending("b", 0), pending("d", 1)],
            vec!["b", "d"],
        ),
        ("what has ended has no index", 2, vec![running("a", 0), ended], vec![]),
    ];
    for (case, wanted, pods, expected) in cases {
        let balance = balance("x", wanted, "hash", 0, &pods).unwrap();
        let names: Vec<_> = balance.delete.iter().map(|pod| &*pod.name).collect();
        assert_eq!(names, expected, "{case}");
        assert!(balance.create.is_empty(), "{case}");
    }
}

#[test]
fn terminating_pod_never_costs_a_healthy_one() {
    let dying = ObservedPod { deleting: true, ..running("a", 0) };
    let pods = [dying, running("b", 1), running("c", 2)];

    let balance = balance("x", 2, "hash", 0, &pods).unwrap();

    assert_eq!((balance.create, balance.delete), (vec![], vec![]));
}

#[test]
fn scale_in_starts_with_the_pod_that_is_missed_least() {
    let at = |second| Timestamp::from_second(second).ok();
    let best = || ObservedPod { created: at(10), ..running("best", 0) };
    // Each is worth less than everything after it, although it is better in every later respect.
    let expected = [
        ObservedPod { on_node: false, ..running("no-node", 1) },
        ObservedPod { phase: Phase::Failed, created: at(1), ..running("failed", 2) },
        ObservedPod { phase: Phase::Unknown, created: at(1), ..running("unknown", 3) },
        ObservedPod { ready: false, created: at(1), ..running("not-ready", 4) },
        ObservedPod { template_hash: Some("old".into()), created: at(1), ..running("old", 5) },
        ObservedPod { created: None, ..running("ageless", 6) },
        ObservedPod { created: at(20), ..running("newest", 7) },
        ObservedPod { created: at(15), ..running("newer-a", 8) },
        ObservedPod { created: at(15), ..running("newer-b", 9) },
    ];
    let mut pods = expected.to_vec();
    pods.reverse();
    pods.insert(4, best());

    let balance = balance("x", 1, "hash", 0, &pods).unwrap();

    assert_eq!(balance.delete, expected.iter().collect::<Vec<_>>());
}

#[test]
fn pending_failed_and_succeeded_are_equal_on_scale_in() {
    let newest_first = [Phase::Succeeded, Phase::Pending, Phase::Failed].into_iter().zip([3, 2, 1]);
    let pods: Vec<_> = newest_first
        .map(|(phase, second)| ObservedPod {
            phase,
            created: Timestamp::from_second(second).ok(),
            ..running(&format!("p{second}"), 0)
        })
        .collect();

    let balance = balance("x", 0, "hash", 0, &pods).unwrap();

    assert_eq!(balance.delete, pods.iter().collect::<Vec<_>>());
}

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
fn gate_needs_an_initialised_gang_that_lists_the_pod() {
    let pods = [pod("b", 1), pod("a", 0), pod("c", 2), running("d", 3)];
    let [ready, pending] = [gang("True", &["a", "b", "d"]), gang("False", &["a", "b", "c"])];
    let complete = gang("True", &["c", "b", "a"]);
    let scaled = |base_scheduled| Gang::Scaled { gang: Some(&complete), base_scheduled };
    for (stored, lift, hold) in [
        (Gang::Base(None), vec![], Some(Hold::NoGang)),
        (Gang::Base(Some(&pending)), vec![], Some(Hold::NotInitialized)),
        (Gang::Base(Some(&ready)), vec!["a", "b"], Some(Hold::NotReferenced)),
        (Gang::Base(Some(&complete)), vec!["a", "b", "c"], None),
        (scaled(false), vec![], Some(Hold::BaseNotScheduled)),
        (scaled(true), vec!["a", "b", "c"], None),
    ] {
        let decision = gates("x", &pods, stored);

        let names: Vec<_> = decision.lift.iter().map(|pod| &*pod.name).collect();
        assert_eq!((names, decision.hold), (lift, hold));
    }
    let ungated = [running("a", 0), ObservedPod { deleting: true, ..pod("b", 1) }];
    assert_eq!(gates("x", &ungated, Gang::Base(None)), GateDecision::default());
}

#[test]
fn pods_that_are_kept_go_after_all_others() {
    let unready = ObservedPod { ready: false, ..running("a", 0) };
    let pods = [unready, running("b", 1), running("c", 2), running("d", 3)];
    let gone = |wanted, kept| {
        let balance = balance("x", wanted, "hash", kept, &pods).unwrap();
        balance.delete.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(gone(3, 0), ["a"]);
    assert_eq!(gone(3, 2), ["c"]);
    assert_eq!(gone(1, 2), ["c", "d", "a"]);
}

#[test]
fn a_gang_that_is_made_anew_waits_for_the_last_of_its_former_pods() {
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
    for (what, pods, until) in cases {
        let pods = pods.into_iter().map(|(pod, gone_by)| (pod, gone_by.map(at)));
        assert_eq!(restarts_after(pods), until.map(at), "{what}");
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

#[test]
fn claims_are_kept_for_wanted_pods_and_for_those_that_stay() {
    let going = ObservedPod { deleting: true, ..pod("p4", 4) };
    let ended = ObservedPod { phase: Phase::Failed, ..pod("p5", 5) };
    let nameless = ObservedPod { index: None, ..pod("p6", 6) };
    let pods = [pod("p3", 3), pod("p1", 1), going, ended, nameless];

    assert_eq!(claimed_indices(2, &pods), BTreeSet::from([0, 1, 3]));
    assert_eq!(claimed_indices(0, &[]), BTreeSet::new());
}

#[test]
fn pods_that_ended_well_and_stay_are_over() {
    let phase = |index, phase| ObservedPod { phase, ..running(&format!("p{index}"), index) };
    let going = ObservedPod { deleting: true, ..phase(3, Phase::Succeeded) };
    let pods = [phase(0, Phase::Succeeded), phase(1, Phase::Failed), running("p2", 2), going];

    assert_eq!(ended(&pods), [0]);
}

proptest! {
    #[test]
    fn balance_ends_at_the_wanted_number_with_unique_lowest_indices(
        pods in any_pods(), wanted in 0_u32..12,
    ) {
        let balance = balance("x", wanted, "hash", 0, &pods).unwrap();

        let existing = pods.iter().filter(|pod| !pod.deleting).count();
        prop_assert_eq!(existing + balance.create.len() - balance.delete.len(), wanted as usize);
        prop_assert!(balance.create.is_empty() || balance.delete.is_empty());
        prop_assert!(balance.delete.iter().all(|pod| !pod.deleting));
        let used: BTreeSet<_> =
            pods.iter().filter(|pod| pod.is_active()).filter_map(|pod| pod.index).collect();
        let created: BTreeSet<_> = balance.create.iter().copied().collect();
        prop_assert_eq!(created.len(), balance.create.len());
        prop_assert!(created.is_disjoint(&used));
        if let Some(&highest) = created.last() {
            prop_assert!((0..highest).all(|index| used.contains(&index) || created.contains(&index)));
        }
    }

    #[test]
    fn order_of_the_input_makes_no_difference(
        (pods, shuffled) in any_pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        wanted in 0_u32..12,
    ) {
        let stored = gang("True", &["p1", "p3", "p5", "p7"]);

        prop_assert_eq!(balance("x", wanted, "hash", 0, &pods), balance("x", wanted, "hash", 0, &shuffled));
        let base = Gang::Base(Some(&stored));
        prop_assert_eq!(gates("x", &pods, base), gates("x", &shuffled, base));
    }

    #[test]
    fn gate_is_never_lifted_while_the_pod_is_unreferenced(
        pods in any_pods(),
        listed in prop::sample::subsequence(vec!["p0", "p1", "p2", "p3", "p4", "p5"], 0..6),
        initialized in any::<bool>(),
        base_scheduled in any::<bool>(),
    ) {
        let stored = gang(if initialized { "True" } else { "False" }, &listed);

        let decision = gates("x", &pods, Gang::Scaled { gang: Some(&stored), base_scheduled });

        for pod in &decision.lift {
            prop_assert!(pod.has_gate && !pod.deleting && initialized && base_scheduled);
            prop_assert!(listed.contains(&&*pod.name));
        }
        let gated = pods.iter().filter(|pod| pod.has_gate && !pod.deleting).count();
        prop_assert_eq!(decision.hold.is_some(), decision.lift.len() < gated);
    }
}
