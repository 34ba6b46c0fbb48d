//! Pods that a policy of the cluster refuses: namespaces that enforce a pod security standard.

use http::Method;
use serde_json::{Value, json};

use super::{Fixture, rules};
use grove_testbed::kinds::{CLIQUES, EVENTS, GANGS, PODS, SETS};
use grove_testbed::mirror::{Namespace, condition, send, text};
use grove_testbed::sets::{clique, group, set};

rules! {
    refused_pods_are_reported_and_backed_off,
    an_update_with_refused_pods_replaces_nothing,
    a_gang_and_a_set_report_that_they_are_up,
}

/// Makes the namespace refuse the pods of these tests, or accept them again.
async fn enforce(namespace: &Namespace, standard: Option<&str>) {
    let labels = json!({ "pod-security.kubernetes.io/enforce": standard });
    let path = format!("/api/v1/namespaces/{}", namespace.name);
    let change = json!({ "metadata": { "labels": labels } });
    send(namespace.client(), Method::PATCH, &path, &change).await.unwrap();
}

fn errors(set: &Value) -> String {
    set["status"]["lastErrors"].to_string()
}

async fn until_reported(namespace: &Namespace, message: &str) {
    let what = format!("the set reports {message:?}");
    let is = |set: &Value| errors(set).contains(message);
    namespace.until_is(&what, |state| state.get(SETS, "x").is_some_and(|set| is(set))).await;
}

async fn refused_pods_are_reported_and_backed_off(fixture: Fixture, namespace: Namespace) {
    enforce(&namespace, Some("restricted")).await;
    let mark = fixture.requests.mark();
    namespace.create(SETS, &set("x", &[clique("a", 3)], &[])).await;
    until_reported(&namespace, "violates PodSecurity").await;
    namespace
        .until_is("an event of the set says so", |state| {
            state.of(EVENTS).iter().any(|event| {
                event["reason"] == "ReconcileError" && event["involvedObject"]["name"] == "x"
            })
        })
        .await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let sent = fixture.requests.since(mark);
    let attempts = sent.iter().filter(|sent| sent.creates("pods") && sent.is_in(&namespace.name));
    // Attempts of three pods each, after about 0, 1, 3, 7, … seconds.
    let attempts = attempts.count();
    assert!((3..=24).contains(&attempts), "{attempts} attempts");
    let clique = namespace.object(CLIQUES, "x-0-a");
    assert_eq!(clique["status"]["observedGeneration"], 1);
    let description = text(&clique["status"]["lastErrors"][0]["description"]);
    assert!(description.contains("pods \"x-0-a-\" is forbidden"), "{description}");
    let ready = condition(&namespace.object(SETS, "x"), "Ready").clone();
    assert_eq!(ready["reason"], "ReconcileError");

    enforce(&namespace, None).await;
    namespace.until_complete(3).await;
    namespace.until_field(SETS, "x", "/status/lastErrors", Value::Null).await;
}

async fn an_update_with_refused_pods_replaces_nothing(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 2), clique("b", 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &[group("g", &["b"], 2, 1)]), 4).await;
    let pods = namespace.names(PODS);
    enforce(&namespace, Some("restricted")).await;
    let image = |image: &str| {
        let path = "/spec/template/cliques/1/spec/podSpec/containers/0/image";
        json!([{ "op": "replace", "path": path, "value": image }])
    };
    namespace.patch(SETS, "x", image("next")).await;
    until_reported(&namespace, "the update does not start").await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.names(PODS), pods);
    let ready = condition(&namespace.object(SETS, "x"), "Ready").clone();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("True"), &json!("AvailableWithErrors"))
    );

    enforce(&namespace, None).await;
    namespace
        .until_is("the update is over", |state| {
            let pods = state.of(PODS);
            let is_new =
                |pod: &&&std::sync::Arc<Value>| pod["spec"]["containers"][0]["image"] == "next";
            state.is_complete() && pods.iter().filter(is_new).count() == 2
        })
        .await;
    namespace.until_field(SETS, "x", "/status/lastErrors", Value::Null).await;
}

async fn a_gang_and_a_set_report_that_they_are_up(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &set("x", &[clique("a", 2)], &[]), 2).await;
    namespace.until_field(GANGS, "x-0", "/status/phase", json!("Running")).await;
    let gang = namespace.object(GANGS, "x-0");
    for type_ in ["Initialized", "Scheduled", "Ready"] {
        assert_eq!(condition(&gang, type_)["status"], "True", "{type_}");
    }
    namespace
        .until_is("the set is ready", |state| {
            state.get(SETS, "x").is_some_and(|set| condition(set, "Ready")["status"] == "True")
        })
        .await;
}
