//! Gang termination: what has lost its minimum for too long starts again as a whole.
//!
//! A gang of which a part is gone for good only holds resources. After the termination delay of the set
//! the smallest unit that can start again does: a replica of a scaling group while the group keeps its
//! minimum without it, else the whole replica of the set. What was never up has lost nothing and is
//! left to the scheduler. The delay counts from the condition, which outlives the operator.

use std::time::Duration;

use grove_api::condition::Condition;
use grove_api::condition::{
    FALSE, TRUE,
    min_available::BREACHED,
    pod_clique::SCHEDULED,
    pod_clique_scaling_group::{GANG_TERMINATION_ACTIVE, GANG_TERMINATION_IN_PROGRESS},
    pod_gang::INITIALIZED,
};
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang};
use jiff::Timestamp;

use crate::admission::DEFAULT_TERMINATION_DELAY;
use crate::pods::ObservedPod;
use crate::status::condition::{Observation, get, observe};
use crate::status::{created, is_below_minimum};

/// A condition that changed later than this after the object was created did not get its first value
/// then.
const FIRST_VALUE: Duration = Duration::from_secs(5);

/// Time between a breach and its consequence.
pub fn delay(set: &PodCliqueSet) -> Duration {
    let delay = set.spec.template.termination_delay.unwrap_or(DEFAULT_TERMINATION_DELAY);
    // Admission refuses what is not positive.
    delay.to_std().unwrap_or_default()
}

/// Since when a PodClique that was up has been below its minimum.
pub fn clique_breached_since(clique: &PodClique) -> Option<Timestamp> {
    clique_will_be_breached_since(clique, clique.status.as_ref()?)
}

/// The same with the status that it is about to get.
pub fn clique_will_be_breached_since(
    clique: &PodClique,
    next: &PodCliqueStatus,
) -> Option<Timestamp> {
    let conditions = &next.conditions;
    let since = since(get(conditions, BREACHED)?)?;
    let scheduled = get(conditions, SCHEDULED)?;
    let created = created(&clique.metadata);
    (scheduled.status == TRUE || is_later_value(scheduled, created)).then_some(since)
}

/// The same for what acts on it: only if the pods still show it. What is reported may be from before an
/// operator was restarted.
pub fn clique_is_breached_since(clique: &PodClique, pods: &[ObservedPod]) -> Option<Timestamp> {
    clique_breached_since(clique).filter(|_| is_below_minimum(clique, pods))
}

/// Since when a PodClique that was made anew has not had its minimum: its gang was complete before it was
/// created, and it has not been well since.
pub fn missed_since(clique: &PodClique, gang: &PodGang) -> Option<Timestamp> {
    let gang = gang.status.as_ref()?;
    let complete = since(get(&gang.conditions, INITIALIZED)?)?;
    let created = created(&clique.metadata).filter(|created| *created > complete)?;
    let stored = clique.status.as_ref().and_then(|status| get(&status.conditions, BREACHED));
    stored.is_none_or(|breached| breached.status == TRUE).then_some(created)
}

/// A member of a group and its pods; nothing when it is not there.
pub type Member<'a> = Option<(&'a PodClique, &'a [ObservedPod])>;

