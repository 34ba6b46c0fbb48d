//! Updates: how a new template reaches what runs already.
//!
//! A set notices a new generation hash and lets its replicas take turns. In the replica whose turn it
//! is, standalone cliques replace their pods one by one, and scaling groups their replicas. Each of the
//! three writes down in `status.updateProgress` what it is about to do before it does it, so whoever
//! goes on after a crash does the same: `progress` says what to write down, `outdated` what to delete
//! because of what is written down.
//!
//! With `OnDelete` nothing is replaced: an update is over as soon as it is noticed.

use grove_api::{
    PodClique, PodCliqueSet, annotations,
    pod_clique_set::{PodCliqueSetUpdateProgress, UpdateStrategyType},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::hash::{self, template_hash_label};

pub mod clique;
pub mod group;
pub mod set;

/// What a set says about updates to everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout<'a> {
    /// The generation hash to reach. Absent while the set has not reported the one of its present
    /// template: nothing is begun for a template that is about to be replaced.
    pub generation_hash: Option<&'a str>,
    /// Running pods are left alone.
    pub on_delete: bool,
    /// Somebody wants to look before more is replaced.
    pub paused: bool,
    turn: Turn,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No update runs: everybody looks after themselves.
    Everybody,
    /// The update is between two replicas.
    Nobody,
    Replica(u32),
}

impl<'a> Rollout<'a> {
    /// Reads it off a set whose present template has this generation hash.
    pub fn of(set: &'a PodCliqueSet, generation_hash: &str) -> Self {
        let status = set.status.as_ref();
        let reported = status.and_then(|status| status.current_generation_hash.as_deref());
        let progress = status.and_then(|status| status.update_progress.as_ref());
        Self {
            generation_hash: reported.filter(|reported| *reported == generation_hash),
            on_delete: is_on_delete(set),
            paused: is_paused(set),
            turn: progress.filter(|it| is_running(it)).map_or(Turn::Everybody, turn),
        }
    }

    /// Whether the set is at its present template, and nothing is on the way to it.
    fn is_settled(&self) -> bool {
        self.generation_hash.is_some() && self.turn == Turn::Everybody
    }

    /// Whether a standalone clique of this replica may begin an update.
    fn may_begin(&self, set_replica: u32) -> bool {
        self.turn == Turn::Everybody || self.is_turn_of(set_replica)
    }

    fn is_turn_of(&self, set_replica: u32) -> bool {
        self.turn == Turn::Replica(set_replica)
    }
}

/// The replica of a set whose turn it is while an update runs.
pub fn whose_turn(set: &PodCliqueSet) -> Option<u32> {
    let progress = set.status.as_ref()?.update_progress.as_ref()?;
    match turn(progress) {
        Turn::Replica(index) if is_running(progress) => Some(index),
        _ => None,
    }
}

/// Whether replicas of a set take turns at the moment.
pub fn is_under_way(set: &PodCliqueSet) -> bool {
    let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
    progress.is_some_and(is_running)
}

fn turn(progress: &PodCliqueSetUpdateProgress) -> Turn {
    let current = progress.currently_updating.first();
    let current = current.filter(|current| current.update_ended_at.is_none());
    let index = current.and_then(|current| u32::try_from(current.replica_index).ok());
    index.map_or(Turn::Nobody, Turn::Replica)
}

fn is_running(progress: &PodCliqueSetUpdateProgress) -> bool {
    progress.update_started_at.is_some() && progress.update_ended_at.is_none()
}

/// Whether running pods of a set are left alone when its template changes.
pub fn is_on_delete(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_ref()) == Some(&UpdateStrategyType::OnDelete)
}

/// Whether somebody asked to hold updates of a set back.
pub fn is_paused(set: &PodCliqueSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(annotations::ROLLOUT_PAUSED));
    value.is_some_and(|value| value == "true")
}

/// Whether a new template of a set is not to be told to what exists: the set is paused, and has not
/// begun the update to it.
pub fn is_held_back(set: &PodCliqueSet, generation_hash: &str) -> bool {
    let status = set.status.as_ref();
    let reported = status.and_then(|status| status.current_generation_hash.as_deref());
    is_paused(set) && reported.is_some_and(|reported| reported != generation_hash)
}

/// Whether a PodClique has the present template of its set, but calls it as another implementation does.
/// It is left as it is until its pods have the name that we give it.
pub fn is_taken_over(set: &PodCliqueSet, generation_hash: &str, clique: &PodClique) -> bool {
    let label = template_hash_label(clique);
    let is_current = || set::is_foreign(set) || Rollout::of(set, generation_hash).is_settled();
    label.is_some_and(|label| !hash::is_ours(label)) && is_current()
}

/// Where an update is after a look at it.
#[derive(PartialEq)]
enum Step {
    /// Something is being replaced, or waited for.
    Goes,
    /// Nothing is left to do.
    Done,
}

/// A moment as Kubernetes writes it, in whole seconds.
fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod testkit {
    use super::{Rollout, Turn};

    /// No update runs, and this hash is the one to have.
    pub(crate) fn idle(generation_hash: Option<&str>) -> Rollout<'_> {
        Rollout { generation_hash, on_delete: false, paused: false, turn: Turn::Everybody }
    }

    /// It is the turn of this replica.
    pub(crate) fn rolling(generation_hash: &str, replica: u32) -> Rollout<'_> {
        Rollout { turn: Turn::Replica(replica), ..idle(Some(generation_hash)) }
    }
}
