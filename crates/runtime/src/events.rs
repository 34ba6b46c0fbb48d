//! Kubernetes events, as `kubectl describe` shows them.
//!
//! A [`Recorder`] takes an [`Occurrence`] and returns at once; it never blocks or fails a reconcile. One
//! worker sends: a repetition within ten minutes increments the count of the existing event, each object
//! has a budget, and occurrences that do not fit into the queue are dropped and counted. Repetitions may
//! use only half of an object's budget, so that a frequent reason cannot suppress a rare one; the next
//! repetition carries the counts that were held back.
//!
//! Events are sent while this process leads; the writer drops those of a follower.

mod correlate;
mod object;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use self::correlate::{Correlator, Decision, Identity};
use crate::backoff::Backoff;
use crate::class::{Class, Classed};
use crate::clock::Clock;
use crate::fence::Fence;
use crate::metrics::Metrics;
use crate::process::Env;
use crate::resource::{Resource, Uid};
use crate::rng::Rng;
use crate::tasks::Shutdown;
use crate::write::{WriteError, Writer};

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
/// Occurrences waiting to be sent.
const MAX_QUEUED: usize = 1024;
/// Attempts per event while the API server fails.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(500), max: Duration::from_secs(8) };
/// How long a shutdown waits for queued events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Expected behaviour.
    Normal,
    /// A problem that may need action by the user.
    Warning,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `group/version` or `version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: Uid,
    /// The observed version; 0 if it does not matter.
    pub resource_version: u64,
}

/// One occurrence to report as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The object.
    pub about: Subject,
    /// Type of the event.
    pub severity: Severity,
    /// Machine-readable reason: `PodCreateSuccessful`.
    pub reason: Cow<'static, str>,
    /// The action that was taken: `CreatePod`.
    pub action: &'static str,
    /// Message for the user; truncated to 1 kB.
    pub message: String,
}

/// Takes occurrences from one component; clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Queued>,
    component: &'static str,
    clock: Clock,
    metrics: Metrics,
}

/// A queued occurrence.
#[derive(Clone, Debug)]
struct Queued {
    occurrence: Occurrence,
    component: &'static str,
    at: Timestamp,
}

impl Recorder {
    /// Returns a recorder with the same queue and another component name, the source of its events.
    #[must_use]
    pub fn component(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Queues an occurrence, or drops and counts it if the queue is full.
    pub fn record(&self, occurrence: Occurrence) {
        let queued = Queued { occurrence, component: self.component, at: self.clock.wall() };
        if self.queue.try_send(queued).is_err() {
            self.metrics.event("dropped");
        }
    }
}

/// The task that sends queued occurrences.
pub struct EventSender {
    queue: mpsc::Receiver<Queued>,
    correlator: Correlator,
    writer: Writer,
    clock: Clock,
    rng: Rng,
    metrics: Metrics,
    instance: String,
}

/// Creates a recorder and its task. `component` names the first recorder, `instance` this process (host or
/// pod name).
pub fn events(
    component: &'static str,
    instance: String,
    env: &Env,
    writer: Writer,
) -> (Recorder, EventSender) {
    let (sender, queue) = mpsc::channel(MAX_QUEUED);
    let (clock, metrics, rng) = (env.clock.clone(), env.metrics.clone(), env.rng.fork("events"));
    let recorder =
        Recorder { queue: sender, component, clock: clock.clone(), metrics: metrics.clone() };
    let correlator = Correlator::default();
    (recorder, EventSender { queue, correlator, writer, clock, rng, metrics, instance })
}

impl EventSender {
    /// Sends until `shutdown`, then sends the rest of the queue for at most three seconds. Stop it after
    /// the recorders and before the lease is released.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            let queued = tokio::select! {
                biased;
                () = shutdown.requested() => break,
                queued = self.queue.recv() => queued,
            };
            let Some(queued) = queued else { return };
            let clock = self.clock.clone();
            // A shutdown does not wait for the retries of the current event.
            tokio::select! {
                biased;
                () = self.send(&queued) => {}
                () = hard_stop(&shutdown, &clock) => return,
            }
        }
        self.queue.close();
        let clock = self.clock.clone();
        let flush = async {
            while let Some(queued) = self.queue.recv().await {
                self.send(&queued).await;
            }
        };
        if clock.timeout(FLUSH_TIMEOUT, flush).await.is_none() {
            tracing::warn!("events were still queued at shutdown and are lost");
        }
    }

    async fn send(&mut self, queued: &Queued) {
        let identity = Identity::of(queued);
        let result = match self.correlator.decide(&identity, self.clock.now()) {
            Decision::Limited => "limited",
            Decision::Create => self.create(&identity, queued).await,
            Decision::Repeat { event, count } => {
                let repeat = object::repeat(&event, queued, count);
                match self.deliver(&repeat).await {
                    Ok(_) => "repeated",
                    // The event has expired or was deleted: create a new one.
                    Err(error) if error.class() == Class::Conflict => {
                        self.correlator.forget(&identity);
                        self.create(&identity, queued).await
                    }
                    Err(error) => lost(&error),
                }
            }
        };
        self.metrics.event(result);
    }

    async fn create(&mut self, identity: &Identity, queued: &Queued) -> &'static str {
        let write = object::create(queued, &self.instance, self.rng.next_u64());
        match self.deliver(&write).await {
            Ok(written) => {
                self.correlator.created(identity, write.key, written.uid, self.clock.now());
                "created"
            }
            Err(error) => lost(&error),
        }
    }

    /// Writes, and retries while the server fails.
    async fn deliver(
        &self,
        write: &crate::write::Write,
    ) -> Result<crate::write::Written, WriteError> {
        let mut failures = 0;
        loop {
            let error = match self.writer.execute(&Fence::default(), write).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            failures += 1;
            if error.class() != Class::Transient || failures == MAX_ATTEMPTS {
                return Err(error);
            }
            self.clock.sleep(RETRY_BACKOFF.after(failures, &self.rng)).await;
        }
    }
}

async fn hard_stop(shutdown: &Shutdown, clock: &Clock) {
    shutdown.requested().await;
    clock.sleep(FLUSH_TIMEOUT).await;
}

fn lost(error: &WriteError) -> &'static str {
    if error.class() == Class::Fenced {
        return "not-leading";
    }
    tracing::debug!(%error, "event lost");
    "failed"
}

#[cfg(test)]
mod tests;
