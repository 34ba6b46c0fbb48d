//! Keeps a [`Store`] equal to the API server.
//!
//! A round either lists (streamed if the server supports it, else in pages) or resumes the last watch. The
//! only state between rounds is where to resume:
//!
//! ```text
//!             list complete at rv                 event or bookmark at rv
//!   ┌──────┐ ─────────────────────► ┌───────────┐ ───────────┐
//!   │ List │                        │ From(rv)  │            │
//!   └──────┘ ◄───────────────────── └───────────┘ ◄──────────┘
//!             410 Gone, or the cache asked for it    (connection lost: same rv again)
//! ```
//!
//! Lists are always consistent reads, so a restarted process never goes back to older versions. A list
//! replaces the store, which shows deletes that fell into a gap. A connection that delivers nothing, not
//! even the bookmarks that the server sends every minute, is closed.
//!
//! The refusal (403 or 404) of an optional kind proves nothing by itself: permissions change, and API
//! servers of different versions answer differently. The store keeps its objects, with
//! [`Presence::Unknown`], until discovery confirms that the kind is gone.

mod discovery;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::health::Part;
use crate::metrics::Metrics;
use crate::resource::{ObjectKey, Resource};
use crate::rng::Rng;
use crate::store::{Presence, Store, Trouble};
use crate::view::{Labels, View};

/// The annotation on the bookmark that ends a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Minimum time between the starts of two watches.
const MIN_WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// Which objects of a kind to cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The kind.
    pub resource: Resource,
    /// One namespace, or all of them if empty.
    pub namespace: String,
    /// Label selector in the syntax of the API server.
    pub labels: Option<String>,
    /// Field selector in the syntax of the API server.
    pub fields: Option<String>,
}

impl Selection {
    /// All objects of a kind.
    pub fn all(resource: Resource) -> Self {
        Self { resource, namespace: String::new(), labels: None, fields: None }
    }

