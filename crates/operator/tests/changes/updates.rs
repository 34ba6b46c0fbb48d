//! How a new template reaches what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    assert_groups_stayed, assert_no_breach_during_update, deleted_since, fail, fewest_ready,
    is_ready, mark, placed, pods_since, scheduler_groups, set_health, set_image, uid_of,
    uids_of_cliques, until_breached, until_events, until_updated,
};
use grove_testbed::fixture::{Fixture, scale};
use grove_testbed::kinds::{CLIQUES, GROUPS, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, name_of, text};
use grove_testbed::rules;
use grove_testbed::sets::{Manifest as _, clique, group, new_image, set, small};

rules! {
    replicas_are_updated_one_by_one_above_the_floor,
    the_least_available_replica_is_updated_first,
    a_scaling_group_is_updated_replica_by_replica,
    a_broken_template_stops_until_it_is_rolled_back,
    an_update_leads_to_the_newest_template,
    replicas_can_be_scaled_during_an_update,
    a_replica_created_later_is_not_updated_again,
    with_on_delete_only_recreated_pods_are_updated,
    the_strategy_can_be_switched_during_an_update,
    an_update_can_be_paused,
    a_set_can_be_deleted_during_its_update,
    a_change_outside_the_templates_replaces_no_pod,
    an_update_is_reported_and_spares_other_cliques,
}

/// A set beside the others that is made and updated now: whatever had to follow from what happened before
/// has followed by then.
async fn until_witness_is_updated(fixture: &Fixture, beside: &Namespace) {
    let witness = fixture.mirror.new_namespace(&format!("{}-witness", beside.name)).await;
    fixture.deploy(&witness, &set("x", &[clique("a", 1)], &[]), 1).await;
    set_image(&witness, "x", "new").await;
    until_updated(&witness, "x", "new", 1).await;
}

fn replica(object: &Value) -> &str {
    text(&object["metadata"]["labels"]["grove.io/podcliqueset-replica-index"])
}

async fn replicas_are_updated_one_by_one_above_the_floor(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 2), clique("b", 2).min_available(1), clique("c", 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &[]).replicas(4), 20).await;
    let (groups, cliques) = (scheduler_groups(&namespace), uids_of_cliques(&namespace));
    let mark = mark(&namespace);

    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 20).await;

    namespace.look(|state| {
        let deleted = deleted_since(state, PODS, mark);
        assert_eq!(deleted.len(), 20, "every pod once");
        let mut order: Vec<&str> = deleted.iter().map(|pod| replica(pod)).collect();
        order.dedup();
        assert_eq!(order, ["0", "1", "2", "3"]);
        // In one replica at a time, each of the three cliques misses one pod.
        let fewest = fewest_ready(state, mark, |_| true);
        assert!(fewest >= 20 - 3, "{fewest}");
        for index in 0..4 {
            for (name, floor) in [("a", 1), ("b", 1), ("c", 0)] {
                let name = format!("x-{index}-{name}");
                let of_clique =
                    |pod: &Value| pod["metadata"]["labels"]["grove.io/podclique"] == *name;
                let fewest = fewest_ready(state, mark, of_clique);
                assert!(fewest >= floor, "{name}: {fewest}");
            }
        }
        assert_each_is_replaced_before_the_next_goes(&pods_since(state, mark));
        assert_oldest_first(&deleted);
        assert_no_breach_during_update(state, CLIQUES, mark);
        assert_groups_stayed(state, mark, &groups);
    });
    assert_eq!(uids_of_cliques(&namespace), cliques, "cliques stay");
    assert_eq!(scheduler_groups(&namespace), groups, "and so do gangs");
}

/// When an old pod of a clique is deleted, as many new ones are ready as were deleted before it.
fn assert_each_is_replaced_before_the_next_goes(versions: &[Arc<Value>]) {
    let mut gone = BTreeMap::<String, BTreeSet<String>>::new();
    let mut renewed = BTreeMap::<String, BTreeSet<String>>::new();
    for pod in versions {
        let clique = text(&pod["metadata"]["labels"]["grove.io/podclique"]).to_owned();
        let is_new = pod["spec"]["containers"][0]["image"] == "new";
        let gone = gone.entry(clique.clone()).or_default();
        let renewed = renewed.entry(clique.clone()).or_default();
        if is_new && is_ready(pod) {
            renewed.insert(name_of(pod));
        }
        let goes = !is_new && !pod["metadata"]["deletionTimestamp"].is_null();
        if goes && !gone.contains(&name_of(pod)) {
            assert_eq!(renewed.len(), gone.len(), "{clique}: {} goes", name_of(pod));
            gone.insert(name_of(pod));
        }
    }
}

