//! What all reconciles share: their surroundings, their failures, and how a failure is reported.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use grove_api::error_code::{ErrorCode, LastError, Operation, OperationError};
use grove_api::labels;
use grove_backends::{Backend, BackendError, Registry};
use grove_core::status::aggregate;
use grove_runtime::class::{Class, Classed};
use grove_runtime::clock::Instant;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::events::Recorder;
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;
use grove_runtime::write::{WriteError, Writer};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;

use crate::coalesce::{Coalesce, Pace};
use crate::refusals::Refusals;
use crate::replica::ReplicaKey;
use crate::world::World;

/// Failed attempts after which a cache has shown whatever there is.
const PATIENCE_WITH_CACHES: u32 = 3;

/// Failures in a row after which a user hears of what usually passes by itself.
pub(crate) const PATIENCE: u32 = 3;

/// What a reconcile works with.
pub(crate) struct Context {
    pub(crate) world: World,
    pub(crate) writer: Writer,
    /// For the few objects that are read once, when a write was refused because of them.
    pub(crate) client: Client,
    pub(crate) events: Recorder,
    pub(crate) env: Env,
    /// The schedulers that gangs and pods can be for.
    pub(crate) backends: Registry,
    /// Image of the start-order container, with tag; absent when the operator was not told.
    pub(crate) init_image: Option<String>,
    /// What the replicas of sets cannot do.
    pub(crate) problems: Problems,
    /// PodCliques whose pods the API server refused.
    pub(crate) refusals: Refusals,
    /// Sets whose new template it would refuse.
    pub(crate) refused_updates: Refusals,
    /// When statuses are written.
    pub(crate) held: Coalesce,
    /// The same for the phases of gangs, which wait for themselves only.
    pub(crate) held_phases: Coalesce,
    pub(crate) pace_of_sets: Pace,
}

impl Context {
    /// The earlier of a time to look again and a deadline.
    pub(crate) fn earlier(&self, due: Due, deadline: Option<Timestamp>) -> Due {
        let (now, wall) = (self.env.clock.now(), self.env.clock.wall());
        let wait =
            |end: Timestamp| Duration::try_from(end.duration_since(wall)).unwrap_or_default();
        let deadline = deadline.map(|end| now + wait(end));
        due.into_iter().chain(deadline).min()
    }
}

/// Waits for a backend. Keys of other schedulers do not wait for one that is a program of its own.
pub(crate) async fn ask<K, T>(
    attempt: &Attempt<K>,
    backend: &dyn Backend,
    call: BoxFuture<'_, T>,
) -> T {
    if backend.remote().is_some() { attempt.outside(call).await } else { call.await }
}

/// What keeps replicas of sets and their gangs from being as they should. Reported by the sets; kept
/// in memory because everybody finds out again after a restart.
pub(crate) struct Problems {
    by_replica: Mutex<BTreeMap<ReplicaKey, LastError>>,
    by_gang: Mutex<BTreeMap<GangKey, BackendProblem>>,
    sets: Queue<ObjectKey>,
}

/// A gang of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GangKey {
    pub(crate) set: ObjectKey,
    pub(crate) name: String,
}

/// Why a scheduler does not know or do what a gang or a set says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendProblem {
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl BackendProblem {
    /// Reason and message.
    pub(crate) fn told(&self) -> (&str, &str) {
        (&self.reason, &self.message)
    }
}

impl Problems {
    /// None yet; the sets whose problems change are wanted in `sets`.
    pub(crate) fn new(sets: Queue<ObjectKey>) -> Self {
        Self { by_replica: Mutex::default(), by_gang: Mutex::default(), sets }
    }