    /// Only those that match a label selector.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..self }
    }

    /// Only those that match a field selector.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        Self { fields: Some(selector.to_owned()), ..self }
    }

    /// Only those of one namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// Whether an object may be selected. Of label selectors only `key=value` terms are evaluated, and field
    /// selectors are not: the answer is then yes.
    pub(crate) fn may_select(&self, namespace: &str, labels: &Labels) -> bool {
        let mut terms = self.labels.iter().flat_map(|selector| selector.split(','));
        let matches = terms.all(|term| match term.split_once('=') {
            Some((key, value)) if !key.contains(['!', ' ']) => {
                labels.get(key) == Some(value.trim_start_matches('='))
            }
            _ => true,
        });
        matches && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn request(&self) -> Request {
        Request::new(self.resource.path(&self.namespace))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        let namespace = Some(&self.namespace).filter(|namespace| !namespace.is_empty());
        for part in [namespace, self.labels.as_ref(), self.fields.as_ref()].into_iter().flatten() {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

/// Timeouts and page size of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchConfig {
    /// How long one watch lasts before the server ends it. At most 294 s.
    pub server_timeout: Duration,
    /// How long a connection may deliver nothing. More than the minute between two bookmarks.
    pub idle_timeout: Duration,
    /// Whether to request streamed lists first.
    pub streaming_lists: bool,
    /// Objects per page if the server does not stream.
    pub page_size: u32,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            server_timeout: Duration::from_secs(290),
            idle_timeout: Duration::from_secs(90),
            streaming_lists: true,
            page_size: 500,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("the API server does not serve {0}: is its CustomResourceDefinition installed?")]
    NotServed(Resource),
    #[error("{} {}: {}", .0.code, .0.reason, .0.message)]
    Api(Box<Status>),
    #[error("connection: {}", with_causes(.0))]
    Connection(#[from] kube::Error),
    #[error("nothing arrived for {} s, not even a bookmark", .0.as_secs())]
    Idle(Duration),
    #[error("the watch ended at once")]
    EndedAtOnce,
    #[error("not understood: {0}")]
    Decode(#[from] serde_json::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    List,
    From(u64),
}

/// One line of a watch.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Identity of an object, which decodes even if the rest of the object does not.
#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMeta {
    #[serde(default)]
    namespace: String,
    name: String,
    resource_version: String,
}

impl Identity {
    fn read(object: &RawValue) -> Result<(ObjectKey, u64), serde_json::Error> {
        let Self { metadata } = serde_json::from_str(object.get())?;
        let version = parse_version(&metadata.resource_version)?;
        Ok((ObjectKey::new(&metadata.namespace, &metadata.name), version))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue", default)]
    continue_token: String,
}

/// A list in progress.
struct Listing<T> {
    views: Vec<T>,
    /// Objects that could not be decoded: the store keeps their last view.
    unreadable: BTreeSet<ObjectKey>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { views: Vec::new(), unreadable: BTreeSet::new() }
    }
}

/// The task that fills one store.
pub(crate) struct Watcher<T> {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) metrics: Metrics,
    pub(crate) selection: Selection,
    pub(crate) config: WatchConfig,
    pub(crate) store: Store<T>,
    /// Whether the API server may not serve the kind.
    pub(crate) optional: bool,
    /// Whether to wait for [`Store::demand`].
    pub(crate) on_demand: bool,
    pub(crate) readiness: Part,
}

impl<T: View> Watcher<T> {
    /// Runs until dropped.
    pub(crate) async fn run(mut self) {
        if self.on_demand {
            self.show_nothing();
            self.store.demanded().await;
        }
        let mut resume = Resume::List;
        let mut failures = 0;
        loop {
            match self.round(&mut resume).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    self.failed(&error, failures);
                    let mut backoff = Backoff::WATCH;
                    if self.optional
                        && error.is_refusal()
                        && self.refused(&error).await == Presence::Absent
                    {
                        resume = Resume::List;
                        backoff = Backoff::ABSENT;
                    }
                    self.clock.sleep(backoff.after(failures, &self.rng)).await;
                }
            }
        }
    }

    fn failed(&self, error: &WatchError, failures: u32) {
        self.metrics.watch_event(&self.selection.resource, "failure");
        let trouble = Trouble { code: error.code(), message: error.to_string() };
        self.store.set_trouble(Some(trouble));
        if !self.store.is_synced() {
            self.readiness.not_ready(error.to_string());
        }
        // Watches end all the time; only repeated failures are worth a warning.
        if failures == 3 && !self.optional {
            tracing::warn!(kind = %self.selection.resource, %error, "watch keeps failing");
        } else {
            tracing::debug!(kind = %self.selection.resource, %error, failures, "watch failed");
        }
    }

    /// Marks an unsynced or emptied cache as synced without objects.
    fn show_nothing(&self) {
        self.store.replace(Vec::new(), &BTreeSet::new(), 0);
        self.readiness.ready();
    }

    async fn round(&mut self, resume: &mut Resume) -> Result<(), WatchError> {
        match *resume {
            Resume::List if self.config.streaming_lists => {
                let outcome = self.watch(resume, Some(Listing::default())).await;
                if outcome.as_ref().is_err_and(WatchError::refuses_streaming) {
                    // Pages work on every server.
                    self.config.streaming_lists = false;
                }
                outcome
            }
            Resume::List => {
                *resume = Resume::From(self.list_pages().await?);
                Ok(())
            }
            Resume::From(_) => self.watch(resume, None).await,
        }
    }

    async fn list_pages(&self) -> Result<u64, WatchError> {
        let mut listing = Listing::default();
        let mut params = ListParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            limit: Some(self.config.page_size),
            ..ListParams::default()
        };
        loop {
            let request = self.selection.request().list(&params);
            let body = self.open(request.map_err(kube::Error::BuildRequest)?).await?;
            let text = self.read_body(body).await?;
            let page: Page<'_> = serde_json::from_slice(&text)?;
            for item in &page.items {
                self.read(item, &mut listing)?;
            }
            if page.metadata.continue_token.is_empty() {
                let version = parse_version(&page.metadata.resource_version)?;
                self.listed(listing, version);
                return Ok(version);
            }
            params.continue_token = Some(page.metadata.continue_token);
        }
    }

    /// Follows one watch until it ends. With a `listing`, the watch starts with the complete state.
    async fn watch(
        &self,
        resume: &mut Resume,
        mut listing: Option<Listing<T>>,
    ) -> Result<(), WatchError> {
        let from = match *resume {
            Resume::List => String::new(),
            Resume::From(version) => version.to_string(),
        };
        let timeout = self.rng.jitter(self.config.server_timeout).as_secs();
        let params = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(u32::try_from(timeout).unwrap_or(290)),
            bookmarks: true,
            send_initial_events: listing.is_some(),
        };
        let request = self.selection.request().watch(&params, &from);
        let opened = self.open(request.map_err(kube::Error::BuildRequest)?).await;
        let mut lines = match opened {
            Err(error) if error.is_expired() => {
                self.gap(resume);
                return Ok(());
            }
            opened => Lines::new(opened?),
        };
        let opened_at = self.clock.now();
        let mut heard = false;
        loop {
            let line = tokio::select! {
                biased;
                () = self.store.resync_requested() => {
                    *resume = Resume::List;
                    return Ok(());
                }
                line = self.clock.timeout(self.config.idle_timeout, lines.next()) => line,
            };
            let Some(line) = line else {
                return Err(WatchError::Idle(self.config.idle_timeout));
            };
            let Some(line) = line? else {
                if !heard {
                    return Err(WatchError::EndedAtOnce);
                }
                // Limits the rate if a proxy closes every watch.
                self.clock.sleep_until(opened_at + MIN_WATCH_INTERVAL).await;
                return Ok(());
            };
            heard = true;
            match self.event(&line, resume, &mut listing) {
                Err(error) if error.is_expired() => {
                    self.gap(resume);
                    return Ok(());
                }
                outcome => outcome?,
            }
        }
    }

    /// Sends a list or watch request and checks that it was accepted.
    async fn open(&self, request: http::Request<Vec<u8>>) -> Result<Body, WatchError> {
        let (code, body) = self.send(request).await?;
        if (200..300).contains(&code) {
            self.store.set_trouble(None);
            // Without objects of an earlier list, the kind counts as served once it is listed.
            if self.store.is_listed() {
                self.store.set_presence(Presence::Served);
            }
            return Ok(body);
        }
        Err(self.refusal(code, body).await?)
    }

    /// Sends a request and returns the status code and body of the answer.
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<(u16, Body), WatchError> {
        let sent = self.client.send(request.map(Body::from));
        let Some(response) = self.clock.timeout(self.config.idle_timeout, sent).await else {
            return Err(WatchError::Idle(self.config.idle_timeout));
        };
        let response = response?;
        let code = response.status().as_u16();
        self.metrics.requested("GET", code);
        Ok((code, response.into_body()))
    }

    /// Returns the error for an unsuccessful answer.
    async fn refusal(&self, code: u16, body: Body) -> Result<WatchError, WatchError> {
        let body = self.read_body(body).await?;
        let status = serde_json::from_slice::<Status>(&body)
            .unwrap_or_else(|_| Status::failure(&String::from_utf8_lossy(&body), "NotAStatus"));
        if code == 404 {
            return Ok(WatchError::NotServed(self.selection.resource.clone()));
        }
        Ok(WatchError::Api(Box::new(Status { code, ..status })))
    }

    async fn read_body(&self, body: Body) -> Result<Bytes, WatchError> {
        match self.clock.timeout(self.config.idle_timeout, body.collect()).await {
            Some(body) => Ok(body?.to_bytes()),
            None => Err(WatchError::Idle(self.config.idle_timeout)),
        }
    }

    /// Handles 410: the server no longer has the version to resume from.
    fn gap(&self, resume: &mut Resume) {
        self.metrics.watch_event(&self.selection.resource, "gap");
        *resume = Resume::List;
    }

    fn event(
        &self,
        line: &[u8],
        resume: &mut Resume,
        listing: &mut Option<Listing<T>>,
    ) -> Result<(), WatchError> {
        if let Some(view) = self.upserted(line) {
            match listing {
                Some(listing) => listing.views.push(view),
                None => *resume = Resume::From(self.upsert(view)),
            }
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_slice(line)?;
        match &*event.kind {
            "ADDED" | "MODIFIED" => {
                if let Some(listing) = listing {
                    self.read(event.object, listing)?;
                    return Ok(());
                }
                let mut read = Listing::default();
                let version = self.read(event.object, &mut read)?;
                for view in read.views {
                    self.upsert(view);
                }
                self.store.bookmark(version);
                *resume = Resume::From(version);
            }
            "DELETED" => {
                let (key, version) = Identity::read(event.object)?;
                self.store.delete(&key, version);
                self.metrics.watch_event(&self.selection.resource, "delete");
                *resume = Resume::From(version);
            }
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(event.object.get())?;
                let version = parse_version(&bookmark.metadata.resource_version)?;
                let ends_list = bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END);
                match listing.take() {
                    Some(unfinished) if !ends_list => *listing = Some(unfinished),
                    Some(complete) => {
                        self.listed(complete, version);
                        *resume = Resume::From(version);
                    }
                    None => {
                        self.store.bookmark(version);
                        self.metrics.watch_event(&self.selection.resource, "bookmark");
                        *resume = Resume::From(version);
                    }
                }
            }
            _ => {
                let status: Status = serde_json::from_str(event.object.get())?;
                return Err(WatchError::Api(Box::new(status)));
            }
        }
        Ok(())
    }

    /// Adds or updates one object and returns its version.
    fn upsert(&self, view: T) -> u64 {
        let version = view.meta().resource_version;
        self.store.upsert(view);
        self.metrics.watch_event(&self.selection.resource, "upsert");
        version
    }

    /// Decodes one object into the listing and returns its version. An object that does not fit the view
    /// must not hide all others.
    fn read(&self, object: &RawValue, listing: &mut Listing<T>) -> Result<u64, WatchError> {
        let error = match self.store.read_view(object.get().as_bytes()) {
            Ok(view) => {
                let version = view.meta().resource_version;
                listing.views.push(view);
                return Ok(version);
            }
            Err(error) => error,
        };
        self.metrics.watch_event(&self.selection.resource, "unreadable");
        let (key, version) = Identity::read(object)?;
        tracing::error!(kind = %self.selection.resource, object = %key, %error, "unreadable");
        listing.unreadable.insert(key);
        Ok(version)
    }

    fn listed(&self, listing: Listing<T>, version: u64) {
        let objects = listing.views.len();
        self.metrics.watch_event(&self.selection.resource, "list");
        self.store.replace(listing.views, &listing.unreadable, version);
        self.store.set_presence(Presence::Served);
        self.readiness.ready();
        tracing::debug!(kind = %self.selection.resource, objects, version, "listed");
    }

    /// Decodes the object of an added or modified event in one pass over the line. Returns nothing for all
    /// other lines, which are decoded in two passes.
    fn upserted(&self, line: &[u8]) -> Option<T> {
        let starts =
            [br#"{"type":"ADDED","object":"#.as_slice(), br#"{"type":"MODIFIED","object":"#];
        let object = starts.iter().find_map(|start| line.strip_prefix(*start))?;
        self.store.read_view(object).ok()
    }
}

