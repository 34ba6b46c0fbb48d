use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{
    ObservedPod, Phase, balance, claimed_indices, index_of, succeeded_indices,
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
        // Two are left, four are desired; the terminating pod holds no index.
        (4, vec![running("a", 0), terminating, running("c", 2)], vec![1, 3]),
        // The failed pod counts as existing, but its index is free.
        (2, vec![failed], vec![0]),
        (2, vec![running("a", 0), running("b", 5)], vec![]),
    ];
    for (desired, pods, expected) in cases {
        let balance = balance("x", desired, "hash", 0, &pods).unwrap();

        assert_eq!(balance.create, expected);
        assert!(balance.delete.is_empty());
    }
}

#[test]
fn an_unknown_index_is_an_error_only_when_pods_are_created() {
    let nameless = ObservedPod { index: None, ..running("a", 0) };

    let unreadable = balance("x", 2, "hash", 0, std::slice::from_ref(&nameless)).unwrap_err();

    assert_eq!((unreadable.pod_clique.as_str(), unreadable.pod.as_str()), ("x", "a"));
    assert_eq!(unreadable.code().as_str(), "ERR_GET_AVAILABLE_POD_HOSTNAME_INDICES");
    assert!(balance("x", 1, "hash", 0, std::slice::from_ref(&nameless)).is_ok());
    let ended = ObservedPod { phase: Phase::Succeeded, ..nameless };
    assert_eq!(balance("x", 2, "hash", 0, &[ended]).unwrap().create, [0]);
}

#[test]
fn of_two_pods_with_one_index_the_less_valuable_is_deleted_first() {
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
    for (case, desired, pods, expected) in cases {
        let balance = balance("x", desired, "hash", 0, &pods).unwrap();
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
fn scale_in_deletes_the_least_valuable_pod_first() {
    let at = |second| Timestamp::from_second(second).ok();
    let best = || ObservedPod { created: at(10), ..running("best", 0) };
    // Each one is less valuable than all after it, although every later criterion favours it.
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

#[test]
fn kept_indices_are_deleted_last() {
    let unready = ObservedPod { ready: false, ..running("a", 0) };
    let pods = [unready, running("b", 1), running("c", 2), running("d", 3)];
    let gone = |desired, kept| {
        let balance = balance("x", desired, "hash", kept, &pods).unwrap();
        balance.delete.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(gone(3, 0), ["a"]);
    assert_eq!(gone(3, 2), ["c"]);
    assert_eq!(gone(1, 2), ["c", "d", "a"]);
}

#[test]
fn claims_are_kept_for_desired_and_for_active_pods() {
    let going = ObservedPod { deleting: true, ..pod("p4", 4) };
    let ended = ObservedPod { phase: Phase::Failed, ..pod("p5", 5) };
    let nameless = ObservedPod { index: None, ..pod("p6", 6) };
    let pods = [pod("p3", 3), pod("p1", 1), going, ended, nameless];

    assert_eq!(claimed_indices(2, &pods), BTreeSet::from([0, 1, 3]));
    assert_eq!(claimed_indices(0, &[]), BTreeSet::new());
}

#[test]
fn succeeded_pods_are_not_replaced() {
    let phase = |index, phase| ObservedPod { phase, ..running(&format!("p{index}"), index) };
    let going = ObservedPod { deleting: true, ..phase(3, Phase::Succeeded) };
    let pods = [phase(0, Phase::Succeeded), phase(1, Phase::Failed), running("p2", 2), going];

    assert_eq!(succeeded_indices(&pods), [0]);
}

proptest! {
    #[test]
    fn balance_reaches_the_desired_number_with_unique_lowest_indices(
        pods in any_pods(), desired in 0_u32..12,
    ) {
        let balance = balance("x", desired, "hash", 0, &pods).unwrap();

        let existing = pods.iter().filter(|pod| !pod.deleting).count();
        prop_assert_eq!(existing + balance.create.len() - balance.delete.len(), desired as usize);
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
    fn the_order_of_the_input_does_not_matter(
        (pods, shuffled) in any_pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        desired in 0_u32..12,
    ) {
        prop_assert_eq!(balance("x", desired, "hash", 0, &pods), balance("x", desired, "hash", 0, &shuffled));
    }
}
