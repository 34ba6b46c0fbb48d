//! The controller of set replicas: service, autoscalers, standalone cliques, scaling groups and gangs, with the
//! references and the Initialized condition of the gangs.

mod decide;
mod gangs;
mod observe;
mod termination;
mod wake;

use std::fmt;

use grove_api::error_code::ErrorCode;
use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::plan::{Plan, act};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::{Verb, Write};

pub(crate) use self::wake::queue;

use self::decide::Decision;
use super::claims::RESOURCE_CLAIMS;
use super::compute_domains;
use super::context::Context;
use super::error::{self, ReconcileError};
use super::events;
use crate::caches::{AUTOSCALERS, SERVICES};

/// Name of the controller.
pub(crate) const NAME: &str = "podcliqueset-replica-controller";

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

/// Reconciles one replica. Its set reports failures.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ReplicaKey>,
) -> Result<Due, ReconcileError> {
    let outcome = converge(context, &attempt).await;
    let now = context.env.clock.wall();
    let problem = outcome.as_ref().err().and_then(|error| error.report(now));
    context.problems.record_replica(&attempt.key, problem);
    outcome
}

async fn converge(context: &Context, attempt: &Attempt<ReplicaKey>) -> Result<Due, ReconcileError> {
    let Some(observed) = observe::observe(&context.stores, &context.backends, &attempt.key) else {
        return release(context, attempt).await.map(|()| None);
    };
    let now = context.env.clock.wall();
    let Decision { plan, refused, terminates, deadline, reports } = decide::decide(&observed, now);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component(super::set::NAME);
    if terminates && acted.failed.is_empty() {
        events::emit(&recorder, [events::replica_terminated(&observed.set, observed.index)]);
    } else {
        let emitted = events::occurrences(&observed.set, &acted, events::reasons_of_replica);
        events::emit(&recorder, emitted);
    }
    let failed = error::of_plan(&acted, code, attempt.failures).or(refused);
    let known = observed.set.object.status.as_ref().map(|status| &*status.last_errors);
    let emitted = events::claims_missing(&observed.set, failed.as_ref(), known.unwrap_or_default());
    events::emit(&recorder, emitted);
    let mut due = context.earlier(None, deadline);
    if plan.is_empty() {
        for (gang, report) in reports {
            let about = (PodGang::KIND, &gang.meta.key);
            let held = context.reporter.report(about, attempt, report).await;
            let failed = |error| ReconcileError::failed(ErrorCode::CreateOrPatchPodGang, &error);
            due = due.into_iter().chain(held.map_err(failed)?).min();
        }
    }
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// Removes our finalizer from the ComputeDomains of a replica whose set is deleted.
async fn release(context: &Context, attempt: &Attempt<ReplicaKey>) -> Result<(), ReconcileError> {
    let domains = compute_domains::observe(&context.stores, &attempt.key);
    let mut plan = Plan::default();
    plan.step(domains.iter().flat_map(compute_domains::release));
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    error::of_plan(&acted, code, attempt.failures).map_or(Ok(()), Err)
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
