//! The minimum of a PodClique: whether its pods or its status have it, and the record that it was reached.

use grove_api::PodClique;
use grove_api::condition::{TRUE, pod_clique as conditions};

use crate::condition;
use crate::pods::ObservedPod;

pub(crate) mod reached;

/// The minimum of a PodClique; by default all of its pods.
pub fn min_available(clique: &PodClique) -> i32 {
    clique.spec.min_available.unwrap_or(clique.spec.replicas)
}

/// Whether a PodClique reports that enough of its pods are scheduled.
pub(crate) fn is_scheduled(clique: &PodClique) -> bool {
    let status = clique.status.as_ref();
    let found =
        status.and_then(|status| condition::find(&status.conditions, conditions::SCHEDULED));
    found == Some(TRUE)
}

/// Whether a PodClique reports that it had its minimum once.
pub fn has_reached_minimum(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| reached::is_reached(&status.conditions))
}

/// Whether enough pods of a PodClique are ready.
pub(crate) fn is_available(clique: &PodClique) -> bool {
    let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
    ready >= min_available(clique)
}

/// Whether at least the minimum of these pods is ready.
pub fn has_minimum<'a>(
    clique: &PodClique,
    pods: impl IntoIterator<Item = &'a ObservedPod>,
) -> bool {
    let ready = pods.into_iter().filter(|pod| pod.ready && !pod.deleting).count();
    count(ready) >= min_available(clique)
}

/// Pods that count for the minimum.
pub(crate) struct Usable {
    pub(crate) scheduled: i32,
    /// Scheduled and not failing. Pods whose containers have not started yet count.
    pub(crate) working: i32,
}

impl Usable {
    pub(crate) fn of(pods: &[ObservedPod]) -> Self {
        let count = |is: fn(&ObservedPod) -> bool| count(pods.iter().filter(|pod| is(pod)).count());
        let scheduled = count(|pod| pod.scheduled);
        let failing = count(|pod| !pod.ready && (pod.erroneous || pod.started_not_ready));
        Self { scheduled, working: scheduled.saturating_sub(failing).max(0) }
    }
}

/// Whether a PodClique with these pods is below its minimum.
pub(crate) fn is_below_minimum(clique: &PodClique, pods: &[ObservedPod]) -> bool {
    let Usable { scheduled, working } = Usable::of(pods);
    scheduled.min(working) < min_available(clique)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
