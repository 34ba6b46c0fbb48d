//! ComputeDomains of the replicas of sets, when the operator was told to care for them.
//!
//! A domain is made once and never changed: its spec is fixed, and the driver of the network adds to its
//! metadata. Our finalizer keeps it until we have seen that it goes; one that somebody else deletes is let
//! go as well, and made anew.

use std::sync::Arc;

use grove_api::error_code::ErrorCode;
use grove_api::finalizers;
use grove_api::foreign::compute_domain::{CRD_NAME, ComputeDomain};
use grove_core::children::compute_domains as rules;
use grove_core::layout::Layout;
use grove_runtime::clock::Clock;
use grove_runtime::process::Stage;
use grove_runtime::resource::{Resource, Uid};
use grove_runtime::write::Write;
use kube::Client;

use crate::api::{self, Absence};
use crate::converge;
use crate::objects::Object;
use crate::reconcile::ReconcileError;
use crate::replica::ReplicaKey;
use crate::world::{ByName, World, by_name};

/// What to do on clusters that do not have the kind.
const ADVICE: &str = "install the NVIDIA DRA driver (CustomResourceDefinition \
                      computedomains.resource.nvidia.com) again, or switch network.autoMNNVLEnabled off";

/// The cluster does not have what the configuration asks for.
#[derive(Debug, thiserror::Error)]
#[error(
    "MNNVL preflight check failed: network.autoMNNVLEnabled is true, but the ComputeDomain CRD \
     ({CRD_NAME}, version v1beta1) is not available: {0}. Install the NVIDIA DRA driver, or switch \
     network.autoMNNVLEnabled off"
)]
pub struct PreflightError(String);

/// Makes sure that the cluster serves ComputeDomains.
pub(crate) async fn preflight(client: &Client) -> Result<(), PreflightError> {
    let api = ComputeDomain::API_VERSION;
    let served = client.list_api_group_resources(api).await;
    let served = served.map_err(|error| PreflightError(format!("{api}: {error}")))?;
    if served.resources.iter().any(|resource| resource.name == ComputeDomain::PLURAL) {
        return Ok(());
    }
    Err(PreflightError(format!("{api} has no {}", ComputeDomain::PLURAL)))
}

/// The domains of one replica, as the cache shows them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) live: ByName<Object<ComputeDomain>>,
    pub(crate) absence: Option<Absence>,
    pending: bool,
}

/// Looks at the domains of a replica; nothing when nobody cares for them.
pub(crate) fn observe(world: &World, key: &ReplicaKey) -> Option<Seen> {
    let domains = world.compute_domains.as_ref()?;
    Some(Seen {
        live: by_name(domains.of_replica(&key.set, key.index)),
        absence: api::absence(&domains.store, ADVICE),
        pending: !domains.store.is_listed(),
    })
}

/// Why the domains of a set cannot be made, as reason and message of its condition.
pub(crate) fn problem(world: &World, layout: &Layout<'_>) -> Option<(&'static str, String)> {
    let domains = world.compute_domains.as_ref()?;
    let absence = api::absence(&domains.store, ADVICE)?;
    rules::is_used(layout).then_some((absence.reason, absence.message))
}

/// Brings the domains of a replica in line with the wanted ones.
pub(crate) fn decide(
    seen: &Seen,
    wanted: &[ComputeDomain],
    set: &Uid,
) -> (Vec<Write>, Option<ReconcileError>) {
    let mut writes = let_go(seen);
    let is_wanted = |name: &str| wanted.iter().any(|one| name_of(one) == name);
    let staying = seen.live.iter().filter(|(_, live)| !live.meta.deleting && is_owned(live, set));
    writes.extend(staying.filter(|(name, _)| !is_wanted(name)).map(|(_, live)| {
        converge::delete(Resource::of::<ComputeDomain>(), &live.meta, "the set no longer has it")
    }));
    if wanted.is_empty() || seen.pending && seen.absence.is_none() {
        return (writes, None);
    }
    if let Some(absence) = &seen.absence {
        let problem = ReconcileError::rule(ErrorCode::SyncComputeDomain, &absence.message);
        return (writes, Some(problem));
    }
    let mut problem = None;
    for wanted in wanted {
        match seen.live.get(name_of(wanted)) {
            None => writes.push(create(wanted)),
            Some(live) if live.meta.deleting => {}
            Some(live) if is_owned(live, set) => writes.extend(put_back(wanted, live)),
            Some(live) => drop(problem.get_or_insert_with(|| taken(live))),
        }
    }
    (writes, problem)
}

/// Lets domains go that are being deleted, by whomever. Finalizers of others stay.
pub(crate) fn let_go(seen: &Seen) -> Vec<Write> {
    let going = seen.live.values().filter(|live| live.meta.deleting);
    going
        .filter_map(|live| {
            let held = live.object.metadata.finalizers.as_deref().unwrap_or_default();
            let others = held.iter().filter(|one| *one != finalizers::COMPUTE_DOMAIN);
            let others: Vec<String> = others.cloned().collect();
            let resource = Resource::of::<ComputeDomain>();
            let reason = "it is being deleted";
            (others.len() < held.len())
                .then(|| converge::finalizers(resource, &live.meta, &others, reason))
        })
        .collect()
}

fn create(wanted: &ComputeDomain) -> Write {
    let created = converge::own(wanted, None, "what the set says");
    created.expect("what is not there is created")
}

/// Labels and our finalizer.
fn put_back(wanted: &ComputeDomain, live: &Object<ComputeDomain>) -> Vec<Write> {
    let resource = Resource::of::<ComputeDomain>();
    let reason = "what somebody changed";
    let labels = wanted.metadata.labels.iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    let mut held = live.object.metadata.finalizers.clone().unwrap_or_default();
    if !held.iter().any(|one| one == finalizers::COMPUTE_DOMAIN) {
        held.push(finalizers::COMPUTE_DOMAIN.to_owned());
        return vec![converge::finalizers(resource, &live.meta, &held, reason)];
    }
    converge::labels(resource, &live.meta, labels, reason).into_iter().collect()
}

fn taken(live: &Object<ComputeDomain>) -> ReconcileError {
    let owner = live.meta.controller.as_ref();
    let owner = owner.map_or_else(|| "nobody".to_owned(), |o| format!("{} {}", o.kind, o.name));
    let text = format!(
        "ComputeDomain {} belongs to {owner}, not to the PodCliqueSet that wants it; rename one of the two",
        live.meta.key
    );
    ReconcileError::rule(ErrorCode::SyncComputeDomain, text)
}

fn name_of(domain: &ComputeDomain) -> &str {
    domain.metadata.name.as_deref().unwrap_or_default()
}

fn is_owned(live: &Object<ComputeDomain>, set: &Uid) -> bool {
    live.meta.controller.as_ref().is_some_and(|owner| owner.uid == *set)
}

/// Calls `changed` whenever the cluster begins or ceases to have ComputeDomains.
pub(crate) fn follow_api(
    world: &World,
    clock: &Clock,
    stage: &Stage,
    changed: impl Fn() + Send + Sync + 'static,
) {
    if let Some(domains) = &world.compute_domains {
        api::follow(&domains.store, clock, stage, Arc::new(changed));
    }
}

#[cfg(test)]
mod tests;
