//! Admission reviews (`admission.k8s.io/v1`): from an HTTP request to a decision and back.
//!
//! A webhook is a path, a name and a handler that turns a [`Request`] into an [`Admission`]. This module does
//! the rest: it limits the body, the number of concurrent reviews and the time of each (below the API
//! server's own timeout), catches panics and counts results. Every failure that has the uid of a review is
//! answered as a denial of that review, so that the user reads a sentence instead of "internal error".
//!
//! Handlers get objects as raw JSON: a typed copy would lose the fields of other versions.

mod timeout;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures::FutureExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::admission::Operation;
use kube::core::response::{StatusCause, StatusDetails, StatusSummary};
use kube::core::{GroupVersionKind, GroupVersionResource, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::process::Env;
use crate::tasks::panic_message;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// An object has at most 1.5 MiB in etcd, and an update carries two of them.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The request of an `AdmissionReview`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies this review.
    pub uid: String,
    /// Kind of the object, after conversion to what the webhook registered for.
    pub kind: GroupVersionKind,
    /// Resource of the object, after conversion.
    pub resource: GroupVersionResource,
    /// Subresource, for example `scale`.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// Name; empty for a create that lets the server choose one.
    #[serde(default)]
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// The operation of the user.
    pub operation: Operation,
    /// The user.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object to store; none for a delete.
    #[serde(default)]
    pub object: Option<Box<RawValue>>,
    /// The stored object; none for a create.
    #[serde(default)]
    pub old_object: Option<Box<RawValue>>,
    /// Whether this is a dry run, which stores nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The decision of a webhook about one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// Allows the request.
    Allow {
        /// Shown to the user by kubectl.
        warnings: Vec<String>,
        /// Changes to the object; for mutating webhooks only.
        patch: Option<json_patch::Patch>,
    },
    /// Denies the request.
    Deny(Denial),
}

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// HTTP status code for the user.
    pub code: u16,
    /// Machine-readable reason, such as `Forbidden`; may be empty.
    pub reason: &'static str,
    /// Message for the user.
    pub message: String,
    /// One entry per offending field.
    pub causes: Vec<StatusCause>,
    /// Shown to the user by kubectl.
    pub warnings: Vec<String>,
}

impl Admission {
    /// Allows the request unchanged.
    pub const fn allow() -> Self {
        Self::Allow { warnings: Vec::new(), patch: None }
    }

    /// Allows the request with these changes; an empty patch is the same as [`Admission::allow`].
    pub fn patch(patch: json_patch::Patch) -> Self {
        let patch = (!patch.0.is_empty()).then_some(patch);
        Self::Allow { warnings: Vec::new(), patch }
    }

    /// Denies the request because of a rule.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::refuse(403, "Forbidden", message.into())
    }

    /// Denies the request because its object cannot be decoded.
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self::refuse(400, "", message.into())
    }

    /// Denies the request because the webhook itself failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::refuse(500, "InternalError", message.into())
    }

    fn refuse(code: u16, reason: &'static str, message: String) -> Self {
        Self::Deny(Denial { code, reason, message, causes: Vec::new(), warnings: Vec::new() })
    }

    /// Adds warnings for the user.
    #[must_use]
    pub fn warn(mut self, more: impl IntoIterator<Item = String>) -> Self {
        match &mut self {
            Self::Allow { warnings, .. } | Self::Deny(Denial { warnings, .. }) => {
                warnings.extend(more);
            }
        }
        self
    }
}

type Handler =
    Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Admission> + Send>> + Send + Sync>;

/// Collects the webhooks of a process in one router. They share one limit of concurrent reviews.
#[derive(Clone)]
pub struct Webhooks {
    clock: Clock,
    metrics: Metrics,
    running: Arc<Semaphore>,
    router: Router,
}

impl Webhooks {
    /// Starts without webhooks; at most `concurrency` reviews run at once.
    pub fn new(env: &Env, concurrency: usize) -> Self {
        Self {
            clock: env.clock.clone(),
            metrics: env.metrics.clone(),
            running: Arc::new(Semaphore::new(concurrency)),
            router: Router::new(),
        }
    }

