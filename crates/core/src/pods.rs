//! The pods of one PodClique: how to build one, how many there should be, and which are deleted first.
//!
//! Decisions work on [`ObservedPod`], the facts of a pod. The write fence makes callers observe their own
//! writes first, so counting existing pods is enough; there is no state between calls. The order of the pods in
//! the input does not matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api::names;
use jiff::Timestamp;

mod balance;
mod build;
mod observe;

pub use balance::{Balance, IndexError, balance};
pub use build::{BuildError, PodContext, draft, finish};

/// The facts of a pod. Copies are cheap.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as they are on the wire")]
pub struct ObservedPod {
    /// Name.
    pub name: Arc<str>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Whether `spec.nodeName` is set.
    pub on_node: bool,
    /// Phase.
    pub phase: Phase,
    /// Condition Ready is True.
    pub ready: bool,
    /// Condition PodScheduled is True.
    pub scheduled: bool,
    /// Condition PodScheduled is False with reason SchedulingGated.
    pub schedule_gated: bool,
    /// Our scheduling gate is in `spec.schedulingGates`.
    pub has_gate: bool,
    /// Some container or init container has terminated with a non-zero exit code last time.
    pub erroneous: bool,
    /// Some container has started and is not ready.
    pub started_not_ready: bool,
    /// Index in the clique, see [`index_of`].
    pub index: Option<u32>,
    /// Label with the template hash.
    pub template_hash: Option<Arc<str>>,
    /// Label with the name of the PodGang.
    pub gang: Option<Arc<str>>,
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not running yet. A new pod without a phase counts as pending.
    #[default]
    Pending,
    /// Running.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have terminated, and at least one has failed.
    Failed,
    /// The node does not respond.
    Unknown,
}

impl From<&str> for Phase {
    fn from(text: &str) -> Self {
        match text {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }
}

impl ObservedPod {
    /// Whether the pod runs or will run, and so holds its index.
    pub(crate) fn is_active(&self) -> bool {
        !self.deleting && !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// The indices whose claims are kept: those of the desired pods, and those of active pods. A pod that survives
/// scale-in may have any index.
pub fn claimed_indices<'a>(
    desired: u32,
    pods: impl IntoIterator<Item = &'a ObservedPod>,
) -> BTreeSet<u32> {
    let staying = pods.into_iter().filter(|pod| pod.is_active());
    (0..desired).chain(staying.filter_map(|pod| pod.index)).collect()
}

/// The indices of succeeded pods that are not being deleted. They are not replaced.
pub fn succeeded_indices<'a>(pods: impl IntoIterator<Item = &'a ObservedPod>) -> Vec<u32> {
    let succeeded = pods.into_iter().filter(|pod| pod.phase == Phase::Succeeded && !pod.deleting);
    succeeded.filter_map(|pod| pod.index).collect()
}

/// The index in the hostname of a pod of this PodClique.
pub fn index_of(pod_clique: &str, hostname: &str) -> Option<u32> {
    let index = hostname.strip_prefix(pod_clique)?.strip_prefix('-')?.parse().ok()?;
    (names::pod_hostname(pod_clique, index) == hostname).then_some(index)
}

#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;
