//! What wakes a topology.

use grove_api::cluster_topology::MANAGED_NAME;
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_backends::{Backend, Registry, SchedulerObject, Topology, TopologyPart};
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{Beginning, ChildChange, UserChange};
use grove_runtime::queue::Queue;
use grove_runtime::view::View as _;
use grove_runtime::wake::{WakeTable, by};

use super::TopologyKey;
use crate::caches::{Stores, reference};

/// The wake table of topologies.
pub(crate) fn queue(
    stores: &Stores,
    backends: &Registry,
    env: &Env,
    stage: &Stage,
) -> Queue<TopologyKey> {
    let mut table = WakeTable::new(env, stage);
    let why = "the topology changed, also by other controllers";
    table.on(&stores.topologies.bindings, why, UserChange, by(binding_facts), |one| {
        vec![key_of(one)]
    });
    table.on(&stores.topologies.managed, why, UserChange, by(topology_facts), managed);
    for backend in backends.all() {
        let Some(kind) = backend.topology().map(TopologyPart::kind) else { continue };
        let Some(store) = stores.scheduler_objects.store(&kind) else { continue };
        let (all, backends, name) = (stores.clone(), backends.clone(), backend.name().to_owned());
        let why = "a topology object of the scheduler changed, also by other controllers";
        let without_status = SchedulerObject::without_status;
        table.on(store, why, ChildChange, by(without_status), move |object| {
            concerned(&all, &backends, &name, object)
        });
        let all = stores.clone();
        table.on_presence(store, "topology objects can be created, or no longer", move || {
            let bindings = all.topologies.bindings.all();
            let topologies = all.topologies.managed.all();
            let bindings = bindings.iter().map(|one| key_of(one));
            bindings.chain(topologies.iter().flat_map(|one| managed(one))).collect()
        });
    }
    let why = "the operator can create its topology, or no longer";
    table.on_presence(&stores.topologies.managed, why, || vec![TopologyKey::Managed]);
    let queue = table.into_queue();
    // It may have to be created, or deleted.
    queue.want(TopologyKey::Managed, Beginning);
    queue
}

fn key_of(binding: &Object<ClusterTopologyBinding>) -> TopologyKey {
    TopologyKey::Binding(binding.meta.key.name.clone())
}

fn managed(topology: &Object<ClusterTopology>) -> Vec<TopologyKey> {
    let is_managed = *topology.meta.key.name == *MANAGED_NAME;
    is_managed.then_some(TopologyKey::Managed).into_iter().collect()
}

/// The status counts because another controller may have changed it.
fn binding_facts(binding: &Object<ClusterTopologyBinding>) -> impl PartialEq + use<> {
    let Object { meta, object } = binding;
    (meta.uid.clone(), meta.generation, meta.deleting, object.status.clone())
}

fn topology_facts(topology: &Object<ClusterTopology>) -> impl PartialEq + use<> {
    let Object { meta, object } = topology;
    (meta.uid.clone(), meta.generation, meta.deleting, object.status.clone())
}

/// The topologies that an object of a scheduler concerns.
fn concerned(
    stores: &Stores,
    backends: &Registry,
    scheduler: &str,
    object: &SchedulerObject,
) -> Vec<TopologyKey> {
    let Some(part) = backends.get(scheduler).and_then(Backend::topology) else {
        return Vec::new();
    };
    let name = &*object.meta().key.name;
    let is_about = |topology: &Topology<'_>, reference: Option<&str>| {
        topology.is_named_by(object)
            || match reference {
                Some(reference) => reference == name,
                None => part.object_name(topology) == name,
            }
    };
    let bindings = stores.topologies.bindings.all();
    let bindings = bindings.iter().filter(|binding| {
        is_about(&Topology::from(&binding.object), reference(&binding.object, scheduler))
    });
    let topologies = stores.topologies.managed.all();
    let topologies =
        topologies.iter().filter(|topology| is_about(&Topology::from(&topology.object), None));
    bindings.map(|one| key_of(one)).chain(topologies.flat_map(|one| managed(one))).collect()
}
