//! Decides about a set as a whole, without IO.
//!
//! A deleted set deletes its children at once instead of leaving them to the garbage collector, which deletes
//! the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api::error_code::{ErrorCode, LastError};
use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, finalizers};
use grove_backends::Limitation;
use grove_core::children::owner;
use grove_core::layout::Layout;
use grove_core::replicas::{SetReplica, set_replica};
use grove_core::revision::{self, RevisionChange};
use grove_core::status::{self, Outcome, ResourceState, SchedulerState};
use grove_core::topology;
use grove_core::update;
use grove_runtime::resource::Resource;
use grove_runtime::view::{Meta, View};
use grove_runtime::write::{Precondition, Verb, Write};
use jiff::Timestamp;

use super::observe::{Children, Observed, ReplicaParts};
use crate::caches::views::{Hashes, Pod, Revision, Set};
use crate::caches::{AUTOSCALERS, ByName, REVISIONS, SERVICES};
use crate::controllers::claims::{self, RESOURCE_CLAIMS};
use crate::controllers::error::ReconcileError;
use crate::controllers::events;
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::plan::Plan;
use grove_runtime::report::{Report, Urgency};

/// Name of the controller, and source of its events.
pub(crate) const NAME: &str = "podcliqueset-controller";
const FINALIZER: &str = finalizers::POD_CLIQUE_SET;

/// What to do about a set.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The first writes: nothing else is written before them.
    pub(super) first: Plan,
    /// The other writes of a set that is not being deleted, besides access for its start-order containers.
    pub(super) rest: Plan,
    /// What cannot be done.
    pub(super) refused: Option<ReconcileError>,
}

/// Decides about a set.
pub(super) fn decide(observed: &Observed) -> Decision {
    let mut plan = Plan::default();
    let set: &Object<PodCliqueSet> = &observed.set;
    if set.meta.deleting {
        if !set.has_finalizer(finalizers::ORPHAN) {
            plan.step(remove_children(observed));
        }
        plan.step(converge::remove_finalizer(set, FINALIZER, "its children are deleted"));
        return Decision { first: plan, ..Decision::default() };
    }
    plan.step(converge::add_finalizer(set, FINALIZER, "take charge"));
    let layout = Layout::of(&set.object);
    let owner = owner::of_set(&set.object);
    let code = ErrorCode::SyncPcsResourceClaim;
    let claims = claims::decide(&observed.claims, &layout, &owner, &code);
    let mut rest = Plan::default();
    rest.step(claims.writes.into_iter().chain(history(observed)));
    Decision { first: plan, rest, refused: claims.problem }
}

/// Keeps the history of templates.
fn history(observed: &Observed) -> Vec<Write> {
    let set = &observed.set.object;
    let uid = &observed.set.meta.uid;
    let ours =
        |revision: &Revision| revision.observed.orphaned || revision.meta.is_controlled_by(uid);
    let Some(all) = &observed.revisions else { return Vec::new() };
    let live: BTreeMap<&str, &Revision> = all
        .iter()
        .filter(|revision| ours(revision))
        .map(|revision| (revision.observed.name.as_str(), &**revision))
        .collect();
    let stored: Vec<_> = live.values().map(|revision| revision.observed.clone()).collect();
    let in_use = observed.children.as_ref().map(|children| hashes_in_use(set, children));
    let in_use = in_use.unwrap_or_default();
    let changes = revision::changes(set, &observed.set.hashes().generation, &stored, &in_use);
    let write = |change| match change {
        RevisionChange::Create(object) => {
            converge::fields(REVISIONS, object, None, "a new template")
        }
        RevisionChange::Patch(name, patch) => live.get(name.as_str()).map(|revision| Write {
            resource: REVISIONS,
            key: revision.meta.key.clone(),
            verb: Verb::Merge {
                patch,
                only_if: Precondition::version(&revision.meta.uid, revision.meta.resource_version),
                subresource: None,
            },
            reason: "keep the history of templates",
        }),
        RevisionChange::Delete(name) => live
            .get(name.as_str())
            .filter(|revision| !revision.meta.deleting)
            .map(|revision| converge::delete(REVISIONS, &revision.meta, "the history is long")),
    };
    changes.into_iter().filter_map(write).collect()
}

/// The generation hashes that the set and its parts have or are being updated to.
fn hashes_in_use(set: &PodCliqueSet, children: &Children) -> BTreeSet<String> {
    let own = set.status.iter().filter_map(|status| status.current_generation_hash.clone());
    let cliques = children.cliques.values().filter_map(|one| one.object.status.as_ref());
    let of_cliques = cliques.flat_map(|status| {
        let target = status.update_progress.as_ref();
        let target = target.map(|progress| progress.pod_clique_set_generation_hash.clone());
        [status.current_pod_clique_set_generation_hash.clone(), target]
    });
    let groups = children.groups.values().filter_map(|one| one.object.status.as_ref());
    let of_groups = groups.flat_map(|status| {
        let target = status.update_progress.as_ref();
        let target = target.map(|progress| progress.pod_clique_set_generation_hash.clone());
        [status.current_pod_clique_set_generation_hash.clone(), target]
    });
    own.chain(of_cliques.chain(of_groups).flatten()).collect()
}

