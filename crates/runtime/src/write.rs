//! The writer: all writes to Kubernetes go through it.
//!
//! A [`Write`] is data: object, verb, precondition and reason. Plans consist of writes, so that decisions
//! can be compared and printed. The [`Writer`] executes them: it checks leadership until the bytes are
//! sent, uses one field manager and a timeout shorter than the lease's renewal deadline, limits writes in
//! flight (more so for a kind and namespace where the API server asks us to slow down), records each write
//! in the reconcile's [`Fence`], and gives every error a [class](crate::class::Class).
//!
//! The writer never retries: retries belong to the queue, where they are visible and have backoff.

mod error;
mod pace;
mod request;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

pub use self::error::WriteError;
use self::pace::{LaneKey, Pacer};
use self::request::Mode;
use crate::client::guard::{self, Guard};
use crate::clock::Clock;
use crate::fence::{self, Fence, Mark};
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::process::Env;
use crate::resource::{ObjectKey, Resource, Uid};
use crate::view::Labels;

/// One intended change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Kind of the object.
    pub resource: Resource,
    /// The object. The name is empty for a create that lets the server choose one.
    pub key: ObjectKey,
    /// What to do with it.
    pub verb: Verb,
    /// Why, in a few words, for logs and printed plans.
    pub reason: &'static str,
}

/// What a write does. Every verb has a precondition: a create fails if the object exists, a patch or delete
/// if it is not the observed object.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Creates the object.
    Create {
        /// The complete object.
        body: Value,
    },
    /// Creates a subresource such as `binding` or `eviction`, whose body names the uid itself.
    CreateSubresource {
        /// Name of the subresource.
        subresource: &'static str,
        /// The subresource object.
        body: Value,
    },
    /// JSON merge patch.
    Merge {
        /// The fields to change; the precondition is added to its metadata.
        patch: Value,
        /// The object (and version) to change.
        only_if: Precondition,
        /// `status` or `scale`; none for the object itself.
        subresource: Option<&'static str>,
    },
    /// JSON patch.
    Json {
        /// Operations; the precondition is prepended as `test` operations.
        patch: json_patch::Patch,
        /// The object (and version) to change.
        only_if: Precondition,
        /// `status` or `scale`; none for the object itself.
        subresource: Option<&'static str>,
    },
    /// Server-side apply, for objects that users and other programs also edit.
    Apply {
        /// Exactly the fields that we own.
        body: Value,
        /// The observed object, or `None` to create it if it does not exist.
        only_if: Option<Precondition>,
        /// Takes fields over from other managers.
        force: bool,
        /// `status`; none for the object itself.
        subresource: Option<&'static str>,
    },
    /// Deletes the object.
    Delete {
        /// The object (and version) to delete.
        only_if: Precondition,
        /// How the objects that it owns are deleted.
        propagation: Propagation,
        /// Overrides the object's own grace period.
        grace_seconds: Option<u32>,
    },
}

impl Verb {
    /// The name in metrics and messages.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::CreateSubresource { .. } => "create-subresource",
            Self::Merge { .. } => "merge-patch",
            Self::Json { .. } => "json-patch",
            Self::Apply { .. } => "apply",
            Self::Delete { .. } => "delete",
        }
    }
}

/// Which object a write is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Uid of the object: a later object of the same name has another one.
    pub uid: Uid,
    /// The exact version, when the decision depends on more than the object's existence.
    pub resource_version: Option<u64>,
}

impl Precondition {
    /// Requires this uid, at any version.
    pub fn uid(uid: &Uid) -> Self {
        Self { uid: uid.clone(), resource_version: None }
    }

    /// Requires this uid and exactly this version.
    pub fn version(uid: &Uid, resource_version: u64) -> Self {
        Self { uid: uid.clone(), resource_version: Some(resource_version) }
    }
}

/// How a delete treats the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector removes them afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// Name, relevant when the server chose it.
    pub name: String,
    /// Uid of the written object.
    pub uid: Uid,
    /// The new version; 0 when the server returned none (the object is deleted).
    pub resource_version: u64,
    /// Labels after the write.
    pub labels: Labels,
}

/// Executes [`Write`]s for one process; clones share everything.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    clock: Clock,
    metrics: Metrics,
    leadership: Leadership,
    /// Absent for writes that must not wait for other writes.
    pacer: Option<Pacer>,
    manager: &'static str,
    timeout: Duration,
}

impl Writer {
    /// A writer with the field manager `manager`, which writes while `leadership` is held.
    pub fn new(client: Client, env: &Env, leadership: Leadership, manager: &'static str) -> Self {
        Self {
            client,
            pacer: Some(Pacer::new(env.clock.clone(), env.metrics.clone())),
            clock: env.clock.clone(),
            metrics: env.metrics.clone(),
            leadership,
            manager,
            timeout: Duration::from_secs(8),
        }
    }

