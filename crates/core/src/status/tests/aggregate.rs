//! Groups and sets, from the documented minimal set with everything ready.

use std::collections::BTreeMap;

use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, testkit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::{COMPLETE, at, clique, condition, settled};
use crate::{
    children,
    layout::{Clique, Layout},
    pods::testkit::running,
    replicas::{GroupReplica, Number, SetReplica, group_replica, set_replica},
    status::{GroupFacts, pod_clique_set, scaling_group},
    update::{self, testkit::idle},
};

/// The documented minimal set with everything ready, and its children by name.
struct Demo {
    set: PodCliqueSet,
    cliques: BTreeMap<String, PodClique>,
    groups: BTreeMap<String, PodCliqueScalingGroup>,
}

fn hashes() -> BTreeMap<String, String> {
    ["router", "leader", "worker"].map(|name| (name.to_owned(), "hash".to_owned())).into()
}

/// The status of a group with these replica states.
fn group_status(
    group: &PodCliqueScalingGroup,
    generation_hash: &str,
    replicas: &[GroupReplica],
    second: i64,
) -> grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus {
    let outdated =
        (!replicas.iter().all(|one| one.current)).then_some(update::group::Outdated::Ready);
    let observed = |state: &GroupReplica| update::group::ReplicaUpdate {
        state: *state,
        outdated,
        ..update::group::ReplicaUpdate::default()
    };
    let replicas: Vec<_> = replicas.iter().map(observed).collect();
    let group = update::group::GroupUpdate { object: group, set_replica: 0, replicas: &replicas };
    let facts = GroupFacts { set: "demo", group, rollout: idle(Some(generation_hash)) };
    scaling_group(&facts, COMPLETE, at(second))
}

fn demo() -> Demo {
    let mut set: PodCliqueSet =
        serde_json::from_value(testkit::worked_examples()[1].clone()).unwrap();
    set.metadata.name = Some("demo".to_owned());
    set.status = None;
    let layout = Layout::of(&set);
    let group = &layout.groups()[0];
    let mut places = layout.standalone_cliques(0);
    places.extend((0..2).flat_map(|replica| layout.member_cliques(0, group, replica)));
    let build = |place: &Clique<'_>| {
        let replicas = place.template.spec.replicas;
        let pods: Vec<_> = (0..3)
            .take(usize::try_from(replicas).unwrap())
            .map(|index| running(&format!("p{index}"), index))
            .collect();
        settled(clique(&place.name, replicas, place.min_available()), &pods)
    };
    let cliques = places.iter().map(|place| (place.name.clone(), build(place))).collect();
    let mut demo = Demo { set: set.clone(), cliques, groups: BTreeMap::new() };
    let mut object = children::scaling_group(&layout, 0, group, None);
    object.metadata.generation = Some(1);
    demo.groups.insert("demo-0-decode".to_owned(), object);
    demo.settle_group();
    demo
}

impl Demo {
    fn group_replicas(&self) -> Vec<GroupReplica> {
        let layout = Layout::of(&self.set);
        let status_of = |replica| {
            let members = layout.member_cliques(0, &layout.groups()[0], replica);
            group_replica(&members, |name| self.cliques.get(name), &hashes(), Some("gen"))
        };
        (0..2).map(status_of).collect()
    }

    fn settle_group(&mut self) {
        let replicas = self.group_replicas();
        let group = self.groups.get_mut("demo-0-decode").unwrap();
        group.status = Some(group_status(group, "gen", &replicas, 60));
    }

    fn replica(&self) -> SetReplica {
        self.replica_against(Some("gen"))
    }

    fn replica_against(&self, generation_hash: Option<&str>) -> SetReplica {
        set_replica(
            &Layout::of(&self.set),
            0,
            |name| self.cliques.get(name),
            |name| self.groups.get(name),
            &hashes(),
            generation_hash,
        )
    }
}

#[test]
fn ready_set_reports_what_the_documentation_shows() {
    let demo = demo();

    let status = pod_clique_set(&demo.set, "gen", &[demo.replica()], COMPLETE, at(60));

    insta::assert_json_snapshot!(json!([status, demo.groups["demo-0-decode"].status]));
}