/// Within a clique, pods go in the order in which they were created.
fn assert_oldest_first(deleted: &[Arc<Value>]) {
    let mut last = BTreeMap::<String, (String, String)>::new();
    for pod in deleted {
        let clique = text(&pod["metadata"]["labels"]["grove.io/podclique"]).to_owned();
        let age = (text(&pod["metadata"]["creationTimestamp"]).to_owned(), name_of(pod));
        let before = last.insert(clique.clone(), age.clone());
        assert!(before.is_none_or(|before| before < age), "{clique}: {age:?}");
    }
}

async fn the_least_available_replica_is_updated_first(fixture: Fixture, namespace: Namespace) {
    let place = format!("test.grove.io/{}", namespace.name);
    fixture.node(&namespace.name, &place, 6).await;
    let one = set("x", &[placed("a", 2, &place)], &[]).replicas(3);
    fixture.deploy(&namespace, &one, 6).await;
    scale(&namespace, SETS, "x", 4).await;
    namespace.until_field(CLIQUES, "x-3-a", "/status/replicas", json!(2)).await;
    set_health(&namespace, "x-2-a", 1, false).await;
    until_breached(&namespace, "x-2-a").await;
    let failed = namespace.look(|state| {
        let pods = state.pods_of("x-2-a");
        name_of(pods.values().find(|pod| !is_ready(pod)).unwrap())
    });
    let mark = mark(&namespace);
    let mut patch = new_image(&namespace.object(SETS, "x"), None, "new");
    // The new template needs no places, so that all of it can run.
    let clique = &mut patch["spec"]["template"]["cliques"][0];
    clique["spec"]["podSpec"]["containers"][0]["resources"] = json!({});
    namespace.patch(SETS, "x", patch).await;
    until_updated(&namespace, "x", "new", 8).await;
    namespace.look(|state| {
        let sets = state.history[mark..].iter().filter(|(kind, _)| *kind == SETS);
        let turn = |set: &Value| {
            let current = &set["status"]["updateProgress"]["currentlyUpdating"][0];
            current["replicaIndex"].as_i64()
        };
        let mut turns: Vec<i64> = sets.filter_map(|(_, set)| turn(set)).collect();
        turns.dedup();
        assert_eq!(turns, [3, 2, 0, 1]);
        let deleted = deleted_since(state, PODS, mark);
        let of_second = deleted.iter().find(|pod| replica(pod) == "2").unwrap();
        assert_eq!(name_of(of_second), failed, "a pod that does not serve goes first");
        let serving = pods_since(state, mark).into_iter().filter(|pod| replica(pod) != "3");
        assert_each_is_replaced_before_the_next_goes(&serving.collect::<Vec<_>>());
    });
}

/// Replicas of groups that went since a moment, each as often as it had cliques.
fn group_replicas_gone(state: &State, mark: usize) -> Vec<String> {
    let label = "grove.io/podcliquescalinggroup-replica-index";
    let deleted = deleted_since(state, CLIQUES, mark);
    deleted.iter().map(|one| text(&one["metadata"]["labels"][label]).to_owned()).collect()
}