    /// Notes the problem of a replica, or that it has none.
    pub(crate) fn note(&self, replica: &ReplicaKey, problem: Option<LastError>) {
        let changed = {
            let mut known = self.by_replica.lock().unwrap_or_else(PoisonError::into_inner);
            let before = known.get(replica).map(|known| known.description.clone());
            let after = problem.as_ref().map(|problem| problem.description.clone());
            match problem {
                Some(problem) => known.insert(replica.clone(), problem),
                None => known.remove(replica),
            };
            before != after
        };
        if changed {
            self.sets.want(replica.set.clone(), Priority::ChildChange);
        }
    }

    /// Notes the problem of a gang with its scheduler, or that it has none.
    pub(crate) fn note_gang(&self, gang: &GangKey, problem: Option<BackendProblem>) {
        let changed = {
            let mut known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = known.get(gang) != problem.as_ref();
            match problem {
                Some(problem) => known.insert(gang.clone(), problem),
                None => known.remove(gang),
            };
            changed
        };
        if changed {
            self.sets.want(gang.set.clone(), Priority::ChildChange);
        }
    }

    /// Forgets what was noted about a gang that is gone.
    pub(crate) fn forget_gang(&self, gang: &ObjectKey) {
        let mut known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
        let sets: Vec<ObjectKey> = known
            .extract_if(.., |key, _| *key.name == *gang.name && key.set.namespace == gang.namespace)
            .map(|(key, _)| key.set)
            .collect();
        drop(known);
        for set in sets {
            self.sets.want(set, Priority::ChildChange);
        }
    }

    /// What to say about the gangs of a set and their scheduler: the first problem, and how many more.
    pub(crate) fn with_scheduler(&self, set: &ObjectKey) -> Option<BackendProblem> {
        let known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
        let first = GangKey { set: set.clone(), name: String::new() };
        let mut of_set = known.range(first..).take_while(|(gang, _)| gang.set == *set);
        let (gang, problem) = of_set.next()?;
        let more = match of_set.count() {
            0 => String::new(),
            1 => " (and one more gang)".to_owned(),
            more => format!(" (and {more} more gangs)"),
        };
        let message = format!("PodGang {}: {}{more}", gang.name, problem.message);
        Some(BackendProblem { message, reason: problem.reason.clone() })
    }

    /// The problems of a set: one of each code, with the number of replicas that have it.
    pub(crate) fn of(&self, set: &ObjectKey) -> Vec<LastError> {
        let known = self.by_replica.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ReplicaKey { set: set.clone(), index: 0 };
        let of_set = known.range(first..).take_while(|(replica, _)| replica.set == *set);
        let of_set: Vec<_> =
            of_set.map(|(replica, problem)| (replica.index.to_string(), problem)).collect();
        let errors = of_set.iter().map(|(name, one)| (name.as_str(), std::slice::from_ref(*one)));
        aggregate("replica", errors)
    }
}

/// Why a reconcile did not reach its end.
#[derive(Clone, Debug)]
pub(crate) struct ReconcileError {
    code: ErrorCode,
    message: String,
    class: Class,
    retry_after: Option<Duration>,
    due: Due,
    /// Whether a user has to know. The others pass by themselves.
    to_report: bool,
}

impl ReconcileError {
    /// A rule cannot be followed as things are; somebody has to change something.
    pub(crate) fn rule(code: ErrorCode, message: impl fmt::Display) -> Self {
        let (class, message) = (Class::Invalid, message.to_string());
        Self { code, message, class, retry_after: None, due: None, to_report: true }
    }

    /// A write or a scheduler backend failed.
    pub(crate) fn failed(code: ErrorCode, error: &impl Classed) -> Self {
        let (class, retry_after) = (error.class(), error.retry_after());
        let to_report = matches!(class, Class::Invalid | Class::Denied);
        Self { code, message: error.to_string(), class, retry_after, due: None, to_report }
    }

    /// The API server refused a write. Nothing but a change of the template or of a policy helps, and nobody
    /// says when a policy changes.
    pub(crate) fn refused(code: ErrorCode, error: &WriteError) -> Self {
        let failed = Self::failed(code, error);
        let class = if failed.class == Class::Invalid { Class::Denied } else { failed.class };
        Self { class, ..failed }
    }