#[test]
fn set_without_replicas_omits_the_count() {
    let mut set = demo().set;
    set.spec.replicas = 0;

    let status = pod_clique_set(&set, "gen", &[], COMPLETE, at(60));

    let written = serde_json::to_value(status).unwrap();
    assert_eq!(written.get("replicas"), None);
    assert_eq!(written["availableReplicas"], 0);
    assert_eq!(written["currentGenerationHash"], "gen");
}

/// A change of one member of the second group replica, and its state then: scheduled, available, updated,
/// healthy, current.
type Damage = (fn(&mut PodClique), [bool; 5]);

#[test]
fn one_failing_member_affects_its_group_replica() {
    let deleted: fn(&mut PodClique) =
        |clique| clique.metadata.deletion_timestamp = Some(Time(at(1)));
    let damages: [Damage; 6] = [
        (deleted, [false; 5]),
        (|it| it.status = None, [false, false, false, true, false]),
        (
            |it| it.status.as_mut().unwrap().conditions[0].status = "False".to_owned(),
            [false, false, false, true, true],
        ),
        (|it| it.status.as_mut().unwrap().ready_replicas = 1, [true, false, false, true, true]),
        (
            |it| it.status.as_mut().unwrap().conditions[1].status = "True".to_owned(),
            [true, true, true, false, true],
        ),
        (|it| it.metadata.labels = None, [true, true, false, true, false]),
    ];
    for (damage, expected) in damages {
        let mut demo = demo();
        damage(demo.cliques.get_mut("demo-0-decode-1-worker").unwrap());

        let [first, second] = demo.group_replicas()[..] else { unreachable!("two replicas") };

        assert!(first.scheduled && first.available && first.updated);
        let found =
            [second.scheduled, second.available, second.updated, second.healthy, second.current];
        assert_eq!(found, expected);
    }
    let mut demo = demo();
    demo.cliques.remove("demo-0-decode-1-leader");
    assert_eq!(demo.group_replicas()[1], GroupReplica::default());
}

#[test]
fn a_group_is_breached_below_its_minimum_and_unknown_during_an_update() {
    let mut group = demo().groups.remove("demo-0-decode").unwrap();
    let healthy = GroupReplica { healthy: true, ..GroupReplica::default() };
    let status_of = |group: &PodCliqueScalingGroup, replicas: &[GroupReplica]| {
        let status = group_status(group, "next", replicas, 90);
        let status = serde_json::to_value(status).unwrap();
        let breached = condition(&status, "MinAvailableBreached");
        (breached["status"].clone(), breached["message"].clone(), status)
    };
    let sick = GroupReplica::default();

    let (breached, message, status) = status_of(&group, &[sick, sick]);
    assert_eq!(breached, "True");
    assert_eq!(message, "PCSG replicas not in breach (0) below MinAvailable (1)");
    assert_eq!(status["currentPodCliqueSetGenerationHash"], "gen");
    assert_eq!(status_of(&group, &[sick, healthy]).0, "False");
    group.status.as_mut().unwrap().update_progress = serde_json::from_value(json!({
        "updateStartedAt": "2026-08-01T10:00:00Z", "podCliqueSetGenerationHash": "next",
    }))
    .unwrap();
    let (breached, message, status) = status_of(&group, &[healthy, healthy]);
    assert_eq!((breached, message), (json!("Unknown"), json!("Update is in progress")));
    assert_eq!(status["currentPodCliqueSetGenerationHash"], "gen");
}

