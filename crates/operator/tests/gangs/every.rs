//! What holds wherever the scheduler knows gangs.

use serde_json::{Value, json};

use super::{Room, bound, ever_bound, groups_of, is_refused, uid, until_bound, until_refused};
use grove_testbed::fixture::{Fixture, pod, release, scale};
use grove_testbed::kinds::{CLIQUES, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, condition, name_of, text};
use grove_testbed::rules;
use grove_testbed::sets::{Manifest as _, clique, group, new_image, set};

rules! {
    a_gang_is_placed_whole_and_scaled_gangs_apart,
    five_of_ten_gangs_fit_and_exactly_five_are_placed,
    minima_are_placed_before_surplus_pods,
    a_replaced_waiting_pod_delays_no_other,
    a_recreated_gang_waits_for_its_last_former_pod,
}

async fn a_gang_is_placed_whole_and_scaled_gangs_apart(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 3).await;
    let cliques =
        [room.clique("router", 1, 1), room.clique("leader", 1, 1), room.clique("worker", 3, 2)];
    let groups = [group("decode", &["leader", "worker"], 2, 1)];
    namespace.create(SETS, &set("x", &cliques, &groups)).await;
    let base = ["x-0-router", "x-0-decode-0-leader", "x-0-decode-0-worker"];
    let scaled = ["x-0-decode-1-leader", "x-0-decode-1-worker"];
    let refused = |members: [&'static str; 2], flat: &'static str| {
        let namespace = namespace.clone();
        async move {
            let what = format!("{flat} cannot be placed");
            namespace
                .until_is(&what, |state| {
                    is_refused(state, flat) || members.iter().all(|one| is_refused(state, one))
                })
                .await;
        }
    };
    refused([base[0], base[1]], "x-0").await;
    assert_eq!(namespace.look(ever_bound), 0, "three of four places are not enough");

    room.resize(&namespace, 4).await;
    until_bound(&namespace, &[(base[0], 1), (base[1], 1), (base[2], 2)]).await;
    refused(scaled, "x-0-decode-0").await;
    let placed = namespace.look(|state| scaled.map(|clique| bound(state, clique)));
    assert_eq!(placed, [0, 0], "a gang of its own");
    let placed = namespace.look(|state| bound(state, base[2]));
    assert_eq!(placed, 2, "the third is optional");

    room.resize(&namespace, 8).await;
    // Minima take seven of the places; the scheduler gives the last one to any surplus pod.
    until_bound(&namespace, &[(scaled[0], 1)]).await;
    namespace
        .until_is("the minima and one optional worker are placed", |state| {
            let workers = [base[2], scaled[1]].map(|clique| bound(state, clique));
            workers == [3, 2] || workers == [2, 3]
        })
        .await;
    assert_eq!(namespace.look(|state| first_bound(state, &base)), [1, 1, 2]);
    let limits = condition(&namespace.object(SETS, "x"), "SchedulerLimits").clone();
    assert_eq!(limits, Value::Null);
}

/// How many pods of each clique are among the first four that were placed.
fn first_bound(state: &grove_testbed::mirror::State, cliques: &[&str; 3]) -> [usize; 3] {
    let mut seen = std::collections::BTreeSet::new();
    let mut counts = [0; 3];
    for (_, pod) in state.history.iter().filter(|(kind, _)| *kind == PODS) {
        let owner = text(&pod["metadata"]["ownerReferences"][0]["name"]);
        let Some(index) = cliques.iter().position(|clique| *clique == owner) else { continue };
        if pod["spec"]["nodeName"].is_string() && seen.insert(super::uid(pod).to_owned()) {
            counts[index] += 1;
        }
        if seen.len() == 4 {
            break;
        }
    }
    counts
}

async fn five_of_ten_gangs_fit_and_exactly_five_are_placed(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 10).await;
    let set = set("x", &[room.clique("a", 1, 1), room.clique("b", 1, 1)], &[]);
    namespace.create(SETS, &set.replicas(10)).await;
    let replica = |index: usize| [format!("x-{index}-a"), format!("x-{index}-b")];
    let placed = |state: &grove_testbed::mirror::State, number: usize| {
        let has = |index: &usize| replica(*index).iter().all(|one| bound(state, one) == number);
        (0..10).filter(has).count()
    };
    let refused = |state: &grove_testbed::mirror::State| {
        let is = |index: &usize| {
            is_refused(state, &format!("x-{index}"))
                || replica(*index).iter().all(|group| is_refused(state, group))
        };
        (0..10).filter(is).count()
    };
    namespace
        .until_is("five gangs are placed and five cannot be", |state| {
            placed(state, 1) == 5 && refused(state) >= 5
        })
        .await;
    assert_eq!(namespace.look(|state| placed(state, 0)), 5, "the others have nothing at all");
}

