//! Reads the topology objects of the schedulers from the caches.

use std::sync::Arc;

use grove_backends::{Registry, SchedulerObject, Topology, TopologyPart};
use grove_runtime::resource::ObjectKey;
use grove_runtime::store::Presence;

use crate::caches::Stores;

/// A scheduler with topology objects of its own, and the object of one topology.
pub(super) struct TopologyScheduler<'a> {
    pub(super) name: &'a str,
    pub(super) part: &'a dyn TopologyPart,
    /// Name of the object when another owner manages it.
    pub(super) reference: Option<&'a str>,
    pub(super) live: Option<Arc<SchedulerObject>>,
    pub(super) presence: Presence,
}

/// The schedulers, by name; nothing while a cache is not filled yet.
pub(super) fn schedulers<'a>(
    stores: &Stores,
    backends: &'a Registry,
    topology: &Topology<'_>,
    reference: impl Fn(&str) -> Option<&'a str>,
) -> Option<Vec<TopologyScheduler<'a>>> {
    let mut schedulers = Vec::new();
    for backend in backends.all() {
        let Some(part) = backend.topology() else { continue };
        let Some(store) = stores.scheduler_objects.store(&part.kind()) else { continue };
        let presence = store.presence();
        if presence == Presence::Served && !store.is_listed() {
            return None;
        }
        let (name, reference) = (backend.name(), reference(backend.name()));
        let object = reference.map_or_else(|| part.object_name(topology), str::to_owned);
        let live = store.get(&ObjectKey::new("", &object));
        schedulers.push(TopologyScheduler { name, part, reference, live, presence });
    }
    Some(schedulers)
}
