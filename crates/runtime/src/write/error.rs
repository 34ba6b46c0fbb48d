//! Why a write failed, and its class.

use std::time::Duration;

use http::StatusCode;
use http::header::RETRY_AFTER;
use http::response::Parts;
use kube::core::Status;

use super::request::BuildError;
use super::{Verb, Write};
use crate::class::{Class, Classed};

/// Characters that the API server appends to `generateName`.
const GENERATED_SUFFIX_CHARS: usize = 5;

/// The longest Retry-After that is honoured. Admission webhooks of other programs may ask for any time, and
/// may accept soon what they refuse now.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// A failed write. Prints as verb, object, purpose and cause.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {object} ({reason}): {cause}")]
pub struct WriteError {
    verb: &'static str,
    object: String,
    reason: &'static str,
    #[source]
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("not sent: this process does not hold the lease")]
    NotLeader,
    #[error("not sent: the API server asked to wait {:.1} s with such writes", .0.as_secs_f64())]
    Paused(Duration),
    #[error("not sent: {0}")]
    Build(#[source] BuildError),
    #[error("no answer within {} s; the write may or may not have happened", .0.as_secs())]
    Timeout(Duration),
    #[error("the API server could not be reached: {0}")]
    Transport(#[source] Box<kube::Error>),
    #[error("{} {}: {}", status.code, status.reason, status.message)]
    Refused { status: Box<Status>, class: Class, retry_after: Option<Duration> },
}

impl WriteError {
    fn new(write: &Write, cause: Cause) -> Self {
        Self {
            verb: write.verb.as_str(),
            object: format!("{} {}", write.resource, write.key),
            reason: write.reason,
            cause,
        }
    }

    pub(super) fn not_leader(write: &Write) -> Self {
        Self::new(write, Cause::NotLeader)
    }

    pub(super) fn paused(write: &Write, rest: Duration) -> Self {
        Self::new(write, Cause::Paused(rest))
    }

    pub(super) fn build(write: &Write, source: BuildError) -> Self {
        Self::new(write, Cause::Build(source))
    }

    pub(super) fn timeout(write: &Write, timeout: Duration) -> Self {
        Self::new(write, Cause::Timeout(timeout))
    }

    pub(super) fn transport(write: &Write, source: kube::Error) -> Self {
        Self::new(write, Cause::Transport(Box::new(source)))
    }

    pub(super) fn refused(write: &Write, parts: &Parts, body: &[u8]) -> Self {
        // Proxies answer with text or HTML, not with a Status.
        let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
            Status::failure(&String::from_utf8_lossy(body), parts.status.as_str())
        });
        let message = without_generated_name(write, &status.message);
        let status = Status { code: parts.status.as_u16(), message, ..status };
        let retry_after = parts
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        let class = classify(&write.verb, parts.status, &status);
        Self::new(write, Cause::Refused { status: Box::new(status), class, retry_after })
    }

    /// The Status of the server, if the server refused.
    pub fn status(&self) -> Option<&Status> {
        match &self.cause {
            Cause::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether a create failed because the object exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    pub(super) fn class_of_error(&self) -> Class {
        match &self.cause {
            Cause::NotLeader => Class::Fenced,
            Cause::Build(_) => Class::Bug,
            Cause::Paused(_) | Cause::Timeout(_) | Cause::Transport(_) => Class::Transient,
            Cause::Refused { class, .. } => *class,
        }
    }

    /// Whether the server refused because of load.
    pub(super) fn asks_to_slow_down(&self) -> bool {
        self.status().is_some_and(|status| matches!(status.code, 429 | 503))
    }

    pub(super) fn server_pause(&self) -> Option<Duration> {
        match &self.cause {
            Cause::Paused(rest) => Some(*rest),
            Cause::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl Classed for WriteError {
    fn class(&self) -> Class {
        self.class_of_error()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.server_pause()
    }
}

/// The message without the suffix of a generated name: each attempt has another suffix, and the same
/// refusal must give the same message.
fn without_generated_name(write: &Write, message: &str) -> String {
    let Verb::Create { body } = &write.verb else { return message.to_owned() };
    let prefix = body["metadata"]["generateName"].as_str().filter(|prefix| !prefix.is_empty());
    let Some(prefix) = prefix else { return message.to_owned() };
    let mut parts = message.split(prefix);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_suffix = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let suffix = part.get(..GENERATED_SUFFIX_CHARS).filter(|text| is_suffix(text));
        result.push_str(prefix);
        result.push_str(&part[suffix.map_or(0, str::len)..]);
    }
    result
}

fn classify(verb: &Verb, code: StatusCode, status: &Status) -> Class {
    match code.as_u16() {
        // The object has changed, is deleted, or already exists.
        404 | 409 | 410 => Class::Conflict,
        401 | 408 | 429 | 500..=599 => Class::Transient,
        403 => Class::Denied,
        422 if precondition_failed(verb, status) => Class::Conflict,
        400 | 413 | 422 => Class::Invalid,
        _ => Class::Bug,
    }
}

/// The server answers 422, not 409, when a patch names another uid than the stored object has: as an
/// immutable field for merge and apply, as a failed test for JSON patch (which names no field, while every
/// validation failure does).
fn precondition_failed(verb: &Verb, status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    match verb {
        Verb::Json { .. } => causes.count() == 0,
        Verb::Merge { .. } | Verb::Apply { .. } => {
            causes.into_iter().any(|cause| cause.field == "metadata.uid")
        }
        _ => false,
    }
}
