//! PodCliques whose minimum was ready at a moment that no status records yet.
//!
//! Pods can become ready and be lost before the next reconcile. The watch shows every moment, so this module
//! keeps it until a status records it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grove_api::PodClique;
use grove_core::minimum::{has_minimum, has_reached_minimum};
use grove_runtime::resource::{ObjectKey, Uid};
use grove_runtime::store::{Index, Store};
use grove_runtime::view::View;

use crate::caches::owner_of;
use crate::caches::views::Pod;
use grove_runtime::object::Object;

/// The uids of those PodCliques.
#[derive(Clone, Default)]
pub(crate) struct HadMinimum(Arc<Mutex<BTreeSet<Uid>>>);

impl HadMinimum {
    /// Follows the pods of all PodCliques, and forgets what a status records.
    pub(crate) fn follow(
        cliques: &Store<Object<PodClique>>,
        pods: &Store<Pod>,
        pods_by_clique: Index,
    ) -> Self {
        let had = Self::default();
        let (all, owners, noted) = (pods.clone(), cliques.clone(), had.clone());
        pods.on_change(move |change| {
            let is_ready = |pod: &Pod| pod.observed.ready && !pod.observed.deleting;
            let Some(pod) = change.new.filter(|pod| is_ready(pod)) else { return };
            if change.old.is_some_and(is_ready) {
                return;
            }
            let name = owner_of(pod.meta(), PodClique::KIND);
            let key = name.map(|name| ObjectKey::new(&pod.meta().key.namespace, name));
            let owner = key.and_then(|key| owners.get(&key));
            let owner = owner.filter(|owner| pod.meta().owner_uid() == Some(&owner.meta.uid));
            let Some(owner) = owner.filter(|owner| !has_reached_minimum(&owner.object)) else {
                return;
            };
            let pods = all.by(pods_by_clique, &owner.meta.uid.0);
            if has_minimum(&owner.object, pods.iter().map(|pod| &pod.observed)) {
                noted.lock().insert(owner.meta.uid.clone());
            }
        });
        let noted = had.clone();
        cliques.on_change(move |change| {
            let left = |one: &&Object<PodClique>| !has_reached_minimum(&one.object);
            let uid = |one: &Object<PodClique>| one.meta.uid.clone();
            let kept = change.new.filter(left).map(uid);
            if let Some(old) = change.old.map(uid).filter(|old| kept.as_ref() != Some(old)) {
                noted.lock().remove(&old);
            }
        });
        had
    }

    /// Whether this PodClique had its minimum, and no status records it.
    pub(crate) fn contains(&self, clique: &Uid) -> bool {
        self.lock().contains(clique)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Uid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
