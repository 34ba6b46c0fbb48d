//! One replica of a PodCliqueSet: its service, autoscalers, standalone cliques, scaling groups and
//! gangs, with the references and the Initialized condition of the gangs. Everything that one gang
//! pipeline needs is decided in this one place.

mod decide;
mod observe;
mod termination;

use std::fmt;

use grove_api::error_code::ErrorCode;
use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, labels};
use grove_core::termination::{
    clique_breached_since, group_breached_since, is_announced, is_in_progress,
};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Store;
use grove_runtime::view::{Meta, View};
use grove_runtime::write::{Verb, Write};

use self::decide::Decision;
use crate::claims::RESOURCE_CLAIMS;
use crate::compute_domains;
use crate::events;
use crate::objects::{Object, Pod, Raw, Set, TokenSecret};
use crate::plan::{Plan, act};
use crate::reconcile::{Context, ReconcileError};
use crate::world::{AUTOSCALERS, SERVICES, World, replica_of, set_of};

/// A replica of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicaKey {
    pub(crate) set: ObjectKey,
    pub(crate) index: u32,
}

impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replica {}", self.set, self.index)
    }
}

/// The replica that an object belongs to.
fn key_of(meta: &Meta) -> Vec<ReplicaKey> {
    let key = || Some(ReplicaKey { set: set_of(meta)?, index: replica_of(meta)? });
    key().into_iter().collect()
}

/// What wakes a replica.
pub(crate) fn queue(world: &World, env: &Env) -> Queue<ReplicaKey> {
    let queue = Queue::new(env.clock.clone());
    // Gangs that are under way come up before others are begun.
    queue.follow(&world.sets, Priority::Beginning, set_projection, replicas_of);
    let child = Priority::ChildChange;
    queue.follow(&world.cliques.store, child, object_projection::<PodClique>, |one| {
        key_of(&one.meta)
    });
    queue.follow(&world.groups.store, child, object_projection::<PodCliqueScalingGroup>, |one| {
        key_of(&one.meta)
    });
    // Of statuses, lost minima matter here, and what the phases of gangs follow from.
    let health = |clique: &Object<PodClique>| {
        let minimum = clique.object.spec.min_available.unwrap_or(clique.object.spec.replicas);
        let status = clique.object.status.as_ref();
        let has = |count: fn(&PodCliqueStatus) -> i32| status.map_or(0, count) >= minimum;
        let counts = [has(|one| one.scheduled_replicas), has(|one| one.ready_replicas)];
        (clique_breached_since(&clique.object), counts)
    };
    queue.follow(&world.cliques.store, child, health, |one| key_of(&one.meta));
    let lost = |group: &Object<PodCliqueScalingGroup>| {
        let object = &group.object;
        (group_breached_since(object), is_in_progress(object), is_announced(object))
    };
    queue.follow(&world.groups.store, child, lost, |one| key_of(&one.meta));
    queue.follow(
        &world.gangs.store,
        child,
        |gang: &Object<PodGang>| (object_projection(gang), gang.object.status.clone()),
        |one| key_of(&one.meta),
    );
    for store in [&world.services.store, &world.autoscalers.store] {
        follow_raw(&queue, store);
    }
    if let Some(domains) = &world.compute_domains {
        let facts = |one: &Object<ComputeDomain>| {
            let finalizers = one.object.metadata.finalizers.clone();
            (one.meta.uid.clone(), one.meta.deleting, one.meta.labels.clone(), finalizers)
        };
        queue.follow(&domains.store, child, facts, |one| key_of(&one.meta));
    }
    // A gang is complete when all claims that its pods name exist, whatever level they belong to.
    let sets = world.sets.clone();
    let waiting = move |meta: &Meta| match replica_of_claim(meta) {
        Some(key) => vec![key],
        None => set_of(meta)
            .and_then(|set| sets.get(&set))
            .map_or_else(Vec::new, |set| replicas_of(&set)),
    };
    world.claims.wake(&queue, &world.sets, waiting, replicas_of);
    queue.follow(
        &world.pods,
        child,
        |pod: &Pod| (pod.observed.deleting, pod.observed.gang.clone()),
        |pod| key_of(pod.meta()),
    );
    let sets = world.clone();
    queue.follow(
        &world.secrets,
        Priority::Beginning,
        |one: &TokenSecret| (one.meta.uid.clone(), one.has_token),
        move |one| sets.set_with_token(one).map_or_else(Vec::new, |set| replicas_of(&set)),
    );
    queue
}

/// The replica that a claim is for; nothing when all replicas share it.
fn replica_of_claim(meta: &Meta) -> Option<ReplicaKey> {
    let index = meta.labels.get(labels::POD_CLIQUE_SET_REPLICA_INDEX)?.parse().ok()?;
    Some(ReplicaKey { set: set_of(meta)?, index })
}

