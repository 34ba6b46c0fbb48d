//! One set as the caches show it.

use std::sync::Arc;

use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::layout::Layout;
use grove_runtime::resource::ObjectKey;

use super::access;
use crate::claims::{self, Claim};
use crate::objects::{Object, Raw, Revision, Set};
use crate::world::{ByName, World, by_name};

/// A set, what the start-order container needs, and the history of its templates.
pub(super) struct Observed {
    pub(super) set: Arc<Set>,
    pub(super) access: access::Seen,
    /// Absent when they cannot be seen.
    pub(super) revisions: Option<Vec<Arc<Revision>>>,
    /// The claims that all its replicas share.
    pub(super) claims: claims::Seen,
}

/// The children of a set, of which there may be thousands: looked at only when they matter.
pub(super) struct Children {
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
    pub(super) gangs: Vec<Arc<Object<PodGang>>>,
    pub(super) services: Vec<Arc<Raw>>,
    pub(super) autoscalers: Vec<Arc<Raw>>,
    pub(super) claims: Vec<Arc<Claim>>,
    pub(super) compute_domains: Vec<Arc<Object<ComputeDomain>>>,
}

pub(super) fn observe(world: &World, key: &ObjectKey) -> Option<Observed> {
    let set = world.sets.get(key)?;
    Some(Observed {
        access: access::observe(world, key),
        revisions: world.revisions.store.is_served().then(|| world.revisions.of(key)),
        claims: world.claims.of_set(&Layout::of(&set.object)),
        set,
    })
}

/// Cliques and groups of one replica.
pub(super) struct Replica {
    pub(super) cliques: ByName<Object<PodClique>>,
    pub(super) groups: ByName<Object<PodCliqueScalingGroup>>,
}

pub(super) fn of_replica(world: &World, key: &ObjectKey, replica: u32) -> Replica {
    Replica {
        cliques: by_name(world.cliques.of_replica(key, replica)),
        groups: by_name(world.groups.of_replica(key, replica)),
    }
}

pub(super) fn children(world: &World, key: &ObjectKey) -> Children {
    Children {
        cliques: by_name(world.cliques.of(key)),
        groups: by_name(world.groups.of(key)),
        gangs: world.gangs.of(key),
        services: world.services.of(key),
        autoscalers: world.autoscalers.of(key),
        claims: world.claims.all_of_set(key),
        compute_domains: world.compute_domains.iter().flat_map(|all| all.of(key)).collect(),
    }
}
