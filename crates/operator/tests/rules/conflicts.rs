//! Names of objects of other owners: they are kept and reported, and the set continues when the name is free.

use serde_json::{Value, json};

use super::{Fixture, rules};
use grove_testbed::kinds::{
    ACCOUNTS, BINDINGS, CLIQUES, EVENTS, GANGS, Kind, PODS, REVISIONS, ROLES, SECRETS, SERVICES,
    SETS,
};
use grove_testbed::mirror::{Namespace, name_of, text};
use grove_testbed::sets::{Manifest as _, clique, group, set, small};

rules! {
    a_service_of_another_owner_is_kept_and_reported,
    a_gang_of_another_owner_is_kept_and_reported,
    a_clique_of_another_owner_is_kept_and_reported,
    an_account_of_another_owner_is_kept_and_reported,
    a_secret_of_another_owner_is_kept_and_reported,
    an_insufficient_role_delays_only_its_dependents,
    a_role_of_another_owner_that_grants_pods_is_used,
    a_binding_of_another_owner_is_kept_and_reported,
    cliques_with_parents_wait_for_the_token,
    an_unmounted_legacy_token_secret_is_deleted,
    of_two_sets_with_one_child_name_the_second_waits,
    of_two_sets_with_one_member_name_the_second_waits,
}

/// Waits until a set reports an object of another owner.
async fn until_conflict_is_reported(namespace: &Namespace, set: &str, name: &str) {
    let what = format!("PodCliqueSet {set} tells about {name}");
    namespace
        .until_is(&what, |state| {
            let errors = state
                .get(SETS, set)
                .and_then(|set| set["status"]["lastErrors"].as_array().cloned());
            let mut texts =
                errors.into_iter().flatten().map(|one| text(&one["description"]).to_owned());
            texts.any(|text| text.contains(name))
        })
        .await;
}

/// An object of another owner has a name that a set needs.
async fn in_the_way(fixture: &Fixture, namespace: &Namespace, kind: Kind, object: Value) {
    let foreign = namespace.create(kind, &object).await;
    let name = text(&foreign["metadata"]["name"]).to_owned();
    namespace.create(SETS, &small("x")).await;

    until_conflict_is_reported(namespace, "x", &name).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let after = namespace.object(kind, &name);
    for field in ["uid", "labels", "ownerReferences"] {
        assert_eq!(after["metadata"][field], foreign["metadata"][field], "{field}");
    }
    namespace.delete(kind, &name).await;
    namespace.until_complete(5).await;
    namespace.until_field(SETS, "x", "/status/lastErrors", json!(null)).await;
}

async fn a_service_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "x-0" }, "spec": { "clusterIP": "None" } });
    in_the_way(&fixture, &namespace, SERVICES, object).await;
}

async fn a_gang_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    let object = json!({
        "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": { "name": "x-0" }, "spec": { "podgroups": [] },
    });
    in_the_way(&fixture, &namespace, GANGS, object).await;
}

async fn a_clique_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    let object = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": { "name": "x-0-router" },
        "spec": clique("router", 1)["spec"],
    });
    in_the_way(&fixture, &namespace, CLIQUES, object).await;
}

async fn an_account_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    in_the_way(&fixture, &namespace, ACCOUNTS, json!({ "metadata": { "name": "x" } })).await;
}

async fn a_secret_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "x-ic-sat" } });
    in_the_way(&fixture, &namespace, SECRETS, object).await;
}

/// Two cliques, of which the second starts after the first.
fn in_order(name: &str) -> Value {
    set(name, &[clique("a", 1), clique("b", 1)], &[]).start_order("InOrder")
}

async fn an_insufficient_role_delays_only_its_dependents(fixture: Fixture, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "grove.io:pcs:x" }, "rules": [] });
    let foreign = namespace.create(ROLES, &object).await;
    namespace.create(SETS, &in_order("x")).await;

    until_conflict_is_reported(&namespace, "x", "grove.io:pcs:x").await;
    namespace.until_field(SETS, "x", "/status/availableReplicas", json!(1)).await;
    let is_there = |kind: Kind| !namespace.look(|state| state.of(kind).is_empty());
    assert!([BINDINGS, REVISIONS, SECRETS].into_iter().all(is_there));
    let reported = |event: &Value| event["reason"] == "StartOrderAccessFailed";
    namespace
        .until_is("an event reports it", |state| state.of(EVENTS).iter().any(|one| reported(one)))
        .await;
    assert_eq!(namespace.object(ROLES, "grove.io:pcs:x")["metadata"], foreign["metadata"]);
    namespace.delete(ROLES, "grove.io:pcs:x").await;
    namespace.until_field(SETS, "x", "/status/lastErrors", json!(null)).await;
    let role = namespace.object(ROLES, "grove.io:pcs:x");
    assert_eq!(role["metadata"]["ownerReferences"][0]["name"], "x");
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let events =
        namespace.look(|state| state.of(EVENTS).iter().filter(|one| reported(one)).count());
    assert_eq!(events, 1, "reported once");
}

async fn a_role_of_another_owner_that_grants_pods_is_used(fixture: Fixture, namespace: Namespace) {
    let verbs = ["get", "list", "watch"];
    let rule = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": verbs });
    let object = json!({ "metadata": { "name": "grove.io:pcs:x" }, "rules": [rule] });
    let foreign = namespace.create(ROLES, &object).await;
    fixture.deploy(&namespace, &in_order("x"), 2).await;

    let after = namespace.object(ROLES, "grove.io:pcs:x");
    assert_eq!(after["metadata"]["uid"], foreign["metadata"]["uid"]);
    assert_eq!(namespace.object(SETS, "x")["status"]["lastErrors"], json!(null));
    let account = format!("--as=system:serviceaccount:{}:x", namespace.name);
    let args = ["auth", "can-i", "watch", "pods", "-n", &namespace.name, &account];
    assert!(fixture.cluster.control_plane.kubectl(&args).is_ok());
}

