//! Gang termination: a unit that has been below its minimum for too long is deleted and recreated as a whole.
//!
//! A gang with lost members only holds resources. After the termination delay of the set the operator recreates
//! the smallest possible unit: a replica of a scaling group while the group keeps its minimum without it, else
//! the whole replica of the set.
//!
//! Only a clique or group that once had its minimum can lose it. The condition MinAvailableReached records that
//! durably, and a termination clears the record of groups, which outlive it. A unit that never had its minimum
//! waits for the scheduler. No rule compares times of different clocks: the delay counts from the condition
//! MinAvailableBreached, which an operator wrote and an operator reads.
//!
//! The decision to terminate a replica is one write: its base gang lists the uids of the PodCliques to delete.
//! After a crash the operator deletes the rest of the list and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grove_api::condition::Condition;
use grove_api::condition::{
    TRUE,
    min_available::BREACHED,
    pod_clique_scaling_group::{GANG_TERMINATION_ACTIVE, GANG_TERMINATION_IN_PROGRESS},
};
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, annotations};
use jiff::Timestamp;

use crate::admission::DEFAULT_TERMINATION_DELAY;
use crate::condition::{Observation, get, observe};
use crate::gang::is_initialized;
use crate::minimum::is_below_minimum;
use crate::minimum::reached::{self, is_reached};
use crate::pods::ObservedPod;

/// Time between a breach and the termination.
pub fn delay(set: &PodCliqueSet) -> Duration {
    let delay = set.spec.template.termination_delay.unwrap_or(DEFAULT_TERMINATION_DELAY);
    // Admission refuses other values.
    delay.to_std().unwrap_or_default()
}

/// When a PodClique that had its minimum fell below it.
pub fn clique_breached_since(clique: &PodClique) -> Option<Timestamp> {
    clique_will_be_breached_since(clique.status.as_ref()?)
}

/// The same with its next status.
pub fn clique_will_be_breached_since(next: &PodCliqueStatus) -> Option<Timestamp> {
    breached_since(&next.conditions)
}

/// The same for decisions that act on it: only if the pods still confirm it, because the status may be older
/// than the operator's process.
pub fn clique_is_breached_since(clique: &PodClique, pods: &[ObservedPod]) -> Option<Timestamp> {
    clique_breached_since(clique).filter(|_| is_below_minimum(clique, pods))
}

/// Marks a new PodClique as recreated if its gang exists and was initialized before.
pub fn mark_recreated(clique: &mut PodClique, gang: Option<&PodGang>) {
    if gang.is_some_and(is_initialized) {
        let all = clique.metadata.annotations.get_or_insert_default();
        all.insert(annotations::RECREATED.to_owned(), "true".to_owned());
    }
}

/// Whether a PodClique with this status is recreated and has not had its minimum yet.
pub fn is_recovering(clique: &PodClique, status: Option<&PodCliqueStatus>) -> bool {
    let all = clique.metadata.annotations.as_ref();
    let is_recreated = all.is_some_and(|all| all.contains_key(annotations::RECREATED));
    is_recreated && !status.is_some_and(|status| is_reached(&status.conditions))
}

/// A member of a group and its pods; nothing if it does not exist.
pub type Member<'a> = Option<(&'a PodClique, &'a [ObservedPod])>;

