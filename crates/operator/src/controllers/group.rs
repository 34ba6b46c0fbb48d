//! The controller of scaling groups: creates the members of `spec.replicas` replicas, reports their state, and
//! deletes them with the group. It is the only writer of the status of a group.
//!
//! Users and autoscalers write `spec.replicas`, the replica controller writes the rest of the spec. Names that
//! belong to another owner are reported, never taken.

mod decide;
mod observe;
mod wake;

use grove_api::error_code::ErrorCode;
use grove_api::{PodClique, PodCliqueScalingGroup};
use grove_core::status::Outcome;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::plan::act;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::{Verb, Write};

pub(crate) use self::wake::queue;

use self::decide::Decision;
pub(crate) use self::decide::NAME;
use self::observe::Observed;
use super::claims::RESOURCE_CLAIMS;
use super::context::Context;
use super::error::{self, ReconcileError};
use super::events;

/// Reconciles one group.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(observed) = Observed::of(&context.stores, &attempt.key) else {
        context.reporter.forget((PodCliqueScalingGroup::KIND, &attempt.key));
        return Ok(None);
    };
    let now = context.env.clock.wall();
    let about = (PodCliqueScalingGroup::KIND, &attempt.key);
    let status_failed = |error| ReconcileError::failed(ErrorCode::UpdateStatus, &error);
    if let Some(report) = decide::announcement(&observed, now) {
        let reported = context.reporter.report(about, &attempt, Some(report)).await;
        return reported.map_err(status_failed);
    }
    let Decision { plan, waits, deadline, refused } = decide::decide(&observed, now);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component(NAME);
    events::emit(&recorder, events::occurrences(&observed.group, &acted, events::reasons_of_group));
    if let Some(set) = &observed.set {
        let replicas = decide::deletions(&observed, &acted);
        let emitted = events::group_replicas_deleted(set, &attempt.key.name, replicas);
        events::emit(&recorder, emitted);
    }
    let failed = error::of_plan(&acted, code_of, attempt.failures).or(refused);
    let known = observed.group.object.status.as_ref().map(|status| &*status.last_errors);
    let known = known.unwrap_or_default();
    events::emit(&recorder, events::claims_missing(&observed.group, failed.as_ref(), known));
    let errors: Vec<_> = failed.iter().filter_map(|error| error.report(now)).collect();
    let generation = observed.group.object.metadata.generation;
    let outcome = match &failed {
        // A user cannot act on it.
        Some(_) if errors.is_empty() => None,
        Some(_) => Some(Outcome::Failed { generation, errors: &errors }),
        // The caches will show what was written, and wake the group for its status.
        None if !plan.is_empty() => None,
        None if waits => Some(Outcome::Waiting),
        None => Some(Outcome::Complete { generation }),
    };
    let report = outcome.and_then(|outcome| decide::status(&observed, outcome, now));
    let due = context.reporter.report(about, &attempt, report).await.map_err(status_failed)?;
    let due = context.earlier(due, deadline);
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// The code under which the failure of a write is reported.
fn code_of(write: &Write) -> ErrorCode {
    if write.resource == RESOURCE_CLAIMS {
        return ErrorCode::SyncPcsgResourceClaim;
    }
    if write.resource != Resource::of::<PodClique>() {
        return ErrorCode::SyncPodCliqueScalingGroup;
    }
    match write.verb {
        Verb::Create { .. } => ErrorCode::CreatePodCliques,
        Verb::Delete { .. } => ErrorCode::DeletePodClique,
        _ => ErrorCode::CreateOrUpdatePodCliques,
    }
}
