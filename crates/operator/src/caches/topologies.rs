//! Topologies, and which of them applies to a set.

use std::sync::Arc;

use grove_api::annotations::TOPOLOGY_NAME;
use grove_api::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet, PodGang, config};
use grove_core::topology::{Lookup, Mode, SetTopology, managed_topology, topology_name};
use grove_runtime::cache::Caches;
use grove_runtime::object::Object;
use grove_runtime::queue::Key;
use grove_runtime::queue::Priority::ChildChange;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::{Presence, Store};
use grove_runtime::wake::{WakeTable, by};

use super::all_of;
use super::views::Set;

/// The topologies of the cluster. Both kinds are optional.
#[derive(Clone)]
pub(crate) struct TopologyCaches {
    /// What the operator does about topology constraints.
    pub(crate) mode: Mode,
    /// The ClusterTopology that the operator manages, as it has to be.
    pub(crate) desired: Option<Arc<ClusterTopology>>,
    /// Topologies that users define.
    pub(crate) bindings: Store<Object<ClusterTopologyBinding>>,
    /// ClusterTopologies, one of which the operator manages.
    pub(crate) managed: Store<Object<ClusterTopology>>,
}

impl TopologyCaches {
    pub(super) fn start(caches: &mut Caches, configured: &config::Topology) -> Self {
        Self {
            mode: configured.into(),
            desired: managed_topology(configured).map(Arc::new),
            bindings: all_of(caches, Resource::of::<ClusterTopologyBinding>()),
            managed: all_of(caches, Resource::of::<ClusterTopology>()),
        }
    }

    /// The topology that applies to a set.
    pub(crate) fn of(&self, set: &PodCliqueSet) -> SetTopology {
        SetTopology::of(set, &self.mode, |name| self.binding(name))
    }

    fn binding(&self, name: &str) -> Lookup {
        match self.bindings.presence() {
            Presence::Absent => Lookup::NotFound,
            Presence::Served if self.bindings.is_listed() => {
                let binding = self.bindings.get(&ObjectKey::new("", name));
                binding.map_or(Lookup::NotFound, |binding| Lookup::Found((&binding.object).into()))
            }
            Presence::Served | Presence::Unknown => Lookup::Unknown,
        }
    }

    /// Name of the scheduler's own topology object for a gang, if another owner manages it.
    pub(crate) fn reference(&self, gang: &Object<PodGang>, scheduler: &str) -> Option<String> {
        let binding = self.bindings.get(&ObjectKey::new("", named_topology(gang)?))?;
        reference(&binding.object, scheduler).map(str::to_owned)
    }

    /// Wakes the keys of all sets that name a binding when it changes.
    pub(crate) fn wake<K: Key>(
        &self,
        table: &mut WakeTable<'_, K>,
        sets: &Store<Set>,
        keys: impl Fn(&Set) -> Vec<K> + Clone + Send + Sync + 'static,
    ) {
        if self.mode == Mode::Disabled {
            table.reads(&self.bindings, "not used: topology-aware scheduling is off");
            return;
        }
        let of = {
            let (sets, keys) = (sets.clone(), keys.clone());
            move |wanted: Option<&str>| -> Vec<K> {
                let all = sets.all().into_iter().filter(|set| {
                    let name = topology_name(&set.object);
                    name.is_some() && wanted.is_none_or(|wanted| name == Some(wanted))
                });
                all.flat_map(|set| keys(&set)).collect()
            }
        };
        let of_binding = of.clone();
        let why = "the topology that the set names changed, was created or deleted";
        table.on(&self.bindings, why, ChildChange, by(facts), move |binding| {
            of_binding(Some(&binding.meta.key.name))
        });
        table.on_presence(&self.bindings, "topologies can be read, or no longer", move || of(None));
    }
}

/// The topology that a gang names.
pub(crate) fn named_topology(gang: &Object<PodGang>) -> Option<&str> {
    gang.object.metadata.annotations.as_ref()?.get(TOPOLOGY_NAME).map(String::as_str)
}

/// Name of a scheduler's topology object that a binding refers to.
pub(crate) fn reference<'b>(
    binding: &'b ClusterTopologyBinding,
    scheduler: &str,
) -> Option<&'b str> {
    let mut listed = binding.spec.scheduler_topology_bindings.iter();
    let listed = listed.find(|one| one.scheduler_name == scheduler)?;
    Some(&listed.topology_reference)
}

fn facts(binding: &Object<ClusterTopologyBinding>) -> impl PartialEq + use<> {
    (binding.meta.uid.clone(), binding.meta.generation)
}