async fn minima_are_placed_before_surplus_pods(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 2).await;
    // Whoever is placed first could take all the room.
    let cliques = [room.clique("a", 3, 1), room.clique("b", 3, 1)];
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    until_bound(&namespace, &[("x-0-a", 1), ("x-0-b", 1)]).await;
    namespace
        .until_is("all pods are there", |state| {
            ["x-0-a", "x-0-b"].iter().all(|clique| state.pods_of(clique).len() == 3)
        })
        .await;
    room.resize(&namespace, 6).await;
    namespace.until_complete(6).await;

    // The pods that count for the gang are the last to go.
    scale(&namespace, CLIQUES, "x-0-a", 1).await;
    namespace.until_complete(4).await;
    let left = namespace.look(|state| state.pods_of("x-0-a"));
    if groups_of(&namespace) == ["x-0"] {
        assert_eq!(left.keys().next().unwrap(), "x-0-a-0");
    }
}

async fn a_replaced_waiting_pod_delays_no_other(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 2).await;
    let cliques = [room.clique("a", 1, 1), room.clique("b", 2, 2)];
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    namespace.until_is("the pods are there", |state| state.pods_of("x-0-b").len() == 2).await;
    let groups = groups_of(&namespace);
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    until_refused(&namespace, &groups).await;
    let (host, pod) = namespace.look(|state| state.pods_of("x-0-b")).pop_first().unwrap();
    namespace.delete(PODS, text(&pod["metadata"]["name"])).await;
    namespace
        .until_is("it is replaced and let go", |state| {
            let pods = state.pods_of("x-0-b");
            pods.get(&host).is_some_and(|new| {
                super::uid(new) != super::uid(&pod) && new["spec"]["schedulingGates"].is_null()
            })
        })
        .await;
    assert_eq!(namespace.look(ever_bound), 0);
    room.resize(&namespace, 3).await;
    namespace.until_complete(3).await;
}

/// An update recreates the gang of the second group replica, and one of its pods stays. The
/// scheduler would count that pod, and place new ones before all of them are there.
async fn a_recreated_gang_waits_for_its_last_former_pod(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("router", 1), clique("leader", 1), clique("worker", 2)];
    let set = set("x", &cliques, &[group("g", &["leader", "worker"], 2, 1)]);
    fixture.deploy(&namespace, &set, 7).await;
    let members = ["x-0-g-1-leader", "x-0-g-1-worker"];
    let former = pod(&namespace, members[1], 0);
    let (former, name) = (uid(&former).to_owned(), name_of(&former));
    let held = json!({ "metadata": { "finalizers": ["somebody.else/waits"] } });
    namespace.patch(PODS, &name, held).await;
    let image = |state: &State, clique: &str| {
        let clique = state.get(CLIQUES, clique);
        clique.map(|clique| clique["spec"]["podSpec"]["containers"][0]["image"].clone())
    };

    namespace.patch(SETS, "x", new_image(&namespace.object(SETS, "x"), None, "busybox:2")).await;
    let new = |state: &State| -> Vec<Value> {
        let pods = members.iter().flat_map(|member| state.pods_of(member).into_values());
        let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.map(|pod| Value::clone(&pod)).collect()
    };
    namespace
        .until_is("the gang is recreated", |state| {
            let is_new = |one: &&str| image(state, one) == Some(json!("busybox:2"));
            members.iter().all(is_new) && new(state).len() == 3
        })
        .await;
    // What comes later is placed, so these could have been.
    namespace.create(SETS, &with_name(&set, "witness")).await;
    namespace
        .until_is("the witness is placed", |state| bound(state, "witness-0-g-1-worker") == 2)
        .await;
    namespace.look(|state| {
        assert!(state.of(PODS).iter().any(|pod| uid(pod) == former), "it is still going");
        for pod in new(state) {
            assert!(pod["spec"]["nodeName"].is_null(), "{} was placed", name_of(&pod));
        }
    });

    release(&namespace, &name).await;
    namespace
        .until_is("all are placed and updated", |state| {
            let status = &state.get(SETS, "x").unwrap()["status"];
            members.iter().map(|one| bound(state, one)).sum::<usize>() == 3
                && status["updatedReplicas"] == 1
        })
        .await;
}

fn with_name(set: &Value, name: &str) -> Value {
    let mut set = set.clone();
    set["metadata"]["name"] = json!(name);
    set
}
