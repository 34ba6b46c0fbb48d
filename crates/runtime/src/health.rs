//! Liveness and readiness of a process.
//!
//! Each part that takes time to start (a cache, a certificate, a server) has a named [`Part`] and reports
//! through it; the process is ready when all parts are. A failing probe lists every part that is not ready,
//! with the reason. Liveness shows only that requests are answered.
//!
//! Both are plain HTTP and contain no secrets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;

use crate::metrics::Metrics;

/// The parts of one process that must be ready; clones share them.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<Parts>>);

/// Why a part is not ready, by name and number (two parts may have the same name).
type Parts = BTreeMap<(String, usize), Option<String>>;

impl Readiness {
    /// Starts without parts, which is ready.
    pub fn new() -> Self {
        Self(Arc::new(watch::channel(Parts::new()).0))
    }

    /// Adds a part that is not ready yet. Its name is for users: `cache pods`, `serving certificate`.
    pub fn part(&self, name: impl Into<String>) -> Part {
        let name = name.into();
        let mut key = None;
        self.0.send_modify(|parts| {
            let entry = (name, parts.len());
            parts.insert(entry.clone(), Some("not started yet".to_owned()));
            key = Some(entry);
        });
        let key = key.expect("send_modify runs its closure exactly once");
        Part { parts: self.0.clone(), key }
    }

    /// Whether all parts are ready.
    pub fn ready(&self) -> bool {
        self.0.borrow().values().all(Option::is_none)
    }

    /// Parts that are not ready, with reasons, ordered by name.
    pub fn missing(&self) -> Vec<(String, String)> {
        let parts = self.0.borrow();
        parts
            .iter()
            .filter_map(|((name, _), reason)| Some((name.clone(), reason.clone()?)))
            .collect()
    }

    /// Completes when all parts are ready.
    pub async fn until_ready(&self) {
        let mut parts = self.0.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = parts.wait_for(|parts| parts.values().all(Option::is_none)).await;
    }

    /// One line per part, as Kubernetes components print it.
    fn report(&self, all: bool) -> String {
        let parts = self.0.borrow();
        let mut out = String::new();
        for ((name, _), reason) in parts.iter() {
            // Writing to a String cannot fail.
            let _ = match reason {
                Some(reason) => writeln!(out, "[-] {name}: {reason}"),
                None if all => writeln!(out, "[+] {name}"),
                None => Ok(()),
            };
        }
        out
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

/// Reports the readiness of one part.
#[derive(Clone, Debug)]
#[must_use = "a part that never reports keeps its process unready"]
pub struct Part {
    parts: Arc<watch::Sender<Parts>>,
    key: (String, usize),
}

impl Part {
    /// Reports the part as ready.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Reports the part as not ready, with a reason.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        self.parts.send_if_modified(|parts| match parts.get_mut(&self.key) {
            Some(current) if *current != reason => {
                *current = reason;
                true
            }
            _ => false,
        });
    }
}

/// `/healthz` and `/readyz`; with `?verbose` the latter lists the ready parts as well.
pub fn router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readyz))
        .with_state(readiness)
}

async fn readyz(
    State(readiness): State<Readiness>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let verbose = query
        .iter()
        .flat_map(|query| query.split('&'))
        .any(|pair| pair.split('=').next() == Some("verbose"));
    match (readiness.ready(), verbose) {
        (true, false) => (StatusCode::OK, "ok".to_owned()),
        (true, true) => (StatusCode::OK, readiness.report(true) + "ok\n"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, readiness.report(verbose) + "not ready\n"),
    }
}

/// `/metrics` in the text format of `OpenMetrics`.
pub fn metrics_router(metrics: Metrics) -> Router {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let encode = |State(metrics): State<Metrics>| async move {
        ([(CONTENT_TYPE, OPEN_METRICS)], metrics.encode())
    };
    Router::new().route("/metrics", get(encode)).with_state(metrics)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn answer(router: Router, path: &str) -> (u16, String, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
        let content_type = parts.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn readyz_of(readiness: &Readiness, query: &str) -> (u16, String) {
        let (code, _, body) = answer(router(readiness.clone()), &format!("/readyz{query}")).await;
        (code, body)
    }

    #[tokio::test]
    async fn a_failing_probe_names_every_missing_part_and_why() {
        let readiness = Readiness::new();
        let pods = readiness.part("cache pods");
        let gangs = readiness.part("cache podgangs.scheduler.grove.io");
        let _webhooks = readiness.part("webhooks");
        pods.ready();
        gangs.not_ready("the API server does not know this kind: is its CRD installed?");

        let missing = "[-] cache podgangs.scheduler.grove.io: the API server does not know this \
                       kind: is its CRD installed?\n";
        let tail = "[-] webhooks: not started yet\nnot ready\n";
        assert_eq!(readyz_of(&readiness, "").await, (503, format!("{missing}{tail}")));
        assert_eq!(
            readyz_of(&readiness, "?verbose").await,
            (503, format!("{missing}[+] cache pods\n{tail}"))
        );
        assert_eq!(readiness.missing().len(), 2);
    }

    #[tokio::test]
    async fn a_process_is_ready_when_all_its_parts_are_and_can_become_unready_again() {
        let readiness = Readiness::new();
        assert_eq!(readyz_of(&readiness, "").await, (200, "ok".into()));
        let (a, b) = (readiness.part("same name"), readiness.part("same name"));

        a.ready();
        assert!(!readiness.ready());
        b.ready();
        readiness.until_ready().await;
        assert_eq!(
            readyz_of(&readiness, "?verbose=1").await.1,
            "[+] same name\n[+] same name\nok\n"
        );

        a.not_ready("gone");
        assert_eq!(readyz_of(&readiness, "").await.0, 503);
    }

    #[tokio::test]
    async fn liveness_and_metrics_answer_whether_ready_or_not() {
        let readiness = Readiness::new();
        let _missing = readiness.part("webhooks");

        let (code, _, body) = answer(router(readiness), "/healthz").await;
        assert_eq!((code, body.as_str()), (200, "ok"));

        let (code, content_type, body) = answer(metrics_router(Metrics::new()), "/metrics").await;
        assert_eq!(code, 200);
        assert!(content_type.starts_with("application/openmetrics-text"), "{content_type}");
        assert!(body.ends_with("# EOF\n"), "{body}");
    }
}
