//! What happens when the minimum is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use grove_runtime::clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    assert_groups_stayed, deleted_since, fail, is_ready, mark, placed, scheduler_groups,
    set_health, set_image, uid_of, uids_of_cliques, until_breached, until_events, until_lost,
};
use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::Fixture;
use grove_testbed::kinds::{CLIQUES, EVENTS, GANGS, GROUPS, PODS, SERVICES, SETS};
use grove_testbed::mirror::{Namespace, State, condition, is_initialized, text};
use grove_testbed::operator::{Operator, Setup};
use grove_testbed::rules;
use grove_testbed::sets::{Manifest as _, clique, group, set};

rules! {
    a_lost_minimum_is_terminated_once_after_the_delay,
    a_group_that_was_up_briefly_is_terminated_once,
    a_minimum_restored_in_time_terminates_nothing,
    flapping_faster_than_the_delay_terminates_nothing,
    the_delay_follows_the_spec_and_updates_suspend_it,
    a_surplus_group_replica_is_terminated_alone,
    a_breached_group_terminates_its_replica_once,
}

const DELAY: i64 = 4;
/// Long enough that a busy machine does not keep something down for as long.
const FLAPPING_DELAY: i64 = 9;
/// How late the operator may be on a busy machine.
const LATE: i64 = 10;

fn impatient(set: Value) -> Value {
    set.termination_delay(&format!("{DELAY}s"))
}

fn delay(text: Option<&str>) -> Value {
    json!({ "spec": { "template": { "terminationDelay": text } } })
}

/// Until everything is recorded to have had its minimum. What is lost from that moment on counts, however short
/// it was up.
async fn until_established(namespace: &Namespace) {
    let all = namespace.look(|state| [state.names(CLIQUES), state.names(GROUPS)].concat());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    until_reached(namespace, &all).await;
}

async fn until_reached(namespace: &Namespace, names: &[&str]) {
    let what = format!("{names:?} have had their minimum");
    namespace
        .until_is(&what, |state| {
            names.iter().all(|name| {
                let one = state.get(CLIQUES, name).or_else(|| state.get(GROUPS, name));
                one.is_some_and(|one| condition(one, "MinAvailableReached")["status"] == "True")
            })
        })
        .await;
}

/// Waits until so many seconds have passed since a moment, which no watch shows.
async fn until_after(moment: Timestamp, seconds: i64) {
    let clock = Clock::system();
    let end = moment + Duration::from_secs(u64::try_from(seconds).unwrap() + 1);
    let left = end.duration_since(clock.wall());
    clock.sleep(Duration::try_from(left).unwrap_or_default()).await;
}

/// Removes the places of a node and deletes the pods that have them. Other pods of the node stay.
async fn lose(fixture: &Fixture, namespace: &Namespace, node: &str, place: &str) {
    fixture.set_places(node, place, 0).await;
    let pods = namespace.look(|state| {
        let has_place = |pod: &Value| {
            let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
            pod["spec"]["nodeName"] == node && !requests[place].is_null()
        };
        let on_it = state.of(PODS).into_iter().filter(|pod| has_place(pod));
        on_it.map(|pod| text(&pod["metadata"]["name"]).to_owned()).collect::<Vec<_>>()
    });
    for pod in pods {
        namespace.delete(PODS, &pod).await;
    }
}

async fn until_recreated(namespace: &Namespace, clique: &str, uid: &Value) {
    let what = format!("{clique} is recreated");
    namespace
        .until_is(&what, |state| {
            let made = state.get(CLIQUES, clique);
            made.is_some_and(|made| made["metadata"]["uid"] != *uid)
        })
        .await;
}

/// A set beside the others that loses its minimum now and is terminated: whatever lost it before would have
/// been by then.
async fn until_witness_is_terminated(namespace: &Namespace) {
    let uid = uid_of(namespace, CLIQUES, "witness-0-a");
    let is_recreated = |state: &State| {
        state.get(CLIQUES, "witness-0-a").is_some_and(|made| made["metadata"]["uid"] != uid)
    };
    // A node that is late with its own report may take the failure back.
    let is_well = |state: &State| state.pods_of("witness-0-a").values().any(|pod| is_ready(pod));
    while !namespace.look(is_recreated) {
        fail(namespace, "witness-0-a").await;
        namespace.until_is("the witness goes", |state| is_recreated(state) || is_well(state)).await;
    }
}

