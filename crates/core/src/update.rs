//! Updates: how a new template reaches running pods.
//!
//! A new generation hash starts an update of the set, one replica at a time. In the current replica, standalone
//! cliques replace their pods one by one, and scaling groups their replicas. Each of the three records its next
//! step in `status.updateProgress` before it acts, so that the operator continues with the same step after a
//! crash: `progress` computes the record, `outdated` the deletions that follow from it.
//!
//! With `OnDelete` nothing is replaced: an update ends as soon as it starts.

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

/// The state of a set's update for all its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout<'a> {
    /// The generation hash to reach. Absent until the set has reported the hash of its current template: no
    /// update starts for a template that is about to be replaced.
    pub generation_hash: Option<&'a str>,
    /// Whether running pods are not replaced.
    pub on_delete: bool,
    /// Whether the user has paused updates.
    pub paused: bool,
    turn: Turn,
}

/// Which replica may update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No update runs: every replica may.
    All,
    /// None: the update is between two replicas.
    None,
    Replica(u32),
}

impl<'a> Rollout<'a> {
    /// Reads the state from a set whose current template has this generation hash.
    pub fn of(set: &'a PodCliqueSet, generation_hash: &str) -> Self {
        let status = set.status.as_ref();
        let reported = status.and_then(|status| status.current_generation_hash.as_deref());
        let progress = status.and_then(|status| status.update_progress.as_ref());
        Self {
            generation_hash: reported.filter(|reported| *reported == generation_hash),
            on_delete: is_on_delete(set),
            paused: is_paused(set),
            turn: progress.filter(|it| is_running(it)).map_or(Turn::All, turn),
        }
    }

    /// Whether the set is up to date and no update runs.
    fn is_settled(&self) -> bool {
        self.generation_hash.is_some() && self.turn == Turn::All
    }

    /// Whether a standalone clique of this replica may start an update.
    fn may_begin(&self, set_replica: u32) -> bool {
        self.turn == Turn::All || self.is_turn_of(set_replica)
    }

    fn is_turn_of(&self, set_replica: u32) -> bool {
        self.turn == Turn::Replica(set_replica)
    }
}

/// The replica of a set that is currently updated.
pub fn updating_replica(set: &PodCliqueSet) -> Option<u32> {
    let progress = set.status.as_ref()?.update_progress.as_ref()?;
    match turn(progress) {
        Turn::Replica(index) if is_running(progress) => Some(index),
        _ => None,
    }
}

/// Whether an update of the set runs.
pub fn is_under_way(set: &PodCliqueSet) -> bool {
    let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
    progress.is_some_and(is_running)
}

fn turn(progress: &PodCliqueSetUpdateProgress) -> Turn {
    let current = progress.currently_updating.first();
    let current = current.filter(|current| current.update_ended_at.is_none());
    let index = current.and_then(|current| u32::try_from(current.replica_index).ok());
    index.map_or(Turn::None, Turn::Replica)
}

fn is_running(progress: &PodCliqueSetUpdateProgress) -> bool {
    progress.update_started_at.is_some() && progress.update_ended_at.is_none()
}

/// Whether a set does not replace running pods when its template changes.
pub fn is_on_delete(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_ref()) == Some(&UpdateStrategyType::OnDelete)
}

/// Whether the user has paused updates of a set.
pub fn is_paused(set: &PodCliqueSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(annotations::ROLLOUT_PAUSED));
    value.is_some_and(|value| value == "true")
}

/// Whether existing children do not get a new template yet: the set is paused and has not started the update.
pub fn is_held_back(set: &PodCliqueSet, generation_hash: &str) -> bool {
    let status = set.status.as_ref();
    let reported = status.and_then(|status| status.current_generation_hash.as_deref());
    is_paused(set) && reported.is_some_and(|reported| reported != generation_hash)
}

/// Whether a PodClique has the current template of its set, but with a hash of another implementation. It stays
/// as it is until its pods have our hash.
pub fn awaits_adoption(set: &PodCliqueSet, generation_hash: &str, clique: &PodClique) -> bool {
    let label = template_hash_label(clique);
    let is_current = || set::is_foreign(set) || Rollout::of(set, generation_hash).is_settled();
    label.is_some_and(|label| !hash::is_ours(label)) && is_current()
}

/// State of an update after a step.
#[derive(PartialEq)]
enum Step {
    /// Pods are being replaced or waited for.
    Goes,
    /// Completed.
    Done,
}

/// A time in whole seconds, as Kubernetes writes it.
fn stamp(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod testkit {
    use super::{Rollout, Turn};

    /// No update runs, and this hash is current.
    pub(crate) fn idle(generation_hash: Option<&str>) -> Rollout<'_> {
        Rollout { generation_hash, on_delete: false, paused: false, turn: Turn::All }
    }

    /// This replica is updated.
    pub(crate) fn rolling(generation_hash: &str, replica: u32) -> Rollout<'_> {
        Rollout { turn: Turn::Replica(replica), ..idle(Some(generation_hash)) }
    }
}
