//! What wakes a PodClique.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api::pod_clique::PodCliqueStatus;
use grove_api::pod_gang::NamespacedName;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_backends::{Registry, SchedulerObject};
use grove_core::gang::is_initialized;
use grove_core::update;
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{ChildChange, UserChange};
use grove_runtime::queue::Queue;
use grove_runtime::resource::{ObjectKey, Uid};
use grove_runtime::view::{Meta, View};
use grove_runtime::wake::{WakeTable, by};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::caches::Stores;
use crate::caches::views::{Pod, Set};
use crate::controllers::claims;

/// The wake table of PodCliques.
pub(crate) fn queue(
    stores: &Stores,
    backends: &Registry,
    env: &Env,
    stage: &Stage,
) -> Queue<ObjectKey> {
    let mut table = WakeTable::new(env, stage);
    let cliques = &stores.cliques.store;
    let why = "the clique changed, also by other controllers";
    table.on(cliques, why, ChildChange, own_facts_differ, |clique| vec![clique.meta.key.clone()]);
    let why = "a pod of the clique changed";
    table.on(&stores.pods, why, ChildChange, pod_facts_differ, clique_of);
    // Lifting gates completes a gang, which is what users wait for.
    let why = "the gang of the clique lists other pods or is initialized";
    table.on(&stores.gangs.store, why, UserChange, gang_facts_differ, members_of_gang);
    let of_base = stores.clone();
    let why = "the minima of the base gang changed, for which a scaled gang waits";
    table.on(&stores.gangs.store, why, ChildChange, gang_minima_differ, move |gang| {
        keys(of_base.waiting_for(&gang.meta.key))
    });
    let of_base = stores.clone();
    let why = "a pod of the base gang was scheduled, for which a scaled gang waits";
    table.on(&stores.pods, why, ChildChange, by(|pod: &Pod| pod.observed.scheduled), move |pod| {
        pod.gang().map(|gang| keys(of_base.waiting_for(&gang))).unwrap_or_default()
    });
    if backends.count_pods() {
        let (of_gang, backends) = (stores.clone(), backends.clone());
        let why = "a pod of the gang was scheduled: pods above the minimum and recreated pods wait for it";
        table.on(
            &stores.pods,
            why,
            ChildChange,
            by(|pod: &Pod| pod.observed.scheduled),
            move |pod| {
                let gang = pod.gang().and_then(|gang| of_gang.gangs.store.get(&gang));
                let gang = gang.filter(|gang| backends.for_gang(&gang.object).pods().is_some());
                gang.map(|gang| of_gang.unfinished_members(&gang)).unwrap_or_default()
            },
        );
    }
    let of_set = stores.clone();
    let in_set = move |set: &Set| keys(of_set.cliques.of(&set.meta.key));
    let why = "the set changed its template, is paused, deleted or triggered";
    table.on(&stores.sets, why, ChildChange, by(set_facts), in_set.clone());
    let of_turn = stores.clone();
    let why = "an update reached the replica of the clique";
    table.on(&stores.sets, why, UserChange, by(turn_facts), move |set| {
        keys(match update::updating_replica(&set.object) {
            Some(replica) => of_turn.cliques.of_replica(&set.meta.key, replica),
            None => of_turn.cliques.of(&set.meta.key),
        })
    });
    let of_group = stores.clone();
    let why = "the scaling group of the clique was scaled or deleted";
    table.on(&stores.groups.store, why, ChildChange, by(group_facts), move |group| {
        keys(of_group.members_of(&group.meta.key))
    });
    let owner = |meta: &Meta| claims::clique_of_claim(meta).into_iter().collect();
    stores.claims.wake(&mut table, &stores.sets, owner, in_set);
    for store in stores.scheduler_objects.stores() {
        let of_gang = stores.clone();
        let uid = |object: &SchedulerObject| object.meta().uid.clone();
        let why = "the scheduler object exists that pods name";
        table.on(store, why, ChildChange, by(uid), move |object| {
            let gang = object.gang().and_then(|gang| of_gang.gangs.store.get(&gang));
            gang.map(|gang| members_of_gang(&gang)).unwrap_or_default()
        });
        let all = stores.clone();
        table.on_presence(
            store,
            "pods wait until it is known whether the kind is served",
            move || {
                all.gangs.store.all().iter().flat_map(|gang| all.unfinished_members(gang)).collect()
            },
        );
    }
    table.into_queue()
}

