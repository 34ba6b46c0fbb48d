//! Release: when the scheduling gate of a pod is lifted.
//!
//! A pod is released when the scheduler can see the whole gang: the gang is initialized and lists the pod. Pods
//! of a scaled gang also wait until their base gang has its minimum scheduled. That depends on the present
//! state, not on history: a base gang that lost its pods holds new scaled pods back again.

use std::collections::BTreeSet;

use grove_api::{PodGang, pod_gang::PodGangSpec};
use jiff::Timestamp;

use super::is_initialized;
use crate::pods::{ObservedPod, Phase};

/// The stored gang that the pods of a PodClique belong to.
#[derive(Clone, Copy, Debug)]
pub enum OwnGang<'a> {
    /// The base gang of the set replica.
    Base(Option<&'a PodGang>),
    /// The gang of a group replica above the minimum.
    Scaled {
        /// The gang itself.
        gang: Option<&'a PodGang>,
        /// Whether its base gang [is scheduled](is_scheduled); false if that is unknown.
        base_scheduled: bool,
    },
}

/// The state of all pods of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent answers")]
pub struct GangPods {
    /// Every member has its minimum scheduled.
    pub scheduled: bool,
    /// Every member has its minimum ready. Succeeded pods count.
    pub ready: bool,
    /// Some pod without our gate waits for the scheduler.
    pub waiting: bool,
    /// Some pod has our gate.
    pub gated: bool,
}

impl GangPods {
    /// From the minimum and the pods of each member of a gang.
    pub fn of<'a, P>(members: impl IntoIterator<Item = (i32, P)>) -> Self
    where
        P: IntoIterator<Item = &'a ObservedPod>,
    {
        let mut all = Self { scheduled: true, ready: true, ..Self::default() };
        for (minimum, pods) in members {
            let (mut scheduled, mut ready) = (0, 0);
            for pod in pods.into_iter().filter(|pod| !pod.deleting) {
                scheduled += i32::from(pod.scheduled);
                ready += i32::from(pod.ready || pod.phase == Phase::Succeeded);
                all.waiting |= pod.is_active() && !pod.has_gate && !pod.on_node;
                all.gated |= pod.has_gate;
            }
            all.scheduled &= scheduled >= minimum;
            all.ready &= ready >= minimum;
        }
        all
    }
}

/// Until when the pods of a recreated gang stay gated, given all its pods and when the terminating ones should
/// be gone. A scheduler that counts pods still counts terminating ones, and would place the first new ones
/// beside them, one by one. As long as a pod stays on its node, only parts of the gang are replaced, and no
/// pod has to wait; nor has that of a gang that needs only one, which cannot be placed in part.
pub fn restarts_after<'a>(
    gang: &PodGangSpec,
    pods: impl IntoIterator<Item = (&'a ObservedPod, Option<Timestamp>)>,
) -> Option<Timestamp> {
    if gang.pod_groups.iter().map(|group| group.min_replicas).sum::<i32>() <= 1 {
        return None;
    }
    let mut last = None;
    for (pod, gone_by) in pods {
        if pod.on_node && !pod.deleting && pod.is_active() {
            return None;
        }
        last = last.max(gone_by);
    }
    last
}

/// Which gates to remove.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateDecision<'a> {
    /// Pods whose gate is removed, by name.
    pub lift: Vec<&'a ObservedPod>,
    /// Why the other gated pods wait, if there are any.
    pub hold: Option<Hold>,
}

/// Why pods stay gated: the first reason that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The gang does not exist.
    NoGang,
    /// The gang is not initialized.
    NotInitialized,
    /// The base gang is not scheduled.
    BaseNotScheduled,
    /// The gang does not list the pod.
    NotReferenced,
    /// The gang is recreated, and [its former pods](restarts_after) still exist.
    FormerPods,
}

/// Decides about the gated pods of one PodClique.
pub fn gates<'a>(pod_clique: &str, pods: &'a [ObservedPod], gang: OwnGang<'_>) -> GateDecision<'a> {
    let mut gated: Vec<_> = pods.iter().filter(|pod| pod.has_gate && !pod.deleting).collect();
    if gated.is_empty() {
        return GateDecision::default();
    }
    let (stored, base_scheduled) = match gang {
        OwnGang::Base(stored) => (stored, true),
        OwnGang::Scaled { gang, base_scheduled } => (gang, base_scheduled),
    };
    let hold = |reason| GateDecision { lift: Vec::new(), hold: Some(reason) };
    let Some(stored) = stored else {
        return hold(Hold::NoGang);
    };
    if !is_initialized(stored) {
        return hold(Hold::NotInitialized);
    }
    if !base_scheduled {
        return hold(Hold::BaseNotScheduled);
    }
    let referenced = referenced(&stored.spec, pod_clique);
    let before = gated.len();
    gated.retain(|pod| referenced.contains(&*pod.name));
    gated.sort_by(|one, other| one.name.cmp(&other.name));
    let hold = (gated.len() < before).then_some(Hold::NotReferenced);
    GateDecision { lift: gated, hold }
}

/// Whether every member of a gang has its minimum scheduled. `scheduled` returns the number of scheduled pods
/// of a PodClique, or nothing if it does not exist.
pub fn is_scheduled(gang: &PodGangSpec, scheduled: impl Fn(&str) -> Option<i32>) -> bool {
    gang.pod_groups
        .iter()
        .all(|group| scheduled(&group.name).is_some_and(|number| number >= group.min_replicas))
}

fn referenced<'a>(gang: &'a PodGangSpec, pod_clique: &str) -> BTreeSet<&'a str> {
    let groups = gang.pod_groups.iter().filter(|group| group.name == pod_clique);
    groups.flat_map(|group| &group.pod_references).map(|pod| &*pod.name).collect()
}

#[cfg(test)]
mod tests;
