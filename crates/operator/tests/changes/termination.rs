//! What happens when the minimum is lost.

use std::time::Duration;

use grove_runtime::clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    assert_groups_stayed, deleted_since, mark, scheduler_groups, uid_of, uids_of_cliques,
    until_told,
};
use crate::support::bench::{Bench, rules};
use crate::support::kinds::{CLIQUES, GROUPS, PODS, SETS};
use crate::support::mirror::{Namespace, condition, text};
use crate::support::sets::{clique, group, set};

rules! {
    "what lost its minimum starts again after the delay, and once": lost,
    "what has its minimum back in time, and what never had it, stays": recovered,
    "a replica of a group goes alone while the group keeps its minimum": group_replica,
    "a group below its minimum takes its replica along, once": whole_replica,
}

const DELAY: i64 = 4;

/// A clique of pods that need places of a kind.
fn placed(name: &str, replicas: i32, place: &str) -> Value {
    let mut clique = clique(name, replicas);
    let containers = &mut clique["spec"]["podSpec"]["containers"];
    containers[0]["resources"] = json!({ "limits": { place: "1" }, "requests": { place: "1" } });
    clique
}

fn impatient(mut set: Value) -> Value {
    set["spec"]["template"]["terminationDelay"] = json!(format!("{DELAY}s"));
    set
}

/// Until conditions that change now are not taken for first values.
async fn until_established(namespace: &Namespace) {
    let created = namespace.look(|state| {
        let all = state.of(CLIQUES).into_iter().chain(state.of(GROUPS));
        let created = all.map(|one| text(&one["metadata"]["creationTimestamp"]).to_owned());
        created.max().unwrap()
    });
    let created: Timestamp = created.parse().unwrap();
    let clock = Clock::system();
    let age = clock.wall().duration_since(created);
    let left = Duration::from_secs(7).saturating_sub(Duration::try_from(age).unwrap_or_default());
    clock.sleep(left).await;
}

/// Takes the places of a node away, and the pods that had them.
async fn lose(bench: &Bench, namespace: &Namespace, node: &str, place: &str, left: u32) {
    bench.set_places(node, place, left).await;
    let pods = namespace.look(|state| {
        let on_it = state.of(PODS).into_iter().filter(|pod| pod["spec"]["nodeName"] == node);
        on_it.map(|pod| text(&pod["metadata"]["name"]).to_owned()).collect::<Vec<_>>()
    });
    for pod in pods.iter().skip(usize::try_from(left).unwrap()) {
        namespace.delete(PODS, pod).await;
    }
}

async fn until_breached(namespace: &Namespace, clique: &str) -> Timestamp {
    namespace
        .until("the clique is below its minimum", |state| {
            let breached = condition(state.get(CLIQUES, clique)?, "MinAvailableBreached");
            let is_breached = breached["status"] == "True";
            is_breached.then(|| text(&breached["lastTransitionTime"]).parse().unwrap())
        })
        .await
}

async fn until_made_anew(namespace: &Namespace, clique: &str, uid: &Value) {
    namespace
        .until_is("the clique is made anew", |state| {
            let made = state.get(CLIQUES, clique);
            made.is_some_and(|made| made["metadata"]["uid"] != *uid)
        })
        .await;
}

async fn lost(bench: Bench, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = format!("test.grove.io/{node}");
    bench.node(&node, &place, 2).await;
    let one = impatient(set("x", &[placed("a", 2, &place), clique("b", 1)], &[]));
    bench.deploy(&namespace, &one, 3).await;
    let (before, groups) = (uids_of_cliques(&namespace), scheduler_groups(&namespace));
    until_established(&namespace).await;
    let mark = mark(&namespace);

    lose(&bench, &namespace, &node, &place, 0).await;
    let breached = until_breached(&namespace, "x-0-a").await;
    for (name, uid) in &before {
        until_made_anew(&namespace, name, uid).await;
    }
    namespace.look(|state| {
        let deleted = deleted_since(state, CLIQUES, mark);
        assert_eq!(deleted.len(), 2, "each once");
        for clique in deleted {
            let gone: Timestamp = text(&clique["metadata"]["deletionTimestamp"]).parse().unwrap();
            let waited = gone.duration_since(breached).as_secs();
            assert!((DELAY - 1..DELAY + 10).contains(&waited), "{waited} s");
        }
    });
    // There is still no place: what was not scheduled again has nothing to lose.
    let after = uids_of_cliques(&namespace);
    let clock = Clock::system();
    clock.sleep(Duration::from_secs(8)).await;
    bench.quiet(&namespace).await;
    assert_eq!(uids_of_cliques(&namespace), after);
    bench.set_places(&node, &place, 2).await;
    namespace.until_complete(3).await;
    assert_eq!(uids_of_cliques(&namespace), after);
    namespace.look(|state| assert_groups_stayed(state, mark, &groups));
    let story = ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful"];
    until_told(&namespace, "x", &story).await;
}