fn remove_children(observed: &Observed) -> Vec<Write> {
    let Some(children) = &observed.children else { return Vec::new() };
    let mut found: Vec<(Resource, &Meta)> = Vec::new();
    // Before the pods: while a service exists, every deleted pod causes another write of its endpoints.
    found.extend(children.services.iter().map(|one| (SERVICES, one.meta())));
    found.extend(children.gangs.iter().map(|one| (Resource::of::<PodGang>(), &one.meta)));
    found.extend(
        children.groups.values().map(|one| (Resource::of::<PodCliqueScalingGroup>(), &one.meta)),
    );
    found.extend(children.cliques.values().map(|one| (Resource::of::<PodClique>(), &one.meta)));
    found.extend(children.autoscalers.iter().map(|one| (AUTOSCALERS, one.meta())));
    found.extend(observed.revisions.iter().flatten().map(|one| (REVISIONS, &one.meta)));
    found.extend(children.claims.iter().map(|one| (RESOURCE_CLAIMS, one.meta())));
    let domains = children.compute_domains.iter();
    found.extend(domains.map(|one| (Resource::of::<ComputeDomain>(), &one.meta)));
    found.extend(observed.access.all());
    let uid = &observed.set.meta.uid;
    found
        .into_iter()
        .filter(|(_, meta)| meta.is_controlled_by(uid) && !meta.deleting)
        .map(|(resource, meta)| converge::delete_with_owner(resource, meta, "the set is deleted"))
        .collect()
}

/// The next status of a set that is not being deleted.
pub(super) fn status(
    observed: &Observed,
    children: &Children,
    outcome: Outcome<'_>,
    scheduler: SchedulerState<'_>,
    resources: ResourceState<'_>,
    now: Timestamp,
) -> PodCliqueSetStatus {
    let set = &observed.set.object;
    let layout = Layout::of(set);
    let Children { cliques, groups, .. } = children;
    let state = |index| replica_state(&observed.set, &layout, index, cliques, groups);
    let replicas: Vec<_> = (0..layout.replicas()).map(state).collect();
    let hash = &observed.set.hashes().generation;
    let mut next = status::pod_clique_set(set, hash, &replicas, outcome, now);
    status::scheduler(&mut next, set.metadata.generation, scheduler, now);
    status::resources(&mut next, set.metadata.generation, resources, now);
    topology::report(&mut next, set, &observed.topology, now);
    next
}

/// The report of a status that differs from the stored one. `parts` are the errors of groups and cliques in it.
pub(super) fn report<'o>(
    observed: &'o Observed,
    next: PodCliqueSetStatus,
    parts: &[LastError],
) -> Option<Report<'o, PodCliqueSetStatus>> {
    let stored = observed.set.object.status.as_ref();
    if stored == Some(&next) {
        return None;
    }
    let known = stored.map(|status| &*status.last_errors).unwrap_or_default();
    let errors = events::errors_of_parts(&observed.set, parts, known);
    let events = events::update_steps(&observed.set, &next).into_iter().chain(errors).collect();
    let (resource, urgency) = (Resource::of::<PodCliqueSet>(), Urgency::Now);
    let meta = &observed.set.meta;
    Some(Report { resource, meta, stored, desired: next, urgency, events, component: NAME })
}

/// What the groups and cliques of a set report as failed: one error of each kind and code.
pub(super) fn errors_of_parts(children: &Children) -> Vec<LastError> {
    let groups = children
        .groups
        .iter()
        .filter_map(|(name, one)| Some((name.as_str(), &*one.object.status.as_ref()?.last_errors)));
    let cliques = children
        .cliques
        .iter()
        .filter_map(|(name, one)| Some((name.as_str(), &*one.object.status.as_ref()?.last_errors)));
    let mut errors = status::aggregate(PodCliqueScalingGroup::KIND, groups);
    errors.extend(status::aggregate(PodClique::KIND, cliques));
    errors
}

/// Whether the next step of an update is due. It depends only on the replica that is being updated.
pub(super) fn update_is_due(observed: &Observed) -> bool {
    if observed.set.meta.deleting {
        return false;
    }
    let layout = Layout::of(&observed.set.object);
    let none = ReplicaParts::default();
    let ReplicaParts { cliques, groups } = observed.updating.as_ref().unwrap_or(&none);
    let state = |index| replica_state(&observed.set, &layout, index, cliques, groups);
    update::set::is_due(&observed.set.object, &observed.set.hashes().generation, state)
}

fn replica_state(
    set: &Set,
    layout: &Layout<'_>,
    index: u32,
    cliques: &ByName<Object<PodClique>>,
    groups: &ByName<Object<PodCliqueScalingGroup>>,
) -> SetReplica {
    let Hashes { templates, generation } = set.hashes();
    set_replica(
        layout,
        index,
        |name| cliques.get(name).map(|one| &one.object),
        |name| groups.get(name).map(|one| &one.object),
        templates,
        Some(generation),
    )
}

/// The limitation about pods that another scheduler places than new pods.
pub(super) fn left_behind(
    pods: impl Iterator<Item = Arc<Pod>>,
    scheduler: &str,
) -> Option<Limitation> {
    let mut others = BTreeMap::<String, usize>::new();
    for pod in pods.filter(|pod| *pod.scheduler != *scheduler) {
        *others.entry(pod.scheduler.to_string()).or_default() += 1;
    }
    if others.is_empty() {
        return None;
    }
    let others: Vec<_> =
        others.iter().map(|(name, number)| format!("{number} of {name:?}")).collect();
    let message = format!(
        "the default scheduler is {scheduler:?} now, and pods of others stay where they are ({}): \
         delete them to have them recreated",
        others.join(", ")
    );
    Some(Limitation { reason: "PodsOfAnotherScheduler", message })
}

#[cfg(test)]
mod tests;
