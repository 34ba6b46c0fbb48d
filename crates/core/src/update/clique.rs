//! The update of one PodClique, pod by pod.

use grove_api::pod_clique::PodsSelectedToUpdate;
use grove_api::{PodClique, labels, pod_clique::PodCliqueUpdateProgress};
use jiff::Timestamp;

use super::{Rollout, Step, stamp};
use crate::hash::{self, template_hash_label};
use crate::pods::ObservedPod;

/// A PodClique that may have to be updated.
#[derive(Clone, Copy, Debug)]
pub struct Clique<'a> {
    /// The stored PodClique.
    pub object: &'a PodClique,
    /// The replica of the set that it belongs to.
    pub set_replica: u32,
    /// Hash of its template in the set.
    pub template_hash: &'a str,
    /// Its pods, terminating ones included.
    pub pods: &'a [ObservedPod],
}

/// What a PodClique should report about its update: begun when it is its turn, the next ready pod
/// selected when the last one is replaced and enough others are ready, ended when no pod is left that
/// has another template.
///
/// A new PodClique has nothing to replace, so it reports an update that ended when it began. Members of
/// groups are replaced as a whole and report updates with `OnDelete` only.
pub fn progress(
    clique: &Clique<'_>,
    rollout: &Rollout<'_>,
    now: Timestamp,
) -> Option<PodCliqueUpdateProgress> {
    let status = clique.object.status.as_ref();
    let stored = status.and_then(|status| status.update_progress.clone());
    let reached =
        status.and_then(|status| status.current_pod_clique_set_generation_hash.as_deref());
    // The spec follows the set in a write of its own; pods are made from it.
    let Some(hash) = rollout.generation_hash.filter(|_| clique.has_new_spec()) else {
        return stored;
    };
    let is_recorded = stored.as_ref().is_some_and(|it| clique.is_target(it, hash));
    let begins = if rollout.on_delete {
        !is_recorded
    } else if clique.is_member() {
        // Left over from `OnDelete`. A member whose template is still the same has nothing to do.
        let left_over = stored.as_ref().filter(|_| !is_recorded);
        left_over.is_some_and(|it| it.pod_template_hash == clique.template_hash)
    } else {
        rollout.may_begin(clique.set_replica)
            && match &stored {
                None => reached != Some(hash),
                // A pod that was lost while another template was wanted came back with that one.
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

/// Pods to delete because of what the PodClique reports: those of another template that are not ready,
/// all at once, and the ready one that was selected.
pub fn outdated<'a>(clique: &Clique<'a>, rollout: &Rollout<'_>) -> Vec<&'a ObservedPod> {
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

/// Pods that have the present template under a name that another implementation gave it, as their
/// PodClique has: they get the name that we give it, and after them the PodClique. Nothing when there is
/// nothing to be taken over.
pub fn taken_over<'a>(clique: &Clique<'a>, rollout: &Rollout<'_>) -> Option<Vec<&'a ObservedPod>> {
    let label = template_hash_label(clique.object).filter(|label| !hash::is_ours(label))?;
    // A template that has changed since is an update like any other.
    if !rollout.is_settled() {
        return None;
    }
    let same = |pod: &&ObservedPod| pod.template_hash.as_deref() == Some(label) && !pod.deleting;
    Some(clique.pods.iter().filter(same).collect())
}

/// Selects the next pod where that is allowed.
fn step(
    clique: &Clique<'_>,
    rollout: &Rollout<'_>,
    progress: &mut PodCliqueUpdateProgress,
) -> Step {
    let staying = || clique.pods.iter().filter(|pod| !pod.deleting);
    let wanted = usize::try_from(clique.object.spec.replicas).unwrap_or_default();
    let selected = progress.ready_pods_selected_to_update.as_ref();
    if let Some(selected) = selected {
        let replaced = selected.completed.len() + 1;
        let renewed = staying().filter(|pod| pod.ready && clique.is_new(pod)).count();
        // A clique that was scaled in meanwhile has no place for the replacements of all that went.
        let places = wanted.saturating_sub(clique.old_pods().count());
        if staying().any(|pod| *pod.name == *selected.current) || renewed < replaced.min(places) {
            return Step::Goes;
        }
    }
    let ready = clique.old_pods().filter(|pod| pod.ready);
    let Some(oldest) = ready.min_by_key(|pod| (pod.created, &pod.name)) else {
        return if clique.old_pods().next().is_none() { Step::Done } else { Step::Goes };
    };
    let minimum = clique.object.spec.min_available.unwrap_or(clique.object.spec.replicas);
    let minimum = usize::try_from(minimum).unwrap_or_default().min(wanted);
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

impl<'a> Clique<'a> {
    fn is_member(&self) -> bool {
        let all = self.object.metadata.labels.as_ref();
        all.is_some_and(|all| all.contains_key(labels::POD_CLIQUE_SCALING_GROUP))
    }

    /// Whether its spec is that of the present template.
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

    /// Pods that stay although they have another template.
    fn old_pods(&self) -> impl Iterator<Item = &'a ObservedPod> {
        let this = *self;
        self.pods.iter().filter(move |pod| !pod.deleting && !this.is_new(pod))
    }
}
