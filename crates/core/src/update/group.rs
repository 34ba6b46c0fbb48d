//! The update of one scaling group, replica by replica.

use std::collections::BTreeMap;

use grove_api::pod_clique_scaling_group::{ReplicasSelectedToUpdate, ScalingGroupUpdateProgress};
use grove_api::{PodClique, PodCliqueScalingGroup};
use jiff::Timestamp;

use super::{Rollout, Step, stamp};
use crate::hash::template_hash_label;
use crate::layout;
use crate::minimum::{is_available, is_scheduled};
use crate::replicas::{GroupReplica, is_deleting};

/// A scaling group that may have to be updated.
#[derive(Clone, Copy, Debug)]
pub struct GroupUpdate<'a> {
    /// The stored group.
    pub object: &'a PodCliqueScalingGroup,
    /// Replica of the set.
    pub set_replica: u32,
    /// Its replicas `0..spec.replicas`.
    pub replicas: &'a [ReplicaUpdate],
}

/// One replica of a group, for its update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaUpdate {
    /// Its state in the status of the group.
    pub state: GroupReplica,
    /// Whether a member is outdated, and the state of the replica then.
    pub outdated: Option<Outdated>,
    /// Number of up-to-date members.
    pub updated_members: usize,
    /// Desired number of members.
    pub members: usize,
}

/// The state of an outdated replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// Some member has less than its minimum scheduled or ready: its deletion loses nothing.
    Useless,
    /// Every member has its minimum ready.
    Ready,
}

/// The state of one replica, from its members.
pub fn replica<'a>(
    members: &[layout::Clique<'_>],
    member: impl Fn(&str) -> Option<&'a PodClique>,
    template_hashes: &BTreeMap<String, String>,
    state: GroupReplica,
) -> ReplicaUpdate {
    let mut result = ReplicaUpdate { state, members: members.len(), ..ReplicaUpdate::default() };
    let (mut outdated, mut ready) = (false, true);
    for place in members {
        let Some(stored) = member(&place.name).filter(|one| !is_deleting(&one.metadata)) else {
            continue;
        };
        let hash = template_hashes.get(&place.template.name).map(String::as_str);
        let is_new = template_hash_label(stored) == hash;
        outdated |= !is_new;
        ready &= is_scheduled(stored) && is_available(stored);
        let status = stored.status.as_ref();
        let reached = status.and_then(|status| status.current_pod_template_hash.as_deref());
        result.updated_members += usize::from(is_new && reached == hash);
    }
    let worth = if ready { Outdated::Ready } else { Outdated::Useless };
    result.outdated = outdated.then_some(worth);
    result
}

/// The update progress that a group should report: started when its set replica may update, the lowest ready
/// replica selected when the last one is complete and enough others are available, ended when all are up to date.
pub fn progress(
    group: &GroupUpdate<'_>,
    rollout: &Rollout<'_>,
    now: Timestamp,
) -> Option<ScalingGroupUpdateProgress> {
    let stored = group.object.status.as_ref().and_then(|status| status.update_progress.clone());
    let Some(hash) = rollout.generation_hash else { return stored };
    let is_recorded = stored.as_ref().is_some_and(|it| it.pod_clique_set_generation_hash == *hash);
    let begins = !is_recorded && (rollout.on_delete || rollout.is_turn_of(group.set_replica));
    let mut progress = if begins {
        ScalingGroupUpdateProgress {
            update_started_at: Some(stamp(now)),
            pod_clique_set_generation_hash: hash.to_owned(),
            ..ScalingGroupUpdateProgress::default()
        }
    } else {
        stored?
    };
    if progress.pod_clique_set_generation_hash != *hash {
        return Some(progress);
    }
    if progress.update_ended_at.is_none()
        && (rollout.on_delete || step(group, rollout, &mut progress) == Step::Done)
    {
        progress.update_ended_at = Some(stamp(now));
        progress.ready_replica_indices_selected_to_update = None;
    }
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let sum = |of: fn(&ReplicaUpdate) -> usize| group.replicas.iter().map(of).sum();
    progress.updated_pod_cliques_count = count(sum(|one| one.updated_members));
    progress.total_pod_cliques_count = count(sum(|one| one.members));
    Some(progress)
}

/// Replicas whose members are deleted according to the reported progress: all outdated replicas that do not
/// work, and the selected ready one.
pub fn outdated(group: &GroupUpdate<'_>, rollout: &Rollout<'_>) -> Vec<usize> {
    let status = group.object.status.as_ref();
    let progress = status.and_then(|status| status.update_progress.as_ref());
    let running = progress.filter(|it| {
        let hash = Some(it.pod_clique_set_generation_hash.as_str());
        it.update_ended_at.is_none() && hash == rollout.generation_hash
    });
    let Some(progress) = running.filter(|_| !rollout.on_delete) else { return Vec::new() };
    let selected = selected(progress);
    let goes = |(index, replica): &(usize, &ReplicaUpdate)| match replica.outdated {
        None => false,
        Some(_) if selected == Some(*index) => true,
        Some(worth) => worth == Outdated::Useless && !rollout.paused,
    };
    let replicas = group.replicas.iter().enumerate();
    replicas.filter(goes).map(|(index, _)| index).collect()
}

fn step(
    group: &GroupUpdate<'_>,
    rollout: &Rollout<'_>,
    progress: &mut ScalingGroupUpdateProgress,
) -> Step {
    let current = selected(progress);
    // A replica that was scaled in meanwhile is not waited for.
    let current = current.and_then(|index| group.replicas.get(index));
    if current.is_some_and(|replica| !replica.state.updated) {
        return Step::Goes;
    }
    let next = |worth| group.replicas.iter().position(|one| one.outdated == Some(worth));
    let Some(ready) = next(Outdated::Ready) else {
        return if next(Outdated::Useless).is_none() { Step::Done } else { Step::Goes };
    };
    let minimum = group.object.spec.min_available.unwrap_or(1).min(group.object.spec.replicas);
    let minimum = usize::try_from(minimum).unwrap_or_default();
    let available = group.replicas.iter().filter(|one| one.state.available).count();
    if rollout.paused || available < minimum {
        return Step::Goes;
    }
    let before = progress.ready_replica_indices_selected_to_update.take();
    let mut completed = before.as_ref().map(|it| it.completed.clone()).unwrap_or_default();
    completed.extend(before.map(|it| it.current));
    let current = i32::try_from(ready).unwrap_or(i32::MAX);
    progress.ready_replica_indices_selected_to_update = Some(ReplicasSelectedToUpdate {
        current,
        completed,
        ..ReplicasSelectedToUpdate::default()
    });
    Step::Goes
}

fn selected(progress: &ScalingGroupUpdateProgress) -> Option<usize> {
    let selected = progress.ready_replica_indices_selected_to_update.as_ref()?;
    usize::try_from(selected.current).ok()
}
