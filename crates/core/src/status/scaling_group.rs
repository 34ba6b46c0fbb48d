//! Status of a PodCliqueScalingGroup, from its member PodCliques.
//!
//! Only replicas below `spec.replicas` and members of the template count, not PodCliques of a former layout.

use grove_api::{
    PodCliqueScalingGroup,
    condition::{self, min_available as breach, pod_clique_scaling_group as reasons},
    labels,
    pod_clique_scaling_group::PodCliqueScalingGroupStatus,
};
use jiff::Timestamp;

use super::{Outcome, created, wire_count};
use crate::condition::{Observation, find, observe};
use crate::minimum::reached;
use crate::replicas::GroupReplica;
use crate::termination;
use crate::update::{self, Rollout};

/// The input of a group's status.
#[derive(Clone, Copy, Debug)]
pub struct GroupFacts<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// The group and its replicas.
    pub group: update::group::GroupUpdate<'a>,
    /// The state of the set's update.
    pub rollout: Rollout<'a>,
}

/// The status of a group.
pub fn scaling_group(
    facts: &GroupFacts<'_>,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> PodCliqueScalingGroupStatus {
    let update::group::GroupUpdate { object: group, replicas, .. } = facts.group;
    let mut status = group.status.clone().unwrap_or_default();
    status.update_progress = update::group::progress(&facts.group, &facts.rollout, now);
    outcome.record(&mut status.observed_generation, &mut status.last_errors);
    let number = |is: fn(&GroupReplica) -> bool| {
        wire_count(replicas.iter().filter(|replica| is(&replica.state)).count())
    };
    status.replicas = group.spec.replicas;
    status.scheduled_replicas = number(|replica| replica.scheduled);
    status.available_replicas = number(|replica| replica.available);
    status.updated_replicas = number(|replica| replica.updated);
    let name = group.metadata.name.as_deref().unwrap_or_default();
    status.selector = Some(labels::scaling_group_pod_selector(facts.set, name));
    let updating = status
        .update_progress
        .as_ref()
        .is_some_and(|it| it.update_started_at.is_some() && it.update_ended_at.is_none());
    if !updating
        && let Some(generation_hash) = facts.rollout.generation_hash
        && replicas.iter().all(|replica| replica.state.current)
    {
        status.current_pod_clique_set_generation_hash = Some(generation_hash.to_owned());
    }
    observe_breach(facts, updating, &mut status, now);
    status
}

/// Members without a report count as healthy, except in a group that has not reached its minimum: it would seem
/// to have had it.
fn observe_breach(
    facts: &GroupFacts<'_>,
    updating: bool,
    status: &mut PodCliqueScalingGroupStatus,
    now: Timestamp,
) {
    let group = facts.group.object;
    let replicas = facts.group.replicas.iter().map(|replica| replica.state);
    let is_new = find(&status.conditions, breach::BREACHED).is_none();
    let generation = group.metadata.generation;
    let minimum = minimum(facts, status);
    let stored = status.conditions.clone();
    let is_reached = minimum.is_reached(&stored);
    let is_healthy =
        |one: &GroupReplica| if is_reached { one.healthy } else { one.reports_healthy };
    let healthy = replicas.clone().filter(is_healthy);
    let breach = observation_of_breach(group, updating, wire_count(healthy.count()));
    if is_reached {
        let over = reasons::GANG_TERMINATION_IN_PROGRESS;
        status.conditions.retain(|condition| condition.type_ != over);
    }
    let is_silent = replicas.into_iter().any(|one| one.healthy && !one.reports_healthy);
    // A new group reports a breach only after its members have reported.
    if is_new && is_silent && !is_reached && breach.status == condition::TRUE {
        return;
    }
    observe(&mut status.conditions, breach, now);
    reached::record(&mut status.conditions, &stored, &minimum, generation, now);
}

fn minimum(facts: &GroupFacts<'_>, status: &PodCliqueScalingGroupStatus) -> reached::Minimum {
    let group = facts.group.object;
    let reached = facts.group.replicas.iter().filter(|replica| replica.state.reached).count();
    let min = group.spec.min_available.unwrap_or(1);
    let (conditions, created) = (&status.conditions, created(&group.metadata));
    let was_up = find(conditions, breach::BREACHED) == Some(condition::FALSE)
        || reached::is_later_value(conditions, breach::BREACHED, created);
    reached::Minimum {
        is_ready: wire_count(reached) >= min,
        is_inferred: was_up && !termination::is_in_progress(group),
        of: ("replicas", min),
    }
}

fn observation_of_breach(
    group: &PodCliqueScalingGroup,
    updating: bool,
    healthy: i32,
) -> Observation<'static> {
    let min = group.spec.min_available.unwrap_or(1);
    let (status, reason, message) = if updating {
        let message = "Update is in progress".to_owned();
        (condition::UNKNOWN, breach::UPDATE_IN_PROGRESS, message)
    } else if healthy < min {
        let message = format!("PCSG replicas not in breach ({healthy}) below MinAvailable ({min})");
        (condition::TRUE, reasons::INSUFFICIENT_AVAILABLE_REPLICAS, message)
    } else {
        let message = format!("PCSG replicas not in breach ({healthy}) meets MinAvailable ({min})");
        (condition::FALSE, reasons::SUFFICIENT_AVAILABLE_REPLICAS, message)
    };
    let generation = group.metadata.generation;
    Observation { type_: breach::BREACHED, status, reason, message, generation }
}
