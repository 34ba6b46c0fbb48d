//! The status of sets, groups and cliques, and services.

use serde_json::{Value, json};

use super::{Fixture, rules, scale};
use grove_testbed::kinds::{CLIQUES, GROUPS, PODS, SERVICES, SETS};
use grove_testbed::mirror::{Namespace, condition, name_of};
use grove_testbed::sets::{Manifest as _, clique, group, set, small};

rules! {
    a_set_is_available_with_the_minimum_of_every_part,
    a_clique_distinguishes_a_breach_from_a_start,
    a_service_hides_not_ready_pods_on_request,
    with_on_delete_standalone_cliques_change_at_once,
}

fn not_ready() -> Value {
    let conditions = json!([{ "type": "Ready", "status": "False" }, { "type": "PodScheduled", "status": "True" }]);
    json!({ "status": { "conditions": conditions } })
}

async fn a_set_is_available_with_the_minimum_of_every_part(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 2).min_available(1), clique("b", 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &[group("g", &["b"], 3, 2)]), 5).await;
    let fail = |clique: &'static str, index: u32| {
        let namespace = namespace.clone();
        async move {
            let pod = name_of(&super::pod(&namespace, clique, index));
            namespace.patch(PODS, &format!("{pod}/status"), not_ready()).await;
        }
    };
    let available =
        |number: i32| namespace.until_field(SETS, "x", "/status/availableReplicas", json!(number));

    fail("x-0-a", 0).await;
    fail("x-0-g-2-b", 0).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/readyReplicas", json!(1)).await;
    namespace.until_field(GROUPS, "x-0-g", "/status/availableReplicas", json!(2)).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    available(1).await;
    fail("x-0-g-0-b", 0).await;
    namespace.until_field(GROUPS, "x-0-g", "/status/availableReplicas", json!(1)).await;
    available(0).await;
    assert_eq!(namespace.object(GROUPS, "x-0-g")["status"]["scheduledReplicas"], 3);
    scale(&namespace, SETS, "x", 2).await;
    available(1).await;
    assert_eq!(namespace.object(SETS, "x")["status"]["replicas"], 2);
}

async fn a_clique_distinguishes_a_breach_from_a_start(_: Fixture, namespace: Namespace) {
    let mut lost = set("x", &[clique("a", 2)], &[]);
    let pod_spec = &mut lost["spec"]["template"]["cliques"][0]["spec"]["podSpec"];
    pod_spec["nodeSelector"] = json!({ "no": "such-node" });
    namespace.create(SETS, &lost).await;
    namespace.create(SETS, &set("y", &[clique("a", 2)], &[])).await;
    let reported =
        |name: &'static str, type_: &'static str, status: &'static str, reason: &'static str| {
            let namespace = namespace.clone();
            async move {
                let what = format!("{name}: {type_} is {status}, {reason}");
                namespace
                    .until_is(&what, |state| {
                        state.get(CLIQUES, name).is_some_and(|clique| {
                            let reported = condition(clique, type_);
                            reported["status"] == status && reported["reason"] == reason
                        })
                    })
                    .await;
            }
        };

    reported("x-0-a", "PodCliqueScheduled", "False", "InsufficientScheduledPods").await;
    reported("x-0-a", "MinAvailableBreached", "True", "ScheduledReplicasBelowMinAvailable").await;
    reported("y-0-a", "PodCliqueScheduled", "True", "SufficientScheduledPods").await;
    reported("y-0-a", "MinAvailableBreached", "False", "SufficientReadyPods").await;
    // Scheduled and not started is a start; started and not ready is not.
    let pod = name_of(&super::pod(&namespace, "y-0-a", 0));
    namespace
        .patch(PODS, &format!("{pod}/status"), json!({ "status": { "containerStatuses": null } }))
        .await;
    namespace.patch(PODS, &format!("{pod}/status"), not_ready()).await;
    namespace.until_field(CLIQUES, "y-0-a", "/status/readyReplicas", json!(1)).await;
    reported("y-0-a", "MinAvailableBreached", "False", "SufficientReadyPods").await;
    let container = json!({
        "name": "c", "image": "busybox", "imageID": "", "ready": false, "started": true, "restartCount": 0,
    });
    let started = json!({ "status": { "containerStatuses": [container] } });
    namespace.patch(PODS, &format!("{pod}/status"), started).await;
    reported("y-0-a", "MinAvailableBreached", "True", "InsufficientReadyPods").await;
}

async fn a_service_hides_not_ready_pods_on_request(fixture: Fixture, namespace: Namespace) {
    let mut hidden = small("x");
    hidden["spec"]["template"]["headlessServiceConfig"] =
        json!({ "publishNotReadyAddresses": false });
    fixture.deploy(&namespace, &hidden, 5).await;
    let spec = namespace.object(SERVICES, "x-0")["spec"].clone();
    assert_eq!(spec["clusterIP"], "None");
    assert_eq!(spec["ports"], json!(null));
    assert_eq!(spec["publishNotReadyAddresses"], json!(null));
    let selector = json!({
        "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "x",
        "grove.io/podcliqueset-replica-index": "0",
    });
    assert_eq!(spec["selector"], selector);

    let shown = json!({ "spec": { "template": {
        "headlessServiceConfig": { "publishNotReadyAddresses": true } } } });
    namespace.patch(SETS, "x", shown).await;
    namespace.until_field(SERVICES, "x-0", "/spec/publishNotReadyAddresses", json!(true)).await;
}

async fn with_on_delete_standalone_cliques_change_at_once(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x").update_strategy("OnDelete"), 5).await;
    let pods = namespace.names(PODS);

    let images: Vec<Value> = (0..3)
        .map(|index| {
            let path = format!("/spec/template/cliques/{index}/spec/podSpec/containers/0/image");
            json!({ "op": "replace", "path": path, "value": "new" })
        })
        .collect();
    namespace.patch(SETS, "x", json!(images)).await;
    let image = "/spec/podSpec/containers/0/image";
    for clique in ["x-0-router", "x-0-decode-0-leader", "x-0-decode-1-worker"] {
        namespace.until_field(CLIQUES, clique, image, json!("new")).await;
    }
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(namespace.names(PODS), pods, "pods stay until somebody deletes them");
    let old = name_of(&super::pod(&namespace, "x-0-decode-1-worker", 0));
    namespace.delete(PODS, &old).await;
    namespace
        .until_is("its successor has the new image", |state| {
            let pods = state.pods_of("x-0-decode-1-worker");
            pods.len() == 1
                && pods.values().all(|pod| pod["spec"]["containers"][0]["image"] == "new")
        })
        .await;
}