impl WatchError {
    /// Whether the server does not stream lists: it refuses, or never ends one.
    fn refuses_streaming(&self) -> bool {
        match self {
            Self::Api(status) => matches!(status.code, 400 | 422),
            Self::Idle(_) => true,
            _ => false,
        }
    }

    /// HTTP status code of the answer.
    fn code(&self) -> Option<u16> {
        match self {
            Self::NotServed(_) => Some(404),
            Self::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the server does not serve the kind, or not to us.
    fn is_refusal(&self) -> bool {
        matches!(self.code(), Some(403 | 404))
    }

    fn is_expired(&self) -> bool {
        matches!(self, Self::Api(status) if status.code == 410)
    }
}

/// Returns the error with its causes. Only the innermost cause shows whether the server refused, is
/// unreachable or has a wrong certificate.
fn with_causes(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors include the text of their cause.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

fn parse_version(version: &str) -> Result<u64, serde_json::Error> {
    version.parse().map_err(|_| {
        serde::de::Error::custom(format!("resourceVersion {version:?} is not a number"))
    })
}

/// The lines of a streamed body.
struct Lines {
    body: Body,
    buffer: BytesMut,
    searched: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// Returns the next complete line, or `None` at the end of the stream. Cancel-safe: received data stays
    /// in the buffer.
    async fn next(&mut self) -> Result<Option<BytesMut>, kube::Error> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(offset) = unsearched.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + offset);
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
