//! More and fewer: of sets, of groups, of cliques.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Fixture, hold_terminating, pod, release, rules, scale};
use grove_testbed::kinds::{
    AUTOSCALERS, CLIQUES, GANGS, GROUPS, Kind, PODS, SECRETS, SERVICES, SETS,
};
use grove_testbed::mirror::{Namespace, State, name_of, text};
use grove_testbed::sets::{Manifest as _, clique, set, small};

rules! {
    a_set_scales_at_its_highest_index,
    a_set_scales_to_zero_and_back,
    a_group_scales_at_its_highest_index,
    a_clique_scales_and_its_gang_lists_its_pods,
    scale_in_removes_not_ready_pods_first,
    scale_in_keeps_healthy_pods_if_others_terminate,
    replicas_in_the_template_only_apply_at_creation,
}

/// Uids of everything of some kinds.
fn uids(namespace: &Namespace, kinds: &[Kind]) -> BTreeSet<String> {
    namespace.look(|state| {
        let of_kinds = state.objects.iter().filter(|((kind, _), _)| kinds.contains(kind));
        of_kinds.map(|(_, object)| text(&object["metadata"]["uid"]).to_owned()).collect()
    })
}

const PARTS: [Kind; 6] = [GANGS, GROUPS, CLIQUES, PODS, SERVICES, AUTOSCALERS];

async fn a_set_scales_at_its_highest_index(fixture: Fixture, namespace: Namespace) {
    let mut scaled = small("x");
    scaled["spec"]["template"]["cliques"][0]["spec"]["autoScalingConfig"] =
        json!({ "maxReplicas": 5 });
    fixture.deploy(&namespace, &scaled, 5).await;
    let first = uids(&namespace, &PARTS);

    namespace.patch(SETS, "x", json!({ "spec": { "replicas": 3 } })).await;
    namespace.until_complete(15).await;
    assert_eq!(namespace.names(SERVICES), ["x-0", "x-1", "x-2"]);
    assert_eq!(namespace.names(AUTOSCALERS), ["x-0-router", "x-1-router", "x-2-router"]);
    assert!(uids(&namespace, &PARTS).is_superset(&first));
    namespace.patch(SETS, "x", json!({ "spec": { "replicas": 1 } })).await;
    namespace.until_complete(5).await;
    namespace
        .until_is("only the first is left", |state| {
            let left = PARTS.iter().flat_map(|kind| state.of(*kind));
            left.map(|object| text(&object["metadata"]["uid"]).to_owned()).collect::<BTreeSet<_>>()
                == first
        })
        .await;
}

async fn a_set_scales_to_zero_and_back(_: Fixture, namespace: Namespace) {
    namespace.create(SETS, &small("x").replicas(0)).await;
    namespace.until_field(SETS, "x", "/status/observedGeneration", json!(1)).await;
    namespace
        .until_is("its secret is there", |state| state.get(SECRETS, "x-ic-sat").is_some())
        .await;
    let status = namespace.object(SETS, "x")["status"].clone();
    assert_eq!((&status["replicas"], &status["availableReplicas"]), (&json!(null), &json!(0)));

    for (replicas, pods) in [(2, 10), (0, 0), (1, 5)] {
        scale(&namespace, SETS, "x", replicas).await;
        namespace.until_complete(pods).await;
        let parts = |state: &State| PARTS.iter().all(|kind| state.of(*kind).is_empty());
        if replicas == 0 {
            namespace.until_is("nothing is left", parts).await;
        }
    }
}

async fn a_group_scales_at_its_highest_index(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let first = uids(&namespace, &PARTS);

    let patch = json!({ "spec": { "replicas": 4 } });
    namespace.patch(GROUPS, "x-0-decode", patch).await;
    namespace.until_complete(9).await;
    assert_eq!(namespace.names(GANGS), ["x-0", "x-0-decode-0", "x-0-decode-1", "x-0-decode-2"]);
    let last = namespace.object(CLIQUES, "x-0-decode-3-worker");
    assert_eq!(last["metadata"]["labels"]["grove.io/podgang"], "x-0-decode-2");
    assert!(uids(&namespace, &PARTS).is_superset(&first));
    scale(&namespace, GROUPS, "x-0-decode", 2).await;
    namespace.until_complete(5).await;
    namespace.until_is("gangs go too", |state| state.names(GANGS) == ["x-0", "x-0-decode-0"]).await;
    assert_eq!(uids(&namespace, &PARTS), first);
    let subresource = namespace.patch(GROUPS, "x-0-decode/scale", json!({})).await;
    let selector = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=x,\
                    grove.io/podcliquescalinggroup=x-0-decode";
    assert_eq!(subresource["status"], json!({ "replicas": 2, "selector": selector }));
}

