//! What the objects of a set report about themselves.
//!
//! Each function computes the next status from the stored object and the things one level below it. Keys
//! and conditions of others are kept, and computing again from the result changes nothing, so a caller
//! writes only when the result differs from what is stored. Times move only when something happened.
//!
//! Large objects are judged piece by piece: [`group_replica`] and [`set_replica`] look at one replica,
//! and their small results can be kept and added up, so that one change does not cost a look at
//! everything.

use grove_api::condition::{TRUE, pod_clique as conditions};
use grove_api::{PodClique, error_code::LastError, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

mod clique;
pub(crate) mod condition;
mod errors;
pub(crate) mod reached;
mod resources;
mod scaling_group;
mod set;
mod topology;
mod urgency;

pub(crate) use clique::is_below_minimum;
pub use clique::{CliqueFacts, has_minimum, pod_clique};
pub use errors::aggregate;
pub use resources::{ResourceState, resources};
pub use scaling_group::{GroupFacts, GroupReplica, group_replica, scaling_group};
pub use set::{Number, SchedulerState, SetReplica, pod_clique_set, scheduler, set_replica};
pub use topology::{Agreement, SchedulerTopology, cluster_topology, cluster_topology_binding};
pub use urgency::{is_urgent_for_clique, is_urgent_for_group};

/// How the reconcile went whose result is being reported.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Every step succeeded for this generation.
    Complete {
        /// `metadata.generation`.
        generation: Option<i64>,
    },
    /// Some step waits for something that is on its way.
    Waiting,
    /// Some step failed, and a user has to know.
    Failed {
        /// `metadata.generation`: what is reported is about this one.
        generation: Option<i64>,
        /// The failures.
        errors: &'a [LastError],
    },
}

/// The hashes that an up-to-date PodClique has.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Hash of its clique template.
    pub template_hash: &'a str,
    /// `status.currentGenerationHash` of the set; absent before the set's first status.
    pub generation_hash: Option<&'a str>,
}

impl Outcome<'_> {
    /// Writes the two fields that every kind has. An error that is still the same keeps the time at which
    /// it was first seen, otherwise every retry would be a change.
    fn record(&self, observed_generation: &mut Option<i64>, last_errors: &mut Vec<LastError>) {
        match self {
            Self::Complete { generation } => {
                *observed_generation = *generation;
                last_errors.clear();
            }
            Self::Waiting => last_errors.clear(),
            Self::Failed { generation, errors } => {
                *observed_generation = *generation;
                let same = |one: &LastError, other: &LastError| {
                    one.code == other.code && one.description == other.description
                };
                let keep = |error: &LastError| {
                    let known = last_errors.iter().find(|known| same(known, error));
                    known.unwrap_or(error).clone()
                };
                *last_errors = errors::bounded(errors).iter().map(keep).collect();
            }
        }
    }
}

/// The minimum of a PodClique; all of its pods when it names none.
fn min_available(clique: &PodClique) -> i32 {
    clique.spec.min_available.unwrap_or(clique.spec.replicas)
}

pub(crate) fn template_hash_label(clique: &PodClique) -> Option<&str> {
    let all = clique.metadata.labels.as_ref()?;
    all.get(labels::POD_TEMPLATE_HASH).map(String::as_str)
}

pub(crate) fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

pub(crate) fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|created| created.0)
}

/// Whether a PodClique reports that enough of its pods are scheduled.
pub(crate) fn is_scheduled(clique: &PodClique) -> bool {
    let status = clique.status.as_ref();
    let found =
        status.and_then(|status| condition::find(&status.conditions, conditions::SCHEDULED));
    found == Some(TRUE)
}

/// Whether a PodClique reports that it had its minimum since it was created.
pub fn has_reached_minimum(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| reached::is_reached(&status.conditions))
}

/// Whether enough pods of a PodClique are ready.
pub(crate) fn is_available(clique: &PodClique) -> bool {
    let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
    ready >= min_available(clique)
}

/// Whether a PodClique runs its minimum on the target template.
fn is_updated(clique: &PodClique, target: Target<'_>) -> bool {
    let Some(status) = &clique.status else {
        return false;
    };
    let hash = Some(target.template_hash);
    target.generation_hash.is_some()
        && template_hash_label(clique) == hash
        && status.current_pod_template_hash.as_deref() == hash
        && status.current_pod_clique_set_generation_hash.as_deref() == target.generation_hash
        && status.updated_replicas >= min_available(clique)
        && is_available(clique)
}

#[cfg(test)]
mod tests;
