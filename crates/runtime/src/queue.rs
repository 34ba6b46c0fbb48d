//! The work queue: which key runs next.
//!
//! Keys are deduplicated, and each runs once at a time. The order is by priority with ageing: a waiting key
//! gains one class per two seconds, so that no key starves. A failing key backs off exponentially until it
//! succeeds; triggers neither reset nor advance that count. A run may set a due time for the next one, and
//! the write fence may hold a key back however often it is triggered.
//!
//! [`Schedule`] has all rules, without IO and with time as an argument; [`Queue`] is the handle that tasks
//! share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};
use crate::store::Store;
use crate::view::View;
use crate::wake::Rows;

/// Bounds of a key.
pub trait Key: Ord + Clone + fmt::Debug + Send + Sync + 'static {}

impl<K: Ord + Clone + fmt::Debug + Send + Sync + 'static> Key for K {}

/// Why a key is queued, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The user changed the desired state.
    UserChange,
    /// An object that the key depends on changed, or a due time came.
    ChildChange,
    /// New work: the key existed when the process started, or is one of many new ones that yield to work in
    /// progress.
    Beginning,
    /// A periodic check.
    Resync,
}

impl Priority {
    const ALL: [Self; 4] = [Self::UserChange, Self::ChildChange, Self::Beginning, Self::Resync];
}

/// A key gains one class per this time in the queue.
const AGEING: Duration = Duration::from_secs(2);

/// A request to run a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    priority: Priority,
    since: Instant,
    /// Keeps keys that were queued at the same time in order.
    sequence: u64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    pending: Option<Pending>,
    running: bool,
    held: bool,
    due: Option<Instant>,
    failures: u32,
}

impl Entry {
    fn waits_after_failure(&self) -> bool {
        self.failures > 0 && self.due.is_some()
    }

    fn forgettable(&self) -> bool {
        self.pending.is_none()
            && !self.running
            && !self.held
            && self.due.is_none()
            && self.failures == 0
    }
}

/// A key to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<K> {
    /// The key.
    pub key: K,
    /// Failures in a row before this run.
    pub failures: u32,
    /// How long the key waited in the queue.
    pub waited: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Succeeded; run the key again at the due time, if any.
    Done {
        /// When to run the key again without a trigger.
        due: Option<Instant>,
    },
    /// Failed; run the key again at this time.
    Failed {
        /// When.
        retry_at: Instant,
    },
    /// Not run, because this process no longer leads: the key stays queued.
    Returned,
}

/// The rules of the queue.
#[derive(Debug)]
pub struct Schedule<K> {
    entries: BTreeMap<K, Entry>,
    /// Keys that can run now, per priority, oldest first.
    ready: BTreeMap<Priority, BTreeSet<(Instant, u64, K)>>,
    due: BTreeSet<(Instant, K)>,
    sequence: u64,
}

impl<K: Key> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: Priority::ALL.into_iter().map(|p| (p, BTreeSet::new())).collect(),
            due: BTreeSet::new(),
            sequence: 0,
        }
    }
}

impl<K: Key> Schedule<K> {
    /// Queues `key`. Queueing it again only raises its priority; it keeps its age.
    pub fn want(&mut self, key: K, priority: Priority, now: Instant) {
        let pending = self.entries.get(&key).and_then(|entry| entry.pending);
        if pending.is_some_and(|pending| pending.priority <= priority) {
            return;
        }
        self.sequence += 1;
        let sequence = self.sequence;
        self.change(key, |entry| {
            let pending = entry.pending.unwrap_or(Pending { priority, since: now, sequence });
            entry.pending = Some(Pending { priority: pending.priority.min(priority), ..pending });
        });
    }

    /// Keys that back off after a failure.
    pub fn failed(&self) -> Vec<K> {
        let failed = self.entries.iter().filter(|(_, entry)| entry.waits_after_failure());
        failed.map(|(key, _)| key.clone()).collect()
    }

    /// Runs a key at once that backs off after a failure.
    pub fn retry(&mut self, key: K, now: Instant) {
        if self.entries.get(&key).is_some_and(Entry::waits_after_failure) {
            self.change(key.clone(), |entry| entry.due = None);
            self.want(key, Priority::ChildChange, now);
        }
    }

    /// Takes the most urgent key, which then counts as running.
    pub fn take(&mut self, now: Instant) -> Option<Ticket<K>> {
        self.wake(now);
        let best = self.ready.iter().filter_map(|(priority, keys)| {
            let (since, sequence, key) = keys.first()?;
            Some((urgency(*priority, *since, now), *since, *sequence, key))
        });
        let (_, since, _, key) = best.min()?;
        let key = key.clone();
        let mut failures = 0;
        self.change(key.clone(), |entry| {
            entry.pending = None;
            entry.running = true;
            failures = entry.failures;
        });
        Some(Ticket { key, failures, waited: now.since(since) })
    }