async fn a_scaling_group_is_updated_replica_by_replica(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("router", 1), clique("leader", 1), clique("worker", 1)];
    let one = set("x", &cliques, &[group("decode", &["leader", "worker"], 3, 1)]);
    fixture.deploy(&namespace, &one, 7).await;
    let (gangs, router) = (scheduler_groups(&namespace), uid_of(&namespace, CLIQUES, "x-0-router"));
    fail(&namespace, "x-0-decode-2-worker").await;
    until_breached(&namespace, "x-0-decode-2-worker").await;
    let first = mark(&namespace);

    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 7).await;
    namespace.look(|state| {
        // The useless one is deleted at once, together with the first useful one.
        let mut order = group_replicas_gone(state, first);
        order[..4].sort_unstable();
        assert_eq!(order, ["0", "0", "2", "2", "1", "1"], "each as a whole");
        let progress = &state.get(GROUPS, "x-0-decode").unwrap()["status"]["updateProgress"];
        assert_eq!(progress["updatedPodCliquesCount"], 6);
        assert_eq!(progress["totalPodCliquesCount"], 6);
        let of_group =
            |pod: &Value| !pod["metadata"]["labels"]["grove.io/podcliquescalinggroup"].is_null();
        let fewest = fewest_ready(state, first, of_group);
        assert!(fewest >= 2, "a replica serves at any time: {fewest}");
        assert_no_breach_during_update(state, GROUPS, first);
    });

    let second = mark(&namespace);
    let annotate = |annotations: Value| {
        json!([{ "op": "add", "path": "/spec/template/cliques/2/annotations",
            "value": annotations }])
    };
    let never = json!({ "simulated.grove.io/never-ready": "yes" });
    namespace.patch(SETS, "x", annotate(never)).await;
    namespace
        .until_is("a replica of the group waits", |state| {
            let worker = state.get(CLIQUES, "x-0-decode-0-worker");
            worker.is_some_and(|worker| worker["status"]["scheduledReplicas"] == 1)
                && !group_replicas_gone(state, second).is_empty()
        })
        .await;
    until_witness_is_updated(&fixture, &namespace).await;
    assert_eq!(namespace.look(|state| group_replicas_gone(state, second)), ["0", "0"]);
    namespace.patch(SETS, "x", annotate(json!({}))).await;
    until_updated(&namespace, "x", "new", 7).await;
    namespace.look(|state| {
        assert_eq!(group_replicas_gone(state, second), ["0"; 4], "what has the template stays");
        assert_groups_stayed(state, first, &gangs);
    });
    assert_eq!(uid_of(&namespace, CLIQUES, "x-0-router"), router);
    assert_eq!(scheduler_groups(&namespace), gangs);
}

async fn a_broken_template_stops_until_it_is_rolled_back(fixture: Fixture, namespace: Namespace) {
    let one = set("x", &[clique("a", 2).min_available(1)], &[]).replicas(3);
    fixture.deploy(&namespace, &one, 6).await;
    let mark = mark(&namespace);
    let annotate = |value: Value| {
        json!([{ "op": "add", "path": "/spec/template/cliques/0/annotations",
            "value": { "simulated.grove.io/never-ready": value } }])
    };
    namespace.patch(SETS, "x", annotate(json!("yes"))).await;
    let is_new = |pod: &Value| {
        let annotation = &pod["metadata"]["annotations"]["simulated.grove.io/never-ready"];
        !annotation.is_null() && !pod["spec"]["nodeName"].is_null()
    };
    let new = |state: &State| state.of(PODS).iter().any(|pod| is_new(pod));
    namespace.until_is("a pod has the new template", new).await;
    until_witness_is_updated(&fixture, &namespace).await;
    namespace.look(|state| {
        assert_eq!(state.of(PODS).iter().filter(|pod| is_ready(pod)).count(), 5);
        assert_eq!(deleted_since(state, PODS, mark).len(), 1);
        let status = &state.get(SETS, "x").unwrap()["status"];
        assert_eq!(status["updateProgress"]["currentlyUpdating"][0]["replicaIndex"], 0);
        assert_eq!(status["availableReplicas"], 3);
    });
    let back = json!([{ "op": "remove", "path": "/spec/template/cliques/0/annotations" }]);
    namespace.patch(SETS, "x", back).await;
    until_updated(&namespace, "x", "busybox", 6).await;
    assert_eq!(namespace.look(|state| deleted_since(state, PODS, mark).len()), 2);
}

async fn an_update_leads_to_the_newest_template(fixture: Fixture, namespace: Namespace) {
    let one = set("x", &[clique("a", 2).min_available(1)], &[]).replicas(3);
    fixture.deploy(&namespace, &one, 6).await;
    set_image(&namespace, "x", "one").await;
    namespace
        .until_field(SETS, "x", "/status/updateProgress/currentlyUpdating/0/replicaIndex", json!(1))
        .await;
    set_image(&namespace, "x", "two").await;
    until_updated(&namespace, "x", "two", 6).await;
    namespace.look(|state| {
        let of = |image: &str| {
            let mut seen = BTreeSet::new();
            for (kind, pod) in &state.history {
                if *kind == PODS && pod["spec"]["containers"][0]["image"] == image {
                    seen.insert(text(&pod["metadata"]["uid"]).to_owned());
                }
            }
            seen.len()
        };
        assert_eq!((of("busybox"), of("two")), (6, 6), "no pod is made twice with one template");
    });
}