/// When a group that had its minimum fell below it, if its pods still confirm it. `replicas` are the members of
/// its replicas `0..spec.replicas`.
pub fn group_is_breached_since(
    group: &PodCliqueScalingGroup,
    replicas: &[Vec<Member<'_>>],
) -> Option<Timestamp> {
    let is_healthy =
        |member: &Member<'_>| member.is_some_and(|(clique, pods)| !is_below_minimum(clique, pods));
    let healthy = replicas.iter().filter(|members| members.iter().all(is_healthy)).count();
    let minimum = usize::try_from(group.spec.min_available.unwrap_or(1)).unwrap_or_default();
    group_breached_since(group).filter(|_| healthy < minimum)
}

/// When a scaling group that had its minimum fell below it.
pub fn group_breached_since(group: &PodCliqueScalingGroup) -> Option<Timestamp> {
    group_will_be_breached_since(group.status.as_ref()?)
}

/// The same with its next status.
pub fn group_will_be_breached_since(next: &PodCliqueScalingGroupStatus) -> Option<Timestamp> {
    breached_since(&next.conditions)
}

fn breached_since(conditions: &[Condition]) -> Option<Timestamp> {
    let breached = get(conditions, BREACHED).filter(|breached| breached.status == TRUE)?;
    let since = breached.last_transition_time.as_ref()?.0;
    is_reached(conditions).then_some(since)
}

/// Whether a group is recovering from a termination of its set replica.
pub fn is_in_progress(group: &PodCliqueScalingGroup) -> bool {
    group.status.as_ref().is_some_and(will_be_in_progress)
}

/// The same with its next status.
pub fn will_be_in_progress(next: &PodCliqueScalingGroupStatus) -> bool {
    let condition = get(&next.conditions, GANG_TERMINATION_IN_PROGRESS);
    condition.is_some_and(|condition| condition.status == TRUE)
}

/// Whether a group reports that its set replica was terminated, and has to reach its minimum again. The group
/// may have written other messages since.
pub fn is_announced(group: &PodCliqueScalingGroup) -> bool {
    group
        .status
        .as_ref()
        .is_some_and(|status| will_be_in_progress(status) && !is_reached(&status.conditions))
}

/// The uids of the PodCliques that the termination of this gang's replica deletes.
pub fn terminating(gang: &PodGang) -> BTreeSet<&str> {
    let all = gang.metadata.annotations.as_ref();
    let list = all.and_then(|all| all.get(annotations::TERMINATING_POD_CLIQUES));
    list.into_iter().flat_map(|list| list.split(',')).filter(|uid| !uid.is_empty()).collect()
}

/// The numbers of pods of the standalone PodCliques that the termination of this gang's replica deletes, by
/// name, if they were scaled.
pub fn recreated_replicas(gang: &PodGang) -> BTreeMap<String, i32> {
    let all = gang.metadata.annotations.as_ref();
    let text = all.and_then(|all| all.get(annotations::RECREATED_REPLICAS));
    // Without a readable record, the template decides.
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The consequence of breaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing.
    Stay,
    /// Terminate at this time, unless it recovers.
    Wait(Timestamp),
    /// Terminate now.
    Terminate,
}

/// When a breach since this time leads to a termination; never if that time cannot be represented.
pub fn ends_at(breached_since: Timestamp, delay: Duration) -> Option<Timestamp> {
    breached_since.checked_add(delay).ok()
}

/// The consequence of breaches with these start times.
pub fn consequence(
    breaches: impl IntoIterator<Item = Timestamp>,
    delay: Duration,
    now: Timestamp,
) -> Consequence {
    let Some(first) = breaches.into_iter().min() else { return Consequence::Stay };
    match ends_at(first, delay) {
        Some(end) if end <= now => Consequence::Terminate,
        Some(end) => Consequence::Wait(end),
        None => Consequence::Stay,
    }
}

/// The consequences for the replicas of a scaling group, each from the breaches of its members. All stay if the
/// group would fall below its minimum without the breached ones: then the whole set replica is affected.
pub fn group_replicas(
    group: &PodCliqueScalingGroup,
    replicas: &[Vec<Timestamp>],
    delay: Duration,
    now: Timestamp,
) -> Vec<Consequence> {
    let healthy = replicas.iter().filter(|breaches| breaches.is_empty()).count();
    let minimum = usize::try_from(group.spec.min_available.unwrap_or(1)).unwrap_or_default();
    let consequence_of = |breaches: &Vec<Timestamp>| {
        if healthy < minimum {
            return Consequence::Stay;
        }
        consequence(breaches.iter().copied(), delay, now)
    };
    replicas.iter().map(consequence_of).collect()
}

/// The status of a group whose set replica is about to be terminated: it recovers, and has to reach its minimum
/// again.
pub fn announced(
    group: &PodCliqueScalingGroup,
    set_replica: u32,
    now: Timestamp,
) -> PodCliqueScalingGroupStatus {
    let mut status = group.status.clone().unwrap_or_default();
    let message = format!(
        "Gang termination fired at PCS-replica scope for PCS replica {set_replica}; this PCSG's \
         PodCliques were deleted as part of the recycle"
    );
    let observed = Observation {
        type_: GANG_TERMINATION_IN_PROGRESS,
        status: TRUE,
        reason: GANG_TERMINATION_ACTIVE,
        message,
        generation: group.metadata.generation,
    };
    observe(&mut status.conditions, observed, now);
    reached::reset(&mut status.conditions, group.metadata.generation, now);
    status
}

#[cfg(test)]
mod tests;
