//! How a new template reaches what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    assert_groups_stayed, deleted_since, fewest_ready, is_ready, mark, pods_since,
    scheduler_groups, set_image, uid_of, uids_of_cliques, until_told, until_updated,
};
use crate::support::bench::{Bench, rules, scale};
use crate::support::kinds::{CLIQUES, GROUPS, PODS, SETS};
use crate::support::mirror::{Namespace, name_of, text};
use crate::support::sets::{clique, clique_with_min, set, small, with_replicas};

rules! {
    "replicas are updated one by one, pod by pod, never below the floor": one_by_one,
    "a scaling group is updated replica by replica": groups,
    "a template that does not work stops the update, and the way back touches no more": broken,
    "another change during an update leads to the newest template": twice,
    "replicas can be added and removed during an update": scaled,
    "a replica that is made after a change is not updated once more": made_later,
    "with OnDelete pods get the new template when somebody deletes them": on_delete,
    "an update can be paused": paused,
    "a set can be deleted during its update": deleted,
    "a change that is not in the hash touches no pod": not_hashed,
    "an update is told from its beginning to its end": told,
}

fn replica(object: &Value) -> &str {
    text(&object["metadata"]["labels"]["grove.io/podcliqueset-replica-index"])
}

async fn one_by_one(bench: Bench, namespace: Namespace) {
    let cliques = [clique("a", 2), clique_with_min("b", 2, 1), clique("c", 1)];
    bench.deploy(&namespace, &with_replicas(set("x", &cliques, &[]), 4), 20).await;
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
        assert_groups_stayed(state, mark, &groups);
    });
    assert_eq!(uids_of_cliques(&namespace), cliques, "cliques stay");
    assert_eq!(scheduler_groups(&namespace), groups, "and so do gangs");
}

/// When an old pod of a clique goes, as many new ones are ready as went before it.
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

async fn groups(bench: Bench, namespace: Namespace) {
    bench.deploy(&namespace, &small("x"), 5).await;
    let (gangs, router) = (scheduler_groups(&namespace), uid_of(&namespace, CLIQUES, "x-0-router"));
    let mark = mark(&namespace);

    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 5).await;

    namespace.look(|state| {
        let deleted = deleted_since(state, CLIQUES, mark);
        let index = |one: &Value| {
            let label = "grove.io/podcliquescalinggroup-replica-index";
            text(&one["metadata"]["labels"][label]).to_owned()
        };
        let order: Vec<String> = deleted.iter().map(|one| index(one)).collect();
        assert_eq!(order, ["0", "0", "1", "1"], "a replica of the group as a whole");
        let progress = &state.get(GROUPS, "x-0-decode").unwrap()["status"]["updateProgress"];
        assert_eq!(progress["updatedPodCliquesCount"], 4);
        assert_eq!(progress["totalPodCliquesCount"], 4);
        assert_groups_stayed(state, mark, &gangs);
    });
    assert_eq!(uid_of(&namespace, CLIQUES, "x-0-router"), router);
    assert_eq!(scheduler_groups(&namespace), gangs);
}

