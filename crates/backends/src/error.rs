//! Why a call of a backend failed.

use std::time::Duration;

use grove_api::condition::bounded_text;
use grove_runtime::class::{Class, Classed};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Presence;
use grove_runtime::write::WriteError;

/// Longest message of a backend, in bytes. Backends may be programs of other owners, and their texts end
/// up in statuses and events.
pub(crate) const MESSAGE_MAX: usize = 4096;

/// A backend could not do what it was called for.
#[derive(Debug, thiserror::Error)]
#[error("scheduler backend {backend:?}: {}", self.message())]
pub struct BackendError {
    backend: String,
    failure: Box<BackendFailure>,
}

/// What failed. The variant decides about the reason that users see and about the retry.
#[derive(Debug, thiserror::Error)]
pub enum BackendFailure {
    /// The cluster does not serve a kind of the scheduler. Work continues when it does.
    #[error(
        "the cluster does not serve {}.{}/{}, or not to the operator: install the scheduler and the \
         operator's role for it",
        .0.plural, .0.group, .0.version
    )]
    NotServed(Resource),
    /// The API server refuses a kind of the scheduler that may still exist. Work continues when the
    /// operator can watch the kind again, or when discovery confirms that it is gone.
    #[error(
        "the API server refuses {plural}.{}/{}, and discovery does not confirm that the kind is gone: new \
         pods and objects that need it are held back until that is known. Give the operator its role for \
         {plural} (list and watch), or check the API server",
        .0.group, .0.version, plural = .0.plural
    )]
    PresenceUnknown(Resource),
    /// Something has to appear or to disappear first. The operator notices when it does.
    #[error("{0}")]
    NotYet(String),
    /// An object of another owner has the name of an object of the gang.
    #[error("{object} is not owned by PodGang {gang}: delete or rename it")]
    NameTaken {
        /// Kind and name.
        object: String,
        /// The gang.
        gang: ObjectKey,
    },
    /// The workload, or the installation, asks for something that the user has to change.
    #[error("{message}")]
    Invalid {
        /// Reason of the event and the condition that report it.
        reason: &'static str,
        /// What is wrong, and what to do about it.
        message: String,
    },
    /// A write failed.
    #[error("{0}")]
    Write(WriteError),
    /// The program behind the backend did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The program was not waited for, because the operator stops.
    #[error("{0}")]
    Stopping(String),
    /// The answer of the program breaks the contract.
    #[error("{0}")]
    WrongAnswer(String),
    /// The answer of the program is an error.
    #[error("{message}")]
    Refused {
        /// The reason that the program gives.
        reason: String,
        /// The error, with the call that it answers.
        message: String,
        /// Whether the same call may succeed later.
        retryable: bool,
    },
}

impl BackendError {
    /// A failure of the backend with this name.
    pub fn new(backend: &str, failure: BackendFailure) -> Self {
        Self { backend: backend.to_owned(), failure: Box::new(failure) }
    }

    /// A [`BackendFailure::Invalid`].
    pub fn invalid(backend: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(backend, BackendFailure::Invalid { reason, message: message.into() })
    }

    /// A [`BackendFailure::NotYet`].
    pub fn not_yet(backend: &str, message: impl Into<String>) -> Self {
        Self::new(backend, BackendFailure::NotYet(message.into()))
    }

    /// Fails unless the cluster serves a kind of a backend.
    pub fn unless_served(backend: &str, kind: &Resource, presence: Presence) -> Result<(), Self> {
        let failure = match presence {
            Presence::Served => return Ok(()),
            Presence::Absent => BackendFailure::NotServed(kind.clone()),
            Presence::Unknown => BackendFailure::PresenceUnknown(kind.clone()),
        };
        Err(Self::new(backend, failure))
    }

    /// What is wrong, without the name of the backend.
    pub fn message(&self) -> String {
        bounded_text(&self.failure.to_string(), MESSAGE_MAX).into_owned()
    }

    /// One word, for conditions and events.
    pub fn reason(&self) -> &str {
        match &*self.failure {
            BackendFailure::NotServed(_) => "SchedulerNotInstalled",
            BackendFailure::PresenceUnknown(_) => "SchedulerApiUnknown",
            BackendFailure::NotYet(_) => "SchedulerObjectMissing",
            BackendFailure::NameTaken { .. } => "SchedulerObjectNameTaken",
            BackendFailure::Write(_) => "SchedulerObjectRefused",
            BackendFailure::Unreachable(_) | BackendFailure::Stopping(_) => {
                "SchedulerEndpointUnreachable"
            }
            BackendFailure::WrongAnswer(_) => "SchedulerEndpointAnswerWrong",
            BackendFailure::Invalid { reason, .. } => reason,
            BackendFailure::Refused { reason, .. } => reason,
        }
    }

    /// Whether there is no answer that keeps the contract.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(*self.failure, BackendFailure::Unreachable(_) | BackendFailure::WrongAnswer(_))
    }
}

impl Classed for BackendError {
    fn class(&self) -> Class {
        match &*self.failure {
            BackendFailure::NotServed(_)
            | BackendFailure::PresenceUnknown(_)
            | BackendFailure::Invalid { .. }
            | BackendFailure::Refused { retryable: false, .. } => Class::Invalid,
            BackendFailure::NotYet(_) => Class::Conflict,
            BackendFailure::NameTaken { .. } => Class::Denied,
            BackendFailure::Write(error) => error.class(),
            BackendFailure::Stopping(_) => Class::Fenced,
            BackendFailure::Unreachable(_)
            | BackendFailure::WrongAnswer(_)
            | BackendFailure::Refused { retryable: true, .. } => Class::Transient,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match &*self.failure {
            BackendFailure::Write(error) => error.retry_after(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_backends_are_bounded() {
        let error = BackendError::invalid("b", "Reason", "x".repeat(1 << 20));
        assert_eq!(error.message().len(), MESSAGE_MAX);
        assert!(error.message().ends_with("(cut, 1048576 bytes in all)"), "{}", error.message());
    }
}
