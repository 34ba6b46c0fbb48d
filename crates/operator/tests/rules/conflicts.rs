//! Names that somebody else has: nothing of others is taken, it is told, and it goes on when the name
//! is free.

use serde_json::{Value, json};

use super::{Bench, rules};
use crate::support::kinds::{ACCOUNTS, CLIQUES, GANGS, Kind, SECRETS, SERVICES, SETS};
use crate::support::mirror::{Namespace, text};
use crate::support::sets::{clique, group, set, small};

rules! {
    "a service of somebody else is left alone and told": service,
    "a gang of somebody else is left alone and told": gang,
    "a clique of somebody else is left alone and told": foreign_clique,
    "an account of somebody else is left alone and told": account,
    "a secret of somebody else is left alone and told": secret,
    "of two sets that want one name, the second waits for the first": two_sets,
    "of two sets whose members want one name, the second waits for the first": two_members,
}

/// Waits until a set tells that an object is in its way.
async fn until_told(namespace: &Namespace, set: &str, name: &str) {
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

/// An object of somebody else is in the way of a set.
async fn in_the_way(bench: &Bench, namespace: &Namespace, kind: Kind, object: Value) {
    let foreign = namespace.create(kind, &object).await;
    let name = text(&foreign["metadata"]["name"]).to_owned();
    namespace.create(SETS, &small("x")).await;

    until_told(namespace, "x", &name).await;
    bench.world.settled(&bench.mirror).await;
    let after = namespace.object(kind, &name);
    for field in ["uid", "labels", "ownerReferences"] {
        assert_eq!(after["metadata"][field], foreign["metadata"][field], "{field}");
    }
    namespace.delete(kind, &name).await;
    namespace.until_complete(5).await;
    namespace.until_field(SETS, "x", "/status/lastErrors", json!(null)).await;
}

async fn service(bench: Bench, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "x-0" }, "spec": { "clusterIP": "None" } });
    in_the_way(&bench, &namespace, SERVICES, object).await;
}

async fn gang(bench: Bench, namespace: Namespace) {
    let object = json!({
        "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": { "name": "x-0" }, "spec": { "podgroups": [] },
    });
    in_the_way(&bench, &namespace, GANGS, object).await;
}

async fn foreign_clique(bench: Bench, namespace: Namespace) {
    let object = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": { "name": "x-0-router" },
        "spec": clique("router", 1)["spec"],
    });
    in_the_way(&bench, &namespace, CLIQUES, object).await;
}

async fn account(bench: Bench, namespace: Namespace) {
    in_the_way(&bench, &namespace, ACCOUNTS, json!({ "metadata": { "name": "x" } })).await;
}

async fn secret(bench: Bench, namespace: Namespace) {
    let object = json!({ "metadata": { "name": "x-ic-sat" } });
    in_the_way(&bench, &namespace, SECRETS, object).await;
}

async fn two_sets(bench: Bench, namespace: Namespace) {
    // The clique `0-w` of `a` and the clique `w` of `a-0` are both called `a-0-0-w`.
    bench.deploy(&namespace, &set("a-0", &[clique("w", 1)], &[]), 1).await;
    let first = namespace.object(CLIQUES, "a-0-0-w")["metadata"].clone();
    namespace.create(SETS, &set("a", &[clique("0-w", 1)], &[])).await;

    until_told(&namespace, "a", "a-0-0-w").await;
    bench.world.settled(&bench.mirror).await;
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

async fn two_members(bench: Bench, namespace: Namespace) {
    // The member `w` of group `g` of `a` and the clique `0-w` of `a-0-g` are called `a-0-g-0-w`;
    // with `0` in front, both are.
    bench.deploy(&namespace, &set("a-0", &[clique("w", 1)], &[group("g", &["w"], 1, 1)]), 1).await;
    let name = "a-0-0-g-0-w";
    let first = namespace.object(CLIQUES, name)["metadata"]["uid"].clone();
    namespace.create(SETS, &set("a", &[clique("w", 1)], &[group("0-g", &["w"], 1, 1)])).await;

    // Both groups are called `a-0-0-g`, so the second set does not even get that.
    until_told(&namespace, "a", "a-0-0-g").await;
    bench.world.settled(&bench.mirror).await;
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
