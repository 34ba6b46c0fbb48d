//! Read-your-writes: a key is not reconciled again before the caches have observed the writes of its last
//! reconcile.
//!
//! Each reconcile gets an empty [`Fence`]; the writer adds a mark for every write. Afterwards the
//! controller holds the key back until each cache has observed its marks (see [`crate::controller`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::resource::{ObjectKey, Resource, Uid};
use crate::view::Labels;

/// A write that a cache will observe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// A resourceVersion of the kind.
    Version(u64),
    /// The deletion of the object with this uid. The server does not return the version of a delete.
    Gone(ObjectKey, Uid),
}

/// A write of a reconcile, as caches need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) resource: Resource,
    pub(crate) namespace: Arc<str>,
    /// Labels after the write: caches of other selections never observe it.
    pub(crate) labels: Labels,
    pub(crate) mark: Mark,
}

/// The writes of one reconcile. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<Vec<Written>>>);

impl Fence {
    /// Records a write.
    pub(crate) fn note(&self, written: Written) {
        self.writes().push(written);
    }

    /// Returns all writes and leaves the fence empty.
    pub(crate) fn take(&self) -> Vec<Written> {
        std::mem::take(&mut *self.writes())
    }

    fn writes(&self) -> MutexGuard<'_, Vec<Written>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