async fn a_binding_of_another_owner_is_kept_and_reported(fixture: Fixture, namespace: Namespace) {
    let object = json!({
        "metadata": { "name": "grove.io:pcs:x" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other" },
    });
    in_the_way(&fixture, &namespace, BINDINGS, object).await;
}

async fn cliques_with_parents_wait_for_the_token(fixture: Fixture, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "x-ic-sat" } });
    namespace.create(SECRETS, &object).await;
    namespace.create(SETS, &in_order("x")).await;
    until_conflict_is_reported(&namespace, "x", "ERR_SECRET_CONFLICT").await;
    namespace.until_is("the first clique is there", |state| !state.of(CLIQUES).is_empty()).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.names(CLIQUES), ["x-0-a"]);

    namespace.delete(SECRETS, "x-ic-sat").await;
    namespace.until_complete(2).await;
    namespace.until_field(SETS, "x", "/status/lastErrors", json!(null)).await;
    namespace.until_field(SETS, "x", "/status/observedGeneration", json!(1)).await;
    let history = namespace.look(|state| {
        let created = |one: &(Kind, std::sync::Arc<Value>)| {
            let (kind, object) = one;
            let filled = *kind == SECRETS && object["data"]["token"].is_string();
            let waiting = *kind == CLIQUES && name_of(object) == "x-0-b";
            let version = || text(&object["metadata"]["resourceVersion"]).parse::<u64>().unwrap();
            (filled || waiting).then(|| (version(), kind.name))
        };
        state.history.iter().filter_map(created).min()
    });
    assert_eq!(history.unwrap().1, "Secret", "the clique came after the token");
}

async fn an_unmounted_legacy_token_secret_is_deleted(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &in_order("x"), 2).await;
    let set = namespace.object(SETS, "x");
    let legacy = "x-initc-sa-token-secret";
    let labels = json!({
        "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "x",
    });
    let mounting = json!({
        "metadata": { "name": "old", "labels": labels, "ownerReferences": [{
            "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "x-0-b",
            "uid": namespace.object(CLIQUES, "x-0-b")["metadata"]["uid"], "controller": true,
        }], "finalizers": ["test.grove.io/held"] },
        "spec": {
            "containers": [{ "name": "c", "image": "busybox" }],
            "volumes": [{ "name": "v", "secret": { "secretName": legacy } }],
        },
    });
    namespace.create(PODS, &mounting).await;
    let secret = json!({ "metadata": { "name": legacy, "labels": labels, "ownerReferences": [{
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "x",
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }] } });
    namespace.create(SECRETS, &secret).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert!(namespace.look(|state| state.get(SECRETS, legacy).is_some()), "a pod mounts it");

    namespace.delete(PODS, "old").await;
    namespace.patch(PODS, "old", json!({ "metadata": { "finalizers": null } })).await;
    namespace.until_gone(SECRETS, legacy).await;
    namespace.until_complete(2).await;
}

async fn of_two_sets_with_one_child_name_the_second_waits(fixture: Fixture, namespace: Namespace) {
    // The clique `0-w` of `a` and the clique `w` of `a-0` are both called `a-0-0-w`.
    fixture.deploy(&namespace, &set("a-0", &[clique("w", 1)], &[]), 1).await;
    let first = namespace.object(CLIQUES, "a-0-0-w")["metadata"].clone();
    namespace.create(SETS, &set("a", &[clique("0-w", 1)], &[])).await;

    until_conflict_is_reported(&namespace, "a", "a-0-0-w").await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let after = namespace.object(CLIQUES, "a-0-0-w")["metadata"].clone();
    assert_eq!(after["resourceVersion"], first["resourceVersion"]);
    assert_eq!(namespace.object(SETS, "a-0")["status"]["availableReplicas"], 1);
    namespace.delete(SETS, "a-0").await;
    namespace
        .until_is("the second set gets the name", |state| {
            let clique = state.get(CLIQUES, "a-0-0-w");
            clique.is_some_and(|clique| clique["metadata"]["ownerReferences"][0]["name"] == "a")
        })
        .await;
    namespace.until_complete(1).await;
    namespace.until_field(SETS, "a", "/status/lastErrors", json!(null)).await;
}

async fn of_two_sets_with_one_member_name_the_second_waits(fixture: Fixture, namespace: Namespace) {
    // The member `w` of group `g` of `a` and the clique `0-w` of `a-0-g` are called `a-0-g-0-w`;
    // with `0` in front, both are.
    fixture
        .deploy(&namespace, &set("a-0", &[clique("w", 1)], &[group("g", &["w"], 1, 1)]), 1)
        .await;
    let name = "a-0-0-g-0-w";
    let first = namespace.object(CLIQUES, name)["metadata"]["uid"].clone();
    namespace.create(SETS, &set("a", &[clique("w", 1)], &[group("0-g", &["w"], 1, 1)])).await;

    // Both groups are called `a-0-0-g`, so the second set does not even get that.
    until_conflict_is_reported(&namespace, "a", "a-0-0-g").await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.object(CLIQUES, name)["metadata"]["uid"], first);
    namespace.delete(SETS, "a-0").await;
    namespace
        .until_is("the second set gets the name", |state| {
            let clique = state.get(CLIQUES, name);
            clique.is_some_and(|clique| clique["metadata"]["uid"] != first)
        })
        .await;
    namespace.until_complete(1).await;
    namespace.until_field(SETS, "a", "/status/lastErrors", json!(null)).await;
}
