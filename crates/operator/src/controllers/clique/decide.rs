//! Decides about one PodClique: a pure function of what was observed.
//!
//! A problem with some pods does not delay the others: the plan has all that can be done, and the problem is
//! reported beside it.

use std::sync::Arc;
use std::time::Duration;

use grove_api::error_code::ErrorCode;
use grove_api::pod_clique::PodCliqueStatus;
use grove_api::{PodClique, finalizers, labels};
use grove_backends::Preparation;
use grove_core::children::owner;
use grove_core::gang::{self, GateDecision, Hold};
use grove_core::layout::Layout;
use grove_core::pods::{self, Balance, BuildError, ObservedPod, PodContext};
use grove_core::status::{self, CliqueFacts, Outcome};
use grove_core::termination::{
    clique_breached_since, clique_will_be_breached_since, is_recovering,
};
use grove_core::update;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::View;
use grove_runtime::write::{Precondition, Verb, Write};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::observe::{Counted, Observed, Place};
use crate::caches::PODS;
use crate::caches::views::Pod;
use crate::controllers::claims;
use crate::controllers::error::ReconcileError;
use crate::controllers::events;
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::plan::Plan;
use grove_runtime::report::{Report, Urgency};

/// Name of the controller, and source of its events.
pub(crate) const NAME: &str = "podclique-controller";
const FINALIZER: &str = finalizers::POD_CLIQUE;
/// Time after the grace period of a pod after which its node counts as lost, and nothing waits for the pod.
const LOST_NODE_DELAY: Duration = Duration::from_secs(30);

/// What a decision needs besides what was observed.
pub(super) struct Setup<'a> {
    /// Which pods are created and deleted, or why that is unknown.
    pub(super) balance: Result<PodBalance<'a>, ReconcileError>,
    /// What the scheduler needs in new pods, or why it is not available.
    pub(super) preparation: Result<Preparation, ReconcileError>,
    pub(super) init_image: Option<&'a str>,
    pub(super) handling: PodHandling,
    /// Why no pods are created for now: the API server refused them.
    pub(super) refused: Option<ReconcileError>,
}

/// How the pods of a gang are created, deleted and released, because the scheduler counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodHandling {
    pub(super) surplus: Surplus,
    /// Pods of the gang wait for the scheduler, and would wait for a gated pod even after its deletion.
    pub(super) ungate_first: bool,
    /// The gang is recreated and waits for its former pods until then.
    pub(super) gated_until: Option<Timestamp>,
}

/// The pods above the minimum of the gang's member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Surplus {
    /// Pods from this index on are not created yet.
    pub(super) held_from: Option<u32>,
    /// Pods below this index are deleted last.
    pub(super) kept_below: u32,
}

/// How the pods of the gang are handled at `now`.
pub(super) fn handling(observed: &Observed, now: Timestamp) -> PodHandling {
    let Some(Counted { rules, pods, minimum, former_pods }) = observed.counted else {
        return PodHandling::default();
    };
    let is_first = gang::creates_minimum_first(rules.minimum_first, pods);
    let surplus = Surplus {
        held_from: minimum.filter(|_| is_first),
        kept_below: minimum.filter(|_| rules.by_index).unwrap_or_default(),
    };
    let gated_until = former_pods.map(|gone_by| gone_by + LOST_NODE_DELAY);
    PodHandling {
        surplus,
        ungate_first: rules.gated_pods_block && pods.waiting,
        gated_until: gated_until.filter(|until| now < *until),
    }
}

/// Which pods are created and deleted.
#[derive(Default)]
pub(super) struct PodBalance<'o> {
    balance: Balance<'o>,
    /// Some pods are not created yet.
    is_held: bool,
    /// One of the pods to create, for the scheduler backend. None when none is created or none can be built,
    /// which [`decide`] reports.
    pub(super) draft: Option<Value>,
}

