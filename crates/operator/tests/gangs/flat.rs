//! Gangs without composites.

use serde_json::json;

use super::{Room, uid, until_bound};
use grove_testbed::fixture::{Fixture, pod};
use grove_testbed::kinds::{KUBE_GROUPS, KUBE_GROUPS_1_36, PODS, SETS};
use grove_testbed::mirror::{Namespace, text};
use grove_testbed::rules;
use grove_testbed::sets::set;
use grove_testbed::topology::refusal_of;

rules! {
    one_group_has_the_minima_and_another_the_surplus,
    an_unsupported_required_level_is_refused,
}

async fn one_group_has_the_minima_and_another_the_surplus(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 8).await;
    let cliques = [room.clique("a", 1, 1), room.clique("b", 4, 2)];
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    until_bound(&namespace, &[("x-0-a", 1), ("x-0-b", 4)]).await;
    let groups =
        namespace.look(|state| [KUBE_GROUPS, KUBE_GROUPS_1_36].map(|kind| state.names(kind)));
    assert_eq!(groups.concat(), ["x-0", "x-0-extra"]);
    let group = |clique: &str, index: u32| {
        let pod = pod(&namespace, clique, index);
        text(&pod["spec"]["schedulingGroup"]["podGroupName"]).to_owned()
    };
    assert_eq!(group("x-0-a", 0), "x-0");
    let workers = [0, 1, 2, 3].map(|index| group("x-0-b", index));
    assert_eq!(workers, ["x-0", "x-0", "x-0-extra", "x-0-extra"]);

    // A pod comes back into its group.
    let lost = pod(&namespace, "x-0-b", 1);
    namespace.delete(PODS, text(&lost["metadata"]["name"])).await;
    namespace
        .until_is("it is replaced", |state| {
            let new = state.pods_of("x-0-b").remove("x-0-b-1");
            new.is_some_and(|new| uid(&new) != uid(&lost) && new["spec"]["nodeName"].is_string())
        })
        .await;
    assert_eq!(group("x-0-b", 1), "x-0");
}

async fn an_unsupported_required_level_is_refused(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 1).await;
    let mut cliques = [room.clique("a", 1, 1), room.clique("b", 1, 1)];
    cliques[1]["topologyConstraint"] =
        json!({ "topologyName": "dc", "pack": { "required": "rack" } });
    let refused = refusal_of(&namespace, &set("x", &cliques, &[])).await;
    for part in ["spec.template.cliques[1].topologyConstraint", "CompositePodGroup"] {
        assert!(refused.contains(part), "{refused}");
    }
}