fn replicas_of(set: &Set) -> Vec<ReplicaKey> {
    let replicas = u32::try_from(set.object.spec.replicas).unwrap_or_default();
    (0..replicas).map(|index| ReplicaKey { set: set.meta.key.clone(), index }).collect()
}

fn set_projection(set: &Set) -> impl PartialEq + use<> {
    let metadata = &set.object.metadata;
    (
        set.meta.uid.clone(),
        set.meta.generation,
        set.meta.deleting,
        set.meta.labels.clone(),
        metadata.annotations.clone(),
    )
}

/// Spec and metadata, not status.
fn object_projection<K: kube::Resource>(one: &Object<K>) -> impl PartialEq + use<K> {
    let meta = &one.meta;
    let annotations = one.object.meta().annotations.clone();
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

fn follow_raw(queue: &Queue<ReplicaKey>, store: &Store<Raw>) {
    let said = |raw: &Raw| raw.text().to_owned();
    queue.follow(store, Priority::ChildChange, said, |raw| key_of(raw.meta()));
}

/// Brings one replica to what its set says. What it cannot do, the set reports.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ReplicaKey>,
) -> Result<Due, ReconcileError> {
    let outcome = converge(context, &attempt).await;
    let now = context.env.clock.wall();
    let problem = outcome.as_ref().err().and_then(|error| error.report(now));
    context.problems.note(&attempt.key, problem);
    outcome
}

async fn converge(context: &Context, attempt: &Attempt<ReplicaKey>) -> Result<Due, ReconcileError> {
    let Some(seen) = observe::observe(&context.world, &attempt.key) else {
        return let_go(context, attempt).await.map(|()| None);
    };
    let now = context.env.clock.wall();
    let Decision { plan, refused, terminates, deadline, reports } =
        decide::decide(&seen, &context.backends, &context.world.scheduler_objects, now);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component("podcliqueset-controller");
    if terminates && acted.failed.is_empty() {
        events::tell(&recorder, [events::replica_terminated(&seen.set, seen.index)]);
    } else {
        let told = events::occurrences(&seen.set, &acted, events::telling_of_replica);
        events::tell(&recorder, told);
    }
    let failed = acted.error(code, attempt.failures).or(refused);
    let known = seen.set.object.status.as_ref().map(|status| &*status.last_errors);
    let told = events::claims_missing(&seen.set, failed.as_ref(), known.unwrap_or_default());
    events::tell(&recorder, told);
    let mut due = context.earlier(None, deadline);
    if plan.is_empty() {
        for gang in seen.gangs.values().filter(|gang| !reports.iter().any(|one| one.is_of(gang))) {
            context.held_phases.forget((PodGang::KIND, &gang.meta.key));
        }
        for report in reports {
            let told = (PodGang::KIND, &report.meta.key);
            let code = ErrorCode::CreateOrPatchPodGang;
            let fence = &attempt.fence;
            let held = context.held_phases.report(context, told, fence, Some(report), code).await?;
            due = due.into_iter().chain(held).min();
        }
    }
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// What is left of a replica without a set: ComputeDomains that wait for us.
async fn let_go(context: &Context, attempt: &Attempt<ReplicaKey>) -> Result<(), ReconcileError> {
    let domains = compute_domains::observe(&context.world, &attempt.key);
    let mut plan = Plan::default();
    plan.step(domains.iter().flat_map(compute_domains::let_go));
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    acted.error(code, attempt.failures).map_or(Ok(()), Err)
}

fn code(write: &Write) -> ErrorCode {
    let resource = &write.resource;
    if *resource == Resource::of::<PodGang>() {
        ErrorCode::CreateOrPatchPodGang
    } else if *resource == Resource::of::<PodClique>() {
        ErrorCode::SyncPodClique
    } else if *resource == Resource::of::<PodCliqueScalingGroup>() {
        ErrorCode::SyncPodCliqueScalingGroup
    } else if *resource == AUTOSCALERS {
        ErrorCode::SyncHpa
    } else if *resource == RESOURCE_CLAIMS {
        ErrorCode::SyncPcsResourceClaim
    } else if *resource == Resource::of::<ComputeDomain>() {
        match write.verb {
            Verb::Delete { .. } => ErrorCode::DeleteComputeDomain,
            _ => ErrorCode::SyncComputeDomain,
        }
    } else {
        debug_assert_eq!(*resource, SERVICES);
        ErrorCode::SyncPodCliqueSetService
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_replicas_of_a_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(set_projection(&before) == set_projection(&same));
        assert!(set_projection(&before) != set_projection(&after));
    }
}