async fn replicas_can_be_scaled_during_an_update(fixture: Fixture, namespace: Namespace) {
    let one = set("x", &[clique("a", 2).min_available(1)], &[]).replicas(3);
    fixture.deploy(&namespace, &one, 6).await;
    set_image(&namespace, "x", "new").await;
    scale(&namespace, SETS, "x", 5).await;
    until_updated(&namespace, "x", "new", 10).await;
    set_image(&namespace, "x", "newer").await;
    scale(&namespace, SETS, "x", 2).await;
    scale(&namespace, CLIQUES, "x-0-a", 3).await;
    until_updated(&namespace, "x", "newer", 5).await;
}

async fn a_replica_created_later_is_not_updated_again(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 5).await;
    let mark = mark(&namespace);
    scale(&namespace, SETS, "x", 3).await;
    scale(&namespace, GROUPS, "x-0-decode", 3).await;
    until_updated(&namespace, "x", "new", 17).await;
    until_witness_is_updated(&fixture, &namespace).await;
    namespace.look(|state| {
        assert_eq!(deleted_since(state, PODS, mark).len(), 0);
        assert_eq!(deleted_since(state, CLIQUES, mark).len(), 0);
    });
}

async fn with_on_delete_only_recreated_pods_are_updated(fixture: Fixture, namespace: Namespace) {
    let one = small("x").update_strategy("OnDelete");
    fixture.deploy(&namespace, &one, 5).await;
    let ended = |kind| {
        let ended = |one: &Value| !one["status"]["updateProgress"]["updateEndedAt"].is_null();
        namespace.look(|state| state.of(kind).into_iter().all(|one| ended(one)))
    };
    assert!(ended(CLIQUES) && ended(GROUPS) && !ended(SETS), "parts say so from the beginning");
    let cliques = uids_of_cliques(&namespace);
    let hash = namespace.object(CLIQUES, "x-0-router")["status"]["currentPodTemplateHash"].clone();
    set_image(&namespace, "x", "new").await;
    let image = "/spec/podSpec/containers/0/image";
    for name in cliques.keys() {
        namespace.until_field(CLIQUES, name, image, json!("new")).await;
    }
    until_witness_is_updated(&fixture, &namespace).await;
    namespace.until_field(SETS, "x", "/status/updatedReplicas", json!(0)).await;
    namespace.look(|state| {
        let status = &state.get(SETS, "x").unwrap()["status"];
        assert!(!status["updateProgress"]["updateEndedAt"].is_null(), "{status}");
        let router = &state.get(CLIQUES, "x-0-router").unwrap()["status"];
        assert_eq!(router["currentPodTemplateHash"], hash, "no pod has the new one yet");
        assert!(state.of(PODS).iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()));
        assert!(
            state.of(PODS).iter().all(|pod| pod["spec"]["containers"][0]["image"] == "busybox")
        );
    });
    for pod in namespace.names(PODS) {
        namespace.delete(PODS, &pod).await;
    }
    until_updated(&namespace, "x", "new", 5).await;
    assert_eq!(uids_of_cliques(&namespace), cliques);
}

async fn the_strategy_can_be_switched_during_an_update(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x").replicas(2), 10).await;
    let strategy = |name: &str| json!({ "spec": { "updateStrategy": { "type": name } } });
    let begin = mark(&namespace);
    set_image(&namespace, "x", "new").await;
    let goes = |state: &State| !deleted_since(state, PODS, begin).is_empty();
    namespace.until_is("the update takes its first pod", goes).await;
    namespace.patch(SETS, "x", strategy("OnDelete")).await;
    namespace
        .until_is("the update is over everywhere", |state| {
            let status = |one: &Value| one["status"].clone();
            let set = status(state.get(SETS, "x").unwrap());
            let over = |progress: &Value| !progress["updateEndedAt"].is_null();
            let parts = state.of(CLIQUES).into_iter().chain(state.of(GROUPS));
            let mut parts = parts.map(|one| status(one)["updateProgress"].clone());
            let hash = &set["currentGenerationHash"];
            over(&set["updateProgress"])
                && parts.all(|part| over(&part) && part["podCliqueSetGenerationHash"] == *hash)
        })
        .await;
    let stopped = mark(&namespace);
    namespace.patch(SETS, "x", strategy("RollingRecreate")).await;
    until_witness_is_updated(&fixture, &namespace).await;
    namespace.look(|state| {
        // The second replica had no turn.
        let old = |pod: &Value| pod["spec"]["containers"][0]["image"] == "busybox";
        let pods = state.of(PODS);
        assert_eq!(pods.iter().filter(|pod| old(pod) && replica(pod) == "1").count(), 5);
        assert_eq!(deleted_since(state, PODS, stopped).len(), 0, "until there is another template");
        assert_eq!(deleted_since(state, CLIQUES, stopped).len(), 0);
    });
    set_image(&namespace, "x", "newer").await;
    until_updated(&namespace, "x", "newer", 10).await;
}

