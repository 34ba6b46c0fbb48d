//! How many pods to create, with which indices, and which pods to delete.
//!
//! Terminating pods do not count: their replacement does not wait for them, and they never cause the deletion
//! of a healthy pod. Succeeded and failed pods do count, because Grove leaves them for inspection, but their
//! index is free.

use std::{cmp::Reverse, collections::BTreeSet};

use grove_api::error_code::ErrorCode;
use thiserror::Error;

use super::{ObservedPod, Phase};

/// Pods to create or delete. At most one of the lists has entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Balance<'a> {
    /// Indices of the pods to create, ascending.
    pub create: Vec<u32>,
    /// Pods to delete, the least valuable first.
    pub delete: Vec<&'a ObservedPod>,
}

/// The hostname of a pod has not the form that Grove sets, so its index is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "pod {pod} of PodClique {pod_clique} has a hostname without an index; delete the pod to have it \
     replaced"
)]
pub struct IndexError {
    /// The PodClique.
    pub pod_clique: String,
    /// The pod.
    pub pod: String,
}

impl IndexError {
    /// The code of the error.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::GetAvailablePodHostnameIndices
    }
}

/// Compares the pods of a PodClique with the desired number. `expected_hash` is the template hash of up-to-date
/// pods; scale-in deletes outdated pods first. Pods with an index below `kept` are deleted last.
///
/// A create that only seemed to fail can lead to two pods with one index. Only one of them can have the
/// hostname, so the other one is deleted, even if the number of pods is right.
pub fn balance<'a>(
    pod_clique: &str,
    desired: u32,
    expected_hash: &str,
    kept: u32,
    pods: &'a [ObservedPod],
) -> Result<Balance<'a>, IndexError> {
    let mut counted: Vec<_> = pods.iter().filter(|pod| !pod.deleting).collect();
    let is_kept = |pod: &ObservedPod| pod.index.is_some_and(|index| index < kept);
    counted.sort_by_cached_key(|pod| (is_kept(pod), scale_in_rank(pod, expected_hash)));
    let (mut delete, single) = twins(counted);
    let surplus = single.len().saturating_sub(desired as usize);
    delete.extend(&single[..surplus]);
    if !delete.is_empty() {
        return Ok(Balance { create: Vec::new(), delete });
    }
    let missing = (desired as usize).saturating_sub(single.len());
    let create = if missing > 0 { free_indices(pod_clique, missing, pods)? } else { Vec::new() };
    Ok(Balance { create, delete })
}

/// Splits off pods whose index is also held by a pod we would rather keep. Both lists keep their order, which
/// is ascending by value.
fn twins(ranked: Vec<&ObservedPod>) -> (Vec<&ObservedPod>, Vec<&ObservedPod>) {
    let mut seen = BTreeSet::new();
    let (mut twins, mut single) = (Vec::new(), Vec::new());
    for pod in ranked.into_iter().rev() {
        let taken = pod.is_active() && pod.index.is_some_and(|index| !seen.insert(index));
        if taken { twins.push(pod) } else { single.push(pod) }
    }
    twins.reverse();
    single.reverse();
    (twins, single)
}

/// The lowest indices without an active pod.
fn free_indices(
    pod_clique: &str,
    number: usize,
    pods: &[ObservedPod],
) -> Result<Vec<u32>, IndexError> {
    let unreadable = |pod: &ObservedPod| {
        let (pod_clique, pod) = (pod_clique.to_owned(), pod.name.to_string());
        IndexError { pod_clique, pod }
    };
    let mut by_name: Vec<_> = pods.iter().filter(|pod| pod.is_active()).collect();
    by_name.sort_by(|one, other| one.name.cmp(&other.name));
    let used: BTreeSet<u32> = by_name
        .into_iter()
        .map(|pod| pod.index.ok_or_else(|| unreadable(pod)))
        .collect::<Result<_, _>>()?;
    Ok((0..).filter(|index| !used.contains(index)).take(number).collect())
}

/// Scale-in order, least valuable first: not on a node, not running, not ready, outdated, newest. The name
/// makes the order total.
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
