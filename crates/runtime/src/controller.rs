//! Runs reconciles: takes keys from a [`Queue`] while this process leads, one run per key at a time and a
//! limited number at once, and schedules the next run of a key from the outcome of the last one.
//!
//! After a run that wrote something, the key is held back until the caches have observed the writes (the
//! *fence*), so that no run decides on a state that an earlier run has changed. A cache that is still
//! behind after half a minute is listed again; the key waits until it has caught up.
//!
//! A run that waits for another program does so through [`Outside`] and then does not count against the
//! number of runs at once: a slow program delays its own keys only.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::Notify;
use tracing::Instrument;

use crate::backoff::Backoff;
use crate::cache::{Caches, Fences, Progress};
use crate::class::{Class, Classed};
use crate::clock::{Clock, Instant};
use crate::fence::{Fence, Mark, Written};
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::process::Env;
use crate::queue::{Ended, Key, Priority, Queue, Ticket};
use crate::rng::Rng;
use crate::tasks::{Shutdown, panic_message};
use crate::wake::{Reads, unlisted, with_reads};

/// How long a cache may lag behind a write before it is listed again.
const FENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// A refusal lasts until its cause changes, so the backoff starts this many doublings in.
const DENIED_DOUBLINGS: u32 = 7;

/// One run of one key.
#[derive(Debug)]
pub struct Attempt<K> {
    /// The key.
    pub key: K,
    /// Failures in a row before this run.
    pub failures: u32,
    /// Passed to the writer with every write.
    pub fence: Fence,
    /// Passed to code that waits for another program.
    pub outside: Outside,
    /// Passed to code that may ask for another run before the next trigger or due time.
    pub again: Again,
}

/// Queues the key of an attempt again.
#[derive(Clone)]
pub struct Again(Arc<dyn Fn() + Send + Sync>);

impl Again {
    fn of<K: Key>(queue: &Queue<K>, key: &K) -> Self {
        let (queue, key) = (queue.clone(), key.clone());
        Self(Arc::new(move || queue.want(key.clone(), Priority::ChildChange)))
    }

    /// Queues the key.
    pub fn queue(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Again")
    }
}

/// Lets other keys of a controller run while a run waits for another program.
#[derive(Clone, Debug, Default)]
pub struct Outside(Arc<Waiting>);

/// How many runs of a controller wait for another program.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicUsize,
    changed: Notify,
}

impl Outside {
    /// Waits for another program without counting against the concurrency limit. The callee limits how many
    /// runs wait for it.
    pub async fn wait<F: Future>(&self, waiting: F) -> F::Output {
        let _place = Place::leave(&self.0);
        waiting.await
    }
}

/// The place of a run, which the run takes again when it continues.
struct Place<'a>(&'a Waiting);

impl<'a> Place<'a> {
    fn leave(waiting: &'a Waiting) -> Self {
        waiting.count.fetch_add(1, Ordering::AcqRel);
        waiting.changed.notify_one();
        Self(waiting)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// When to run a key again even without a trigger.
pub type Due = Option<Instant>;

/// Runs the reconciles of one queue.
pub struct Controller<K> {
    name: &'static str,
    queue: Queue<K>,
    concurrency: usize,
    clock: Clock,
    rng: Rng,
    metrics: Metrics,
    leadership: Leadership,
    fences: Fences,
    /// Writes that a cache may not have observed yet, oldest first.
    unseen: VecDeque<Unseen>,
    outside: Outside,
}

struct Unseen {
    deadline: Instant,
    cache: Arc<dyn Progress>,
    mark: Mark,
}

/// What follows for a key from a failed run.
#[derive(Clone, Copy)]
struct Failed {
    class: Class,
    retry_after: Option<Duration>,
    due: Due,
}

struct Outcome<K, E> {
    ticket: Ticket<K>,
    started: Instant,
    fence: Fence,
    reads: Reads,
    result: Result<Result<Due, E>, String>,
}

impl<K: Key> Controller<K> {
    /// Creates the controller `name` of `queue`, with at most `concurrency` runs at once. All caches of the
    /// kinds that it writes must have been started.
    pub fn new(
        name: &'static str,
        queue: Queue<K>,
        concurrency: usize,
        env: &Env,
        caches: &Caches,
        leadership: Leadership,
    ) -> Self {
        Self {
            name,
            queue,
            concurrency,
            clock: env.clock.clone(),
            rng: env.rng.fork(name),
            metrics: env.metrics.clone(),
            leadership,
            fences: caches.progress(),
            unseen: VecDeque::new(),
            outside: Outside::default(),
        }
    }

    /// Reconciles until `shutdown`, then finishes the current runs. While the caches fill and while another
    /// process leads, it only collects keys.
    pub async fn run<R, F, E>(mut self, shutdown: Shutdown, reconcile: R)
    where
        R: Fn(Attempt<K>) -> F,
        F: Future<Output = Result<Due, E>>,
        E: Classed,
    {
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = self.able_to_lead() => {}
            }
            self.lead(&shutdown, &reconcile).await;
            // The task that reports a change of the lease may be waiting for this thread.
            tokio::task::yield_now().await;
        }
    }