/// Cliques went once each, when the delay was over that began at a time and not before.
fn assert_went_once(
    namespace: &Namespace,
    mark: usize,
    cliques: &[&str],
    (begin, delay): (Timestamp, i64),
) {
    let deleted = namespace.look(|state| deleted_since(state, CLIQUES, mark));
    let mut names: Vec<&str> = deleted.iter().map(|one| text(&one["metadata"]["name"])).collect();
    names.sort_unstable();
    assert_eq!(names, cliques);
    for clique in deleted {
        let gone: Timestamp = text(&clique["metadata"]["deletionTimestamp"]).parse().unwrap();
        let waited = gone.duration_since(begin).as_secs();
        assert!((delay..delay + LATE).contains(&waited), "{waited} s");
    }
}

async fn a_lost_minimum_is_terminated_once_after_the_delay(fixture: Fixture, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = format!("test.grove.io/{node}");
    fixture.node(&node, &place, 2).await;
    let one = impatient(set("x", &[placed("a", 2, &place), clique("b", 1)], &[]));
    namespace.create(SETS, &one).await;
    fixture.deploy(&namespace, &impatient(set("witness", &[clique("a", 1)], &[])), 4).await;
    let (before, groups) = (uids_of_cliques(&namespace), scheduler_groups(&namespace));
    until_established(&namespace).await;
    let mark = mark(&namespace);

    // What is wrong may change, the time counts from the first.
    set_health(&namespace, "x-0-a", 1, false).await;
    let breached = until_breached(&namespace, "x-0-a").await;
    lose(&fixture, &namespace, &node, &place).await;
    for name in ["x-0-a", "x-0-b"] {
        until_recreated(&namespace, name, &before[name]).await;
    }
    assert_went_once(&namespace, mark, &["x-0-a", "x-0-b"], (breached, DELAY));
    namespace.look(|state| {
        let of_clique = state.history[mark..]
            .iter()
            .filter(|(kind, one)| *kind == CLIQUES && one["metadata"]["uid"] == before["x-0-a"]);
        let mut reasons: Vec<(&str, &str)> = of_clique
            .map(|(_, one)| condition(one, "MinAvailableBreached"))
            .filter(|one| one["status"] == "True")
            .map(|one| (text(&one["reason"]), text(&one["lastTransitionTime"])))
            .collect();
        reasons.dedup();
        let since = breached.to_string();
        let expected = ["InsufficientReadyPods", "ScheduledReplicasBelowMinAvailable"];
        assert_eq!(reasons, expected.map(|reason| (reason, since.as_str())));
    });
    // There is still no place: what was not scheduled again has nothing to lose.
    let after = uids_of_cliques(&namespace);
    until_witness_is_terminated(&namespace).await;
    for name in ["x-0-a", "x-0-b"] {
        assert_eq!(uid_of(&namespace, CLIQUES, name), after[name]);
    }
    fixture.set_places(&node, &place, 2).await;
    namespace.until_complete(4).await;
    for name in ["x-0-a", "x-0-b"] {
        assert_eq!(uid_of(&namespace, CLIQUES, name), after[name]);
    }
    namespace.look(|state| assert_groups_stayed(state, mark, &groups));
    let story =
        ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful", "MinAvailableRestored"];
    until_events(&namespace, "x", &story).await;
    namespace
        .until_is("the clique tells that it lost all its pods", |state| {
            let lost = |event: &Value| {
                event["reason"] == "AllScheduledReplicasLost"
                    && event["involvedObject"]["uid"] == before["x-0-a"]
            };
            state.of(EVENTS).into_iter().any(|event| lost(event))
        })
        .await;
}

async fn a_group_that_was_up_briefly_is_terminated_once(fixture: Fixture, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = format!("test.grove.io/{node}");
    fixture.node(&node, &place, 1).await;
    let cliques = [clique("a", 1), placed("b", 1, &place)];
    let one = impatient(set("x", &cliques, &[group("g", &["b"], 1, 1)]));
    fixture.deploy(&namespace, &impatient(set("witness", &[clique("a", 1)], &[])), 1).await;
    until_established(&namespace).await;

    // No status is waited for: only the pods show that the group was up.
    namespace.create(SETS, &one).await;
    let names = ["x-0-a", "x-0-g-0-b"];
    let is_up =
        |state: &State, clique: &str| state.pods_of(clique).values().any(|pod| is_ready(pod));
    namespace.until_is("x is up", |state| names.iter().all(|name| is_up(state, name))).await;
    let (before, mark) = (uids_of_cliques(&namespace), mark(&namespace));
    lose(&fixture, &namespace, &node, &place).await;
    let breached = until_lost(&namespace, GROUPS, "x-0-g").await;
    for name in names {
        until_recreated(&namespace, name, &before[name]).await;
    }
    assert_went_once(&namespace, mark, &names, (breached, DELAY));
    let after = uids_of_cliques(&namespace);
    until_witness_is_terminated(&namespace).await;
    fixture.set_places(&node, &place, 1).await;
    namespace.until_complete(3).await;
    for name in names {
        assert_eq!(uid_of(&namespace, CLIQUES, name), after[name], "{name}");
    }
    let story =
        ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful", "MinAvailableRestored"];
    until_events(&namespace, "x", &story).await;
}

