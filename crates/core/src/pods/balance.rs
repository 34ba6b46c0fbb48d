//! How many pods to create, with which indices, and which pods to delete.
//!
//! Pods that are being deleted do not count: their replacement does not wait for them, and a healthy pod
//! never goes because a dying one is still listed. Pods that ended by themselves do count, because Grove
//! leaves them to their owner to look at, but their index is free.

use std::{cmp::Reverse, collections::BTreeSet};

use grove_api::error_code::ErrorCode;
use thiserror::Error;

use super::{ObservedPod, Phase};

/// What to do about the number of pods. At most one of the lists has entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance<'a> {
    /// Indices of the pods to create, ascending.
    pub create: Vec<u32>,
    /// Pods to delete, the one that is missed least first.
    pub delete: Vec<&'a ObservedPod>,
}

/// Which indices are taken cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// The hostname is not one that Grove gives.
    #[error(
        "pod {pod} of PodClique {pod_clique} has a hostname without an index; delete the pod to have it \
         replaced"
    )]
    Unreadable {
        /// The PodClique.
        pod_clique: String,
        /// The pod.
        pod: String,
    },
    /// Two pods have the same index.
    #[error(
        "pods {pods:?} of PodClique {pod_clique} share index {index}; delete one to have it replaced"
    )]
    Duplicate {
        /// The PodClique.
        pod_clique: String,
        /// The pods, by name.
        pods: [String; 2],
        /// The index.
        index: u32,
    },
}

impl IndexError {
    /// The code to report it under.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::GetAvailablePodHostnameIndices
    }
}

/// Compares the pods of a PodClique with the wanted number. `expected_hash` is the template hash that
/// pods should have; others go first on scale-in.
pub fn balance<'a>(
    pod_clique: &str,
    wanted: u32,
    expected_hash: &str,
    pods: &'a [ObservedPod],
) -> Result<Balance<'a>, IndexError> {
    let mut counted: Vec<_> = pods.iter().filter(|pod| !pod.deleting).collect();
    let wanted = wanted as usize;
    if counted.len() < wanted {
        let create = free_indices(pod_clique, wanted - counted.len(), pods)?;
        return Ok(Balance { create, delete: Vec::new() });
    }
    let surplus = counted.len() - wanted;
    counted.sort_by_cached_key(|pod| scale_in_rank(pod, expected_hash));
    counted.truncate(surplus);
    Ok(Balance { create: Vec::new(), delete: counted })
}

/// The lowest indices that no active pod has.
fn free_indices(
    pod_clique: &str,
    number: usize,
    pods: &[ObservedPod],
) -> Result<Vec<u32>, IndexError> {
    let mut by_name: Vec<_> = pods.iter().filter(|pod| pod.is_active()).collect();
    by_name.sort_by(|one, other| one.name.cmp(&other.name));
    let mut used = BTreeSet::new();
    for pod in &by_name {
        let Some(index) = pod.index else {
            let (pod_clique, pod) = (pod_clique.to_owned(), pod.name.clone());
            return Err(IndexError::Unreadable { pod_clique, pod });
        };
        if !used.insert(index) {
            let holders = by_name.iter().filter(|other| other.index == Some(index)).take(2);
            let mut holders = holders.map(|other| other.name.clone());
            let pods = [holders.next().unwrap_or_default(), holders.next().unwrap_or_default()];
            return Err(IndexError::Duplicate { pod_clique: pod_clique.to_owned(), pods, index });
        }
    }
    Ok((0..).filter(|index| !used.contains(index)).take(number).collect())
}

/// Ascending order of regret: not on a node, not running, not ready, outdated, newest. The name makes
/// the order total.
fn scale_in_rank<'a>(
    pod: &'a ObservedPod,
    expected_hash: &str,
) -> (bool, u8, bool, bool, bool, Reverse<Option<jiff::Timestamp>>, &'a str) {
    let phase = match pod.phase {
        Phase::Pending | Phase::Failed | Phase::Succeeded => 0,
        Phase::Unknown => 1,
        Phase::Running => 2,
    };
    let current = pod.template_hash.as_deref() == Some(expected_hash);
    let has_age = pod.created.is_some();
    (pod.on_node, phase, pod.ready, current, has_age, Reverse(pod.created), &pod.name)
}
