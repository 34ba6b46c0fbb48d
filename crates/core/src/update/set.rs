//! The update of a set: which replica is updated next.

use grove_api::PodCliqueSet;
use grove_api::pod_clique_set::{
    PodCliqueSetStatus, PodCliqueSetUpdateProgress, ReplicaUpdateProgress,
};
use jiff::Timestamp;

use super::{Turn, is_on_delete, is_paused, is_running, stamp, turn};
use crate::hash;
use crate::replicas::SetReplica;

/// Sets the generation hash and the update progress in the next status of a set. `replicas` are its replicas
/// `0..spec.replicas`.
///
/// The first hash that a set reports starts no update: all its children are created from that template. Neither
/// does the migration from an implementation with other hashes, if the set was up to date.
pub fn record(
    set: &PodCliqueSet,
    generation_hash: &str,
    replicas: &[SetReplica],
    status: &mut PodCliqueSetStatus,
    now: Timestamp,
) {
    let reported = status.current_generation_hash.as_deref();
    // The recorded progress may have been removed.
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

/// Whether a status selects a replica while none was selected: so far the update has replaced nothing, or it
/// was paused.
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

/// Removes the selected replica from a status: the update has started, and replaces nothing.
pub fn withhold_turn(next: &mut PodCliqueSetStatus) {
    if let Some(progress) = &mut next.update_progress {
        progress.currently_updating.clear();
    }
}

/// Whether the set has to record a step of the update. `replica` returns the state of one replica; it is called
/// only for the selected one.
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

/// Whether the current template needs an update.
fn begins(set: &PodCliqueSet, generation_hash: &str) -> bool {
    let reported = set.status.as_ref().and_then(|it| it.current_generation_hash.as_deref());
    let differs = reported.is_some_and(|reported| reported != generation_hash);
    differs && !is_paused(set) && !is_foreign(set)
}

/// Whether the reported hash is of another implementation, for the current template of the set. During an
/// update it is unknown which pods have the template.
pub(super) fn is_foreign(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        let hash = status.current_generation_hash.as_deref();
        hash.is_some_and(|hash| !hash::is_ours(hash))
            && !status.update_progress.as_ref().is_some_and(is_running)
            && status.observed_generation.is_some()
            && status.observed_generation == set.metadata.generation
    })
}

/// Whether the selected replica is not complete.
fn is_waiting(progress: &PodCliqueSetUpdateProgress, replicas: &[SetReplica]) -> bool {
    let Turn::Replica(index) = turn(progress) else { return false };
    replicas.get(index as usize).is_some_and(|replica| !replica.renewed)
}

/// Selects the replica whose update costs least, and ends the update without one.
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
