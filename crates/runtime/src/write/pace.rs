//! Limits the writes in flight.
//!
//! All writes of a process share one limit. Writes of one kind in one namespace also share a *lane* with
//! its own limit and pauses: a 429 or 503 may come from an admission webhook that handles only one kind or
//! namespace, and must not delay other writes. A refusal halves the limit of its lane and pauses the lane
//! for as long as the server asked. Refusals in several lanes at the same time mean that the server is
//! under load: then the limit of the process is halved as well. Successes let both limits grow again by one
//! per round of writes.

mod rule;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::rule::{Admission, Pace};
use crate::clock::{Clock, Instant};
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::write::Write;

/// Pause after a refusal without Retry-After.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a write waits for. For a longer one the key returns to the queue, so that other
/// keys can run.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Writes of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneKey {
    resource: Resource,
    namespace: Arc<str>,
}

impl LaneKey {
    pub(super) fn of(write: &Write) -> Self {
        Self { resource: write.resource.clone(), namespace: write.key.namespace.clone() }
    }
}

/// Grants permits for writes; clones share the limits.
#[derive(Clone)]
pub(super) struct Pacer {
    shared: Arc<Mutex<Pace>>,
    clock: Clock,
    metrics: Metrics,
}

impl Pacer {
    pub(super) fn new(clock: Clock, metrics: Metrics) -> Self {
        Self { shared: Arc::new(Mutex::new(Pace::new())), clock, metrics }
    }

    fn shared(&self) -> MutexGuard<'_, Pace> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. Fails with the rest of the pause when the lane is paused for longer.
    pub(super) async fn acquire(&self, lane: LaneKey) -> Result<Permit, Duration> {
        let ticket = self.shared().ticket();
        let turn = Turn { pacer: self, lane: &lane, ticket };
        let sent = loop {
            match turn.come().await {
                Ok(now) => break now,
                Err(pause_ends) => {
                    let rest = pause_ends.since(self.clock.now());
                    if rest > MAX_WAIT {
                        return Err(rest);
                    }
                    self.clock.sleep_until(pause_ends).await;
                }
            }
        };
        drop(turn);
        Ok(Permit { pacer: self.clone(), lane, sent })
    }
}

/// A turn in the line. Dropping it passes the turn on.
struct Turn<'a> {
    pacer: &'a Pacer,
    lane: &'a LaneKey,
    ticket: u64,
}

impl Turn<'_> {
    /// Waits in line for a place. Returns when it has one, or earlier when the lane is paused.
    async fn come(&self) -> Result<Instant, Instant> {
        loop {
            let called = Arc::new(Notify::new());
            {
                let now = self.pacer.clock.now();
                let mut pace = self.pacer.shared();
                let turn = match pace.admit(self.lane, self.ticket, now) {
                    Admission::Later => None,
                    Admission::Now => Some(Ok(now)),
                    Admission::At(time) => Some(Err(time)),
                };
                if let Some(turn) = turn {
                    self.pacer.metrics.writes_in_flight(pace.in_flight());
                    return turn;
                }
                pace.wait(self.lane, self.ticket, called.clone());
            }
            called.notified().await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pacer.shared().leave(self.lane, self.ticket);
    }
}

/// Permission for one write, until it is dropped.
pub(super) struct Permit {
    pacer: Pacer,
    lane: LaneKey,
    sent: Instant,
}

impl Permit {
    pub(super) fn succeeded(&self) {
        self.pacer.shared().succeeded(&self.lane);
    }

    pub(super) fn throttled(&self, pause: Option<Duration>) {
        let now = self.pacer.clock.now();
        let pause = pause.unwrap_or(DEFAULT_PAUSE);
        self.pacer.shared().throttled(&self.lane, self.sent, now, pause);
        self.pacer.metrics.write_paused();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = self.pacer.clock.now();
        let mut pace = self.pacer.shared();
        pace.ended(&self.lane, now);
        self.pacer.metrics.writes_in_flight(pace.in_flight());
    }
}

#[cfg(test)]
mod tests;
