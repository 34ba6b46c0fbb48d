//! The update of one PodClique, pod by pod.

use grove_api::pod_clique::PodsSelectedToUpdate;
use grove_api::{PodClique, labels, pod_clique::PodCliqueUpdateProgress};
use jiff::Timestamp;

use super::{Rollout, Step, stamp};
use crate::hash::{self, template_hash_label};
use crate::pods::ObservedPod;

/// A PodClique that may have to be updated.
#[derive(Clone, Copy, Debug)]
pub struct CliqueUpdate<'a> {
    /// The stored PodClique.
    pub object: &'a PodClique,
    /// Replica of the set.
    pub set_replica: u32,
    /// Hash of its template in the set.
    pub template_hash: &'a str,
    /// Its pods, terminating ones included.
    pub pods: &'a [ObservedPod],
}

/// The update progress that a PodClique should report: started when its set replica may update, the next ready
/// pod selected when the last one is replaced and enough others are ready, ended when all pods are up to date.
///
/// A new PodClique has nothing to replace, so it reports an update that ended when it started. Members of
/// groups are replaced together and report updates with `OnDelete` only.
pub fn progress(
    clique: &CliqueUpdate<'_>,
    rollout: &Rollout<'_>,
    now: Timestamp,
) -> Option<PodCliqueUpdateProgress> {
    let status = clique.object.status.as_ref();
    let stored = status.and_then(|status| status.update_progress.clone());
    let reached =
        status.and_then(|status| status.current_pod_clique_set_generation_hash.as_deref());
    // Another write updates the spec from the set; pods are built from the spec.
    let Some(hash) = rollout.generation_hash.filter(|_| clique.has_new_spec()) else {
        return stored;
    };
    let is_recorded = stored.as_ref().is_some_and(|it| clique.is_target(it, hash));
    let begins = if rollout.on_delete {
        !is_recorded
    } else if clique.is_member() {
        // Left over from `OnDelete`. A member with an unchanged template has nothing to do.
        let left_over = stored.as_ref().filter(|_| !is_recorded);
        left_over.is_some_and(|it| it.pod_template_hash == clique.template_hash)
    } else {
        rollout.may_begin(clique.set_replica)
            && match &stored {
                None => reached != Some(hash),
                // A pod that was lost during the update to another template was recreated with that template.
                Some(it) if is_recorded => {
                    rollout.is_turn_of(clique.set_replica)
                        && it.update_ended_at.is_some()
                        && clique.old_pods().next().is_some()
                }
                Some(_) => true,
            }
    };
    let mut progress = if begins {
        PodCliqueUpdateProgress {
            update_started_at: Some(stamp(now)),
            pod_clique_set_generation_hash: hash.to_owned(),
            pod_template_hash: clique.template_hash.to_owned(),
            ..PodCliqueUpdateProgress::default()
        }
    } else {
        stored?
    };
    if clique.is_target(&progress, hash) && progress.update_ended_at.is_none() {
        let replaces_pods = !rollout.on_delete && !clique.is_member();
        if !replaces_pods || step(clique, rollout, &mut progress) == Step::Done {
            progress.update_ended_at = Some(stamp(now));
            progress.ready_pods_selected_to_update = None;
        }
    }
    Some(progress)
}

/// Pods to delete according to the reported progress: all outdated pods that are not ready, and the selected
/// ready one.
pub fn outdated<'a>(clique: &CliqueUpdate<'a>, rollout: &Rollout<'_>) -> Vec<&'a ObservedPod> {
    let status = clique.object.status.as_ref();
    let progress = status.and_then(|status| status.update_progress.as_ref());
    let running = progress.filter(|it| {
        let is_target = rollout.generation_hash.is_some_and(|hash| clique.is_target(it, hash));
        is_target && it.update_ended_at.is_none()
    });
    let Some(progress) = running.filter(|_| !rollout.on_delete && clique.has_new_spec()) else {
        return Vec::new();
    };
    let selected = progress.ready_pods_selected_to_update.as_ref();
    let is_selected = |pod: &ObservedPod| selected.is_some_and(|it| *it.current == *pod.name);
    let goes = |pod: &&ObservedPod| is_selected(pod) || (!pod.ready && !rollout.paused);
    clique.old_pods().filter(goes).collect()
}

