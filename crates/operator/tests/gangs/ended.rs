//! Pods that end, where minima of groups can be changed.

use serde_json::{Value, json};

use super::uid;
use grove_testbed::fixture::{Fixture, pod};
use grove_testbed::kinds::PODS;
use grove_testbed::mirror::{Namespace, name_of, text};
use grove_testbed::rules;
use grove_testbed::sets::{clique, set};

rules! {
    a_lost_pod_is_replaced_beside_succeeded_ones,
}

/// Pods that ended well are not replaced and not counted by the scheduler; a lost one is placed all the same.
async fn a_lost_pod_is_replaced_beside_succeeded_ones(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 2), clique("b", 3)];
    fixture.deploy(&namespace, &set("x", &cliques, &[]), 5).await;
    for (clique, index) in [("x-0-a", 0), ("x-0-a", 1), ("x-0-b", 0), ("x-0-b", 1)] {
        let done = json!({ "status": { "phase": "Succeeded" } });
        let name = name_of(&pod(&namespace, clique, index));
        namespace.patch(PODS, &format!("{name}/status"), done).await;
    }
    let lost = pod(&namespace, "x-0-b", 2);
    namespace.delete(PODS, &name_of(&lost)).await;
    namespace
        .until_is("it is replaced", |state| {
            let pods = state.of(PODS).into_iter();
            let is_new = |pod: &Value| {
                text(&pod["metadata"]["ownerReferences"][0]["name"]) == "x-0-b"
                    && pod["status"]["phase"] == "Running"
                    && uid(pod) != uid(&lost)
            };
            pods.filter(|pod| is_new(pod)).count() == 1
        })
        .await;
}