    /// Ends the run of `key`. With `held`, the key does not run again before [`Schedule::release`].
    pub fn end(&mut self, key: &K, ended: Ended, held: bool, now: Instant) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.change(key.clone(), |entry| {
            entry.running = false;
            entry.held = held;
            match ended {
                Ended::Done { due } => {
                    entry.failures = 0;
                    entry.due = due;
                }
                Ended::Failed { retry_at } => {
                    entry.failures += 1;
                    entry.due = Some(retry_at);
                }
                Ended::Returned => {
                    let again = Pending { priority: Priority::Resync, since: now, sequence };
                    entry.pending.get_or_insert(again);
                }
            }
        });
    }

    /// Lets a held key run again.
    pub fn release(&mut self, key: &K) {
        if self.entries.contains_key(key) {
            self.change(key.clone(), |entry| entry.held = false);
        }
    }

    /// When [`Schedule::take`] may return another key, at the earliest.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Number of keys that can run now.
    pub fn depth(&self) -> usize {
        self.ready.values().map(BTreeSet::len).sum()
    }

    fn wake(&mut self, now: Instant) {
        while let Some((due, key)) = self.due.first().cloned() {
            if due > now {
                return;
            }
            self.change(key.clone(), |entry| entry.due = None);
            self.want(key, Priority::ChildChange, due);
        }
    }

    /// Changes one entry and updates both orders.
    fn change(&mut self, key: K, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.entries.remove(&key).unwrap_or_default();
        self.unlist(&key, &entry);
        change(&mut entry);
        if entry.forgettable() {
            return;
        }
        if let (Some(pending), false, false) = (entry.pending, entry.running, entry.held) {
            let ready = self.ready.entry(pending.priority).or_default();
            ready.insert((pending.since, pending.sequence, key.clone()));
        }
        if let Some(due) = entry.due {
            self.due.insert((due, key.clone()));
        }
        self.entries.insert(key, entry);
    }

    fn unlist(&mut self, key: &K, entry: &Entry) {
        if let Some(pending) = entry.pending
            && let Some(ready) = self.ready.get_mut(&pending.priority)
        {
            ready.remove(&(pending.since, pending.sequence, key.clone()));
        }
        if let Some(due) = entry.due {
            self.due.remove(&(due, key.clone()));
        }
    }
}

/// The class of a key after ageing; lower is more urgent. It falls below the first class, so that the
/// oldest keys of all classes run in the order in which they were queued.
fn urgency(priority: Priority, since: Instant, now: Instant) -> i64 {
    let class = match priority {
        Priority::UserChange => 0,
        Priority::ChildChange => 1,
        Priority::Beginning => 2,
        Priority::Resync => 3,
    };
    let gained = now.since(since).as_secs() / AGEING.as_secs();
    class - i64::try_from(gained).unwrap_or(i64::MAX)
}

/// A [`Schedule`] shared by the tasks that queue keys and the controller that runs them.
pub struct Queue<K> {
    shared: Arc<(Mutex<Schedule<K>>, Notify)>,
    clock: Clock,
    /// The wake table that fills the queue, if one does.
    rows: Option<Arc<Rows>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        let Self { shared, clock, rows } = self;
        Self { shared: shared.clone(), clock: clock.clone(), rows: rows.clone() }
    }
}

impl<K: Key> Queue<K> {
    /// An empty queue.
    pub fn new(clock: Clock) -> Self {
        let shared = Arc::new((Mutex::new(Schedule::default()), Notify::new()));
        Self { shared, clock, rows: None }
    }

    /// The same queue, filled by a wake table with these rows.
    pub(crate) fn with_rows(self, rows: Rows) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self }
    }

    /// The rows of the wake table that fills the queue.
    pub fn rows(&self) -> Option<&Rows> {
        self.rows.as_deref()
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule<K>> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `key`.
    pub fn want(&self, key: K, priority: Priority) {
        self.schedule().want(key, priority, self.clock.now());
        self.shared.1.notify_one();
    }

    /// Runs selected keys at once that back off after a failure, because its cause is repaired.
    pub fn retry(&self, of: impl Fn(&K) -> bool) {
        // `of` may read stores, which call this queue on changes: it must run without the lock.
        let failed = self.schedule().failed();
        for key in failed.into_iter().filter(of) {
            self.schedule().retry(key, self.clock.now());
        }
        self.shared.1.notify_one();
    }

    /// Queues keys for every relevant change in `store`. A change is relevant if the object appeared or was
    /// deleted, or if `changed` returns true; `keys` returns the keys of the old and of the new object.
    /// Controllers declare this in a [`WakeTable`](crate::wake::WakeTable).
    pub fn follow<T: View>(
        &self,
        store: &Store<T>,
        priority: Priority,
        changed: impl Fn(&T, &T) -> bool + Send + Sync + 'static,
        keys: impl Fn(&T) -> Vec<K> + Send + Sync + 'static,
    ) {
        let queue = self.clone();
        store.on_change(move |change| {
            if let (Some(old), Some(new)) = (change.old, change.new)
                && !changed(old, new)
            {
                return;
            }
            let priority = if change.initial { Priority::Beginning } else { priority };
            let before = change.old.map(&keys).unwrap_or_default();
            let after = change.new.map(&keys).unwrap_or_default();
            let before = Some(before).filter(|before| *before != after);
            for key in before.into_iter().flatten().chain(after) {
                queue.want(key, priority);
            }
        });
    }

    /// Waits for the most urgent key.
    pub async fn take(&self) -> Ticket<K> {
        loop {
            let changed = self.shared.1.notified();
            let (ticket, due) = {
                let mut schedule = self.schedule();
                (schedule.take(self.clock.now()), schedule.next_due())
            };
            match (ticket, due) {
                (Some(ticket), _) => return ticket,
                (None, None) => changed.await,
                (None, Some(due)) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.clock.sleep_until(due) => {}
                },
            }
        }
    }

    /// Ends the run of `key`.
    pub fn end(&self, key: &K, ended: Ended, held: bool) {
        self.schedule().end(key, ended, held, self.clock.now());
        self.shared.1.notify_one();
    }

    /// Lets a held key run again.
    pub fn release(&self, key: &K) {
        self.schedule().release(key);
        self.shared.1.notify_one();
    }

    /// Number of keys that can run now.
    pub fn depth(&self) -> usize {
        self.schedule().depth()
    }
}

#[cfg(test)]
mod tests;
