//! The controller of PodGangs: hands each gang to the backend of its scheduler. The gangs themselves, their
//! references and their state are written by the replica controller.

mod wake;

use grove_api::PodGang;
use grove_api::error_code::ErrorCode;
use grove_backends::{Backend, BackendError, Cluster, Gang, Progress};
use grove_runtime::class::{Class, Classed};
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::events::Severity;
use grove_runtime::object::Object;
use grove_runtime::resource::ObjectKey;

pub(crate) use self::wake::queue;

use super::context::{Context, ask};
use super::error::{ReconcileError, TRANSIENT_FAILURES};
use super::events;
use super::problems::{BackendProblem, GangKey};
use crate::caches::set_of;

/// Reconciles one gang.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(gang) = context.stores.gangs.store.get(&attempt.key) else {
        context.reporter.forget((PodGang::KIND, &attempt.key));
        context.problems.forget_gang(&attempt.key);
        let remotes = context.backends.all().filter_map(Backend::remote);
        for remote in remotes {
            let told = attempt.outside(remote.pod_gang_gone(&attempt.key)).await;
            told.map_err(|error| ReconcileError::failed(ErrorCode::DeletePodGangs, &error))?;
        }
        return Ok(None);
    };
    let backend = context.backends.for_gang(&gang.object);
    let cluster = Cluster { writer: &context.writer, fence: &attempt.fence };
    let set = set_of(&gang.meta).and_then(|set| context.stores.sets.get(&set));
    let set = set.filter(|set| gang.meta.is_controlled_by(&set.meta.uid));
    let progress =
        if backend.follows_pods() { context.stores.progress(&gang) } else { Progress::default() };
    let done = if gang.meta.deleting {
        backend.pod_gang_deleted(&gang.object, cluster)
    } else {
        let handed = Gang {
            object: &gang.object,
            set: set.as_ref().map(|set| &set.object),
            progress: &progress,
            objects: &context.stores.scheduler_objects,
        };
        backend.sync_pod_gang(handed, cluster)
    };
    let done = ask(&attempt, backend, done).await;
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
    let told = events::occurrence(gang, Severity::Warning, reason, "SyncPodGang", message);
    events::tell(&context.events.component("scheduler-backend"), [told]);
}
