//! Reads a group from the caches: itself, its set, its place in the set, and every PodClique that is a member or
//! has the name of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::children::resource_claims::{self, ResourceClaim};
use grove_core::layout::{Clique, Layout};
use grove_core::pods::ObservedPod;
use grove_core::termination::clique_breached_since;
use grove_runtime::resource::ObjectKey;

use crate::caches::views::{Hashes, Set};
use crate::caches::{self, Stores, replica_of, set_of};
use crate::controllers::claims;
use grove_runtime::object::Object;

/// A group and its surroundings.
pub(super) struct Observed {
    pub(super) group: Arc<Object<PodCliqueScalingGroup>>,
    /// The set that owns the group.
    pub(super) set: Option<Arc<Set>>,
    /// Every PodClique with the label of the group or the name of a desired member.
    pub(super) cliques: ByName,
    /// The pods of those that report to have lost their minimum.
    pub(super) pods_of_breached: BTreeMap<String, Vec<ObservedPod>>,
    /// Whether start-order containers of the set have their token.
    pub(super) has_token: bool,
    /// The claims of the group.
    pub(super) claims: claims::ObservedClaims,
    /// The gangs of its replica of the set.
    pub(super) gangs: caches::ByName<Object<PodGang>>,
    /// Whether members with GPUs join ComputeDomains.
    pub(super) mnnvl: bool,
}

/// Where a group is in the layout of its set.
pub(super) struct Place<'a> {
    pub(super) layout: Layout<'a>,
    pub(super) set_replica: u32,
    /// Hashes of the templates of the set.
    pub(super) hashes: &'a Hashes,
    /// The desired members, by replica of the group.
    pub(super) replicas: Vec<Vec<Clique<'a>>>,
    /// The desired claims.
    pub(super) claims: Vec<ResourceClaim>,
}

type ByName = BTreeMap<String, Arc<Object<PodClique>>>;

fn pods_of_breached(stores: &Stores, cliques: &ByName) -> BTreeMap<String, Vec<ObservedPod>> {
    let breached =
        cliques.iter().filter(|(_, clique)| clique_breached_since(&clique.object).is_some());
    let pods = |clique: &Object<PodClique>| {
        stores.pods_of(&clique.meta.uid).iter().map(|pod| pod.observed.clone()).collect()
    };
    breached.map(|(name, clique)| (name.clone(), pods(clique))).collect()
}

impl Observed {
    /// Reads the caches; nothing when the group does not exist.
    pub(super) fn of(stores: &Stores, key: &ObjectKey) -> Option<Self> {
        let group = stores.groups.store.get(key)?;
        let set = set_of(&group.meta).and_then(|set| stores.sets.get(&set));
        let owner = group.meta.controller.as_ref().map(|owner| &owner.uid);
        let set = set.filter(|set| Some(&set.meta.uid) == owner);
        let by_name = |clique: Arc<Object<PodClique>>| (clique.meta.key.name.to_string(), clique);
        let cliques = stores.members_of(key).into_iter().map(by_name).collect();
        let claims = claims::ObservedClaims::default();
        let mnnvl = stores.compute_domains.is_some();
        let pods_of_breached = pods_of_breached(stores, &cliques);
        let replica = set.as_ref().zip(replica_of(&group.meta));
        let gangs = replica.map(|(set, index)| stores.gangs.of_replica(&set.meta.key, index));
        let gangs = caches::by_name(gangs.unwrap_or_default());
        let has_token = set.as_ref().is_some_and(|set| stores.has_token(set));
        let mut observed =
            Self { group, set, cliques, pods_of_breached, has_token, claims, gangs, mnnvl };
        // A PodClique of another owner with the name of a member may have any labels.
        let unlabelled: Vec<_> = observed
            .place()
            .iter()
            .flat_map(|place| place.replicas.iter().flatten())
            .filter(|desired| !observed.cliques.contains_key(&desired.name))
            .filter_map(|desired| stores.cliques.get(&key.namespace, &desired.name))
            .map(by_name)
            .collect();
        observed.cliques.extend(unlabelled);
        observed.claims = observed.claims(stores);
        Some(observed)
    }

    fn claims(&self, stores: &Stores) -> claims::ObservedClaims {
        let uid = &self.group.meta.uid;
        // Most sets share nothing.
        let is_used = |set: &&Arc<Set>| resource_claims::is_used(&set.object.spec.template);
        let sharing = self.set.as_ref().filter(is_used);
        match sharing.and_then(|_| self.place()) {
            Some(Place { layout, claims, .. }) => stores.claims.of_owner(&layout, uid, claims),
            None => stores.claims.left_of(uid),
        }
    }

    /// Whether a PodClique is the group's own.
    pub(super) fn owns(&self, clique: &Object<PodClique>) -> bool {
        clique.meta.is_controlled_by(&self.group.meta.uid)
    }

    /// The place of the group; nothing when its set is being deleted or no longer has the group.
    pub(super) fn place(&self) -> Option<Place<'_>> {
        let set = self.set.as_ref().filter(|set| !set.meta.deleting)?;
        let layout = Layout::of(&set.object);
        let object = &self.group.object;
        let labels = object.metadata.labels.as_ref()?;
        let (set_replica, group) = layout.find_group(&self.group.meta.key.name, labels)?;
        if set_replica >= layout.replicas() {
            return None;
        }
        // The schema refuses negative numbers.
        let desired = u32::try_from(object.spec.replicas).unwrap_or_default();
        let members = |replica| layout.member_cliques(set_replica, group, replica);
        let replicas = (0..desired).map(members).collect();
        let claims = resource_claims::of_group(&layout, set_replica, group, desired);
        Some(Place { set_replica, hashes: set.hashes(), replicas, claims, layout })
    }
}
