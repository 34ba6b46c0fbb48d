//! What wakes a PodGang.

use grove_api::{ClusterTopologyBinding, PodGang};
use grove_backends::{Registry, SchedulerObject};
use grove_core::pods::Phase;
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{ChildChange, UserChange};
use grove_runtime::queue::Queue;
use grove_runtime::resource::ObjectKey;
use grove_runtime::wake::{WakeTable, by};

use crate::caches::views::{Pod, Set};
use crate::caches::{Stores, named_topology};

/// The wake table of gangs.
pub(crate) fn queue(
    stores: &Stores,
    backends: &Registry,
    env: &Env,
    stage: &Stage,
) -> Queue<ObjectKey> {
    let mut table = WakeTable::new(env, stage);
    let why = "the gang changed or is deleted";
    table.on(&stores.gangs.store, why, UserChange, by(gang_facts), |gang| {
        vec![gang.meta.key.clone()]
    });
    let of_set = stores.clone();
    let why = "the set changed: backends read it for what its gangs do not have";
    table.on(&stores.sets, why, ChildChange, by(set_facts), move |set| {
        of_set.gangs.of(&set.meta.key).iter().map(|gang| gang.meta.key.clone()).collect()
    });
    if backends.count_pods() {
        let (gangs, backends) = (stores.gangs.store.clone(), backends.clone());
        let why = "the last gate was lifted, or a pod succeeded, for backends that count pods";
        table.on(&stores.pods, why, ChildChange, by(pod_facts), move |pod| {
            let gang = pod.gang().and_then(|gang| gangs.get(&gang));
            let gang = gang.filter(|gang| backends.for_gang(&gang.object).pods().is_some());
            gang.into_iter().map(|gang| gang.meta.key.clone()).collect()
        });
        table.reads(&stores.cliques.store, "find the pods of a gang, which wake it");
    }
    let all = stores.clone();
    let why = "the topology of the gang refers to another object of its scheduler";
    table.on(&stores.topologies.bindings, why, ChildChange, by(references), move |binding| {
        let of_topology =
            |gang: &Object<PodGang>| named_topology(gang) == Some(&*binding.meta.key.name);
        let gangs = all.gangs.store.all();
        gangs.iter().filter(|gang| of_topology(gang)).map(|gang| gang.meta.key.clone()).collect()
    });
    for store in stores.scheduler_objects.stores() {
        let owner = |object: &SchedulerObject| object.gang().into_iter().collect();
        let why = "a scheduler object of the gang changed, also by other controllers";
        table.on(store, why, ChildChange, by(SchedulerObject::without_status), owner);
        let gangs = stores.gangs.store.clone();
        table.on_presence(store, "scheduler objects can be created, or no longer", move || {
            gangs.all().iter().map(|gang| gang.meta.key.clone()).collect()
        });
    }
    table.into_queue()
}

/// Everything but the status. Labels and annotations count: backends copy them.
fn gang_facts(gang: &Object<PodGang>) -> impl PartialEq + use<> {
    let Object { meta, object } = gang;
    let annotations = object.metadata.annotations.clone();
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

/// The topology objects of schedulers that a binding refers to.
fn references(binding: &Object<ClusterTopologyBinding>) -> impl PartialEq + use<> {
    binding.object.spec.scheduler_topology_bindings.clone()
}

fn set_facts(set: &Set) -> impl PartialEq + use<> {
    let annotations = set.object.metadata.annotations.clone();
    (set.meta.uid.clone(), set.meta.generation, set.meta.labels.clone(), annotations)
}

fn pod_facts(pod: &Pod) -> impl PartialEq + use<> {
    let pod = &pod.observed;
    (pod.has_gate, pod.deleting, pod.phase == Phase::Succeeded)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_gangs_of_a_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(set_facts(&before) == set_facts(&same));
        assert!(set_facts(&before) != set_facts(&after));
    }

    #[test]
    fn gangs_are_woken_by_spec_labels_and_annotations_and_not_by_status() {
        type Change = fn(&mut Value);
        let gang = |change: fn(&mut Value)| -> Object<PodGang> {
            let mut object = json!({
                "metadata": { "name": "a", "namespace": "n", "generation": 1,
                    "resourceVersion": "1" },
                "spec": { "podgroups": [] },
            });
            change(&mut object);
            serde_json::from_value(object).unwrap()
        };
        let cases: [(&str, Change, bool); 5] = [
            ("status", |it| it["status"] = json!({ "phase": "Running" }), false),
            ("version", |it| it["metadata"]["resourceVersion"] = json!("2"), false),
            ("spec", |it| it["metadata"]["generation"] = json!(2), true),
            ("label", |it| it["metadata"]["labels"] = json!({ "a": "b" }), true),
            ("annotation", |it| it["metadata"]["annotations"] = json!({ "a": "b" }), true),
        ];
        let before = gang(|_| {});
        for (what, change, observed) in cases {
            let after = gang(change);
            assert_eq!(gang_facts(&before) != gang_facts(&after), observed, "{what}");
        }
    }
}
