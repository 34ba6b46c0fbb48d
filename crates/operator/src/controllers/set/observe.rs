//! Reads one set from the caches.

use std::sync::Arc;

use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::layout::Layout;
use grove_core::revision;
use grove_core::topology::SetTopology;
use grove_core::update;
use grove_runtime::resource::ObjectKey;

use super::access;
use crate::caches::views::{Revision, Set};
use crate::caches::{ByName, Stores, by_name};
use crate::controllers::claims::{self, Claim};
use grove_runtime::object::{JsonObject, Object};

/// A set, the access objects of its start-order containers, and the history of its templates.
pub(super) struct Observed {
    pub(super) set: Arc<Set>,
    pub(super) access: access::ObservedAccess,
    /// Absent when the operator may not read them.
    pub(super) revisions: Option<Vec<Arc<Revision>>>,
    /// The claims that all its replicas share.
    pub(super) claims: claims::ObservedClaims,
    /// Only for a set that is being deleted, or whose history is too long.
    pub(super) children: Option<Children>,
    /// The topology that applies to the set.
    pub(super) topology: SetTopology,
    /// The replica that is being updated.
    pub(super) updating: Option<ReplicaParts>,
}

/// The children of a set, of which there may be thousands: read only when they matter.
#[derive(Default)]
pub(super) struct Children {
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
    pub(super) gangs: Vec<Arc<Object<PodGang>>>,
    pub(super) services: Vec<Arc<JsonObject>>,
    pub(super) autoscalers: Vec<Arc<JsonObject>>,
    pub(super) claims: Vec<Arc<Claim>>,
    pub(super) compute_domains: Vec<Arc<Object<ComputeDomain>>>,
}

pub(super) fn observe(stores: &Stores, key: &ObjectKey) -> Option<Observed> {
    let set = stores.sets.get(key)?;
    let revisions = stores.revisions.store.is_served().then(|| stores.revisions.of(key));
    let has_long_history = revisions.as_ref().is_some_and(|all| {
        let all = all.iter().map(|one| &one.observed);
        revision::is_long(&set.object, &set.hashes().generation, all)
    });
    let needs_children = set.meta.deleting || has_long_history;
    Some(Observed {
        access: access::observe(stores, key),
        children: needs_children.then(|| children(stores, key)),
        updating: update::updating_replica(&set.object)
            .map(|replica| of_replica(stores, key, replica)),
        revisions,
        claims: stores.claims.of_set(&Layout::of(&set.object)),
        topology: stores.topologies.of(&set.object),
        set,
    })
}

/// Cliques and groups of one replica.
#[derive(Default)]
pub(super) struct ReplicaParts {
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
}

fn of_replica(stores: &Stores, key: &ObjectKey, replica: u32) -> ReplicaParts {
    ReplicaParts {
        cliques: by_name(stores.cliques.of_replica(key, replica)),
        groups: by_name(stores.groups.of_replica(key, replica)),
    }
}

pub(super) fn children(stores: &Stores, key: &ObjectKey) -> Children {
    Children {
        cliques: by_name(stores.cliques.of(key)),
        groups: by_name(stores.groups.of(key)),
        gangs: stores.gangs.of(key),
        services: stores.services.of(key),
        autoscalers: stores.autoscalers.of(key),
        claims: stores.claims.all_of_set(key),
        compute_domains: stores.compute_domains.iter().flat_map(|all| all.of(key)).collect(),
    }
}
