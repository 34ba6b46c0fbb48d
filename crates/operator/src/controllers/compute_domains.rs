//! ComputeDomains of the replicas of sets, when the operator is configured to manage them.
//!
//! The spec of a domain is immutable, and the driver of the network adds to its metadata. Our finalizer keeps it
//! until we observe its deletion. A domain that a user deletes is released as well, and recreated.

use grove_api::error_code::ErrorCode;
use grove_api::finalizers::COMPUTE_DOMAIN as FINALIZER;
use grove_api::foreign::compute_domain::{CRD_NAME, ComputeDomain};
use grove_core::children::compute_domains as rules;
use grove_core::layout::Layout;
use grove_runtime::resource::{Resource, Uid};
use grove_runtime::view::Meta;
use grove_runtime::write::Write;
use kube::Client;

use super::error::ReconcileError;
use super::replica::ReplicaKey;
use crate::caches::{ByName, Stores, by_name};
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::presence::{self, Absence};

/// What to do on clusters that do not have the kind.
const ADVICE: &str = "install the NVIDIA DRA driver (CustomResourceDefinition \
                      computedomains.resource.nvidia.com) again, or switch network.autoMNNVLEnabled off";

/// The cluster does not serve a kind that the configuration requires.
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

/// The domains of one replica in the cache.
#[derive(Debug, Default)]
pub(crate) struct ObservedDomains {
    pub(crate) live: ByName<Object<ComputeDomain>>,
    pub(crate) absence: Option<Absence>,
    pending: bool,
}

/// Reads the domains of a replica; nothing when the operator does not manage them.
pub(crate) fn observe(stores: &Stores, key: &ReplicaKey) -> Option<ObservedDomains> {
    let domains = stores.compute_domains.as_ref()?;
    Some(ObservedDomains {
        live: by_name(domains.of_replica(&key.set, key.index)),
        absence: presence::absence(&domains.store, ADVICE),
        pending: !domains.store.is_listed(),
    })
}

/// Why the domains of a set cannot be created, as reason and message of its condition.
pub(crate) fn problem(stores: &Stores, layout: &Layout<'_>) -> Option<(&'static str, String)> {
    let domains = stores.compute_domains.as_ref()?;
    let absence = presence::absence(&domains.store, ADVICE)?;
    rules::is_used(layout).then_some((absence.reason, absence.message))
}

/// Creates, deletes and repairs the domains of a replica.
pub(crate) fn decide(
    observed: &ObservedDomains,
    desired: &[ComputeDomain],
    set: &Uid,
) -> (Vec<Write>, Option<ReconcileError>) {
    let mut writes = release(observed);
    let is_desired = |name: &str| desired.iter().any(|one| name_of(one) == name);
    let is_ours = |live: &Meta| !live.deleting && live.is_controlled_by(set);
    let staying = observed.live.iter().filter(|(_, live)| is_ours(&live.meta));
    writes.extend(staying.filter(|(name, _)| !is_desired(name)).map(|(_, live)| {
        converge::delete(Resource::of::<ComputeDomain>(), &live.meta, "the set no longer has it")
    }));
    if desired.is_empty() || observed.pending && observed.absence.is_none() {
        return (writes, None);
    }
    if let Some(absence) = &observed.absence {
        let problem = ReconcileError::rule(ErrorCode::SyncComputeDomain, &absence.message);
        return (writes, Some(problem));
    }
    let mut problem = None;
    for desired in desired {
        match observed.live.get(name_of(desired)) {
            None => writes.push(create(desired)),
            Some(live) if live.meta.deleting => {}
            Some(live) if live.meta.is_controlled_by(set) => writes.extend(restore(desired, live)),
            Some(live) => drop(problem.get_or_insert_with(|| taken(live))),
        }
    }
    (writes, problem)
}

/// Removes our finalizer from domains that are being deleted.
pub(crate) fn release(observed: &ObservedDomains) -> Vec<Write> {
    let deleting = observed.live.values().filter(|live| live.meta.deleting);
    let release = |live| converge::remove_finalizer(live, FINALIZER, "it is being deleted");
    deleting.filter_map(|live| release(&**live)).collect()
}

fn create(desired: &ComputeDomain) -> Write {
    let created = converge::whole(desired, None, "what the set says");
    created.expect("a missing object is created")
}

/// Restores our finalizer, or else the labels.
fn restore(desired: &ComputeDomain, live: &Object<ComputeDomain>) -> Option<Write> {
    let reason = "restore labels and finalizer";
    let labels = desired.metadata.labels.iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    converge::add_finalizer(live, FINALIZER, reason)
        .or_else(|| converge::labels(Resource::of::<ComputeDomain>(), &live.meta, labels, reason))
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

#[cfg(test)]
mod tests;
