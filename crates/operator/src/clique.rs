//! The controller of one PodClique: its pods, their gates, its status and its finalizer.
//!
//! A reconcile that writes ends there: the caches show what was written and wake the key again, so
//! the status is computed when things have settled. The PodClique itself is somebody else's: the
//! set or the scaling group creates, changes and deletes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grove_api::error_code::ErrorCode;
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::pod_gang::NamespacedName;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, labels};
use grove_backends::{Backend, Pods, Preparation, Registry, SchedulerObject};
use grove_core::gang::is_initialized;
use grove_core::status::Outcome;
use grove_core::update;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::{ObjectKey, Uid};
use grove_runtime::view::{Meta, View};
use grove_runtime::write::{Verb, Write};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::claims::{self, RESOURCE_CLAIMS};
use crate::events;
use crate::objects::{Object, Pod, Set};
use crate::plan::act;
use crate::reconcile::{Context, ReconcileError, ask};
use crate::world::{PODS, World};

mod decide;
mod minimum;
mod observe;
#[cfg(test)]
mod testkit;

pub(crate) use minimum::HadMinimum;

use decide::{Decision, Handled, Setup, Surplus, decide, report};
use observe::{Observed, observe};

/// A node that has not removed a pod so long after its grace period is lost, and nobody waits for it.
const PATIENCE_WITH_NODES: Duration = Duration::from_secs(30);

/// The queue of this controller. A PodClique is woken by what [`observe`] looks at, no more.
pub(crate) fn queue(world: &World, backends: &Registry, env: &Env) -> Queue<ObjectKey> {
    use Priority::{ChildChange, UserChange};
    let queue = Queue::new(env.clock.clone());
    let cliques = &world.cliques.store;
    queue.follow_if(cliques, ChildChange, own_facts_differ, |clique| vec![clique.meta.key.clone()]);
    queue.follow_if(&world.pods, ChildChange, pod_facts_differ, clique_of);
    // Lifting gates completes a gang, which is what users wait for.
    queue.follow_if(&world.gangs.store, UserChange, gang_facts_differ, members_of_gang);
    let waiting = |world: &World| {
        let world = world.clone();
        move |gang: &ObjectKey| keys(world.waiting_for(gang))
    };
    let waiting_for = waiting(world);
    let by_gang = move |gang: &Object<PodGang>| waiting_for(&gang.meta.key);
    queue.follow_if(&world.gangs.store, ChildChange, gang_minima_differ, by_gang);
    let waiting_for = waiting(world);
    let by_pod = move |pod: &Pod| pod.gang().map(|gang| waiting_for(&gang)).unwrap_or_default();
    queue.follow(&world.pods, ChildChange, |pod| pod.observed.scheduled, by_pod);
    // Pods above the minimum may have to wait for their own gang, new ones for those that are going.
    if backends.all().any(Backend::follows_pods) {
        let (of_gang, backends) = (world.clone(), backends.clone());
        let unfinished_members = move |pod: &Pod| {
            let gang = pod.gang().and_then(|gang| of_gang.gangs.store.get(&gang));
            let gang = gang.filter(|gang| backends.for_gang(&gang.object).follows_pods());
            gang.map(|gang| of_gang.unfinished_members(&gang)).unwrap_or_default()
        };
        queue.follow(&world.pods, ChildChange, |pod| pod.observed.scheduled, unfinished_members);
    }
    let of_set = world.clone();
    let in_set = move |set: &Set| keys(of_set.cliques.of(&set.meta.key));
    queue.follow(&world.sets, ChildChange, set_facts, in_set.clone());
    let owner = |meta: &Meta| claims::clique_of_claim(meta).into_iter().collect();
    world.claims.wake(&queue, &world.sets, owner, in_set);
    let of_turn = world.clone();
    queue.follow(&world.sets, UserChange, turn_facts, move |set| {
        keys(match update::whose_turn(&set.object) {
            Some(replica) => of_turn.cliques.of_replica(&set.meta.key, replica),
            None => of_turn.cliques.of(&set.meta.key),
        })
    });
    let of_group = world.clone();
    queue.follow(&world.groups.store, ChildChange, group_facts, move |group| {
        keys(of_group.members_of(&group.meta.key))
    });
    // Pods may have to wait for the group that they name.
    for store in world.scheduler_objects.stores() {
        let of_gang = world.clone();
        let uid = |object: &SchedulerObject| object.meta().uid.clone();
        queue.follow(store, ChildChange, uid, move |object| {
            let gang = object.gang().and_then(|gang| of_gang.gangs.store.get(&gang));
            gang.map(|gang| members_of_gang(&gang)).unwrap_or_default()
        });
    }
    queue
}