    /// The same error, with a time at which to reconcile again in any case.
    pub(crate) fn with_due(self, due: Due) -> Self {
        Self { due: self.due.into_iter().chain(due).min(), ..self }
    }

    /// The same error, to be tried again at this time and not before.
    pub(crate) fn until(self, retry_at: Instant) -> Self {
        Self { class: Class::Invalid, due: Some(retry_at), ..self }
    }

    /// A scheduler backend failed after so many failures. One that is a program of its own may be out of
    /// reach for long.
    pub(crate) fn of_backend(code: ErrorCode, error: &BackendError, failures: u32) -> Self {
        let failed = Self::failed(code, error);
        Self { to_report: failed.to_report || failures >= PATIENCE, ..failed }
    }

    /// Something that we do not see has the name of an object to be created. It may be our own that
    /// the cache has not shown yet, so a user hears of it when it has failed a few times.
    pub(crate) fn name_taken(code: ErrorCode, error: &WriteError, failures: u32) -> Self {
        let message = format!(
            "{error}. The object is not labelled {}={}, so it is left alone: delete or rename it",
            labels::MANAGED_BY,
            labels::MANAGED_BY_VALUE
        );
        let to_report = failures >= PATIENCE_WITH_CACHES;
        Self { message, to_report, ..Self::failed(code, error) }
    }

    /// An object of another owner is in the way. Its removal may not be seen, so it is tried again.
    pub(crate) fn taken(code: ErrorCode, message: impl fmt::Display) -> Self {
        Self { class: Class::Conflict, ..Self::rule(code, message) }
    }

    /// What it is reported under.
    pub(crate) fn code(&self) -> &ErrorCode {
        &self.code
    }

    /// What a user has to know, if anything.
    pub(crate) fn lasting(&self) -> Option<&str> {
        self.to_report.then_some(self.message.as_str())
    }

    /// The entry of `status.lastErrors`, for failures that a user has to know about.
    pub(crate) fn report(&self, now: Timestamp) -> Option<LastError> {
        self.to_report.then(|| LastError {
            code: self.code.clone(),
            description: OperationError {
                operation: Operation::Sync,
                code: self.code.clone(),
                message: self.message.clone(),
                cause: None,
            }
            .to_string(),
            observed_at: Some(Time(now)),
            ..LastError::default()
        })
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReconcileError {}

impl Classed for ReconcileError {
    fn class(&self) -> Class {
        self.class
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    fn due(&self) -> Due {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::clock::Clock;

    use super::*;

    #[test]
    fn the_gangs_of_a_set_have_one_voice() {
        let sets = Queue::new(Clock::at(Timestamp::UNIX_EPOCH));
        let problems = Problems::new(sets);
        let (set, other) = (ObjectKey::new("n", "a"), ObjectKey::new("n", "b"));
        let gang =
            |set: &ObjectKey, name: &str| GangKey { set: set.clone(), name: name.to_owned() };
        let problem = |message: &str| {
            Some(BackendProblem { reason: "Refused".into(), message: message.to_owned() })
        };
        problems.note_gang(&gang(&set, "a-1"), problem("second"));
        problems.note_gang(&gang(&set, "a-0"), problem("first"));
        problems.note_gang(&gang(&other, "b-0"), problem("theirs"));

        let said = problems.with_scheduler(&set).unwrap();
        assert_eq!(said.told(), ("Refused", "PodGang a-0: first (and one more gang)"));
        problems.note_gang(&gang(&set, "a-0"), None);
        let said = problems.with_scheduler(&set).unwrap();
        assert_eq!(said.message, "PodGang a-1: second");
        problems.forget_gang(&ObjectKey::new("n", "a-1"));
        assert_eq!(problems.with_scheduler(&set), None);
        assert!(problems.with_scheduler(&other).is_some());
    }
}