async fn a_clique_scales_and_its_gang_lists_its_pods(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;

    scale(&namespace, CLIQUES, "x-0-router", 4).await;
    namespace.until_complete(8).await;
    let listed = |state: &State| {
        let gang = state.get(GANGS, "x-0").unwrap();
        let router = &gang["spec"]["podgroups"][0];
        assert_eq!(router["minReplicas"], 1, "the minimum is the template's");
        router["podReferences"].as_array().unwrap().len()
    };
    assert_eq!(namespace.look(listed), 4);
    scale(&namespace, CLIQUES, "x-0-router", 1).await;
    namespace.until_complete(5).await;
    namespace.until_is("only one is listed", |state| listed(state) == 1).await;
    let subresource = namespace.patch(CLIQUES, "x-0-router/scale", json!({})).await;
    let selector = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=x,\
                    grove.io/podclique=x-0-router";
    assert_eq!(subresource["status"], json!({ "replicas": 1, "selector": selector }));
    let subresource = namespace.patch(SETS, "x/scale", json!({})).await;
    let selector = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=x";
    assert_eq!(subresource["status"], json!({ "replicas": 1, "selector": selector }));
}

async fn scale_in_removes_not_ready_pods_first(fixture: Fixture, namespace: Namespace) {
    let place = "example.com/missed";
    fixture.node("missed", place, 2).await;
    let mut wants = clique("a", 3).min_available(1);
    wants["spec"]["podSpec"]["containers"][0]["resources"] = json!({ "limits": { place: "1" } });
    namespace.create(SETS, &set("x", &[wants], &[])).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/readyReplicas", json!(2)).await;
    let ready = |pod: &Value| !pod["spec"]["nodeName"].is_null();
    let names = |state: &State, is: &dyn Fn(&Value) -> bool| {
        let pods = state.of(PODS).into_iter().filter(|pod| is(pod));
        pods.map(|pod| name_of(pod)).collect::<BTreeSet<_>>()
    };
    let running = namespace.look(|state| names(state, &ready));
    assert_eq!(running.len(), 2);

    // The pod without a node is deleted first, then the one that is not ready.
    scale(&namespace, CLIQUES, "x-0-a", 2).await;
    namespace.until_is("the pending one goes", |state| names(state, &|_| true) == running).await;
    let sick = running.first().unwrap();
    let conditions = json!([{ "type": "Ready", "status": "False" }, { "type": "PodScheduled", "status": "True" }]);
    let status = json!({ "status": { "conditions": conditions } });
    namespace.patch(PODS, &format!("{sick}/status"), status).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/readyReplicas", json!(1)).await;
    scale(&namespace, CLIQUES, "x-0-a", 1).await;
    namespace.until_is("one goes", |state| names(state, &|_| true).len() == 1).await;
    assert!(!namespace.names(PODS).contains(sick), "the one that is not ready goes");
}

async fn scale_in_keeps_healthy_pods_if_others_terminate(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &set("x", &[clique("a", 4).min_available(1)], &[]), 4).await;
    let staying = |state: &State| state.pods_of("x-0-a").len();

    // One of five is terminating already, slowly.
    let held = hold_terminating(&namespace, &pod(&namespace, "x-0-a", 3)).await;
    namespace.until_is("it is replaced", |state| staying(state) == 4).await;
    scale(&namespace, CLIQUES, "x-0-a", 3).await;
    namespace.until_is("one more goes", |state| staying(state) == 3).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.look(staying), 3);
    release(&namespace, &held).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.names(PODS).len(), 3);
    namespace.until_complete(3).await;
}

async fn replicas_in_the_template_only_apply_at_creation(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;

    let numbers = json!([
        { "op": "replace", "path": "/spec/template/cliques/0/spec/replicas", "value": 3 },
        { "op": "replace", "path": "/spec/template/podCliqueScalingGroups/0/replicas", "value": 4 },
    ]);
    namespace.patch(SETS, "x", numbers).await;
    namespace.until_field(SETS, "x", "/status/observedGeneration", json!(2)).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.names(PODS).len(), 5, "what is there keeps its size");
    scale(&namespace, SETS, "x", 2).await;
    namespace.until_complete(5 + 3 + 4 * 2).await;
}