/// Brings one PodClique closer to what its spec says, or reports how it is.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(observed) = observe(&context.world, &attempt.key) else {
        context.held.forget((PodClique::KIND, &attempt.key));
        context.refusals.forget(&attempt.key);
        return Ok(None);
    };
    let handled = handling(context, &observed);
    let preparation = prepare(context, &attempt, &observed, handled.surplus).await;
    let init_image = context.init_image.as_deref();
    let template = decide::template_key(&observed.clique);
    let refusal = context.refusals.get(&attempt.key, &template, context.env.clock.now());
    let refused = refusal.map(|refusal| refusal.error.until(refusal.retry_at));
    let setup = Setup { preparation: &preparation, init_image, handled, refused: refused.as_ref() };
    let Decision { plan, problem, waits } = decide(&observed, setup);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component("podclique-controller");
    // That a new clique gets its first pods and a deleted one loses its last goes without saying.
    let lives = observed.clique.object.status.is_some() && !observed.clique.meta.deleting;
    if lives || !acted.failed.is_empty() {
        events::tell(&recorder, events::occurrences(&observed.clique, &acted, events::telling));
    }
    let failed = acted.error(code_of, attempt.failures).or(problem);
    let failed = match acted.created(&PODS) {
        Some(Err(_)) => failed.map(|error| refuse(context, &attempt.key, &template, error)),
        Some(Ok(())) => {
            context.refusals.forget(&attempt.key);
            failed
        }
        None => failed,
    };
    let known = observed.clique.object.status.as_ref().map(|status| &*status.last_errors);
    let told = events::claims_missing(&observed.clique, failed.as_ref(), known.unwrap_or_default());
    events::tell(&recorder, told);
    let generation = observed.clique.object.metadata.generation;
    let errors: Vec<_> =
        failed.iter().filter_map(|error| error.report(context.env.clock.wall())).collect();
    let outcome = match &failed {
        None if !plan.is_empty() => return Ok(None),
        None if waits => Outcome::Waiting,
        None => Outcome::Complete { generation },
        Some(error) if errors.is_empty() => return Err(error.clone()),
        Some(_) => Outcome::Failed { generation, errors: &errors },
    };
    let due = write_status(context, &attempt, &observed, outcome).await?;
    let due = context.earlier(due, handled.gated_until);
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// Records that the API server refused the pods of a PodClique.
fn refuse(
    context: &Context,
    clique: &ObjectKey,
    template: &str,
    error: ReconcileError,
) -> ReconcileError {
    let Env { clock, rng, .. } = &context.env;
    let retry_at = context.refusals.record(clique, template, &error, clock.now(), rng);
    error.until(retry_at)
}

/// How the scheduler wants the pods of the gang to be made and deleted.
fn handling(context: &Context, observed: &Observed) -> Handled {
    let Some(gang) = observed.place.as_ref().and_then(|place| place.gang.as_ref()) else {
        return Handled::default();
    };
    let backend = context.backends.for_gang(&gang.object);
    let objects = &context.world.scheduler_objects;
    let Some(handling) = backend.handling(&gang.object, objects) else {
        return Handled::default();
    };
    let pods = context.world.gang_pods(gang);
    let mut members = gang.object.spec.pod_groups.iter();
    let needed: i32 = members.clone().map(|member| member.min_replicas).sum();
    let member = members.find(|member| *member.name == *observed.clique.meta.key.name);
    let minimum = member.and_then(|member| u32::try_from(member.min_replicas).ok());
    let surplus = Surplus {
        held_from: minimum.filter(|_| handling.minimum_first && !pods.scheduled),
        kept_below: minimum.filter(|_| handling.by_index).unwrap_or_default(),
    };
    // A single pod cannot be placed in part.
    let restarts = (needed > 1)
        .then(|| context.world.restarts_after(&gang.meta.key))
        .flatten()
        .map(|gone_by| gone_by + PATIENCE_WITH_NODES);
    Handled {
        surplus,
        ungate_first: handling.gated_pods_block && pods.waiting,
        gated_until: restarts.filter(|until| context.env.clock.wall() < *until),
    }
}

