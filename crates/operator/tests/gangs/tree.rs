//! Gangs with composites.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Room, uid};
use grove_testbed::fixture::{Fixture, pod};
use grove_testbed::kinds::{KUBE_COMPOSITES, KUBE_GROUPS, KUBE_WORKLOADS, Kind, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, condition, name_of, text};
use grove_testbed::rules;
use grove_testbed::sets::{Manifest as _, clique, set};

rules! {
    more_cliques_than_a_workload_describes_come_up,
    a_large_gang_has_its_groups_before_its_pods,
    changed_or_deleted_groups_are_restored,
}

async fn more_cliques_than_a_workload_describes_come_up(_: Fixture, namespace: Namespace) {
    let cliques: Vec<Value> =
        (1..=10).map(|min| clique(&format!("c{min}"), min).min_available(min)).collect();
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    namespace.until_complete(55).await;
    assert_eq!(namespace.names(KUBE_COMPOSITES), ["x-0", "x-0-part-0", "x-0-part-1"]);
    let limits = condition(&namespace.object(SETS, "x"), "SchedulerLimits").clone();
    assert_eq!(limits, Value::Null);
}

/// The versions at which objects of a kind first were so, with their groups. Versions are comparable
/// between kinds.
fn first(state: &State, kind: Kind, is: fn(&Value) -> bool) -> BTreeMap<String, (u64, String)> {
    let mut versions = BTreeMap::new();
    for (_, object) in state.history.iter().filter(|(of, object)| *of == kind && is(object)) {
        let version = text(&object["metadata"]["resourceVersion"]).parse().unwrap();
        let group = text(&object["spec"]["schedulingGroup"]["podGroupName"]).to_owned();
        versions.entry(name_of(object)).or_insert((version, group));
    }
    versions
}

async fn a_large_gang_has_its_groups_before_its_pods(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 160).await;
    let cliques: Vec<Value> =
        (0..8).map(|index| room.clique(&format!("c{index}"), 20, 20)).collect();
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    namespace.until_complete(160).await;
    namespace
        .until_is("all pods are seen to be ready", |state| {
            let mut pods = state.of(PODS).into_iter();
            pods.all(|pod| condition(pod, "Ready")["status"] == "True")
        })
        .await;
    let is_released = |pod: &Value| pod["spec"]["schedulingGates"].is_null();
    let [groups, pods, released, roots] = namespace.look(|state| {
        [
            first(state, KUBE_GROUPS, |_| true),
            first(state, PODS, |_| true),
            first(state, PODS, is_released),
            first(state, KUBE_COMPOSITES, |_| true),
        ]
    });
    assert_eq!([groups.len(), released.len(), roots.len()], [8, 160, 1]);
    assert!(pods.values().all(|(version, group)| groups[group].0 < *version), "groups before pods");
    assert!(released.values().max() < roots.values().min(), "the root last");
}

async fn changed_or_deleted_groups_are_restored(fixture: Fixture, namespace: Namespace) {
    let room = Room::new(fixture, &namespace, 8).await;
    let cliques = [room.clique("a", 2, 1), room.clique("b", 3, 2)];
    namespace.create(SETS, &set("x", &cliques, &[])).await;
    namespace.until_complete(5).await;
    let pods = namespace
        .look(|state| state.of(PODS).iter().map(|pod| uid(pod).to_owned()).collect::<Vec<_>>());

    let edit = json!({
        "metadata": { "labels": { "grove.io/podgang": "y", "theirs": "yes" } },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } } },
    });
    namespace.patch(KUBE_GROUPS, "x-0-b", edit).await;
    let minimum = "/spec/schedulingPolicy/gang/minCount";
    namespace.until_field(KUBE_GROUPS, "x-0-b", minimum, json!(2)).await;
    let label = "/metadata/labels/grove.io~1podgang";
    namespace.until_field(KUBE_GROUPS, "x-0-b", label, json!("x-0")).await;
    assert_eq!(namespace.object(KUBE_GROUPS, "x-0-b")["metadata"]["labels"]["theirs"], "yes");

    for kind in [KUBE_COMPOSITES, KUBE_WORKLOADS] {
        let before = namespace.object(kind, "x-0");
        namespace.delete(kind, "x-0").await;
        namespace
            .until_is("it comes back", |state| {
                state.get(kind, "x-0").is_some_and(|one| uid(one) != uid(&before))
            })
            .await;
    }

    // Before their pods are gone groups do not go, and pods of theirs are scheduled.
    namespace.delete(KUBE_GROUPS, "x-0-a").await;
    let pod = pod(&namespace, "x-0-a", 1);
    namespace.delete(PODS, text(&pod["metadata"]["name"])).await;
    namespace
        .until_is("a pod of the group is replaced", |state| {
            let pods = state.pods_of("x-0-a");
            let new = pods.get("x-0-a-1").filter(|new| uid(new) != uid(&pod));
            new.is_some_and(|new| condition(new, "Ready")["status"] == "True")
        })
        .await;
    let stayed = namespace.look(|state| {
        let others = state.of(PODS).into_iter().filter(|one| uid(one) != uid(&pod));
        others.filter(|one| pods.contains(&uid(one).to_owned())).count()
    });
    assert_eq!(stayed, 4, "nobody touched the others");
}