/// Compares the pods of a PodClique with `spec.replicas`.
pub(super) fn balance(
    observed: &Observed,
    surplus: Surplus,
) -> Result<PodBalance<'_>, ReconcileError> {
    let Object { meta, object } = &*observed.clique;
    let Some(place) = observed.place.as_ref().filter(|_| !meta.deleting) else {
        return Ok(PodBalance::default());
    };
    // The schema refuses negative numbers.
    let desired = u32::try_from(object.spec.replicas).unwrap_or(0);
    let (hash, kept) = (&place.template_hash, surplus.kept_below);
    let mut balance = pods::balance(&meta.key.name, desired, hash, kept, &observed.pods)
        .map_err(|error| ReconcileError::rule(error.code(), error))?;
    let missing = balance.create.len();
    balance.create.retain(|index| surplus.held_from.is_none_or(|from| *index < from));
    let is_held = balance.create.len() < missing;
    let draft = |index: &u32| pods::draft(&pod_context(observed, place, None), *index).ok();
    let draft = balance.create.first().and_then(draft);
    Ok(PodBalance { balance, is_held, draft })
}

/// What to do about a PodClique.
#[derive(Default)]
pub(super) struct Decision {
    pub(super) plan: Plan,
    /// What cannot be done before a user changes something.
    pub(super) problem: Option<ReconcileError>,
    /// Some pods are held back by their gate.
    pub(super) waits: bool,
}

/// Decides about the finalizer, the pods and their gates.
pub(super) fn decide(observed: &Observed, setup: &Setup<'_>) -> Decision {
    if observed.clique.meta.deleting {
        return Decision { plan: tear_down(observed), ..Decision::default() };
    }
    let Some(place) = &observed.place else {
        return Decision::default();
    };
    if let Some(pods) = update::clique::pods_to_adopt(&place.update(observed), &place.rollout()) {
        return Decision { plan: adopt(observed, place, &pods), ..Decision::default() };
    }
    let unbalanced = PodBalance::default();
    let mut problem = setup.balance.as_ref().err().cloned();
    let PodBalance { balance, is_held, .. } = setup.balance.as_ref().unwrap_or(&unbalanced);
    let creates = creates(observed, place, setup, &balance.create).unwrap_or_else(|error| {
        problem = Some(error);
        Vec::new()
    });
    let claims = claims(observed, place);
    problem = problem.or(claims.problem);
    let name = &observed.clique.meta.key.name;
    let mut gates = gang::gates(name, &observed.pods, place.gang());
    if setup.handling.gated_until.is_some() && !gates.lift.is_empty() {
        gates = GateDecision { lift: Vec::new(), hold: Some(Hold::FormerPods) };
    }
    let outdated = update::clique::outdated(&place.update(observed), &place.rollout());
    let goes =
        |pod: &ObservedPod| [&balance.delete, &outdated].iter().any(|all| all.contains(&pod));
    let lifted = gates.lift.iter().filter(|pod| !goes(pod));

    let mut plan = Plan::default();
    plan.step(converge::add_finalizer(&observed.clique, FINALIZER, "restore the finalizer"));
    let outdated = outdated.iter().filter(|pod| !balance.delete.contains(pod));
    let deletes = (balance.delete.iter().map(|pod| (pod, "one too many")))
        .chain(outdated.map(|pod| (pod, "its template is outdated")));
    let deletes: Vec<_> = deletes.collect();
    let blocking = deletes.iter().filter(|(pod, _)| setup.handling.ungate_first && pod.has_gate);
    plan.step(blocking.filter_map(|(pod, _)| lift(observed, pod)));
    let deletes = deletes.into_iter().filter_map(|(pod, reason)| {
        Some(converge::delete(PODS, observed.stored.get(&pod.name)?.meta(), reason))
    });
    let lifts = lifted.filter_map(|pod| lift(observed, pod));
    let staying = observed.pods.iter().filter(|pod| !goes(pod));
    let labels = restore_labels(observed, staying);
    plan.step(claims.writes.into_iter().chain(creates).chain(deletes).chain(lifts).chain(labels));
    Decision { plan, problem, waits: gates.hold.is_some() || claims.waits || *is_held }
}