async fn broken(bench: Bench, namespace: Namespace) {
    let one = with_replicas(set("x", &[clique_with_min("a", 2, 1)], &[]), 3);
    bench.deploy(&namespace, &one, 6).await;
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
    let new = |state: &crate::support::mirror::State| state.of(PODS).iter().any(|pod| is_new(pod));
    namespace.until_is("a pod has the new template", new).await;
    bench.quiet(&namespace).await;
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

async fn twice(bench: Bench, namespace: Namespace) {
    let one = with_replicas(set("x", &[clique_with_min("a", 2, 1)], &[]), 3);
    bench.deploy(&namespace, &one, 6).await;
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

async fn scaled(bench: Bench, namespace: Namespace) {
    let one = with_replicas(set("x", &[clique_with_min("a", 2, 1)], &[]), 3);
    bench.deploy(&namespace, &one, 6).await;
    set_image(&namespace, "x", "new").await;
    scale(&namespace, SETS, "x", 5).await;
    until_updated(&namespace, "x", "new", 10).await;
    set_image(&namespace, "x", "newer").await;
    scale(&namespace, SETS, "x", 2).await;
    scale(&namespace, CLIQUES, "x-0-a", 3).await;
    until_updated(&namespace, "x", "newer", 5).await;
}

async fn made_later(bench: Bench, namespace: Namespace) {
    bench.deploy(&namespace, &small("x"), 5).await;
    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 5).await;
    let mark = mark(&namespace);
    scale(&namespace, SETS, "x", 3).await;
    scale(&namespace, GROUPS, "x-0-decode", 3).await;
    until_updated(&namespace, "x", "new", 17).await;
    bench.quiet(&namespace).await;
    namespace.look(|state| {
        assert_eq!(deleted_since(state, PODS, mark).len(), 0);
        assert_eq!(deleted_since(state, CLIQUES, mark).len(), 0);
    });
}

async fn on_delete(bench: Bench, namespace: Namespace) {
    let mut one = small("x");
    one["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    bench.deploy(&namespace, &one, 5).await;
    let cliques = uids_of_cliques(&namespace);
    set_image(&namespace, "x", "new").await;
    let image = "/spec/podSpec/containers/0/image";
    for name in cliques.keys() {
        namespace.until_field(CLIQUES, name, image, json!("new")).await;
    }
    bench.quiet(&namespace).await;
    namespace.look(|state| {
        let status = &state.get(SETS, "x").unwrap()["status"];
        assert!(!status["updateProgress"]["updateEndedAt"].is_null(), "{status}");
        assert_eq!(status["updatedReplicas"], 0);
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

async fn paused(bench: Bench, namespace: Namespace) {
    let one = with_replicas(set("x", &[clique_with_min("a", 2, 1)], &[]), 2);
    bench.deploy(&namespace, &one, 4).await;
    let pause = |value: Value| json!({ "metadata": { "annotations": { "grove.io/rollout-paused": value } } });
    let mark = mark(&namespace);
    namespace.patch(SETS, "x", pause(json!("true"))).await;
    set_image(&namespace, "x", "new").await;
    bench.quiet(&namespace).await;
    assert_eq!(namespace.look(|state| deleted_since(state, PODS, mark).len()), 0);
    let stored = namespace.object(CLIQUES, "x-0-a");
    assert_eq!(stored["spec"]["podSpec"]["containers"][0]["image"], "busybox");
    namespace.patch(SETS, "x", pause(Value::Null)).await;
    until_updated(&namespace, "x", "new", 4).await;
}

async fn deleted(bench: Bench, namespace: Namespace) {
    bench.deploy(&namespace, &with_replicas(small("x"), 2), 10).await;
    set_image(&namespace, "x", "new").await;
    let started = "/status/updateProgress/currentlyUpdating/0/replicaIndex";
    namespace.until_field(SETS, "x", started, json!(0)).await;
    namespace.delete(SETS, "x").await;
    namespace.until_is("nothing is left", crate::support::mirror::State::is_empty).await;
}

async fn not_hashed(bench: Bench, namespace: Namespace) {
    bench.deploy(&namespace, &small("x"), 5).await;
    let before = namespace.object(SETS, "x")["status"]["currentGenerationHash"].clone();
    let mark = mark(&namespace);
    let patch = json!({
        "metadata": { "labels": { "team": "b" } },
        "spec": { "template": { "terminationDelay": "1h0m0s" } },
    });
    namespace.patch(SETS, "x", patch).await;
    bench.quiet(&namespace).await;
    namespace.look(|state| {
        assert!(pods_since(state, mark).is_empty());
        assert_eq!(state.get(SETS, "x").unwrap()["status"]["currentGenerationHash"], before);
    });
}

async fn told(bench: Bench, namespace: Namespace) {
    let one = with_replicas(set("x", &[clique("a", 1)], &[]), 2);
    bench.deploy(&namespace, &one, 2).await;
    set_image(&namespace, "x", "new").await;
    until_updated(&namespace, "x", "new", 2).await;
    until_told(&namespace, "x", &["UpdateStarted", "ReplicaUpdateStarted", "UpdateEnded"]).await;
}
