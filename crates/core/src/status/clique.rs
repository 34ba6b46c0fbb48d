//! Status of a PodClique, from its pods.

use grove_api::{
    PodClique,
    condition::{self, min_available as breach, pod_clique as reasons},
    labels,
    pod_clique::{PodCliqueStatus, PodCliqueUpdateProgress},
};
use jiff::Timestamp;

use super::{Outcome, created, wire_count};
use crate::condition::{Observation, find, observe};
use crate::hash::template_hash_label;
use crate::minimum::{Usable, has_minimum, min_available, reached};
use crate::pods::ObservedPod;
use crate::update::{self, Rollout};

/// The input of a PodClique's status.
#[derive(Clone, Copy, Debug)]
pub struct CliqueFacts<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// The PodClique, its template and its pods.
    pub clique: update::clique::CliqueUpdate<'a>,
    /// The state of the set's update.
    pub rollout: Rollout<'a>,
    /// Whether the minimum was ready at some time that no status has reported yet.
    pub had_minimum: bool,
}

/// The status of a PodClique. Conditions appear with the first complete reconcile.
pub fn pod_clique(
    facts: &CliqueFacts<'_>,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> PodCliqueStatus {
    let mut status = facts.object().status.clone().unwrap_or_default();
    status.update_progress = update::clique::progress(&facts.clique, &facts.rollout, now);
    outcome.record(&mut status.observed_generation, &mut status.last_errors);
    count_pods(facts, &mut status);
    if !facts.is_member() {
        let selector = labels::clique_pod_selector(facts.set, facts.name());
        status.hpa_pod_selector = Some(selector);
    }
    advance_hashes(facts, &mut status);
    let minimum = facts.minimum(&status);
    if status.observed_generation.is_some() || minimum.is_ready {
        let generation = facts.object().metadata.generation;
        let stored = status.conditions.clone();
        let scheduled = facts.observation_of_scheduled(&status);
        observe(&mut status.conditions, scheduled, now);
        let breached = facts.observation_of_breach(&status);
        observe(&mut status.conditions, breached, now);
        reached::record(&mut status.conditions, &stored, &minimum, generation, now);
    }
    status
}

/// Terminating pods are excluded from `replicas` only.
fn count_pods(facts: &CliqueFacts<'_>, status: &mut PodCliqueStatus) {
    status.replicas = facts.count(|pod| !pod.deleting);
    status.ready_replicas = facts.count(|pod| pod.ready);
    status.scheduled_replicas = facts.count(|pod| pod.scheduled);
    status.schedule_gated_replicas = facts.count(|pod| pod.schedule_gated);
    let progress = status.update_progress.as_ref();
    let target = progress
        .map(|progress| progress.pod_template_hash.as_str())
        .or_else(|| template_hash_label(facts.object()))
        .or(status.current_pod_template_hash.as_deref());
    if let Some(target) = target {
        status.updated_replicas = facts.count(|pod| pod.template_hash.as_deref() == Some(target));
    }
}

/// The current hashes change once all pods are up to date.
fn advance_hashes(facts: &CliqueFacts<'_>, status: &mut PodCliqueStatus) {
    if status.updated_replicas != status.replicas {
        return;
    }
    let target = facts.clique.template_hash;
    let reached = match &status.update_progress {
        Some(progress) if is_running(progress) => None,
        Some(progress) => {
            Some((&*progress.pod_template_hash, &*progress.pod_clique_set_generation_hash))
        }
        None if template_hash_label(facts.object()) == Some(target) => {
            facts.rollout.generation_hash.map(|generation| (target, generation))
        }
        None => None,
    };
    if let Some((template, generation)) = reached {
        let (template, generation) = (template.to_owned(), generation.to_owned());
        status.current_pod_template_hash = Some(template);
        status.current_pod_clique_set_generation_hash = Some(generation);
    }
}

fn is_running(progress: &PodCliqueUpdateProgress) -> bool {
    progress.update_started_at.is_some() && progress.update_ended_at.is_none()
}

impl<'a> CliqueFacts<'a> {
    fn object(&self) -> &'a PodClique {
        self.clique.object
    }

    fn name(&self) -> &'a str {
        self.object().metadata.name.as_deref().unwrap_or_default()
    }

    fn is_member(&self) -> bool {
        let all = self.object().metadata.labels.as_ref();
        all.is_some_and(|all| all.contains_key(labels::POD_CLIQUE_SCALING_GROUP))
    }

    fn count(&self, is: impl Fn(&ObservedPod) -> bool) -> i32 {
        wire_count(self.clique.pods.iter().filter(|pod| is(pod)).count())
    }

    fn observation_of_scheduled(&self, status: &PodCliqueStatus) -> Observation<'static> {
        let (min, found) = (min_available(self.object()), status.scheduled_replicas);
        let expected = format!("expected at least: {min}, found: {found}");
        let (value, reason, message) = if found >= min {
            let message = format!("Sufficient scheduled pods found. {expected}");
            (condition::TRUE, reasons::SUFFICIENT_SCHEDULED_PODS, message)
        } else {
            let message = format!("Insufficient scheduled pods. {expected}");
            (condition::FALSE, reasons::INSUFFICIENT_SCHEDULED_PODS, message)
        };
        self.observation(reasons::SCHEDULED, value, reason, message)
    }

    fn observation_of_breach(&self, status: &PodCliqueStatus) -> Observation<'static> {
        let min = min_available(self.object());
        let Usable { scheduled, working } = Usable::of(self.clique.pods);
        let (value, reason, message) = if status.update_progress.as_ref().is_some_and(is_running) {
            let message = "Update is in progress".to_owned();
            (condition::UNKNOWN, breach::UPDATE_IN_PROGRESS, message)
        } else if scheduled < min {
            let message = format!("Scheduled replicas ({scheduled}) below MinAvailable ({min})");
            (condition::TRUE, reasons::SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE, message)
        } else if working < min {
            let message = format!(
                "Insufficient ready or starting pods. expected at least: {min}, found: {working}"
            );
            (condition::TRUE, reasons::INSUFFICIENT_READY_PODS, message)
        } else {
            let message = format!(
                "Either sufficient ready or starting pods found. expected at least: {min}, found: \
                 {working}"
            );
            (condition::FALSE, reasons::SUFFICIENT_READY_PODS, message)
        };
        self.observation(breach::BREACHED, value, reason, message)
    }

    fn observation(
        &self,
        type_: &'static str,
        status: &'static str,
        reason: &'static str,
        message: String,
    ) -> Observation<'static> {
        let generation = self.object().metadata.generation;
        Observation { type_, status, reason, message, generation }
    }

    fn minimum(&self, status: &PodCliqueStatus) -> reached::Minimum {
        let (scheduled, created) = (reasons::SCHEDULED, created(&self.object().metadata));
        reached::Minimum {
            is_ready: self.had_minimum || has_minimum(self.object(), self.clique.pods),
            is_inferred: find(&status.conditions, scheduled) == Some(condition::TRUE)
                || reached::is_later_value(&status.conditions, scheduled, created),
            of: ("pods", min_available(self.object())),
        }
    }
}