/// The same for a group: `replicas` are the members of its replicas `0..spec.replicas`.
pub fn group_is_breached_since(
    group: &PodCliqueScalingGroup,
    replicas: &[Vec<Member<'_>>],
) -> Option<Timestamp> {
    let is_well =
        |member: &Member<'_>| member.is_some_and(|(clique, pods)| !is_below_minimum(clique, pods));
    let well = replicas.iter().filter(|members| members.iter().all(is_well)).count();
    let minimum = usize::try_from(group.spec.min_available.unwrap_or(1)).unwrap_or_default();
    group_breached_since(group).filter(|_| well < minimum)
}

/// Since when a scaling group that was healthy has been below its minimum. One that a termination has
/// not helped yet does not count.
pub fn group_breached_since(group: &PodCliqueScalingGroup) -> Option<Timestamp> {
    group_will_be_breached_since(group, group.status.as_ref()?)
}

/// The same with the status that it is about to get.
pub fn group_will_be_breached_since(
    group: &PodCliqueScalingGroup,
    next: &PodCliqueScalingGroupStatus,
) -> Option<Timestamp> {
    let breached = get(&next.conditions, BREACHED)?;
    let was_healthy = is_later_value(breached, created(&group.metadata));
    let recovers = get(&next.conditions, GANG_TERMINATION_IN_PROGRESS).and_then(since).is_some();
    since(breached).filter(|_| was_healthy && !recovers)
}

/// Whether a group is recovering from a termination.
pub fn is_in_progress(group: &PodCliqueScalingGroup) -> bool {
    in_progress_since(group).is_some()
}

/// When the replica of the set that a group belongs to was terminated, if the group has not recovered.
pub fn in_progress_since(group: &PodCliqueScalingGroup) -> Option<Timestamp> {
    let condition = get(&group.status.as_ref()?.conditions, GANG_TERMINATION_IN_PROGRESS)?;
    since(condition)
}

fn since(condition: &Condition) -> Option<Timestamp> {
    let since = condition.last_transition_time.as_ref()?.0;
    (condition.status == TRUE).then_some(since)
}

/// Since when a scaling group has not had its minimum if it never had it. It was not healthy before an
/// update, so it has lost nothing when it is not healthy after it.
pub(crate) fn group_never_healthy_since(group: &PodCliqueScalingGroup) -> Option<Timestamp> {
    let breached = get(&group.status.as_ref()?.conditions, BREACHED)?;
    let never = breached.status != FALSE && !is_later_value(breached, created(&group.metadata));
    breached.last_transition_time.as_ref().filter(|_| never).map(|time| time.0)
}

/// Whether a condition has had another value before.
fn is_later_value(condition: &Condition, created: Option<Timestamp>) -> bool {
    let changed = condition.last_transition_time.as_ref().map(|time| time.0);
    let (Some(changed), Some(created)) = (changed, created) else { return false };
    created.checked_add(FIRST_VALUE).is_ok_and(|first| changed > first)
}

/// What follows from breaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Stay,
    /// It is terminated at this time if it does not recover.
    Wait(Timestamp),
    /// It is terminated now.
    Terminate,
}

/// Judges something with breaches that began at these times.
pub fn verdict(
    breaches: impl IntoIterator<Item = Timestamp>,
    delay: Duration,
    now: Timestamp,
) -> Verdict {
    let Some(first) = breaches.into_iter().min() else { return Verdict::Stay };
    // A delay beyond the end of time never ends.
    match first.checked_add(delay) {
        Ok(end) if end <= now => Verdict::Terminate,
        Ok(end) => Verdict::Wait(end),
        Err(_) => Verdict::Stay,
    }
}

/// Judges the replicas of a scaling group, each by the breaches of its members. They all stay when the
/// group would fall below its minimum without the breached ones: then the whole replica of the set is at
/// stake.
pub fn group_replicas(
    group: &PodCliqueScalingGroup,
    replicas: &[Vec<Timestamp>],
    delay: Duration,
    now: Timestamp,
) -> Vec<Verdict> {
    let whole = replicas.iter().filter(|breaches| breaches.is_empty()).count();
    let minimum = usize::try_from(group.spec.min_available.unwrap_or(1)).unwrap_or_default();
    let judge = |breaches: &Vec<Timestamp>| {
        if whole < minimum {
            return Verdict::Stay;
        }
        verdict(breaches.iter().copied(), delay, now)
    };
    replicas.iter().map(judge).collect()
}

/// The status of a group whose replica of the set is about to be terminated.
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
    let seen = Observation {
        type_: GANG_TERMINATION_IN_PROGRESS,
        status: TRUE,
        reason: GANG_TERMINATION_ACTIVE,
        message,
        generation: group.metadata.generation,
        since: None,
    };
    observe(&mut status.conditions, seen, now);
    status
}

#[cfg(test)]
mod tests;