    /// Adds the webhook `name` at `path`.
    #[must_use]
    pub fn route<F>(
        self,
        path: &str,
        name: &'static str,
        handler: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Admission> + Send + 'static,
    {
        let webhook = Webhook {
            name,
            handler: Arc::new(move |request| Box::pin(handler(request))),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            running: self.running.clone(),
        };
        let router = self.router.route(path, post(answer).with_state(webhook));
        Self { router, ..self }
    }

    /// Returns the router to serve.
    pub fn into_router(self) -> Router {
        self.router
    }
}

#[derive(Clone)]
struct Webhook {
    name: &'static str,
    handler: Handler,
    clock: Clock,
    metrics: Metrics,
    running: Arc<Semaphore>,
}

async fn answer(State(webhook): State<Webhook>, RawQuery(query): RawQuery, body: Body) -> Response {
    let timeout = timeout::of_handler(query.as_deref());
    // The timeout includes the body: the API server's own starts with the first byte that it sends.
    let reviewed = webhook.clock.timeout(timeout, read(body)).await;
    let request = match reviewed.unwrap_or(Err(Unreadable::Slow)) {
        Ok(body) => decode(&body),
        Err(unreadable) => Err(unreadable),
    };
    match request {
        Ok(request) => webhook.review(request, timeout).await,
        Err(Unreadable::Request { uid, message }) => {
            webhook.metrics.admission(webhook.name, "undecodable");
            respond(uid, Admission::undecodable(message))
        }
        Err(unreadable) => {
            webhook.metrics.admission(webhook.name, "undecodable");
            unreadable.into_response()
        }
    }
}

impl Webhook {
    async fn review(&self, request: Request, timeout: Duration) -> Response {
        let uid = request.uid.clone();
        let decided = self.clock.timeout(timeout, self.decide(request)).await;
        let (result, admission) = decided.unwrap_or_else(|| {
            tracing::warn!(webhook = self.name, uid, "admission review took too long");
            let message = format!("no decision within {timeout:?}; try again");
            ("timeout", Admission::refuse(504, "Timeout", message))
        });
        self.metrics.admission(self.name, result);
        respond(uid, admission)
    }

    async fn decide(&self, request: Request) -> (&'static str, Admission) {
        let _running = self.running.acquire().await.expect("the semaphore is never closed");
        let uid = request.uid.clone();
        // The handler's synchronous part runs inside the future, so its panics are caught as well.
        let decision = async { (self.handler)(request).await };
        match AssertUnwindSafe(decision).catch_unwind().await {
            Ok(admission @ Admission::Allow { .. }) => ("allowed", admission),
            Ok(failed @ Admission::Deny(Denial { code: 500.., .. })) => ("failed", failed),
            Ok(Admission::Deny(denial)) => {
                tracing::debug!(webhook = self.name, uid, message = denial.message, "denied");
                ("denied", Admission::Deny(denial))
            }
            Err(panic) => {
                let panic = panic_message(&*panic);
                tracing::error!(webhook = self.name, uid, panic, "admission handler panicked");
                ("panicked", Admission::failed("the webhook failed on this object; see its log"))
            }
        }
    }
}

/// Why a body holds no request that can be reviewed.
#[derive(Debug)]
enum Unreadable {
    TooLarge,
    Broken(String),
    Slow,
    /// The review has a uid and gets an answer, but its request cannot be decoded.
    Request {
        uid: String,
        message: String,
    },
}

impl IntoResponse for Unreadable {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("more than {BODY_LIMIT} bytes"))
            }
            Self::Broken(text) | Self::Request { message: text, .. } => {
                (StatusCode::BAD_REQUEST, text)
            }
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into()),
        };
        (status, text).into_response()
    }
}

async fn read(body: Body) -> Result<Bytes, Unreadable> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Unreadable::TooLarge),
        Err(error) => Err(Unreadable::Broken(format!("cannot read the body: {error}"))),
    }
}

/// Decodes in three steps, so that errors can carry the uid as early as possible.
fn decode(body: &[u8]) -> Result<Request, Unreadable> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review<'a> {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        #[serde(borrow)]
        request: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Identity {
        uid: String,
    }
    let broken = |error: serde_json::Error| Unreadable::Broken(format!("not a review: {error}"));
    let review: Review<'_> = serde_json::from_slice(body).map_err(broken)?;
    let Identity { uid } = serde_json::from_str(review.request.get()).map_err(broken)?;
    if (review.api_version.as_str(), review.kind.as_str()) != (API_VERSION, KIND) {
        let message = format!(
            "expected {API_VERSION} {KIND}, got {} {}; list v1 in admissionReviewVersions",
            review.api_version, review.kind
        );
        return Err(Unreadable::Request { uid, message });
    }
    serde_json::from_str(review.request.get()).map_err(|error| Unreadable::Request {
        uid,
        message: format!("cannot decode the admission request: {error}"),
    })
}

fn respond(uid: String, admission: Admission) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        api_version: &'static str,
        kind: &'static str,
        response: Answer,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        uid: String,
        allowed: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
        #[serde(skip_serializing_if = "Option::is_none")]
        patch_type: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        patch: Option<ByteString>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }
    let answer = match admission {
        Admission::Allow { warnings, patch } => {
            let patch = patch.map(|patch| {
                ByteString(serde_json::to_vec(&patch).expect("a patch has only string keys"))
            });
            let patch_type = patch.is_some().then_some("JSONPatch");
            Answer { uid, allowed: true, status: None, patch_type, patch, warnings }
        }
        Admission::Deny(mut denial) => {
            let warnings = std::mem::take(&mut denial.warnings);
            let status = Some(denial.into());
            Answer { uid, allowed: false, status, patch_type: None, patch: None, warnings }
        }
    };
    let review = Review { api_version: API_VERSION, kind: KIND, response: answer };
    let body = serde_json::to_vec(&review).expect("a review has only string keys");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

impl From<Denial> for Status {
    fn from(denial: Denial) -> Self {
        let details = (!denial.causes.is_empty()).then(|| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: denial.causes,
            retry_after_seconds: 0,
        });
        Self {
            status: Some(StatusSummary::Failure),
            code: denial.code,
            message: denial.message,
            reason: denial.reason.to_owned(),
            details,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
