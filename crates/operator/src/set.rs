//! A PodCliqueSet as a whole: its finalizer, what the start-order container needs, the history of its
//! templates, and its status.

mod decide;
mod observe;

use grove_api::error_code::ErrorCode;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_core::layout::Layout;
use grove_core::revision;
use grove_core::status::{Outcome, ResourceState, SchedulerState};
use grove_core::update::is_paused;
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::{Meta, MetaView};
use grove_runtime::write::Write;

use self::observe::Children;
use crate::claims::{self, RESOURCE_CLAIMS};
use crate::compute_domains;
use crate::events;
use crate::objects::{Object, Revision, Set};
use crate::plan::act;
use crate::reconcile::{BackendProblem, Context, ReconcileError};
use crate::world::{REVISIONS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, World, set_of};

fn key_of(meta: &Meta) -> Vec<ObjectKey> {
    set_of(meta).into_iter().collect()
}

/// What wakes a set.
pub(crate) fn queue(world: &World, env: &Env) -> Queue<ObjectKey> {
    let queue = Queue::new(env.clock.clone());
    queue.follow(&world.sets, Priority::UserChange, set_projection, |set| {
        vec![set.meta.key.clone()]
    });
    let child = Priority::ChildChange;
    queue.follow(
        &world.cliques.store,
        child,
        |one: &Object<PodClique>| {
            (one.meta.deleting, one.meta.labels.clone(), one.object.status.clone())
        },
        // One that says nothing yet adds nothing to what the set says.
        |one| if one.object.status.is_some() { key_of(&one.meta) } else { Vec::new() },
    );
    queue.follow(
        &world.groups.store,
        child,
        |one: &Object<PodCliqueScalingGroup>| (one.meta.deleting, one.object.status.clone()),
        |one| key_of(&one.meta),
    );
    let owner = |meta: &Meta| claims::set_of_claim(meta).into_iter().collect();
    world.claims.wake(&queue, &world.sets, owner, |set| vec![set.meta.key.clone()]);
    for store in [&world.service_accounts, &world.roles, &world.role_bindings, &world.secrets] {
        let projection = |one: &MetaView| {
            (one.metadata.uid.clone(), one.metadata.deleting, one.metadata.labels.clone())
        };
        queue.follow(store, child, projection, |one| key_of(&one.metadata));
    }
    queue.follow(
        &world.revisions.store,
        child,
        |one: &Revision| (one.meta.uid.clone(), one.observed.clone()),
        |one| key_of(&one.meta),
    );
    queue
}

/// The status is our own, but somebody else may have changed it. Of the annotations only the one that is
/// copied matters here.
fn set_projection(set: &Set) -> impl PartialEq + use<> {
    let metadata = &set.object.metadata;
    let status = set.object.status.clone();
    let finalizers = metadata.finalizers.clone();
    let flags = [set.meta.deleting, is_paused(&set.object)];
    let cause = revision::change_cause(&set.object).map(str::to_owned);
    (set.meta.uid.clone(), set.meta.generation, flags, finalizers, status, cause)
}