fn claims(observed: &Observed, place: &Place) -> claims::Decision {
    if observed.claims.is_empty() {
        return claims::Decision::default();
    }
    let owner = owner::of_clique(&observed.clique.object);
    let layout = Layout::of(&place.set.object);
    claims::decide(&observed.claims, &layout, &owner, &ErrorCode::SyncPclqResourceClaim)
}

/// Writes our hash of the template to the pods of another implementation, then to the PodClique.
fn adopt(observed: &Observed, place: &Place, pods: &[&ObservedPod]) -> Plan {
    let hash = [(labels::POD_TEMPLATE_HASH, place.template_hash.as_str())];
    let reason = "taken over from another implementation";
    let mut plan = Plan::default();
    plan.step(pods.iter().filter_map(|pod| {
        let meta = observed.stored.get(&pod.name)?.meta();
        converge::labels(PODS, meta, hash, reason)
    }));
    let resource = Resource::of::<PodClique>();
    plan.step(converge::labels(resource, &observed.clique.meta, hash, reason));
    plan
}

/// The status, if it differs from the stored one.
pub(super) fn report<'o>(
    observed: &'o Observed,
    place: &Place,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> Option<Report<'o, PodCliqueStatus>> {
    let Object { meta, object: clique } = &*observed.clique;
    let facts = CliqueFacts {
        set: &place.set.meta.key.name,
        clique: place.update(observed),
        rollout: place.rollout(),
        had_minimum: observed.had_minimum,
    };
    let status = status::pod_clique(&facts, outcome, now);
    let stored = clique.status.as_ref();
    if stored == Some(&status) {
        return None;
    }
    let before = stored.map_or(0, |status| status.scheduled_replicas);
    let scheduled = (before, status.scheduled_replicas);
    let desired = clique.spec.replicas;
    let lost = events::all_scheduled_lost(&observed.clique, "pods", scheduled, desired);
    let urgent = lost.is_some() || status::is_urgent_for_clique(clique, &status);
    let ready = stored.map(|status| status.ready_replicas);
    // A recreated PodClique ends the breach of its predecessor.
    let reports_recovery = place.reports_recovery(&observed.clique);
    let recovers = |status| reports_recovery && is_recovering(clique, status);
    let before = clique_breached_since(clique).is_some() || recovers(stored);
    let after = clique_will_be_breached_since(&status).is_some() || recovers(Some(&status));
    let breach = events::breach(&observed.clique, &place.set, (before, after), &status.conditions);
    let is_new = stored.and_then(|stored| stored.observed_generation) != status.observed_generation;
    let counts = (clique.spec.replicas, clique.spec.min_available.unwrap_or_default());
    let low = events::scaled_below_minimum(&observed.clique, &place.set, counts, is_new);
    let events = lost.into_iter().chain(breach).chain(low).collect();
    let (resource, urgency) = (Resource::of::<PodClique>(), Urgency::of(urgent, ready));
    Some(Report { resource, meta, stored, desired: status, urgency, events, component: NAME })
}

/// Deletes the pods and removes our finalizer. The garbage collector would delete the pods later, after the
/// PodClique.
fn tear_down(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    if !observed.clique.has_finalizer(finalizers::ORPHAN) {
        let staying = observed.pods.iter().filter(|pod| !pod.deleting);
        let reason = "the PodClique is being deleted";
        plan.step(staying.filter_map(|pod| {
            let stored = observed.stored.get(&pod.name)?;
            Some(converge::delete_with_owner(PODS, stored.meta(), reason))
        }));
        plan.step(claims::remove_with_owner(&observed.claims, &observed.clique.meta.uid));
    }
    plan.step(converge::remove_finalizer(&observed.clique, FINALIZER, "the pods are deleted"));
    plan
}

