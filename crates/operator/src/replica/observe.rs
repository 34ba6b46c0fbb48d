//! One replica as the caches show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::children::resource_claims::{self, PodClaims};
use grove_core::layout::Layout;
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
    /// Whether start-order containers of the set have their token.
    pub(super) has_token: bool,
    /// The claims that the set has for this replica.
    pub(super) claims: claims::Seen,
    /// By name of the PodClique: the first claim that its pods name and that does not exist.
    pub(super) missing_claims: BTreeMap<String, String>,
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
    let missing_claims = missing_claims(world, &set, &cliques);
    Some(Observed {
        missing_claims,
        claims: world.claims.of_set_replica(&set, key.index),
        compute_domains: compute_domains::observe(world, key),
        has_token: world.has_token(&set),
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

fn missing_claims(
    world: &World,
    set: &Set,
    cliques: &ByName<Object<PodClique>>,
) -> BTreeMap<String, String> {
    // Most sets share nothing.
    if !resource_claims::is_used(&set.object.spec.template) {
        return BTreeMap::new();
    }
    let layout = Layout::of(&set.object);
    let missing = |clique: &Object<PodClique>| {
        let labels = clique.object.metadata.labels.as_ref()?;
        let place = layout.find_clique(&clique.meta.key.name, labels)?;
        let claims = PodClaims::of(&layout, &place);
        let pods = u32::try_from(clique.object.spec.replicas).unwrap_or_default();
        let mut names = (0..pods).flat_map(|index| claims.names(index));
        names.find(|name| !world.claims.exists(layout.namespace(), name))
    };
    cliques.iter().filter_map(|(name, clique)| Some((name.clone(), missing(clique)?))).collect()
}
