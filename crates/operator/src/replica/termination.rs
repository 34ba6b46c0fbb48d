//! Gang termination of one replica: whether it is time, and how it is done.
//!
//! First its groups say that it was terminated, then everything goes that was well, last what had lost
//! its minimum. So a termination that was interrupted is seen to be unfinished: something has lost its
//! minimum before its replica was terminated, and is still there.

use grove_api::{PodClique, PodCliqueScalingGroup};
use grove_core::layout::{self, Layout};
use grove_core::pods::ObservedPod;
use grove_core::termination::{
    self, Verdict, announced, clique_is_breached_since, group_is_breached_since, in_progress_since,
};
use grove_runtime::resource::Resource;
use grove_runtime::view::Meta;
use grove_runtime::write::Write;
use jiff::Timestamp;

use super::observe::Observed;
use crate::converge;
use crate::objects::Object;
use crate::plan::Plan;

/// Whether the replica has lost its minimum for too long.
pub(super) fn judge(seen: &Observed, layout: &Layout<'_>, now: Timestamp) -> Verdict {
    if is_unfinished(seen) {
        return Verdict::Terminate;
    }
    let standalone: Option<Vec<_>> = layout
        .standalone_cliques(seen.index)
        .iter()
        .map(|place| seen.cliques.get(&place.name).filter(|clique| !clique.meta.deleting))
        .collect();
    // Some of it is being made anew.
    let Some(standalone) = standalone else { return Verdict::Stay };
    let standalone = standalone.into_iter().filter(|clique| is_owned(seen, &clique.meta));
    let cliques = standalone.filter_map(|clique| breached_since(seen, clique));
    let groups = groups(seen).filter_map(|group| group_breached(seen, layout, group));
    termination::verdict(cliques.chain(groups), termination::delay(&seen.set.object), now)
}

/// Terminates the replica: everything that runs is made anew. Groups, gangs and services stay.
pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    plan.step(groups(seen).filter_map(|group| {
        let status = announced(&group.object, seen.index, now);
        let resource = Resource::of::<PodCliqueScalingGroup>();
        converge::status(resource, &group.meta, group.object.status.as_ref(), &status)
    }));
    let is_breached = |clique: &&Object<PodClique>| breached_since(seen, clique).is_some();
    let (breached, well): (Vec<_>, Vec<_>) = cliques(seen).partition(is_breached);
    plan.step(well.into_iter().map(delete));
    plan.step(breached.into_iter().map(delete));
    plan
}

fn delete(clique: &Object<PodClique>) -> Write {
    let reason = "its replica was below its minimum for the termination delay";
    converge::delete(Resource::of::<PodClique>(), &clique.meta, reason)
}

fn is_unfinished(seen: &Observed) -> bool {
    let Some(terminated) = groups(seen).filter_map(|one| in_progress_since(&one.object)).max()
    else {
        return false;
    };
    let breached = cliques(seen).filter_map(|clique| breached_since(seen, clique));
    breached.into_iter().any(|since| since <= terminated)
}

fn pods<'o>(seen: &'o Observed, clique: &Object<PodClique>) -> &'o [ObservedPod] {
    seen.pods.get(&*clique.meta.key.name).map(Vec::as_slice).unwrap_or_default()
}

fn breached_since(seen: &Observed, clique: &Object<PodClique>) -> Option<Timestamp> {
    clique_is_breached_since(&clique.object, pods(seen, clique))
}

fn group_breached(
    seen: &Observed,
    layout: &Layout<'_>,
    group: &Object<PodCliqueScalingGroup>,
) -> Option<Timestamp> {
    let name = |one: &&layout::Group<'_>| {
        layout.scaling_group_name(seen.index, one) == *group.meta.key.name
    };
    let place = layout.groups().iter().find(name)?;
    let count = u32::try_from(group.object.spec.replicas).unwrap_or_default();
    let member = |place: &layout::Clique<'_>| {
        let live = seen.cliques.get(&place.name).filter(|live| !live.meta.deleting)?;
        Some((&live.object, pods(seen, live)))
    };
    let replicas: Vec<Vec<_>> = (0..count)
        .map(|replica| {
            layout.member_cliques(seen.index, place, replica).iter().map(member).collect()
        })
        .collect();
    group_is_breached_since(&group.object, &replicas)
}

fn groups(seen: &Observed) -> impl Iterator<Item = &Object<PodCliqueScalingGroup>> {
    let groups = seen.groups.values().map(AsRef::as_ref);
    groups.filter(|group| is_owned(seen, &group.meta) && !group.meta.deleting)
}

/// The standalone cliques and the members of the groups.
fn cliques(seen: &Observed) -> impl Iterator<Item = &Object<PodClique>> {
    let is_ours = |meta: &Meta| {
        let member_of = |group: &&Object<PodCliqueScalingGroup>| {
            meta.controller.as_ref().is_some_and(|owner| owner.uid == group.meta.uid)
        };
        is_owned(seen, meta) || groups(seen).any(|group| member_of(&group))
    };
    let cliques = seen.cliques.values().map(AsRef::as_ref);
    cliques.filter(move |clique| !clique.meta.deleting && is_ours(&clique.meta))
}

fn is_owned(seen: &Observed, meta: &Meta) -> bool {
    meta.controller.as_ref().is_some_and(|owner| owner.uid == seen.set.meta.uid)
}