/// The mutable inputs of a PodClique's pods, as a key. Equal keys mean equal pods.
pub(super) fn template_key(clique: &Object<PodClique>) -> String {
    let metadata = &clique.object.metadata;
    let texts = (&metadata.labels, &metadata.annotations);
    format!("{} {:?} {texts:?}", clique.meta.uid, metadata.generation)
}

/// Pods are built from the stored PodClique, not from the template of the set: while an update is
/// held back, missing pods are replaced by equal ones.
fn creates(
    observed: &Observed,
    place: &Place,
    setup: &Setup<'_>,
    indices: &[u32],
) -> Result<Vec<Write>, ReconcileError> {
    if indices.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(refused) = &setup.refused {
        return Err(refused.clone());
    }
    // A cluster without the API would run the pods without their claims.
    if let Some(absence) = &observed.claims.absence
        && !place.pod_claims.is_empty()
    {
        return Err(ReconcileError::rule(ErrorCode::SyncPclqResourceClaim, &absence.message));
    }
    let preparation = setup.preparation.as_ref().map_err(Clone::clone)?;
    let context = pod_context(observed, place, setup.init_image);
    let rule = |error: BuildError| ReconcileError::rule(error.code(), error);
    let create = |&index: &u32| {
        let mut body = pods::draft(&context, index).map_err(rule)?;
        preparation.apply(index, &mut body);
        place.pod_claims.add_to(index, &mut body);
        pods::finish(&context, index, &mut body).map_err(rule)?;
        Ok(Write {
            resource: PODS,
            // The API server completes `generateName`.
            key: ObjectKey::new(&observed.clique.meta.key.namespace, ""),
            verb: Verb::Create { body },
            reason: "one too few",
        })
    };
    indices.iter().map(create).collect()
}

fn pod_context<'a>(
    observed: &'a Observed,
    place: &'a Place,
    init_image: Option<&'a str>,
) -> PodContext<'a> {
    PodContext {
        set: &place.set.meta.key.name,
        set_replica: place.set_replica,
        pod_clique: &observed.clique.object,
        parents: &place.parents,
        init_image,
    }
}

/// Restores the labels that pods share with their PodClique.
fn restore_labels<'o>(
    observed: &'o Observed,
    pods: impl Iterator<Item = &'o ObservedPod>,
) -> Vec<Write> {
    let clique = &observed.clique.meta;
    let shared = labels::PLACE_OF_POD_CLIQUE.iter();
    let mut desired: Vec<(&str, &str)> =
        shared.filter_map(|key| Some((*key, clique.labels.get(key)?))).collect();
    desired.push((labels::POD_CLIQUE, &clique.key.name));
    let stored = pods.filter(|pod| !pod.deleting).filter_map(|pod| observed.stored.get(&pod.name));
    let restore = |pod: &Arc<Pod>| {
        let desired = desired.iter().copied();
        converge::labels(PODS, pod.meta(), desired, "restore the labels")
    };
    stored.filter_map(restore).collect()
}

/// Removes our gate and no other. If the list has changed meanwhile, the test of the patch fails and the
/// PodClique is reconciled again.
fn lift(observed: &Observed, pod: &ObservedPod) -> Option<Write> {
    let stored = observed.stored.get(&pod.name)?;
    let gate = format!("/spec/schedulingGates/{}", stored.gate_position?);
    let test = json!({
        "op": "test", "path": format!("{gate}/name"), "value": finalizers::SCHEDULING_GATE
    });
    let patch = json!([test, { "op": "remove", "path": gate }]);
    Some(Write {
        resource: PODS,
        key: stored.meta().key.clone(),
        verb: Verb::Json {
            patch: serde_json::from_value(patch).expect("these are two JSON patch operations"),
            only_if: Precondition::uid(&stored.meta().uid),
            subresource: None,
        },
        reason: "the gang is complete",
    })
}

#[cfg(test)]
mod tests;
