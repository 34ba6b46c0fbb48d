//! The status of the objects of a set.
//!
//! Each function computes the next status from the stored object and its children. Unknown keys and foreign
//! conditions are kept, and computing again from the result changes nothing, so a caller writes only when the
//! result differs from the stored status. Times change only with their value.
//!
//! The status of groups and sets adds up the state of their replicas (`crate::replicas`).

use grove_api::error_code::LastError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

mod clique;
mod errors;
mod resources;
mod scaling_group;
mod set;
mod topology;
mod urgency;

pub use clique::{CliqueFacts, pod_clique};
pub use errors::aggregate;
pub use resources::{ResourceState, resources};
pub use scaling_group::{GroupFacts, scaling_group};
pub use set::{SchedulerState, pod_clique_set, scheduler};
pub use topology::{Agreement, SchedulerTopology, cluster_topology, cluster_topology_binding};
pub use urgency::{is_urgent_for_clique, is_urgent_for_group};

/// The result of the reconcile that reports.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Every step succeeded for this generation.
    Complete {
        /// `metadata.generation`.
        generation: Option<i64>,
    },
    /// Some step waits for an object.
    Waiting,
    /// Some step failed, and the user has to know.
    Failed {
        /// `metadata.generation` of the report.
        generation: Option<i64>,
        /// The errors.
        errors: &'a [LastError],
    },
}

impl Outcome<'_> {
    /// Writes the two fields that every kind has. A repeated error keeps the time of its first occurrence,
    /// because otherwise every retry would be a change.
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

fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|created| created.0)
}

/// Converts a count for a status.
fn wire_count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