async fn a_minimum_restored_in_time_terminates_nothing(fixture: Fixture, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = format!("test.grove.io/{node}");
    fixture.node(&node, &place, 1).await;
    let named = |name: &str, clique: Value| impatient(set(name, &[clique], &[]));
    let mut starting = clique("a", 1);
    starting["annotations"] = json!({ "simulated.grove.io/never-ready": "yes" });
    namespace.create(SETS, &named("back", placed("a", 1, &place))).await;
    namespace.create(SETS, &named("witness", clique("a", 1))).await;
    namespace.create(SETS, &named("never", placed("a", 1, "test.grove.io/nowhere"))).await;
    namespace.create(SETS, &named("starting", starting)).await;
    for name in ["back", "witness"] {
        namespace.until_field(SETS, name, "/status/availableReplicas", json!(1)).await;
    }
    namespace.until_field(CLIQUES, "starting-0-a", "/status/scheduledReplicas", json!(1)).await;
    until_reached(&namespace, &["back-0-a", "witness-0-a"]).await;
    let before = uids_of_cliques(&namespace);

    lose(&fixture, &namespace, &node, &place).await;
    until_breached(&namespace, "back-0-a").await;
    fixture.set_places(&node, &place, 1).await;
    namespace.until_field(SETS, "back", "/status/availableReplicas", json!(1)).await;
    until_witness_is_terminated(&namespace).await;
    let after = uids_of_cliques(&namespace);
    for name in ["back-0-a", "never-0-a", "starting-0-a"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    let breached = |name: &str| {
        let clique = namespace.object(CLIQUES, name);
        text(&condition(&clique, "MinAvailableBreached")["status"]).to_owned()
    };
    for name in ["never-0-a", "starting-0-a"] {
        namespace
            .until_is("the clique reports that it never had its minimum", |state| {
                let clique = state.get(CLIQUES, name);
                clique.is_some_and(|one| condition(one, "MinAvailableReached")["status"] == "False")
            })
            .await;
    }
    assert_ne!(breached("never-0-a"), "False");
    assert_eq!(breached("starting-0-a"), "False", "pods that start are on their way");
}

async fn flapping_faster_than_the_delay_terminates_nothing(fixture: Fixture, namespace: Namespace) {
    let delay = format!("{FLAPPING_DELAY}s");
    let one = set("x", &[clique("a", 2)], &[]).termination_delay(&delay);
    fixture.deploy(&namespace, &one, 2).await;
    until_established(&namespace).await;
    let (before, mark) = (uids_of_cliques(&namespace), mark(&namespace));
    let clock = Clock::system();
    let pause = Duration::from_millis(700);
    let begin = clock.now();
    let mut flaps = 0;
    while clock.now().since(begin) < Duration::from_secs(FLAPPING_DELAY.unsigned_abs() + 2) {
        set_health(&namespace, "x-0-a", 1, false).await;
        until_breached(&namespace, "x-0-a").await;
        clock.sleep(pause).await;
        set_health(&namespace, "x-0-a", 1, true).await;
        namespace
            .until_is("the minimum is back", |state| {
                let clique = state.get(CLIQUES, "x-0-a").unwrap();
                condition(clique, "MinAvailableBreached")["status"] == "False"
            })
            .await;
        flaps += 1;
    }
    assert!(flaps > 1, "{flaps}");
    assert_eq!(uids_of_cliques(&namespace), before);
    set_health(&namespace, "x-0-a", 1, false).await;
    let breached = until_breached(&namespace, "x-0-a").await;
    until_recreated(&namespace, "x-0-a", &before["x-0-a"]).await;
    namespace.until_complete(2).await;
    assert_went_once(&namespace, mark, &["x-0-a"], (breached, FLAPPING_DELAY));
}

async fn the_delay_follows_the_spec_and_updates_suspend_it(fixture: Fixture, namespace: Namespace) {
    let named = |name: &str| set(name, &[clique("a", 2)], &[]);
    let unset = named("unset").update_strategy("OnDelete");
    for set in [unset, impatient(named("longer")), impatient(named("updated"))] {
        namespace.create(SETS, &set).await;
    }
    fixture.deploy(&namespace, &impatient(named("witness")), 8).await;
    until_established(&namespace).await;
    let (before, mark) = (uids_of_cliques(&namespace), mark(&namespace));
    for name in ["unset-0-a", "longer-0-a", "updated-0-a"] {
        set_health(&namespace, name, 1, false).await;
        until_breached(&namespace, name).await;
    }
    namespace.patch(SETS, "longer", delay(Some("1h"))).await;
    let never = json!({ "simulated.grove.io/never-ready": "yes" });
    let never =
        json!([{ "op": "add", "path": "/spec/template/cliques/0/annotations", "value": never }]);
    namespace.patch(SETS, "updated", never).await;
    namespace
        .until_is("the minimum is not judged", |state| {
            let clique = state.get(CLIQUES, "updated-0-a").unwrap();
            condition(clique, "MinAvailableBreached")["reason"] == "UpdateInProgress"
        })
        .await;
    let refusal = namespace.try_patch(SETS, "unset", delay(Some("0s"))).await.unwrap_err();
    assert!(refusal.contains("terminationDelay must be greater than 0"), "{refusal}");
    let stored = namespace.patch(SETS, "unset", delay(None)).await;
    assert_eq!(stored["spec"]["template"]["terminationDelay"], "4h0m0s");
    // With OnDelete an update ends at once, and the delay continues.
    set_image(&namespace, "unset", "new").await;
    until_witness_is_terminated(&namespace).await;
    let after = uids_of_cliques(&namespace);
    for name in ["unset-0-a", "longer-0-a", "updated-0-a"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    let changed = Clock::system().wall();
    namespace.patch(SETS, "unset", delay(Some("1s"))).await;
    until_recreated(&namespace, "unset-0-a", &before["unset-0-a"]).await;
    let deleted = namespace.look(|state| deleted_since(state, CLIQUES, mark));
    let gone = deleted.iter().find(|one| one["metadata"]["uid"] == before["unset-0-a"]).unwrap();
    let gone: Timestamp = text(&gone["metadata"]["deletionTimestamp"]).parse().unwrap();
    assert!(gone.duration_since(changed).as_secs() < LATE, "{changed} {gone}");
    namespace
        .until_is("it starts with the new template", |state| {
            let pods = state.pods_of("unset-0-a");
            pods.len() == 2
                && pods.values().all(|pod| pod["spec"]["containers"][0]["image"] == "new")
        })
        .await;
}

async fn a_surplus_group_replica_is_terminated_alone(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1)];
    let one = impatient(set("x", &cliques, &[group("g", &["b"], 3, 2)]));
    fixture.deploy(&namespace, &one, 4).await;
    until_established(&namespace).await;
    let before = uids_of_cliques(&namespace);
    let mark = mark(&namespace);
    fail(&namespace, "x-0-g-1-b").await;
    let breached = until_breached(&namespace, "x-0-g-1-b").await;
    until_recreated(&namespace, "x-0-g-1-b", &before["x-0-g-1-b"]).await;
    namespace.until_complete(4).await;
    assert_went_once(&namespace, mark, &["x-0-g-1-b"], (breached, DELAY));
    let story = [
        "MinAvailableBreached",
        "PodCliqueScalingGroupReplicaDeleteSuccessful",
        "MinAvailableRestored",
    ];
    until_events(&namespace, "x", &story).await;
}