/// What the scheduler wants to find in the pods that are missing.
async fn prepare(
    context: &Context,
    attempt: &Attempt<ObjectKey>,
    observed: &Observed,
    surplus: Surplus,
) -> Result<Preparation, ReconcileError> {
    let Some(draft) = decide::draft(observed, surplus) else { return Ok(Preparation::default()) };
    let code = ErrorCode::BuildPodResource;
    let scheduler = draft["spec"]["schedulerName"].as_str();
    let Some(backend) = context.backends.for_pods(scheduler) else {
        let text = format!(
            "PodClique {}: spec.podSpec.schedulerName: {:?} is no active scheduler backend; add it \
             to scheduler.profiles of the operator's configuration",
            observed.clique.meta.key,
            scheduler.unwrap_or_default(),
        );
        return Err(ReconcileError::rule(code, text));
    };
    let place = observed.place.as_ref();
    let gang = draft["metadata"]["labels"][labels::POD_GANG].as_str().unwrap_or_default();
    let gang = context.world.gangs.get(&observed.clique.meta.key.namespace, gang);
    let pods = Pods {
        draft: &draft,
        gang: gang.as_ref().map(|gang| &gang.object),
        set: place.map(|place| &place.set.object),
        objects: &context.world.scheduler_objects,
    };
    let prepared = ask(attempt, backend, backend.prepare_pods(pods)).await;
    prepared.map_err(|error| ReconcileError::of_backend(code, &error, attempt.failures))
}

async fn write_status(
    context: &Context,
    attempt: &Attempt<ObjectKey>,
    observed: &Observed,
    outcome: Outcome<'_>,
) -> Result<Due, ReconcileError> {
    let now = context.env.clock.wall();
    let place = observed.place.as_ref();
    let report = place.and_then(|place| report(observed, place, outcome, now));
    let code = ErrorCode::UpdatePodCliqueStatus;
    context
        .held
        .report(context, (PodClique::KIND, &attempt.key), &attempt.fence, report, code)
        .await
}

/// The code under which the failure of a write is reported.
fn code_of(write: &Write) -> ErrorCode {
    match &write.verb {
        Verb::Delete { .. } if write.resource == RESOURCE_CLAIMS => {
            ErrorCode::DeletePclqResourceClaim
        }
        _ if write.resource == RESOURCE_CLAIMS => ErrorCode::SyncPclqResourceClaim,
        Verb::Create { .. } => ErrorCode::CreatePod,
        Verb::Delete { .. } => ErrorCode::DeletePod,
        Verb::Json { .. } => ErrorCode::RemovePodSchedulingGate,
        // Of the PodClique itself, a plan changes nothing but the finalizers.
        _ => ErrorCode::SyncPodClique,
    }
}

fn keys(cliques: Vec<Arc<Object<PodClique>>>) -> Vec<ObjectKey> {
    cliques.into_iter().map(|clique| clique.meta.key.clone()).collect()
}

/// The status is among them because another controller may have changed it, and because an update takes its
/// next step when the last one is recorded. Errors that we report are not: nothing follows from them.
fn own_facts_differ(old: &Object<PodClique>, new: &Object<PodClique>) -> bool {
    let report = |clique: &Object<PodClique>| {
        let status = clique.object.status.clone();
        status.map(|status| PodCliqueStatus { last_errors: Vec::new(), ..status })
    };
    old.meta.uid != new.meta.uid
        || old.meta.generation != new.meta.generation
        || old.meta.labels != new.meta.labels
        || old.meta.deleting != new.meta.deleting
        || old.object.metadata.finalizers != new.object.metadata.finalizers
        || old.meta.owner_uid() != new.meta.owner_uid()
        || old.object.status != new.object.status && report(old) != report(new)
}

fn pod_facts_differ(old: &Pod, new: &Pod) -> bool {
    old.observed != new.observed
        || old.gate_position != new.gate_position
        || old.meta().labels != new.meta().labels
}

/// By label, and by owner: a pod whose label was changed is still counted.
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

/// What scaled gangs ask of their base gang.
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

/// Whose turn it is, and when it began: a replica can have two turns in a row.
fn turn_facts(set: &Set) -> (Option<u32>, Option<Time>) {
    let progress = set.object.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let current = progress.and_then(|progress| progress.currently_updating.first());
    let since = current.and_then(|current| current.update_started_at.clone());
    (update::whose_turn(&set.object), since)
}

fn group_facts(group: &Object<PodCliqueScalingGroup>) -> (Uid, bool, i32, Option<Uid>) {
    let owner = group.meta.controller.as_ref().map(|owner| owner.uid.clone());
    (group.meta.uid.clone(), group.meta.deleting, group.object.spec.replicas, owner)
}

#[cfg(test)]
mod tests;
