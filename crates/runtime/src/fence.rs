//! Read-your-writes: a key is not reconciled again before the caches have seen what its last
//! reconcile wrote.
//!
//! Each reconcile gets an empty [`Fence`]; the writer leaves a mark in it for every write.
//! Afterwards the controller holds the key back until each kind's cache has seen its marks (see
//! [`crate::controller`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::resource::{ObjectKey, Resource, Uid};

/// Something that a cache will see sooner or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A version of the kind.
    Version(u64),
    /// The end of one life of an object. The server does not tell the version of a delete.
    Gone(ObjectKey, Uid),
}

/// What one reconcile wrote. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<BTreeMap<Resource, Vec<Mark>>>>);

impl Fence {
    /// Notes a write.
    pub(crate) fn note(&self, resource: &Resource, mark: Mark) {
        let mut noted = self.noted();
        let marks = noted.entry(resource.clone()).or_default();
        let earlier = marks.iter_mut().find_map(|earlier| match earlier {
            Mark::Version(version) => Some(version),
            Mark::Gone(..) => None,
        });
        match (mark, earlier) {
            (Mark::Version(version), Some(earlier)) => *earlier = version.max(*earlier),
            (mark, _) => marks.push(mark),
        }
    }

    /// Everything noted, leaving the fence empty.
    pub(crate) fn take(&self) -> Vec<(Resource, Mark)> {
        let noted = std::mem::take(&mut *self.noted());
        let by_mark = noted.into_iter().flat_map(|(resource, marks)| {
            marks.into_iter().map(move |mark| (resource.clone(), mark))
        });
        by_mark.collect()
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<Resource, Vec<Mark>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_versions_only_the_newest_counts_and_every_delete_does() {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let fence = Fence::default();
        let gone = |name| Mark::Gone(ObjectKey::new("ns", name), "u".into());

        fence.note(&pods, gone("a"));
        fence.note(&pods, Mark::Version(7));
        fence.note(&pods, Mark::Version(5));
        fence.note(&pods, gone("b"));

        let marks = [gone("a"), Mark::Version(7), gone("b")];
        assert_eq!(fence.take(), marks.map(|mark| (pods.clone(), mark)));
        assert!(fence.take().is_empty());
    }
}
