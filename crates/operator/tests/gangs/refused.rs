//! An operator that loses its role for the kinds of the scheduler.

use serde_json::Value;

use crate::ROLE;
use grove_testbed::fixture::{Fixture, pod};
use grove_testbed::kinds::{CLIQUES, PODS, SETS};
use grove_testbed::mirror::{condition, text};
use grove_testbed::sets::{Manifest as _, clique, set};

/// Pods of gangs are not replaced without their group while the API server refuses the groups, and are
/// when it serves them again. Starts an operator of its own.
pub(crate) async fn held_back(fixture: &Fixture) {
    let operator = fixture.cluster.operator(crate::setup()).await;
    let namespace = fixture.mirror.new_namespace("refused").await;
    let cliques = [clique("a", 1).min_available(1), clique("b", 2).min_available(2)];
    fixture.deploy(&namespace, &set("x", &cliques, &[]), 3).await;
    operator.stop().await;
    let binding = "clusterrolebindings/grove-operator-kubernetes";
    fixture.cluster.control_plane.kubectl(&["delete", binding]).unwrap();

    let operator = fixture.cluster.operator(crate::setup()).await;
    let lost = pod(&namespace, "x-0-b", 1);
    namespace.delete(PODS, text(&lost["metadata"]["name"])).await;
    let backend = |set: &Value| condition(set, "SchedulerBackendReady").clone();
    namespace
        .until_is("set and clique report it", |state| {
            let set = backend(state.get(SETS, "x").unwrap());
            let errors = &state.get(CLIQUES, "x-0-b").unwrap()["status"]["lastErrors"];
            set["status"] == "False"
                && set["reason"] == "SchedulerApiUnknown"
                && errors.to_string().contains("the API server refuses")
        })
        .await;
    assert_eq!(namespace.look(|state| state.pods_of("x-0-b").len()), 1, "held back");

    fixture.cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], ROLE).unwrap();
    namespace.until_complete(3).await;
    let new = pod(&namespace, "x-0-b", 1);
    assert_eq!(new["spec"]["schedulingGroup"], lost["spec"]["schedulingGroup"]);
    assert!(new["spec"]["schedulingGroup"].is_object(), "{new}");
    namespace
        .until_is("the set reports that it is over", |state| {
            backend(state.get(SETS, "x").unwrap())["status"] == "True"
        })
        .await;
    operator.stop().await;
}