    async fn able_to_lead(&self) {
        self.fences.synced().await;
        self.leadership.acquired(&self.clock).await;
    }

    async fn lead<R, F, E>(&mut self, shutdown: &Shutdown, reconcile: &R)
    where
        R: Fn(Attempt<K>) -> F,
        F: Future<Output = Result<Due, E>>,
        E: Classed,
    {
        let (clock, queue, leadership) =
            (self.clock.clone(), self.queue.clone(), self.leadership.clone());
        let mut running = FuturesUnordered::new();
        let mut lost = std::pin::pin!(leadership.lost(&clock));
        let mut open = true;
        while open || !running.is_empty() {
            let (outside, waiting) = (self.outside.clone(), self.outside.0.clone());
            let inside = running.len().saturating_sub(waiting.count.load(Ordering::Acquire));
            let room = inside < self.concurrency;
            let deadline = self.unseen.front().map(|unseen| unseen.deadline);
            tokio::select! {
                biased;
                // Only a change of leadership helps a write that the lease refused.
                Some(outcome) = running.next() => open &= !self.finish(outcome),
                () = shutdown.requested(), if open => open = false,
                () = &mut lost, if open => open = false,
                () = clock.sleep_until(deadline.unwrap_or_default()), if deadline.is_some() => {
                    self.relist_laggards();
                }
                ticket = queue.take(), if open && room => {
                    let again = Again::of(&queue, &ticket.key);
                    let (name, now) = (self.name, clock.now());
                    running.push(attempt(ticket, name, outside, again, now, reconcile));
                }
                () = waiting.changed.notified() => {}
            }
            self.metrics.queue_depth(self.name, self.queue.depth());
        }
    }

    /// Ends a run. Returns whether the run showed that this process no longer leads.
    fn finish<E: Classed>(&mut self, outcome: Outcome<K, E>) -> bool {
        let Outcome { ticket, started, fence, reads, result } = outcome;
        let now = self.clock.now();
        let ended = match result {
            Ok(Ok(due)) => Ok(due),
            Ok(Err(error)) => {
                self.log(&ticket, error.class(), &error);
                Err(Failed {
                    class: error.class(),
                    retry_after: error.retry_after(),
                    due: error.due(),
                })
            }
            Err(panic) => {
                tracing::error!(controller = self.name, key = ?ticket.key, panic, "panicked");
                Err(Failed { class: Class::Bug, retry_after: None, due: None })
            }
        };
        let measured = ended.map(|_| ()).map_err(|failed| failed.class);
        self.metrics.reconciled(self.name, measured, ticket.waited, now.since(started));
        let ended = self.next(ended, ticket.failures + 1, now);
        let written = fence.take();
        self.check_table(&reads, &written);
        self.hold(&ticket.key, ended, &written, now);
        measured == Err(Class::Fenced)
    }

    fn next(&self, ended: Result<Due, Failed>, failures: u32, now: Instant) -> Ended {
        let Failed { class, retry_after, due } = match ended {
            Ok(due) => return Ended::Done { due },
            Err(failed) => failed,
        };
        let backoff = Backoff::RECONCILE;
        let wait = match class {
            Class::Invalid => return Ended::Done { due },
            Class::Fenced => return Ended::Returned,
            Class::Conflict | Class::Transient => {
                backoff.after(failures, &self.rng).max(retry_after.unwrap_or_default())
            }
            Class::Denied => backoff.after(failures + DENIED_DOUBLINGS, &self.rng),
            Class::Bug => self.rng.jitter(backoff.max),
        };
        let retry_at = now + wait;
        Ended::Failed { retry_at: due.map_or(retry_at, |due| due.min(retry_at)) }
    }