/// Uids of what a termination leaves alone.
fn uids_of_the_rest(namespace: &Namespace) -> BTreeMap<String, Value> {
    namespace.look(|state| {
        let kinds = [GROUPS, GANGS, SERVICES].into_iter();
        let all = kinds.flat_map(|kind| state.of(kind));
        all.map(|one| (format!("{} {}", one["kind"], one["metadata"]["name"]), one))
            .map(|(name, one)| (name, one["metadata"]["uid"].clone()))
            .collect()
    })
}

async fn a_breached_group_terminates_its_replica_once(fixture: Fixture, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = format!("test.grove.io/{node}");
    fixture.node(&node, &place, 6).await;
    let cliques = [clique("a", 1), placed("b", 1, &place), clique("c", 1)];
    let groups = [group("g", &["b"], 3, 2), group("h", &["c"], 1, 1)];
    namespace.create(SETS, &impatient(set("x", &cliques, &groups)).replicas(2)).await;
    fixture.deploy(&namespace, &impatient(set("witness", &[clique("a", 1)], &[])), 11).await;
    until_established(&namespace).await;
    let (before, groups) = (uids_of_cliques(&namespace), scheduler_groups(&namespace));
    let rest = uids_of_the_rest(&namespace);
    let mark = mark(&namespace);
    fixture.set_places(&node, &place, 4).await;
    for clique in ["x-0-g-1-b", "x-0-g-2-b"] {
        for pod in namespace.look(|state| state.pods_of(clique)).values() {
            namespace.delete(PODS, text(&pod["metadata"]["name"])).await;
        }
    }
    let breached = until_breached(&namespace, "x-0-g-1-b").await;
    let replica = ["x-0-a", "x-0-g-0-b", "x-0-g-1-b", "x-0-g-2-b", "x-0-h-0-c"];
    for name in replica {
        until_recreated(&namespace, name, &before[name]).await;
    }
    assert_went_once(&namespace, mark, &replica, (breached, DELAY));
    // It stays below its minimum and is not terminated again.
    let after = uids_of_cliques(&namespace);
    until_witness_is_terminated(&namespace).await;
    let flagged = |one: &Value| {
        condition(one, "GangTerminationInProgress")["reason"] == "GangTerminationActive"
    };
    assert!(flagged(&namespace.object(GROUPS, "x-0-g")));
    fixture.set_places(&node, &place, 6).await;
    namespace.until_complete(11).await;
    for name in replica {
        assert_eq!(uid_of(&namespace, CLIQUES, name), after[name], "{name}");
    }
    namespace.look(|state| {
        for name in ["x-0-g", "x-0-h"] {
            let is_flagged = |one: &Value| one["metadata"]["name"] == name && flagged(one);
            let mut since = state.history[mark..].iter();
            assert!(
                since.any(|(kind, one)| *kind == GROUPS && is_flagged(one)),
                "{name} reported it"
            );
            assert!(!flagged(state.get(GROUPS, name).unwrap()), "until it recovered");
        }
        let mut gangs = state.history[mark..].iter().filter(|(kind, _)| *kind == GANGS);
        assert!(gangs.all(|(_, gang)| is_initialized(gang)), "complete once is complete");
        assert_groups_stayed(state, mark, &groups);
    });
    assert_eq!(uids_of_the_rest(&namespace), rest);
    let story =
        ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful", "MinAvailableRestored"];
    until_events(&namespace, "x", &story).await;
}

