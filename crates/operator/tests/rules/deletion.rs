//! How sets go, and come again.

use http::Method;
use serde_json::{Value, json};

use super::{Fixture, hold_terminating, pod, release, rules};
use grove_testbed::kinds::{CLIQUES, GANGS, GROUPS, Kind, PODS, SERVICES, SETS};
use grove_testbed::mirror::{Namespace, State, send};
use grove_testbed::sets::{Manifest as _, small};

rules! {
    a_deleted_set_deletes_all_its_objects,
    foreground_deletion_deletes_all_objects_of_a_set,
    orphaning_deletion_of_a_set_keeps_its_objects,
    finalizers_of_others_keep_only_their_objects,
    a_recreated_set_adopts_no_former_object,
    a_deleted_namespace_deletes_its_sets,
}

async fn a_deleted_set_deletes_all_its_objects(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x").replicas(2), 10).await;

    namespace.delete(SETS, "x").await;
    namespace.until_is("nothing is left", State::is_empty).await;
    assert_eq!(namespace.look(|state| state.ever(PODS)), 10, "none is made on the way");
}

/// As `kubectl delete pcs/x --cascade=…` does.
async fn delete_with(fixture: &Fixture, namespace: &Namespace, propagation: &str) {
    let options = json!({ "propagationPolicy": propagation });
    let path = format!("{}/x", SETS.in_namespace(&namespace.name));
    send(fixture.mirror.client(), Method::DELETE, &path, &options).await.unwrap();
}

async fn foreground_deletion_deletes_all_objects_of_a_set(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;

    delete_with(&fixture, &namespace, "Foreground").await;
    namespace.until_is("nothing is left", State::is_empty).await;
}

/// The garbage collector looks for new kinds twice a minute, and what it does not know it neither orphans
/// nor keeps: parts that it finds later are without their owner and go. Waits until it has collected one
/// of each.
async fn collector_knows(namespace: &Namespace, parts: &[(Kind, &str)]) {
    let owner = json!({ "metadata": { "name": "owner" }, "spec": { "clusterIP": "None" } });
    let owner = namespace.create(SERVICES, &owner).await;
    for (kind, part) in parts {
        let metadata = json!({ "name": "collected", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Service", "name": "owner", "uid": owner["metadata"]["uid"],
        }] });
        let mut copy = Value::clone(&namespace.object(*kind, part));
        copy["metadata"] = metadata;
        namespace.create(*kind, &copy).await;
    }
    namespace.delete(SERVICES, "owner").await;
    for (kind, _) in parts {
        namespace.until_gone(*kind, "collected").await;
    }
}

async fn orphaning_deletion_of_a_set_keeps_its_objects(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let ours = [(CLIQUES, "x-0-router"), (GROUPS, "x-0-decode"), (GANGS, "x-0")];
    collector_knows(&namespace, &ours).await;
    let parts = || {
        let names = |kind| namespace.names(kind);
        [CLIQUES, GROUPS, GANGS, SERVICES, PODS].map(names)
    };
    let before = parts();

    delete_with(&fixture, &namespace, "Orphan").await;
    namespace.until_gone(SETS, "x").await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(parts(), before);
    assert_eq!(namespace.look(|state| state.ever(PODS)), 5, "none is replaced");

    // The user can still remove what is left.
    for (kind, name) in [(GROUPS, "x-0-decode"), (CLIQUES, "x-0-router")] {
        namespace.delete(kind, name).await;
        namespace.until_gone(kind, name).await;
    }
    namespace.until_is("their pods go too", |state| state.of(PODS).is_empty()).await;
}

async fn finalizers_of_others_keep_only_their_objects(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let waits =
        json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "somebody.else/waits" }]);
    namespace.patch(CLIQUES, "x-0-router", waits).await;

    namespace.delete(SETS, "x").await;
    namespace
        .until_is("only that clique is left, without our finalizer", |state| {
            let clique = state.get(CLIQUES, "x-0-router").unwrap();
            clique["metadata"]["finalizers"] == json!(["somebody.else/waits"])
                && state.names(CLIQUES) == ["x-0-router"]
                && [SETS, PODS, GANGS, SERVICES].iter().all(|kind| state.of(*kind).is_empty())
        })
        .await;
    namespace.patch(CLIQUES, "x-0-router", json!({ "metadata": { "finalizers": null } })).await;
    namespace.until_is("nothing is left", State::is_empty).await;
}

async fn a_recreated_set_adopts_no_former_object(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let uid = |name: &str| namespace.object(CLIQUES, name)["metadata"]["uid"].clone();
    let first = uid("x-0-router");
    let waits =
        json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "somebody.else/waits" }]);
    namespace.patch(CLIQUES, "x-0-router", waits).await;
    let held = hold_terminating(&namespace, &pod(&namespace, "x-0-decode-0-leader", 0)).await;

    namespace.delete(SETS, "x").await;
    namespace.until_gone(SETS, "x").await;
    namespace.create(SETS, &small("x")).await;
    // Objects without a conflict are created at once.
    namespace.until_field(CLIQUES, "x-0-decode-1-worker", "/status/replicas", json!(1)).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(uid("x-0-router"), first, "nothing takes the place of what is not gone");
    namespace.patch(CLIQUES, "x-0-router", json!({ "metadata": { "finalizers": null } })).await;
    release(&namespace, &held).await;
    namespace.until_complete(5).await;
    assert_ne!(uid("x-0-router"), first);
}

async fn a_deleted_namespace_deletes_its_sets(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let path = format!("/api/v1/namespaces/{}", namespace.name);
    let client = fixture.mirror.client();

    send(client, Method::DELETE, &path, &Value::Null).await.unwrap();
    namespace.until_is("nothing is left", |state| state.objects.is_empty()).await;
}
