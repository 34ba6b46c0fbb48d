//! The controller of PodCliques: pods, their gates, and the status and finalizer of the clique.
//!
//! A reconcile that writes ends there: the caches show what was written and wake the key again, so that the
//! status is computed when nothing is left to write. The PodClique itself is written by the replica controller
//! or, for members, by the controller of scaling groups.

mod decide;
mod minimum;
mod observe;
#[cfg(test)]
mod testkit;
mod wake;

use grove_api::error_code::ErrorCode;
use grove_api::{PodClique, labels};
use grove_backends::{NewPods, Preparation};
use grove_core::status::Outcome;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::plan::act;
use grove_runtime::process::Env;
use grove_runtime::resource::ObjectKey;
use grove_runtime::write::{Verb, Write};
use serde_json::Value;

pub(crate) use minimum::HadMinimum;
pub(crate) use wake::queue;

pub(crate) use self::decide::NAME;
use self::decide::{Decision, Setup, decide, report};
use self::observe::{Observed, observe};
use super::claims::RESOURCE_CLAIMS;
use super::context::Context;
use super::error::{self, ReconcileError};
use super::events;
use crate::caches::PODS;

/// Reconciles one PodClique.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(observed) = observe(&context.stores, &context.backends, &attempt.key) else {
        context.reporter.forget((PodClique::KIND, &attempt.key));
        context.refusals.forget(&attempt.key);
        return Ok(None);
    };
    let handling = decide::handling(&observed, context.env.clock.wall());
    let balance = decide::balance(&observed, handling.surplus);
    let draft = balance.as_ref().ok().and_then(|balance| balance.draft.as_ref());
    let preparation = match draft {
        Some(draft) => prepare(context, &attempt, &observed, draft).await,
        None => Ok(Preparation::default()),
    };
    let template = decide::template_key(&observed.clique);
    let refusal = context.refusals.get(&attempt.key, &template, context.env.clock.now());
    let refused = refusal.map(|refusal| refusal.error.until(refusal.retry_at));
    let setup = Setup {
        balance,
        preparation,
        init_image: context.init_image.as_deref(),
        handling,
        refused,
    };
    let Decision { plan, problem, waits } = decide(&observed, &setup);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component(NAME);
    // Creating the first pods of a new clique and deleting the last of a deleted one needs no event.
    let lives = observed.clique.object.status.is_some() && !observed.clique.meta.deleting;
    if lives || !acted.failed.is_empty() {
        events::emit(&recorder, events::occurrences(&observed.clique, &acted, events::reasons));
    }
    let failed = error::of_plan(&acted, code_of, attempt.failures).or(problem);
    let failed = match acted.created(&PODS) {
        Some(Err(_)) => failed.map(|error| refuse(context, &attempt.key, &template, error)),
        Some(Ok(())) => {
            context.refusals.forget(&attempt.key);
            failed
        }
        None => failed,
    };
    let known = observed.clique.object.status.as_ref().map(|status| &*status.last_errors);
    let known = known.unwrap_or_default();
    events::emit(&recorder, events::claims_missing(&observed.clique, failed.as_ref(), known));
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
    let due = context.earlier(due, handling.gated_until);
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

/// What the scheduler needs in the missing pods; `draft` is one of them.
async fn prepare(
    context: &Context,
    attempt: &Attempt<ObjectKey>,
    observed: &Observed,
    draft: &Value,
) -> Result<Preparation, ReconcileError> {
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
    let gang = context.stores.gangs.get(&observed.clique.meta.key.namespace, gang);
    let pods = NewPods {
        draft,
        gang: gang.as_ref().map(|gang| &gang.object),
        set: place.map(|place| &place.set.object),
        objects: &context.stores.scheduler_objects,
        outside: &attempt.outside,
    };
    let prepared = backend.prepare_pods(pods).await;
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
    let about = (PodClique::KIND, &attempt.key);
    let reported = context.reporter.report(about, attempt, report).await;
    reported.map_err(|error| ReconcileError::failed(ErrorCode::UpdatePodCliqueStatus, &error))
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
        // A plan changes only the finalizers of the PodClique itself.
        _ => ErrorCode::SyncPodClique,
    }
}