async fn an_update_can_be_paused(fixture: Fixture, namespace: Namespace) {
    let one = set("x", &[clique("a", 2).min_available(1)], &[]).replicas(2);
    fixture.deploy(&namespace, &one, 4).await;
    let pause = |value: Value| json!({ "metadata": { "annotations": { "grove.io/rollout-paused": value } } });
    let mark = mark(&namespace);
    namespace.patch(SETS, "x", pause(json!("true"))).await;
    set_image(&namespace, "x", "new").await;
    until_witness_is_updated(&fixture, &namespace).await;
    assert_eq!(namespace.look(|state| deleted_since(state, PODS, mark).len()), 0);
    let stored = namespace.object(CLIQUES, "x-0-a");
    assert_eq!(stored["spec"]["podSpec"]["containers"][0]["image"], "busybox");
    namespace.patch(SETS, "x", pause(Value::Null)).await;
    until_updated(&namespace, "x", "new", 4).await;
}

async fn a_set_can_be_deleted_during_its_update(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x").replicas(2), 10).await;
    set_image(&namespace, "x", "new").await;
    let started = "/status/updateProgress/currentlyUpdating/0/replicaIndex";
    namespace.until_field(SETS, "x", started, json!(0)).await;
    namespace.delete(SETS, "x").await;
    namespace.until_is("nothing is left", State::is_empty).await;
}

async fn a_change_outside_the_templates_replaces_no_pod(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 2).min_available(1)];
    let mut one = set("x", &cliques, &[]);
    one["spec"]["template"]["cliques"][1]["labels"] = json!({ "role": "other" });
    fixture.deploy(&namespace, &one, 3).await;
    let hash = || namespace.object(SETS, "x")["status"]["currentGenerationHash"].clone();
    let (before, mark) = (hash(), mark(&namespace));
    let patch = json!({
        "metadata": { "labels": { "team": "b" } },
        "spec": { "template": { "terminationDelay": "1h0m0s" } },
    });
    namespace.patch(SETS, "x", patch).await;
    namespace.until_complete(3).await;
    assert_eq!(hash(), before);
    // The order is in the hash of the set, and in that of no clique.
    let mut cliques = namespace.object(SETS, "x")["spec"]["template"]["cliques"].clone();
    cliques.as_array_mut().unwrap().reverse();
    let patch = json!({ "spec": { "template": { "cliques": cliques } } });
    namespace.patch(SETS, "x", patch).await;
    until_updated(&namespace, "x", "busybox", 3).await;
    assert_ne!(hash(), before);
    namespace.look(|state| {
        assert_eq!(deleted_since(state, PODS, mark).len(), 0);
        assert_eq!(deleted_since(state, CLIQUES, mark).len(), 0);
    });
}

async fn an_update_is_reported_and_spares_other_cliques(fixture: Fixture, namespace: Namespace) {
    let one = set("x", &[clique("a", 1), clique("b", 1)], &[]).replicas(2);
    fixture.deploy(&namespace, &one, 4).await;
    let progress = || namespace.object(SETS, "x")["status"]["updateProgress"].clone();
    assert_eq!(progress(), Value::Null, "the first template is no update");
    let mark = mark(&namespace);
    let patch = new_image(&namespace.object(SETS, "x"), Some("b"), "new");
    namespace.patch(SETS, "x", patch).await;
    namespace
        .until_is("the update is over", |state| {
            let progress = &state.get(SETS, "x").unwrap()["status"]["updateProgress"];
            state.is_complete() && !progress["updateEndedAt"].is_null()
        })
        .await;
    let deleted = namespace.look(|state| deleted_since(state, PODS, mark));
    let cliques: Vec<&str> =
        deleted.iter().map(|pod| text(&pod["metadata"]["labels"]["grove.io/podclique"])).collect();
    assert_eq!(cliques, ["x-0-b", "x-1-b"], "the others have their template already");
    until_events(&namespace, "x", &["UpdateStarted", "ReplicaUpdateStarted", "UpdateEnded"]).await;
}