    /// The same writer under another field manager: one per controller.
    #[must_use]
    pub fn with_manager(&self, manager: &'static str) -> Self {
        Self { manager, ..self.clone() }
    }

    /// The same writer for a part of the process that writes whether or not it leads.
    #[must_use]
    pub fn without_election(&self) -> Self {
        Self { leadership: Leadership::without_election(), ..self.clone() }
    }

    /// The same writer for rare writes on which the process depends, such as its certificates: they wait
    /// neither for other writes nor for pauses that the API server requests.
    #[must_use]
    pub fn unpaced(&self) -> Self {
        Self { pacer: None, ..self.clone() }
    }

    /// Sends one write and records it in `fence`. Deleting an object that does not exist succeeds.
    pub async fn execute(&self, fence: &Fence, write: &Write) -> Result<Written, WriteError> {
        let outcome = self.send(write, Mode::Real).await;
        let result = match &outcome {
            Ok(_) => "ok",
            Err(error) => error.class_of_error().as_str(),
        };
        self.metrics.write(&write.resource, write.verb.as_str(), result);
        tracing::debug!(
            kind = %write.resource, object = %write.key, verb = write.verb.as_str(),
            reason = write.reason, result, "write"
        );
        if let Ok(written) = &outcome
            && let Some(mark) = mark(write, written)
        {
            let (resource, labels) = (write.resource.clone(), written.labels.clone());
            fence.note(fence::Written {
                resource,
                namespace: write.key.namespace.clone(),
                labels,
                mark,
            });
        }
        outcome
    }

    /// Asks the API server whether it would accept a create, without creating anything.
    pub async fn try_create(&self, write: &Write) -> Result<(), WriteError> {
        debug_assert!(matches!(write.verb, Verb::Create { .. }), "{write:?}");
        self.send(write, Mode::DryRun).await.map(drop)
    }

    async fn send(&self, write: &Write, mode: Mode) -> Result<Written, WriteError> {
        let request = request::build(write, self.manager, mode)
            .map_err(|source| WriteError::build(write, source))?;
        let method = request.method().clone();
        let permit = match &self.pacer {
            Some(pacer) => {
                let permit = pacer.acquire(LaneKey::of(write)).await;
                Some(permit.map_err(|rest| WriteError::paused(write, rest))?)
            }
            None => None,
        };
        // Waiting for the permit may have outlived the lease; the guard checks again before it sends.
        if !self.leadership.held(self.clock.now()) {
            return Err(WriteError::not_leader(write));
        }
        let answer = self.clock.timeout(self.timeout, self.exchange(request)).await;
        let (parts, body) = match answer {
            None => return Err(WriteError::timeout(write, self.timeout)),
            Some(Err(source)) if guard::refused(&source) => {
                return Err(WriteError::not_leader(write));
            }
            Some(Err(source)) => return Err(WriteError::transport(write, source)),
            Some(Ok(answer)) => answer,
        };
        self.metrics.requested(method.as_str(), parts.status.as_u16());
        if parts.status.is_success() {
            if let Some(permit) = permit {
                permit.succeeded();
            }
            return Ok(Written::of(write, &body));
        }
        let error = WriteError::refused(write, &parts, &body);
        if let Some(permit) = permit.filter(|_| error.asks_to_slow_down()) {
            permit.throttled(error.server_pause());
        }
        match &write.verb {
            Verb::Delete { .. } if parts.status == http::StatusCode::NOT_FOUND => {
                Ok(Written::of(write, &[]))
            }
            _ => Err(error),
        }
    }

    async fn exchange(
        &self,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<(http::response::Parts, Bytes), kube::Error> {
        if self.leadership.is_contended() {
            let guard = Guard { leadership: self.leadership.clone(), clock: self.clock.clone() };
            request.extensions_mut().insert(guard);
        }
        let response = self.client.send(request.map(Body::from)).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((parts, body))
    }
}

/// The mark that a cache will observe. A binding is answered without a version and leaves no mark.
fn mark(write: &Write, written: &Written) -> Option<Mark> {
    match &write.verb {
        _ if written.resource_version > 0 => Some(Mark::Version(written.resource_version)),
        Verb::Delete { only_if, .. } => Some(Mark::Gone(write.key.clone(), only_if.uid.clone())),
        _ => None,
    }
}

impl Written {
    fn of(write: &Write, answer: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        struct Answer {
            #[serde(default)]
            metadata: Meta,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Meta {
            name: String,
            uid: Uid,
            resource_version: String,
            labels: Labels,
        }
        // A delete may be answered with a Status and a binding always is, both without a version.
        let meta = serde_json::from_slice::<Answer>(answer).unwrap_or_default().metadata;
        let name = if meta.name.is_empty() { write.key.name.to_string() } else { meta.name };
        Self {
            name,
            uid: meta.uid,
            resource_version: meta.resource_version.parse().unwrap_or_default(),
            labels: meta.labels,
        }
    }
}

#[cfg(test)]
mod tests;
