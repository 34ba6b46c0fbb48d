//! Gang termination of one replica: when it is due, and its steps.
//!
//! One step per reconcile, each visible in the caches before the next: the base gang lists the PodCliques to
//! delete, the controllers of their groups report it, the PodCliques are deleted, and the list is removed. A
//! termination that is interrupted continues with the list, so a PodClique that was recreated meanwhile stays.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, annotations};
use grove_core::layout::{self, Layout};
use grove_core::pods::ObservedPod;
use grove_core::termination::{
    self, Consequence, clique_is_breached_since, group_is_breached_since, is_announced,
    recreated_replicas, terminating,
};
use grove_runtime::resource::Resource;
use grove_runtime::write::Write;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::observe::Observed;
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::plan::Plan;

/// Whether the replica has lost its minimum for too long, or is being terminated.
pub(super) fn consequence(observed: &Observed, layout: &Layout<'_>, now: Timestamp) -> Consequence {
    let Some(gang) = base_gang(observed, layout) else { return Consequence::Stay };
    if !terminating(&gang.object).is_empty() {
        return Consequence::Terminate;
    }
    let standalone: Option<Vec<_>> = layout
        .standalone_cliques(observed.index)
        .iter()
        .map(|place| observed.cliques.get(&place.name).filter(|clique| !clique.meta.deleting))
        .collect();
    // Some of it is being recreated.
    let Some(standalone) = standalone else { return Consequence::Stay };
    let (set, standalone) = (&observed.set.meta.uid, standalone.into_iter());
    let standalone = standalone.filter(|clique| clique.meta.is_controlled_by(set));
    let cliques = standalone
        .filter_map(|clique| clique_is_breached_since(&clique.object, pods(observed, clique)));
    let groups = groups(observed).filter_map(|group| group_breached(observed, layout, group));
    termination::consequence(cliques.chain(groups), termination::delay(&observed.set.object), now)
}

/// The next step of the termination, and whether it deletes the PodCliques. Groups, gangs and services stay.
pub(super) fn plan(observed: &Observed, layout: &Layout<'_>) -> (Plan, bool) {
    let mut plan = Plan::default();
    let Some(gang) = base_gang(observed, layout) else { return (plan, false) };
    let listed = terminating(&gang.object);
    if listed.is_empty() {
        let all: BTreeSet<&str> = cliques(observed).map(|clique| &*clique.meta.uid.0).collect();
        let list = all.into_iter().collect::<Vec<_>>().join(",");
        let replicas = scaled_replicas(observed, layout);
        let replicas = (!replicas.is_empty()).then(|| json!(replicas).to_string());
        plan.step([annotate(
            gang,
            &json!({
                annotations::TERMINATING_POD_CLIQUES: list,
                annotations::RECREATED_REPLICAS: replicas,
            }),
        )]);
        return (plan, false);
    }
    let is_listed = |clique: &&Object<PodClique>| listed.contains(&*clique.meta.uid.0);
    let left: Vec<_> = cliques(observed).filter(is_listed).collect();
    let is_silent = |group: &Object<_>| has_member(group, &left) && !is_announced(&group.object);
    if groups(observed).any(is_silent) {
        // The controller of the group reports the termination, and that wakes the replica.
        return (plan, false);
    }
    if left.is_empty() {
        plan.step([annotate(gang, &json!({ annotations::TERMINATING_POD_CLIQUES: null }))]);
        return (plan, false);
    }
    plan.step(left.into_iter().map(|clique| {
        let reason = "its replica was below its minimum for the termination delay";
        converge::delete(Resource::of::<PodClique>(), &clique.meta, reason)
    }));
    (plan, true)
}

/// Forgets how many pods PodCliques are recreated with, once all of them exist.
pub(super) fn forget_replicas(observed: &Observed, layout: &Layout<'_>) -> Option<Write> {
    let gang = base_gang(observed, layout)?;
    let recorded = recreated_replicas(&gang.object);
    let exists = |name: &String| observed.cliques.get(name).is_some_and(|one| !one.meta.deleting);
    let is_over = !recorded.is_empty() && recorded.keys().all(exists);
    is_over.then(|| annotate(gang, &json!({ annotations::RECREATED_REPLICAS: null })))
}

/// The replicas of standalone cliques that a user or autoscaler scaled, by name.
fn scaled_replicas<'o>(observed: &'o Observed, layout: &Layout<'_>) -> BTreeMap<&'o str, i32> {
    let standalone = layout.standalone_cliques(observed.index);
    let scaled = standalone.iter().filter_map(|place| {
        let (name, live) = observed.cliques.get_key_value(&place.name)?;
        let replicas = live.object.spec.replicas;
        (replicas != place.template.spec.replicas).then_some((name.as_str(), replicas))
    });
    scaled.collect()
}

fn annotate(gang: &Object<PodGang>, texts: &Value) -> Write {
    converge::annotations(Resource::of::<PodGang>(), &gang.meta, texts, "gang termination")
}

fn base_gang<'o>(observed: &'o Observed, layout: &Layout<'_>) -> Option<&'o Object<PodGang>> {
    let gang = observed.gangs.get(&layout.base_gang_name(observed.index))?;
    Some(&**gang)
        .filter(|gang| gang.meta.is_controlled_by(&observed.set.meta.uid) && !gang.meta.deleting)
}

fn has_member(group: &Object<PodCliqueScalingGroup>, cliques: &[&Object<PodClique>]) -> bool {
    cliques.iter().any(|clique| clique.meta.owner_uid() == Some(&group.meta.uid))
}

fn pods<'o>(observed: &'o Observed, clique: &Object<PodClique>) -> &'o [ObservedPod] {
    observed.pods.get(&*clique.meta.key.name).map(Vec::as_slice).unwrap_or_default()
}

fn group_breached(
    observed: &Observed,
    layout: &Layout<'_>,
    group: &Object<PodCliqueScalingGroup>,
) -> Option<Timestamp> {
    let name = |one: &&layout::Group<'_>| {
        layout.scaling_group_name(observed.index, one) == *group.meta.key.name
    };
    let place = layout.groups().iter().find(name)?;
    let count = u32::try_from(group.object.spec.replicas).unwrap_or_default();
    let member = |place: &layout::Clique<'_>| {
        let live = observed.cliques.get(&place.name).filter(|live| !live.meta.deleting)?;
        Some((&live.object, pods(observed, live)))
    };
    let replicas: Vec<Vec<_>> = (0..count)
        .map(|replica| {
            layout.member_cliques(observed.index, place, replica).iter().map(member).collect()
        })
        .collect();
    group_is_breached_since(&group.object, &replicas)
}

fn groups(observed: &Observed) -> impl Iterator<Item = &Object<PodCliqueScalingGroup>> {
    let (set, groups) = (&observed.set.meta.uid, observed.groups.values().map(AsRef::as_ref));
    groups.filter(|group| group.meta.is_controlled_by(set) && !group.meta.deleting)
}

/// The standalone cliques and the members of the groups.
fn cliques(observed: &Observed) -> impl Iterator<Item = &Object<PodClique>> {
    let is_ours = |clique: &Object<PodClique>| {
        clique.meta.is_controlled_by(&observed.set.meta.uid)
            || groups(observed).any(|group| has_member(group, &[clique]))
    };
    let cliques = observed.cliques.values().map(AsRef::as_ref);
    cliques.filter(move |clique| !clique.meta.deleting && is_ours(clique))
}