/// Brings one set to what it says, and its status to what is.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(seen) = observe::observe(&context.world, &attempt.key) else {
        context.pace_of_sets.forget(&attempt.key);
        return Ok(None);
    };
    let (plan, refused) = decide::decide(&seen, || observe::children(&context.world, &attempt.key));
    let mut acted = act(&plan, &context.writer, &attempt.fence).await;
    // A role that somebody made before us is as good as ours.
    acted.failed.retain(|(write, error)| {
        !(error.is_already_exists() && [ROLES, ROLE_BINDINGS].contains(&write.resource))
    });
    let failed = acted.error(code, attempt.failures).or(refused);
    let now = context.env.clock.wall();
    let known = seen.set.object.status.as_ref().map(|status| &*status.last_errors);
    let told = events::claims_missing(&seen.set, failed.as_ref(), known.unwrap_or_default());
    events::tell(&context.events.component("podcliqueset-controller"), told);
    let mut errors: Vec<_> = failed.iter().filter_map(|error| error.report(now)).collect();
    errors.extend(context.problems.of(&attempt.key));
    let outcome = match &failed {
        _ if !errors.is_empty() => Some(Outcome::Incomplete { errors: &errors }),
        None if acted.done.is_empty() => {
            Some(Outcome::Complete { generation: seen.set.object.metadata.generation })
        }
        // What was written wakes the set again, and what failed passes by itself.
        _ => None,
    };
    let Some(outcome) = outcome else { return failed.map_or(Ok(None), Err) };
    let replicas = u32::try_from(seen.set.object.spec.replicas).unwrap_or_default();
    let now_or_later = context.pace_of_sets.wait(&attempt.key, replicas, context.env.clock.now());
    // Everything waits for the next step of an update, which is cheap to see.
    let one = |replica| observe::of_replica(&context.world, &attempt.key, replica);
    if let Some(due) = now_or_later.filter(|_| !decide::update_is_due(&seen, one)) {
        // What is not tried again still has to be reported.
        let retried = failed.filter(|error| error.class() != Class::Invalid);
        return retried.map_or(Ok(Some(due)), Err);
    }
    let children = observe::children(&context.world, &attempt.key);
    let problem = context.problems.with_scheduler(&attempt.key);
    let limit = limit(context, &seen.set.object, &children);
    let scheduler = SchedulerState {
        problem: problem.as_ref().map(BackendProblem::told),
        limit: limit.as_ref().map(BackendProblem::told),
    };
    let claims = context.world.claims.problem(&seen.set.object);
    let domains = compute_domains::problem(&context.world, &Layout::of(&seen.set.object));
    let resources = ResourceState {
        claims: claims.as_ref().map(|(reason, message)| (*reason, message.as_str())),
        domains: domains.as_ref().map(|(reason, message)| (*reason, message.as_str())),
    };
    let status = decide::status(&seen, &children, outcome, scheduler, resources, now);
    if let Some((write, told)) = status {
        let written = context.writer.execute(&attempt.fence, &write).await;
        written.map_err(|error| ReconcileError::failed(ErrorCode::UpdatePcsStatus, &error))?;
        events::tell(&context.events.component("podcliqueset-controller"), told);
    }
    failed.map_or(Ok(None), Err)
}

/// What the scheduler of a set does only in part.
fn limit(context: &Context, set: &PodCliqueSet, children: &Children) -> Option<BackendProblem> {
    let mut cliques = set.spec.template.cliques.iter();
    let name = cliques.find_map(|clique| clique.spec.pod_spec.scheduler_name());
    let backend = context.backends.for_pods(name)?;
    let mut limits = backend.limits(set, &context.world.scheduler_objects);
    // Only the default can become another one, and only where there are several.
    if name.is_none() && context.backends.all().count() > 1 {
        let pods = children.cliques.values().flat_map(|one| context.world.pods_of(&one.meta.uid));
        limits.extend(decide::left_behind(pods, backend.name()));
    }
    let messages: Vec<_> = limits.iter().map(|limit| limit.message.as_str()).collect();
    let (reason, message) = (limits.first()?.reason.into(), messages.join("; "));
    Some(BackendProblem { reason, message })
}

fn code(write: &Write) -> ErrorCode {
    let resource = &write.resource;
    if *resource == SERVICE_ACCOUNTS {
        ErrorCode::SyncServiceAccount
    } else if *resource == ROLES {
        ErrorCode::SyncRole
    } else if *resource == ROLE_BINDINGS {
        ErrorCode::SyncRoleBinding
    } else if *resource == SECRETS {
        ErrorCode::CreateSecret
    } else if *resource == REVISIONS {
        ErrorCode::SyncControllerRevision
    } else if *resource == RESOURCE_CLAIMS {
        ErrorCode::SyncPcsResourceClaim
    } else if *resource == Resource::of::<PodCliqueSet>() {
        ErrorCode::UpdatePcsStatus
    } else {
        ErrorCode::DeletePcsReplica
    }
}