#[test]
fn set_replica_needs_every_clique_and_group() {
    let whole = demo().replica();
    let one = Number { updated: 1, total: 1 };
    assert!(whole.available && whole.updated && whole.renewed && whole.scheduled);
    assert_eq!((whole.breached, whole.cliques, whole.groups), (false, one, one));
    let (available, lost) = ((true, false), (false, false));
    let mut outdated = demo();
    let status = outdated.cliques.get_mut("demo-0-router").unwrap().status.as_mut().unwrap();
    status.current_pod_template_hash = Some("old".to_owned());
    let mut unready = demo();
    unready.cliques.get_mut("demo-0-router").unwrap().status.as_mut().unwrap().ready_replicas = 0;
    let mut gone = demo();
    gone.cliques.remove("demo-0-router");
    let mut leaving = demo();
    let group = leaving.groups.get_mut("demo-0-decode").unwrap();
    group.metadata.deletion_timestamp = Some(Time(at(1)));
    let mut stale = demo();
    let group = stale.groups.get_mut("demo-0-decode").unwrap().status.as_mut().unwrap();
    group.current_pod_clique_set_generation_hash = None;
    let mut short = demo();
    let group = short.groups.get_mut("demo-0-decode").unwrap().status.as_mut().unwrap();
    group.available_replicas = 0;
    let mut groups_only = demo();
    groups_only.set.spec.template.cliques.remove(0);
    assert!(groups_only.replica().updated);
    let group = groups_only.groups.get_mut("demo-0-decode").unwrap().status.as_mut().unwrap();
    group.current_pod_clique_set_generation_hash = None;
    let replica = groups_only.replica_against(None);
    assert_eq!((replica.available, replica.updated), available);
    for (demo, expected) in [
        (outdated, available),
        (unready, lost),
        (gone, lost),
        (leaving, lost),
        (stale, available),
        (short, lost),
    ] {
        let replica = demo.replica();
        assert_eq!((replica.available, replica.updated), expected);
        assert!(!replica.renewed);
    }
    let mut strayed = demo();
    let status = strayed.cliques.get_mut("demo-0-router").unwrap().status.as_mut().unwrap();
    status.replicas = 2;
    let replica = strayed.replica();
    assert!(replica.updated && !replica.renewed, "a pod above the minimum has another template");
}

proptest! {
    #[test]
    fn group_and_set_status_are_stable_and_ignore_the_order_of_replicas(
        flags in prop::collection::vec(any::<[bool; 5]>(), 0..5),
    ) {
        let replica = |[scheduled, available, updated, healthy, current]: [bool; 5]| GroupReplica {
            scheduled, available, updated, healthy, reports_healthy: healthy, reached: available, current,
        };
        let replicas: Vec<_> = flags.iter().copied().map(replica).collect();
        let reversed: Vec<_> = replicas.iter().rev().copied().collect();
        let mut demo = demo();
        let group = demo.groups.get_mut("demo-0-decode").unwrap();
        let status = group_status(group, "gen", &replicas, 70);
        group.status = Some(status.clone());
        let again = group_status(group, "gen", &reversed, 1_000);
        prop_assert_eq!(again, status);

        let replica = |flags: &[bool; 5]| SetReplica {
            available: flags[0], updated: flags[1], ..SetReplica::default()
        };
        let replicas: Vec<_> = flags.iter().map(replica).collect();
        let reversed: Vec<_> = replicas.iter().rev().copied().collect();
        let status = pod_clique_set(&demo.set, "gen", &replicas, COMPLETE, at(70));
        demo.set.status = Some(status.clone());
        prop_assert_eq!(pod_clique_set(&demo.set, "gen", &reversed, COMPLETE, at(80)), status);
    }
}

#[test]
fn scheduler_conditions_appear_with_the_first_problem_and_report_its_end() {
    use grove_api::pod_clique_set::PodCliqueSetStatus;

    use crate::status::{SchedulerState, scheduler};

    let mut status = PodCliqueSetStatus::default();
    let mut say = |second, state| {
        scheduler(&mut status, Some(3), state, super::at(second));
        let said = |one: &grove_api::condition::Condition| {
            format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message)
        };
        status.conditions.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(say(1, SchedulerState::default()), [""; 0], "there was no problem");

    let problem = Some(("NotInstalled", "no such kind"));
    let limit = Some(("Partly", "not all"));
    let bad = say(2, SchedulerState { problem, limit });
    assert_eq!(
        bad,
        [
            "SchedulerBackendReady=False NotInstalled: no such kind",
            "SchedulerLimits=True Partly: not all"
        ]
    );
    let good = say(3, SchedulerState::default());
    assert!(good[0].starts_with("SchedulerBackendReady=True SchedulerObjectsInSync"), "{good:?}");
    assert!(good[1].starts_with("SchedulerLimits=False NoLimits"), "{good:?}");
}
