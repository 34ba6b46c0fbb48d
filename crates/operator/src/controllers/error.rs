//! Why a reconcile failed, and how that is reported.

use std::fmt;
use std::time::Duration;

use grove_api::error_code::{ErrorCode, LastError, Operation, OperationError};
use grove_api::labels;
use grove_backends::BackendError;
use grove_runtime::class::{Class, Classed};
use grove_runtime::clock::Instant;
use grove_runtime::controller::Due;
use grove_runtime::plan::Acted;
use grove_runtime::write::{Write, WriteError};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Failed attempts after which a cache shows whatever exists.
const CACHE_ATTEMPTS: u32 = 3;

/// Failures in a row after which a transient failure is reported.
pub(crate) const TRANSIENT_FAILURES: u32 = 3;

/// Why a reconcile failed.
#[derive(Clone, Debug)]
pub(crate) struct ReconcileError {
    code: ErrorCode,
    message: String,
    class: Class,
    retry_after: Option<Duration>,
    due: Due,
    /// Whether a user has to act. Other failures are transient.
    to_report: bool,
}

impl ReconcileError {
    /// A rule cannot be applied before a user changes something.
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

    /// The API server refused a write. A change of the template or of a policy helps, and a changed policy
    /// wakes no controller.
    pub(crate) fn refused(code: ErrorCode, error: &WriteError) -> Self {
        let failed = Self::failed(code, error);
        let class = if failed.class == Class::Invalid { Class::Denied } else { failed.class };
        Self { class, ..failed }
    }

    /// The same error, with a time at which to reconcile again in any case.
    pub(crate) fn with_due(self, due: Due) -> Self {
        Self { due: self.due.into_iter().chain(due).min(), ..self }
    }

    /// The same error, to be retried at this time and not before.
    pub(crate) fn until(self, retry_at: Instant) -> Self {
        Self { class: Class::Invalid, due: Some(retry_at), ..self }
    }

    /// A scheduler backend failed, after `failures` failures in a row. One that is a program of its own may be
    /// unreachable for long.
    pub(crate) fn of_backend(code: ErrorCode, error: &BackendError, failures: u32) -> Self {
        let failed = Self::failed(code, error);
        Self { to_report: failed.to_report || failures >= TRANSIENT_FAILURES, ..failed }
    }

    /// An object that no cache shows has the name of an object to create. It may be our own that the cache
    /// does not show yet, so it is reported after a few failures.
    pub(crate) fn name_taken(code: ErrorCode, error: &WriteError, failures: u32) -> Self {
        let message = format!(
            "{error}. The object is not labelled {}={}, so it is left alone: delete or rename it",
            labels::MANAGED_BY,
            labels::MANAGED_BY_VALUE
        );
        let to_report = failures >= CACHE_ATTEMPTS;
        Self { message, to_report, ..Self::failed(code, error) }
    }

    /// An object of another owner has the name. No cache may show its deletion, so the create is retried.
    pub(crate) fn taken(code: ErrorCode, message: impl fmt::Display) -> Self {
        Self { class: Class::Conflict, ..Self::rule(code, message) }
    }

    /// The code that it is reported under.
    pub(crate) fn code(&self) -> &ErrorCode {
        &self.code
    }

    /// The message, if a user has to act.
    pub(crate) fn lasting(&self) -> Option<&str> {
        self.to_report.then_some(self.message.as_str())
    }

    /// The entry of `status.lastErrors`, if a user has to act.
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

/// The first failure of a plan, after `failures` failed reconciles in a row.
pub(crate) fn of_plan(
    acted: &Acted<'_>,
    code: impl Fn(&Write) -> ErrorCode,
    failures: u32,
) -> Option<ReconcileError> {
    let (write, error) = acted.failed.first()?;
    Some(if error.is_already_exists() {
        ReconcileError::name_taken(code(write), error, failures)
    } else {
        ReconcileError::refused(code(write), error)
    })
}