    /// Ends the process, in builds for tests, when a run used a kind that does not wake this controller.
    fn check_table(&self, reads: &Reads, written: &[Written]) {
        if cfg!(debug_assertions)
            && let Some(rows) = self.queue.rows()
        {
            let written = written.iter().map(|one| &one.resource);
            let unlisted = unlisted(rows, reads, written);
            assert_eq!(unlisted, None, "{} has no row for a kind that it uses", self.name);
        }
    }

    /// Returns the key to the queue, held while the caches have not observed all its writes.
    fn hold(&mut self, key: &K, ended: Ended, written: &[Written], now: Instant) {
        let behind = self.fences.behind(written);
        self.queue.end(key, ended, !behind.is_empty());
        if behind.is_empty() {
            return;
        }
        self.metrics.fence_hold(self.name);
        // Caches observe most writes within milliseconds; drop those before their deadline.
        while self.unseen.front().is_some_and(|oldest| oldest.cache.has_seen(&oldest.mark)) {
            self.unseen.pop_front();
        }
        let waiting_for = Arc::new(AtomicUsize::new(behind.len()));
        for (cache, mark) in behind {
            let (queue, key, waiting_for) = (self.queue.clone(), key.clone(), waiting_for.clone());
            cache.when_seen(
                &mark,
                Box::new(move || {
                    if waiting_for.fetch_sub(1, Ordering::AcqRel) == 1 {
                        queue.release(&key);
                    }
                }),
            );
            self.unseen.push_back(Unseen { deadline: now + FENCE_TIMEOUT, cache, mark });
        }
    }

    /// Lists caches again that have not observed a write in time.
    fn relist_laggards(&mut self) {
        let now = self.clock.now();
        while self.unseen.front().is_some_and(|unseen| unseen.deadline <= now) {
            let Some(unseen) = self.unseen.pop_front() else { return };
            let cache = &unseen.cache;
            if cache.has_seen(&unseen.mark) {
                continue;
            }
            tracing::warn!(
                controller = self.name, kind = %cache.resource(), observed = cache.observed(),
                written = ?unseen.mark, "the cache lags behind our write, listing again"
            );
            self.metrics.fence_expiry(self.name);
            cache.request_resync();
            self.unseen.push_back(Unseen { deadline: now + FENCE_TIMEOUT, ..unseen });
        }
    }

    fn log(&self, ticket: &Ticket<K>, class: Class, error: &dyn std::error::Error) {
        let (controller, key, failures) = (self.name, &ticket.key, ticket.failures);
        // Conflicts are normal, and a long row of failures is logged at powers of two only.
        if class == Class::Conflict || !(failures + 1).is_power_of_two() {
            tracing::debug!(controller, ?key, failures, class = class.as_str(), %error, "failed");
        } else {
            tracing::warn!(controller, ?key, failures, class = class.as_str(), %error, "failed");
        }
    }
}

async fn attempt<K, R, F, E>(
    ticket: Ticket<K>,
    controller: &'static str,
    outside: Outside,
    again: Again,
    started: Instant,
    reconcile: &R,
) -> Outcome<K, E>
where
    K: Key,
    R: Fn(Attempt<K>) -> F,
    F: Future<Output = Result<Due, E>>,
{
    let span = tracing::debug_span!(
        "reconcile", controller, key = ?ticket.key, failures = ticket.failures
    );
    let fence = Fence::default();
    let attempt = Attempt {
        key: ticket.key.clone(),
        failures: ticket.failures,
        fence: fence.clone(),
        outside,
        again,
    };
    // The closure itself may panic, too.
    let run = AssertUnwindSafe(async { reconcile(attempt).await }).catch_unwind().instrument(span);
    let (result, reads) = with_reads(run).await;
    let result = result.map_err(|payload| panic_message(&*payload));
    Outcome { ticket, started, fence, reads, result }
}

#[cfg(test)]
mod tests;
