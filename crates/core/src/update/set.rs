//! The update of a set: which replica has its turn.

use grove_api::PodCliqueSet;
use grove_api::pod_clique_set::{
    PodCliqueSetStatus, PodCliqueSetUpdateProgress, ReplicaUpdateProgress,
};
use jiff::Timestamp;

use super::{Turn, is_on_delete, is_paused, is_running, stamp, turn};
use crate::hash;
use crate::replicas::SetReplica;

/// Puts the generation hash and the progress of the update into the next status of a set. `replicas`
/// are its replicas `0..spec.replicas`.
///
/// The first hash that a set reports begins no update: everything is made from the template that it
/// stands for. Neither does taking over from an implementation that computes hashes in another way, if
/// it was done with this generation.
pub fn record(
    set: &PodCliqueSet,
    generation_hash: &str,
    replicas: &[SetReplica],
    status: &mut PodCliqueSetStatus,
    now: Timestamp,
) {
    let reported = status.current_generation_hash.as_deref();
    // Somebody may have removed what was recorded of an update.
    let is_lost = status.update_progress.is_none()
        && reported == Some(generation_hash)
        && replicas.iter().any(|replica| replica.outdated);
    if begins(set, generation_hash) || is_lost {
        status.update_progress = Some(PodCliqueSetUpdateProgress {
            update_started_at: Some(stamp(now)),
            ..PodCliqueSetUpdateProgress::default()
        });
    }
    if reported.is_none() || !is_paused(set) || is_foreign(set) {
        status.current_generation_hash = Some(generation_hash.to_owned());
    }
    let Some(progress) = &mut status.update_progress else { return };
    if is_running(progress) {
        if is_on_delete(set) {
            end(progress, now);
        } else if !is_paused(set) && !is_waiting(progress, replicas) {
            hand_over(progress, replicas, now);
        }
    }
    count(progress, replicas);
}

/// Whether a status gives the turn to a replica while nobody had it: so far the update has replaced nothing, or
/// it was paused.
pub fn is_first_turn(set: &PodCliqueSet, next: &PodCliqueSetStatus) -> bool {
    let before = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let had_turn = |before: &PodCliqueSetUpdateProgress| {
        is_running(before) && !before.currently_updating.is_empty()
    };
    let Some(next) = &next.update_progress else { return false };
    let is_same = before.map(|it| &it.update_started_at) == Some(&next.update_started_at);
    let goes_on = is_same && before.is_some_and(had_turn);
    !next.currently_updating.is_empty() && !goes_on
}

/// Takes the turn back that a status gives: the update has started, and replaces nothing.
pub fn withhold_turn(next: &mut PodCliqueSetStatus) {
    if let Some(progress) = &mut next.update_progress {
        progress.currently_updating.clear();
    }
}

/// Whether something is to be recorded that others wait for. `replica` judges one replica; only the one
/// whose turn it is is asked for.
pub fn is_due(
    set: &PodCliqueSet,
    generation_hash: &str,
    replica: impl FnOnce(u32) -> SetReplica,
) -> bool {
    let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
    begins(set, generation_hash)
        || progress.is_some_and(|progress| {
            let replicas = u32::try_from(set.spec.replicas).unwrap_or_default();
            is_running(progress)
                && !is_paused(set)
                && match turn(progress) {
                    Turn::Replica(index) if index < replicas => replica(index).renewed,
                    _ => true,
                }
        })
}

/// Whether the present template is one that an update has to lead to.
fn begins(set: &PodCliqueSet, generation_hash: &str) -> bool {
    let reported = set.status.as_ref().and_then(|it| it.current_generation_hash.as_deref());
    let differs = reported.is_some_and(|reported| reported != generation_hash);
    differs && !is_paused(set) && !is_foreign(set)
}

/// Whether the reported hash was computed in another way, for the template that the set still has. While
/// an update runs it is not known what has the template and what has not.
pub(super) fn is_foreign(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        let hash = status.current_generation_hash.as_deref();
        hash.is_some_and(|hash| !hash::is_ours(hash))
            && !status.update_progress.as_ref().is_some_and(is_running)
            && status.observed_generation.is_some()
            && status.observed_generation == set.metadata.generation
    })
}

/// Whether the replica whose turn it is is not done.
fn is_waiting(progress: &PodCliqueSetUpdateProgress, replicas: &[SetReplica]) -> bool {
    let Turn::Replica(index) = turn(progress) else { return false };
    replicas.get(index as usize).is_some_and(|replica| !replica.renewed)
}

/// Gives the turn to the replica of which the least is lost, and ends the update when there is none.
fn hand_over(progress: &mut PodCliqueSetUpdateProgress, replicas: &[SetReplica], now: Timestamp) {
    let left = replicas.iter().enumerate().filter(|(_, replica)| !replica.renewed);
    let next = left.min_by_key(|(index, one)| (one.scheduled, !one.breached, *index));
    let Some((index, _)) = next else {
        end(progress, now);
        return;
    };
    progress.currently_updating = vec![ReplicaUpdateProgress {
        replica_index: i32::try_from(index).unwrap_or(i32::MAX),
        update_started_at: Some(stamp(now)),
        ..ReplicaUpdateProgress::default()
    }];
}

fn end(progress: &mut PodCliqueSetUpdateProgress, now: Timestamp) {
    progress.update_ended_at = Some(stamp(now));
    progress.currently_updating.clear();
}

fn count(progress: &mut PodCliqueSetUpdateProgress, replicas: &[SetReplica]) {
    let sum = |of: fn(&SetReplica) -> u32| {
        i32::try_from(replicas.iter().map(of).sum::<u32>()).unwrap_or(i32::MAX)
    };
    progress.updated_pod_cliques_count = sum(|one| one.cliques.updated);
    progress.total_pod_cliques_count = sum(|one| one.cliques.total);
    progress.updated_pod_clique_scaling_groups_count = sum(|one| one.groups.updated);
    progress.total_pod_clique_scaling_groups_count = sum(|one| one.groups.total);
}