/// Pods that have the current template, but with a hash of another implementation, like their PodClique. The
/// operator relabels first the pods, then the PodClique. Nothing if there is no such hash.
pub fn pods_to_adopt<'a>(
    clique: &CliqueUpdate<'a>,
    rollout: &Rollout<'_>,
) -> Option<Vec<&'a ObservedPod>> {
    let label = template_hash_label(clique.object).filter(|label| !hash::is_ours(label))?;
    // A template that has changed since needs an ordinary update.
    if !rollout.is_settled() {
        return None;
    }
    let same = |pod: &&ObservedPod| pod.template_hash.as_deref() == Some(label) && !pod.deleting;
    Some(clique.pods.iter().filter(same).collect())
}

/// Selects the next pod if that is allowed.
fn step(
    clique: &CliqueUpdate<'_>,
    rollout: &Rollout<'_>,
    progress: &mut PodCliqueUpdateProgress,
) -> Step {
    let staying = || clique.pods.iter().filter(|pod| !pod.deleting);
    let desired = usize::try_from(clique.object.spec.replicas).unwrap_or_default();
    let selected = progress.ready_pods_selected_to_update.as_ref();
    if let Some(selected) = selected {
        let replaced = selected.completed.len() + 1;
        let renewed = staying().filter(|pod| pod.ready && clique.is_new(pod)).count();
        // After a scale-in there are fewer replacements than deleted pods.
        let places = desired.saturating_sub(clique.old_pods().count());
        if staying().any(|pod| *pod.name == *selected.current) || renewed < replaced.min(places) {
            return Step::Goes;
        }
    }
    let ready = clique.old_pods().filter(|pod| pod.ready);
    let Some(oldest) = ready.min_by_key(|pod| (pod.created, &pod.name)) else {
        return if clique.old_pods().next().is_none() { Step::Done } else { Step::Goes };
    };
    let minimum = clique.object.spec.min_available.unwrap_or(clique.object.spec.replicas);
    let minimum = usize::try_from(minimum).unwrap_or_default().min(desired);
    if rollout.paused || staying().filter(|pod| pod.ready).count() < minimum {
        return Step::Goes;
    }
    let mut completed = selected.map(|it| it.completed.clone()).unwrap_or_default();
    completed.extend(selected.map(|it| it.current.clone()));
    let current = oldest.name.to_string();
    progress.ready_pods_selected_to_update =
        Some(PodsSelectedToUpdate { current, completed, ..PodsSelectedToUpdate::default() });
    Step::Goes
}

impl<'a> CliqueUpdate<'a> {
    fn is_member(&self) -> bool {
        let all = self.object.metadata.labels.as_ref();
        all.is_some_and(|all| all.contains_key(labels::POD_CLIQUE_SCALING_GROUP))
    }

    /// Whether its spec is that of the current template.
    fn has_new_spec(&self) -> bool {
        template_hash_label(self.object) == Some(self.template_hash)
    }

    fn is_target(&self, progress: &PodCliqueUpdateProgress, generation_hash: &str) -> bool {
        progress.pod_clique_set_generation_hash == generation_hash
            && progress.pod_template_hash == self.template_hash
    }

    fn is_new(&self, pod: &ObservedPod) -> bool {
        pod.template_hash.as_deref() == Some(self.template_hash)
    }

    /// Outdated pods that are not terminating.
    fn old_pods(&self) -> impl Iterator<Item = &'a ObservedPod> {
        let this = *self;
        self.pods.iter().filter(move |pod| !pod.deleting && !this.is_new(pod))
    }
}