fn keys(cliques: Vec<Arc<Object<PodClique>>>) -> Vec<ObjectKey> {
    cliques.into_iter().map(|clique| clique.meta.key.clone()).collect()
}

/// The status counts because another controller may have changed it, and because an update takes its next
/// step when the last one is recorded. The errors that we report do not: nothing follows from them.
fn own_facts_differ(old: &Object<PodClique>, new: &Object<PodClique>) -> bool {
    let report = |clique: &Object<PodClique>| {
        let status = clique.object.status.clone();
        status.map(|status| PodCliqueStatus { last_errors: Vec::new(), ..status })
    };
    old.meta.uid != new.meta.uid
        || old.meta.generation != new.meta.generation
        || old.meta.labels != new.meta.labels
        || old.meta.deleting != new.meta.deleting
        || old.finalizers() != new.finalizers()
        || old.meta.owner_uid() != new.meta.owner_uid()
        || old.object.status != new.object.status && report(old) != report(new)
}

fn pod_facts_differ(old: &Pod, new: &Pod) -> bool {
    old.observed != new.observed
        || old.gate_position != new.gate_position
        || old.meta().labels != new.meta().labels
}

/// By label, and by owner: a pod whose label was changed still counts.
fn clique_of(pod: &Pod) -> Vec<ObjectKey> {
    let owner = pod.meta().controller.as_ref();
    let owner = owner.filter(|owner| *owner.kind == *PodClique::KIND).map(|owner| &*owner.name);
    let names: BTreeSet<&str> = pod.clique_name().into_iter().chain(owner).collect();
    names.into_iter().map(|name| ObjectKey::new(&pod.meta().key.namespace, name)).collect()
}

/// What the gate rule reads of a PodClique's own gang.
fn gang_facts_differ(old: &Object<PodGang>, new: &Object<PodGang>) -> bool {
    fn references(gang: &Object<PodGang>) -> impl Iterator<Item = (&str, &[NamespacedName])> {
        let groups = gang.object.spec.pod_groups.iter();
        groups.map(|group| (group.name.as_str(), &*group.pod_references))
    }
    old.meta.uid != new.meta.uid
        || is_initialized(&old.object) != is_initialized(&new.object)
        || !references(old).eq(references(new))
}

fn members_of_gang(gang: &Object<PodGang>) -> Vec<ObjectKey> {
    let groups = gang.object.spec.pod_groups.iter();
    groups.map(|group| ObjectKey::new(&gang.meta.key.namespace, &group.name)).collect()
}

/// What scaled gangs read of their base gang.
fn gang_minima_differ(old: &Object<PodGang>, new: &Object<PodGang>) -> bool {
    fn minima(gang: &Object<PodGang>) -> impl Iterator<Item = (&str, i32)> {
        let groups = gang.object.spec.pod_groups.iter();
        groups.map(|group| (group.name.as_str(), group.min_replicas))
    }
    old.meta.uid != new.meta.uid || !minima(old).eq(minima(new))
}

fn set_facts(set: &Set) -> (Uid, i64, [bool; 2], [Option<String>; 2]) {
    let status = set.object.status.as_ref();
    let hash = status.and_then(|status| status.current_generation_hash.clone());
    let flags = [set.meta.deleting, update::is_paused(&set.object)];
    (set.meta.uid.clone(), set.meta.generation, flags, [hash, set.reconcile_trigger()])
}

/// The replica that is being updated, and since when: a replica can have two turns in a row.
fn turn_facts(set: &Set) -> (Option<u32>, Option<Time>) {
    let progress = set.object.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let current = progress.and_then(|progress| progress.currently_updating.first());
    let since = current.and_then(|current| current.update_started_at.clone());
    (update::updating_replica(&set.object), since)
}

fn group_facts(group: &Object<PodCliqueScalingGroup>) -> impl PartialEq + use<> {
    let owner = group.meta.owner_uid().cloned();
    let terminates = grove_core::termination::is_in_progress(&group.object);
    (group.meta.uid.clone(), group.meta.deleting, group.object.spec.replicas, owner, terminates)
}

#[cfg(test)]
mod tests;