// === without an operator ===

/// Sets that lose their minimum later, after all rows.
pub(crate) async fn prepare_for_later(fixture: &Fixture) -> Namespace {
    let namespace = fixture.mirror.new_namespace("later").await;
    let late = impatient(set("late", &[clique("a", 1), clique("b", 1)], &[]));
    namespace.create(SETS, &late).await;
    namespace.create(SETS, &impatient(set("healed", &[clique("a", 1)], &[]))).await;
    namespace
}

/// The deadline passes while the operator is down: it is met once, as soon as the next one runs, and only
/// by what did not recover meanwhile.
pub(crate) async fn over_the_deadline(
    fixture: &Fixture,
    namespace: Namespace,
    operator: Operator,
    setup: Setup<'_>,
) -> Operator {
    let cluster: &TestCluster = &fixture.cluster;
    namespace.until_complete(3).await;
    until_established(&namespace).await;
    let (before, mark) = (uids_of_cliques(&namespace), mark(&namespace));
    fail(&namespace, "late-0-a").await;
    fail(&namespace, "healed-0-a").await;
    let breached = until_breached(&namespace, "late-0-a").await;
    let breached = breached.max(until_breached(&namespace, "healed-0-a").await);
    // An event that was not emitted before a crash is not emitted after it.
    until_events(&namespace, "late", &["MinAvailableBreached"]).await;
    operator.crash().await;
    set_health(&namespace, "healed-0-a", 1, true).await;
    until_after(breached, DELAY).await;
    assert_eq!(uids_of_cliques(&namespace), before, "no operator runs");
    let operator = cluster.operator(Setup { install_crds: false, ..setup }).await;
    let ready = operator.env.clock.wall();
    for name in ["late-0-a", "late-0-b"] {
        until_recreated(&namespace, name, &before[name]).await;
    }
    namespace.until_complete(3).await;
    cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(uid_of(&namespace, CLIQUES, "healed-0-a"), before["healed-0-a"]);
    let deleted = namespace.look(|state| deleted_since(state, CLIQUES, mark));
    assert_eq!(deleted.len(), 2, "each once");
    for clique in deleted {
        let gone: Timestamp = text(&clique["metadata"]["deletionTimestamp"]).parse().unwrap();
        assert!(gone.duration_since(ready).as_secs() < LATE, "{gone} {ready}");
    }
    let story =
        ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful", "MinAvailableRestored"];
    until_events(&namespace, "late", &story).await;
    operator
}
