//! What wakes a replica of a PodCliqueSet.

use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, labels};
use grove_core::children::compute_domains as domains;
use grove_core::layout::Layout;
use grove_core::termination::{
    clique_breached_since, group_breached_since, is_announced, is_in_progress,
};
use grove_runtime::object::{JsonObject, Object};
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{Beginning, ChildChange};
use grove_runtime::queue::Queue;
use grove_runtime::view::{Meta, View};
use grove_runtime::wake::{WakeTable, by};

use super::ReplicaKey;
use crate::caches::views::{Pod, Set, TokenSecret};
use crate::caches::{Stores, replica_of, set_of};

/// The wake table of replicas.
pub(crate) fn queue(stores: &Stores, env: &Env, stage: &Stage) -> Queue<ReplicaKey> {
    let mut table = WakeTable::new(env, stage);
    // Gangs that have started come before new ones.
    let why = "the set changed";
    table.on(&stores.sets, why, Beginning, by(set_facts), replicas_of);
    let why = "a clique of the replica changed, was created or deleted";
    table.on(&stores.cliques.store, why, ChildChange, by(object_facts::<PodClique>), of_object);
    let why = "a clique lost or has its minimum: termination, and the phase of the gang";
    table.on(&stores.cliques.store, why, ChildChange, by(clique_health), of_object);
    let (groups, why) = (&stores.groups.store, "a group of the replica changed or was scaled");
    table.on(groups, why, ChildChange, by(object_facts::<PodCliqueScalingGroup>), of_object);
    let why = "a group lost its minimum, or reports the termination of the replica";
    table.on(groups, why, ChildChange, by(group_health), of_object);
    let why = "a gang of the replica changed, also its status";
    table.on(&stores.gangs.store, why, ChildChange, by(gang_facts), of_object);
    let why = "the service or an autoscaler of the replica changed";
    for store in [&stores.services.store, &stores.autoscalers.store] {
        let text = |object: &JsonObject| object.text().to_owned();
        table.on(store, why, ChildChange, by(text), |object| key_of(object.meta()));
    }
    let why = "a pod joins or leaves its gang";
    let pod_facts = |pod: &Pod| (pod.observed.deleting, pod.observed.gang.clone());
    table.on(&stores.pods, why, ChildChange, by(pod_facts), |pod| key_of(pod.meta()));
    // A gang is complete when all claims that its pods name exist, whatever level they belong to.
    let sets = stores.sets.clone();
    let waiting = move |meta: &Meta| {
        let of_set = || set_of(meta).and_then(|set| sets.get(&set)).map(|set| replicas_of(&set));
        let of_replica = replica_of_claim(meta).map(|key| vec![key]);
        of_replica.or_else(of_set).unwrap_or_default()
    };
    stores.claims.wake(&mut table, &stores.sets, waiting, replicas_of);
    if let Some(all) = &stores.compute_domains {
        let why = "a ComputeDomain of the replica changed";
        table.on(&all.store, why, ChildChange, by(domain_facts), of_object);
        let sets = stores.sets.clone();
        table.on_presence(&all.store, "ComputeDomains can be created, or no longer", move || {
            let using =
                sets.all().into_iter().filter(|set| domains::is_used(&Layout::of(&set.object)));
            using.flat_map(|set| replicas_of(&set)).collect()
        });
    }
    let all = stores.clone();
    let why = "cliques that start after others wait for the token";
    let token = |one: &TokenSecret| (one.meta.uid.clone(), one.has_token);
    table.on(&stores.secrets, why, Beginning, by(token), move |one| {
        all.set_with_token(one).map_or_else(Vec::new, |set| replicas_of(&set))
    });
    stores.topologies.wake(&mut table, &stores.sets, replicas_of);
    let why = "how the scheduler handles the pods of a gang; the gang changes with its objects";
    for store in stores.scheduler_objects.stores() {
        table.reads(store, why);
    }
    table.into_queue()
}

/// The replica that an object belongs to.
fn key_of(meta: &Meta) -> Vec<ReplicaKey> {
    let key = || Some(ReplicaKey { set: set_of(meta)?, index: replica_of(meta)? });
    key().into_iter().collect()
}

fn of_object<K>(object: &Object<K>) -> Vec<ReplicaKey> {
    key_of(&object.meta)
}

/// The replica of a claim; none when all replicas share it.
fn replica_of_claim(meta: &Meta) -> Option<ReplicaKey> {
    let index = meta.labels.get(labels::POD_CLIQUE_SET_REPLICA_INDEX)?.parse().ok()?;
    Some(ReplicaKey { set: set_of(meta)?, index })
}

fn replicas_of(set: &Set) -> Vec<ReplicaKey> {
    let replicas = u32::try_from(set.object.spec.replicas).unwrap_or_default();
    (0..replicas).map(|index| ReplicaKey { set: set.meta.key.clone(), index }).collect()
}

fn set_facts(set: &Set) -> impl PartialEq + use<> {
    let annotations = set.object.metadata.annotations.clone();
    let meta = &set.meta;
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

/// Spec and metadata, not status.
fn object_facts<K: kube::Resource>(one: &Object<K>) -> impl PartialEq + use<K> {
    let meta = &one.meta;
    let annotations = one.object.meta().annotations.clone();
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

fn gang_facts(gang: &Object<PodGang>) -> impl PartialEq + use<> {
    (object_facts(gang), gang.object.status.clone())
}

/// Whether a clique lost its minimum, and what the phase of its gang follows from.
fn clique_health(clique: &Object<PodClique>) -> impl PartialEq + use<> {
    let minimum = clique.object.spec.min_available.unwrap_or(clique.object.spec.replicas);
    let status = clique.object.status.as_ref();
    let has = |count: fn(&PodCliqueStatus) -> i32| status.map_or(0, count) >= minimum;
    let counts = [has(|one| one.scheduled_replicas), has(|one| one.ready_replicas)];
    (clique_breached_since(&clique.object), counts)
}

fn group_health(group: &Object<PodCliqueScalingGroup>) -> impl PartialEq + use<> {
    let object = &group.object;
    (group_breached_since(object), is_in_progress(object), is_announced(object))
}

fn domain_facts(domain: &Object<ComputeDomain>) -> impl PartialEq + use<> {
    let finalizers = domain.object.metadata.finalizers.clone();
    (domain.meta.uid.clone(), domain.meta.deleting, domain.meta.labels.clone(), finalizers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_replicas_of_a_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(set_facts(&before) == set_facts(&same));
        assert!(set_facts(&before) != set_facts(&after));
    }
}
