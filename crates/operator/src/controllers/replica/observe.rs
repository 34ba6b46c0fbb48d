//! Reads one replica from the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_backends::Registry;
use grove_core::children::resource_claims::{self, PodClaims};
use grove_core::gang;
use grove_core::layout::Layout;
use grove_core::pods::ObservedPod;
use grove_core::topology::SetTopology;

use super::ReplicaKey;
use crate::caches::views::Set;
use crate::caches::{ByName, Stores, by_name};
use crate::controllers::claims;
use crate::controllers::compute_domains;
use grove_runtime::object::{JsonObject, Object};

/// Everything of one replica, by name.
pub(crate) struct Observed {
    pub(super) set: Arc<Set>,
    pub(super) index: u32,
    pub(super) services: ByName<JsonObject>,
    pub(super) autoscalers: ByName<JsonObject>,
    /// Standalone ones and members of groups.
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
    pub(super) gangs: ByName<Object<PodGang>>,
    /// Pods by name of their PodClique.
    pub(super) pods: BTreeMap<String, Vec<ObservedPod>>,
    /// Whether start-order containers of the set have their token.
    pub(super) has_token: bool,
    /// The claims that the set has for this replica.
    pub(super) claims: claims::ObservedClaims,
    /// By name of the PodClique: the first claim that its pods name and that does not exist.
    pub(super) missing_claims: BTreeMap<String, String>,
    /// Absent when the operator does not manage them.
    pub(super) compute_domains: Option<compute_domains::ObservedDomains>,
    pub(super) scheduler: SchedulerNeeds,
    pub(super) topology: SetTopology,
}

/// What the schedulers of the gangs need.
#[derive(Default)]
pub(super) struct SchedulerNeeds {
    /// Scheduler of pods that name none.
    pub(super) default: String,
    /// Names of the gangs whose minima are created first.
    pub(super) minimum_first: BTreeSet<String>,
    /// Keys of labels and annotations that the scheduler of the set acts on.
    pub(super) acted_on: BTreeSet<String>,
}

/// The replica, if its set exists and is not being deleted.
pub(super) fn observe(stores: &Stores, backends: &Registry, key: &ReplicaKey) -> Option<Observed> {
    let set = stores.sets.get(&key.set).filter(|set| !set.meta.deleting)?;
    let cliques = by_name(stores.cliques.of_replica(&key.set, key.index));
    let pods = cliques.iter().map(|(name, clique)| {
        let pods = stores.pods_of(&clique.meta.uid);
        (name.clone(), pods.iter().map(|pod| pod.observed.clone()).collect())
    });
    let missing_claims = missing_claims(stores, &set, &cliques);
    let gangs = by_name(stores.gangs.of_replica(&key.set, key.index));
    Some(Observed {
        scheduler: scheduler(stores, backends, &set, &gangs),
        topology: stores.topologies.of(&set.object),
        missing_claims,
        claims: stores.claims.of_set_replica(&set, key.index),
        compute_domains: compute_domains::observe(stores, key),
        has_token: stores.has_token(&set),
        set,
        index: key.index,
        services: by_name(stores.services.of_replica(&key.set, key.index)),
        autoscalers: by_name(stores.autoscalers.of_replica(&key.set, key.index)),
        pods: pods.collect(),
        cliques,
        groups: by_name(stores.groups.of_replica(&key.set, key.index)),
        gangs,
    })
}

fn scheduler(
    stores: &Stores,
    backends: &Registry,
    set: &Set,
    gangs: &ByName<Object<PodGang>>,
) -> SchedulerNeeds {
    let default = backends.default_backend();
    let name = gang::scheduler_name(&Layout::of(&set.object), default.name());
    let backend = backends.get(name).unwrap_or(default);
    let metadata = gangs.values().map(|gang| &gang.object.metadata).chain([&set.object.metadata]);
    let texts = metadata.flat_map(|one| [&one.labels, &one.annotations]).flatten().flatten();
    let acted_on = texts.map(|(key, _)| key).filter(|key| backend.acts_on(key)).cloned().collect();
    let is_minimum_first = |gang: &PodGang| {
        let rules = backends.pod_rules(gang, &stores.scheduler_objects);
        rules.is_some_and(|rules| rules.minimum_first)
    };
    let minimum_first = gangs.iter().filter(|(_, gang)| is_minimum_first(&gang.object));
    let minimum_first = minimum_first.map(|(name, _)| name.clone()).collect();
    SchedulerNeeds { default: default.name().to_owned(), minimum_first, acted_on }
}

fn missing_claims(
    stores: &Stores,
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
        names.find(|name| !stores.claims.exists(layout.namespace(), name))
    };
    cliques.iter().filter_map(|(name, clique)| Some((name.clone(), missing(clique)?))).collect()
}
