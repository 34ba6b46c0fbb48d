//! The controller of PodGangs: hands each gang to the backend of its scheduler. The gangs themselves, their
//! references and their state are written by the replica controller.

mod wake;

use grove_api::PodGang;
use grove_api::error_code::ErrorCode;
use grove_backends::{BackendError, CallContext, GangInput, PodProgress};
use grove_runtime::class::{Class, Classed};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::events::Severity;
use grove_runtime::object::Object;
use grove_runtime::resource::ObjectKey;

pub(crate) use self::wake::queue;

use super::context::Context;
use super::error::{ReconcileError, TRANSIENT_FAILURES};
use super::events;
use super::problems::{BackendProblem, GangKey};
use crate::caches::set_of;

/// Reconciles one gang.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Attempt { fence, outside, .. } = &attempt;
    let call = CallContext { writer: &context.writer, fence, outside };
    let Some(gang) = context.stores.gangs.store.get(&attempt.key) else {
        context.reporter.forget((PodGang::KIND, &attempt.key));
        context.problems.forget_gang(&attempt.key);
        for backend in context.backends.all() {
            let deleted = backend.pod_gang_deleted(&attempt.key, None, call).await;
            deleted.map_err(|error| ReconcileError::failed(ErrorCode::DeletePodGangs, &error))?;
        }
        return Ok(None);
    };
    let backend = context.backends.for_gang(&gang.object);
    let set = set_of(&gang.meta).and_then(|set| context.stores.sets.get(&set));
    let set = set.filter(|set| gang.meta.is_controlled_by(&set.meta.uid));
    let progress = match backend.pods() {
        Some(_) => context.stores.progress(&gang),
        None => PodProgress::default(),
    };
    let topology = context.stores.topologies.reference(&gang, backend.name());
    let done = if gang.meta.deleting {
        backend.pod_gang_deleted(&attempt.key, Some(&gang.object), call).await
    } else {
        let input = GangInput {
            object: &gang.object,
            set: set.as_ref().map(|set| &set.object),
            progress: &progress,
            topology: topology.as_deref(),
            objects: &context.stores.scheduler_objects,
        };
        backend.sync_pod_gang(input, call).await
    };
    if let Some(set) = &set {
        let key = GangKey { set: set.meta.key.clone(), name: gang.meta.key.name.to_string() };
        context.problems.record_gang(&key, problem(&done, attempt.failures));
    }
    if let Err(error) = &done {
        emit(context, &gang, error);
    }
    done.map_err(|error| ReconcileError::failed(ErrorCode::CreateOrPatchPodGang, &error))?;
    Ok(None)
}

/// A failure that a user has to act on, or that lasts.
fn problem(done: &Result<(), BackendError>, failures: u32) -> Option<BackendProblem> {
    let error = done.as_ref().err()?;
    let lasting =
        matches!(error.class(), Class::Invalid | Class::Denied) || failures >= TRANSIENT_FAILURES;
    let problem =
        || BackendProblem { reason: error.reason().to_owned(), message: error.to_string() };
    lasting.then(problem)
}

/// Emits an event about what a user has to change.
fn emit(context: &Context, gang: &Object<PodGang>, error: &BackendError) {
    if error.class() != Class::Invalid {
        return;
    }
    let (reason, message) = (error.reason().to_owned(), error.to_string());
    let emitted = events::occurrence(gang, Severity::Warning, reason, "SyncPodGang", message);
    events::emit(&context.events.component("scheduler-backend"), [emitted]);
}
