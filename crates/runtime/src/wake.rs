//! Wake tables: what wakes the keys of a controller, and why.
//!
//! A controller declares every source of its decisions once, in one table:
//!
//! ```text
//! source (a store)  why                              priority     changed          keys
//! pods              a pod starts, fails or is gone   ChildChange  facts_differ     its clique
//! sets              read for labels, wakes no key    –            –                –
//! ```
//!
//! In builds with debug assertions, so in every test, the controller checks its runs against the table: a
//! run that reads from a store or writes to a kind without a row ends the process with a message that names
//! the kind. A controller that decides on something that does not wake it is stale until something else
//! happens.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use crate::clock::Clock;
use crate::presence;
use crate::process::{Env, Stage};
use crate::queue::{Key, Priority, Queue};
use crate::resource::Resource;
use crate::store::Store;
use crate::view::View;

/// The reasons of a table by kind.
pub type Rows = BTreeMap<Resource, Vec<&'static str>>;

/// Declares what wakes the keys of one queue.
pub struct WakeTable<'a, K> {
    queue: Queue<K>,
    rows: Rows,
    clock: Clock,
    stage: &'a Stage,
}

impl<'a, K: Key> WakeTable<'a, K> {
    /// An empty table. Presence of optional kinds is followed by tasks of `stage`.
    pub fn new(env: &Env, stage: &'a Stage) -> Self {
        let clock = env.clock.clone();
        Self { queue: Queue::new(clock.clone()), rows: Rows::new(), clock, stage }
    }

    /// Objects of `store` that appear, are gone, or differ according to `changed` wake the keys that `keys`
    /// returns for the old and the new object.
    pub fn on<T: View>(
        &mut self,
        store: &Store<T>,
        why: &'static str,
        priority: Priority,
        changed: impl Fn(&T, &T) -> bool + Send + Sync + 'static,
        keys: impl Fn(&T) -> Vec<K> + Send + Sync + 'static,
    ) {
        self.row(store, why);
        self.queue.follow(store, priority, changed, keys);
    }

    /// `keys` are woken when the cluster starts or stops to serve the kind of `store`, and when its first
    /// list is complete.
    pub fn on_presence<T: View>(
        &mut self,
        store: &Store<T>,
        why: &'static str,
        keys: impl Fn() -> Vec<K> + Send + Sync + 'static,
    ) {
        self.row(store, why);
        let queue = self.queue.clone();
        let changed =
            move || keys().into_iter().for_each(|key| queue.want(key, Priority::Beginning));
        presence::follow(store, &self.clock, self.stage, Arc::new(changed));
    }

    /// The controller reads from `store` and is not woken by it, because another row wakes it whenever the
    /// answer matters.
    pub fn reads<T: View>(&mut self, store: &Store<T>, why: &'static str) {
        self.row(store, why);
    }

    fn row<T: View>(&mut self, store: &Store<T>, why: &'static str) {
        self.rows.entry(store.resource().clone()).or_default().push(why);
    }

    /// The queue that the table fills, and the rows of the table.
    pub fn into_queue(self) -> Queue<K> {
        self.queue.with_rows(self.rows)
    }
}

/// Compares two objects by what `facts` reads of them.
pub fn by<T, P: PartialEq>(facts: impl Fn(&T) -> P) -> impl Fn(&T, &T) -> bool {
    move |old, new| facts(old) != facts(new)
}

/// The kinds that a future reads from stores.
#[derive(Debug, Default)]
pub(crate) struct Reads(BTreeSet<Resource>);

thread_local! {
    /// The reads of the run that this thread polls.
    static CURRENT: RefCell<Option<Reads>> = const { RefCell::new(None) };
}

/// Notes that the current run, if any, reads from the store of a kind.
pub(crate) fn note_read(resource: &Resource) {
    if cfg!(debug_assertions) {
        CURRENT.with_borrow_mut(|current| {
            if let Some(Reads(kinds)) = current
                && !kinds.contains(resource)
            {
                kinds.insert(resource.clone());
            }
        });
    }
}

/// Runs a future and collects what it reads. Empty without debug assertions.
pub(crate) async fn with_reads<F: Future>(run: F) -> (F::Output, Reads) {
    let mut run = pin!(run);
    let mut reads = Reads::default();
    let output = poll_fn(|context| {
        let before = CURRENT.replace(Some(std::mem::take(&mut reads)));
        let polled = run.as_mut().poll(context);
        reads = CURRENT.replace(before).unwrap_or_default();
        polled
    })
    .await;
    (output, reads)
}

/// The first kind that a run read from, or wrote to, and that its table lacks.
pub(crate) fn unlisted<'a>(
    rows: &Rows,
    Reads(read): &'a Reads,
    written: impl Iterator<Item = &'a Resource>,
) -> Option<&'a Resource> {
    read.iter().chain(written).find(|kind| !rows.contains_key(*kind))
}
