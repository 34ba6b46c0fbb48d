//! The condition Initialized: pods missing, references incomplete, complete.

use std::collections::BTreeSet;

use grove_api::{
    PodGang,
    condition::{self, pod_gang as reasons},
    pod_gang::{PodGangPhase, PodGangSpec, PodGangStatus},
};
use jiff::Timestamp;

use super::is_member;
use crate::{
    condition::{Observation, find, observe},
    pods::ObservedPod,
};

/// Progress of a gang to its first complete set of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Initialization {
    /// A member PodClique or some of its pods do not exist yet.
    PodsPending,
    /// The pods exist, but some lack the label of the gang or a reference in it.
    RefsSyncing,
    /// Complete.
    Ready,
}

/// A member of a gang that exists.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// `spec.replicas` of the PodClique.
    pub desired: u32,
    /// Its pods.
    pub pods: &'a [ObservedPod],
    /// A ResourceClaim that its pods reference and that does not exist: they cannot run.
    pub missing_claim: Option<&'a str>,
}

/// The state of a stored gang. `member` finds a PodClique by name, or nothing if it does not exist.
pub fn initialization<'a>(
    gang: &str,
    spec: &PodGangSpec,
    member: impl Fn(&str) -> Option<Member<'a>>,
) -> Initialization {
    let of_group = |group: &grove_api::pod_gang::PodGroup| {
        let Some(member) = member(&group.name) else {
            return Initialization::PodsPending;
        };
        let staying = || member.pods.iter().filter(|pod| !pod.deleting);
        if member.missing_claim.is_some() || staying().count() < member.desired as usize {
            return Initialization::PodsPending;
        }
        let listed: BTreeSet<_> =
            group.pod_references.iter().map(|reference| reference.name.as_str()).collect();
        let is_in = |pod: &ObservedPod| is_member(pod, gang) && listed.contains(&*pod.name);
        if staying().all(is_in) { Initialization::Ready } else { Initialization::RefsSyncing }
    };
    spec.pod_groups.iter().map(of_group).min().unwrap_or(Initialization::PodsPending)
}

/// Whether a gang has been complete once.
pub fn is_initialized(gang: &PodGang) -> bool {
    gang.status.as_ref().is_some_and(is_initialized_status)
}

/// The same for its status.
pub(super) fn is_initialized_status(status: &PodGangStatus) -> bool {
    find(&status.conditions, reasons::INITIALIZED) == Some(condition::TRUE)
}

/// The status of a gang. Conditions, phase and score of the scheduler are kept. A gang starts as pending, even
/// if its pods exist before its first status, so that all gangs pass the same states. An initialized gang stays
/// as it is. `missing_claim` is the first one of [its members](Member).
pub fn status(
    stored: Option<&PodGangStatus>,
    generation: Option<i64>,
    now: Timestamp,
    state: Initialization,
    missing_claim: Option<&str>,
) -> PodGangStatus {
    let mut status = stored.cloned().unwrap_or_default();
    if status.phase == PodGangPhase::default() {
        status.phase = PodGangPhase::Pending;
    }
    let state = match find(&status.conditions, reasons::INITIALIZED) {
        Some(condition::TRUE) => return status,
        None if state == Initialization::RefsSyncing => Initialization::PodsPending,
        _ => state,
    };
    let (value, reason, message) = match state {
        Initialization::PodsPending => {
            let message = missing_claim.map_or_else(
                || "Not all constituent pods have been created yet".to_owned(),
                |claim| {
                    format!("ResourceClaim {claim}, which pods of the gang name, does not exist")
                },
            );
            (condition::FALSE, reasons::PODS_PENDING, message)
        }
        Initialization::RefsSyncing => {
            let message = "All pods exist, their references are not complete yet".to_owned();
            (condition::FALSE, reasons::REFS_SYNCING, message)
        }
        Initialization::Ready => {
            let message = "PodGang is fully initialized".to_owned();
            (condition::TRUE, reasons::READY_REASON, message)
        }
    };
    let observation =
        Observation { type_: reasons::INITIALIZED, status: value, reason, message, generation };
    observe(&mut status.conditions, observation, now);
    status
}