async fn recovered(bench: Bench, namespace: Namespace) {
    let node = namespace.name.clone();
    let place = |number: u32| format!("test.grove.io/{}-{number}", namespace.name);
    for number in 0..2 {
        bench.node(&format!("{node}-{number}"), &place(number), 1).await;
    }
    let named = |name: &str, clique: Value| impatient(set(name, &[clique], &[]));
    namespace.create(SETS, &named("back", placed("a", 1, &place(0)))).await;
    namespace.create(SETS, &named("witness", placed("a", 1, &place(1)))).await;
    namespace.create(SETS, &named("never", placed("a", 1, "test.grove.io/nowhere"))).await;
    for name in ["back", "witness"] {
        namespace.until_field(SETS, name, "/status/availableReplicas", json!(1)).await;
    }
    until_established(&namespace).await;
    let uid = |name: &str| uid_of(&namespace, CLIQUES, &format!("{name}-0-a"));
    let (back, witness, never) = (uid("back"), uid("witness"), uid("never"));

    lose(&bench, &namespace, &format!("{node}-0"), &place(0), 0).await;
    until_breached(&namespace, "back-0-a").await;
    bench.set_places(&format!("{node}-0"), &place(0), 1).await;
    namespace.until_field(SETS, "back", "/status/availableReplicas", json!(1)).await;
    lose(&bench, &namespace, &format!("{node}-1"), &place(1), 0).await;
    until_made_anew(&namespace, "witness-0-a", &witness).await;
    assert_eq!((uid("back"), uid("never")), (back, never));
}

async fn fail(namespace: &Namespace, clique: &str) {
    let pods = namespace.look(|state| state.pods_of(clique));
    for pod in pods.values() {
        let name = text(&pod["metadata"]["name"]);
        let mut conditions = pod["status"]["conditions"].clone();
        for one in conditions.as_array_mut().unwrap() {
            if one["type"] == "Ready" {
                one["status"] = json!("False");
            }
        }
        let terminated = json!({ "exitCode": 1 });
        let containers = json!([{ "name": "c", "ready": false, "started": false, "image": "busybox",
            "imageID": "", "restartCount": 1, "lastState": { "terminated": terminated } }]);
        let status = json!({ "conditions": conditions, "containerStatuses": containers });
        namespace.patch(PODS, &format!("{name}/status"), json!({ "status": status })).await;
    }
}

async fn group_replica(bench: Bench, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1)];
    let one = impatient(set("x", &cliques, &[group("g", &["b"], 3, 2)]));
    bench.deploy(&namespace, &one, 4).await;
    until_established(&namespace).await;
    let before = uids_of_cliques(&namespace);
    let mark = mark(&namespace);
    fail(&namespace, "x-0-g-1-b").await;
    until_made_anew(&namespace, "x-0-g-1-b", &before["x-0-g-1-b"]).await;
    namespace.until_complete(4).await;
    assert_eq!(namespace.look(|state| deleted_since(state, CLIQUES, mark).len()), 1);
}

async fn whole_replica(bench: Bench, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1)];
    let mut one = impatient(set("x", &cliques, &[group("g", &["b"], 3, 2)]));
    one["spec"]["replicas"] = json!(2);
    bench.deploy(&namespace, &one, 8).await;
    until_established(&namespace).await;
    let (before, groups) = (uids_of_cliques(&namespace), scheduler_groups(&namespace));
    let mark = mark(&namespace);
    fail(&namespace, "x-0-g-1-b").await;
    fail(&namespace, "x-0-g-2-b").await;
    for name in ["x-0-a", "x-0-g-0-b", "x-0-g-1-b", "x-0-g-2-b"] {
        until_made_anew(&namespace, name, &before[name]).await;
    }
    namespace.until_complete(8).await;
    namespace.look(|state| {
        assert_eq!(deleted_since(state, CLIQUES, mark).len(), 4, "the other replica stays");
        let flagged = |one: &Value| {
            condition(one, "GangTerminationInProgress")["reason"] == "GangTerminationActive"
        };
        let mut since = state.history[mark..].iter();
        let said = since.any(|(kind, one)| *kind == GROUPS && flagged(one));
        assert!(said, "the group said so");
        assert!(!flagged(state.get(GROUPS, "x-0-g").unwrap()), "until it recovered");
    });
    namespace.look(|state| assert_groups_stayed(state, mark, &groups));
    let story =
        ["MinAvailableBreached", "PodCliqueSetReplicaDeleteSuccessful", "MinAvailableRestored"];
    until_told(&namespace, "x", &story).await;
}
