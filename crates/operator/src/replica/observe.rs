//! One replica as the caches show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::pods::ObservedPod;

use super::ReplicaKey;
use crate::claims;
use crate::compute_domains;
use crate::objects::{Object, Raw, Set};
use crate::world::{ByName, World, by_name};

/// Everything of one replica, by name.
pub(crate) struct Observed {
    pub(super) set: Arc<Set>,
    pub(super) index: u32,
    pub(super) services: ByName<Raw>,
    pub(super) autoscalers: ByName<Raw>,
    /// Standalone ones and members of groups.
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
    pub(super) gangs: ByName<Object<PodGang>>,
    /// Pods by name of their PodClique.
    pub(super) pods: BTreeMap<String, Vec<ObservedPod>>,
    /// The claims that the set has for this replica.
    pub(super) claims: claims::Seen,
    /// Absent when nobody cares for them.
    pub(super) compute_domains: Option<compute_domains::Seen>,
}

/// The replica, if its set is there and stays.
pub(super) fn observe(world: &World, key: &ReplicaKey) -> Option<Observed> {
    let set = world.sets.get(&key.set).filter(|set| !set.meta.deleting)?;
    let cliques = by_name(world.cliques.of_replica(&key.set, key.index));
    let pods = cliques.iter().map(|(name, clique)| {
        let pods = world.pods_of(&clique.meta.uid);
        (name.clone(), pods.iter().map(|pod| pod.observed.clone()).collect())
    });
    Some(Observed {
        claims: world.claims.of_set_replica(&set, key.index),
        compute_domains: compute_domains::observe(world, key),
        set,
        index: key.index,
        services: by_name(world.services.of_replica(&key.set, key.index)),
        autoscalers: by_name(world.autoscalers.of_replica(&key.set, key.index)),
        pods: pods.collect(),
        cliques,
        groups: by_name(world.groups.of_replica(&key.set, key.index)),
        gangs: by_name(world.gangs.of_replica(&key.set, key.index)),
    })
}
