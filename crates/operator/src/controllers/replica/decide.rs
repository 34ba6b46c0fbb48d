//! What one replica of a set needs: the whole pipeline of its gangs, without IO.
//!
//! All writes of one pass are independent of each other: children name each other but do not need
//! each other to exist. Gangs are there from the first pass on, before any pod can be.

use std::collections::BTreeSet;

use grove_api::error_code::ErrorCode;
use grove_api::pod_gang::PodGangStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::children::{self, owner};
use grove_core::layout::{self, Layout};
use grove_core::termination::{Verdict, mark_recreated, recreated_replicas};
use grove_core::update;
use grove_runtime::resource::Resource;
use grove_runtime::view::{Meta, View};
use grove_runtime::write::Write;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::observe::Observed;
use super::termination;
use crate::caches::{AUTOSCALERS, ByName, SERVICES};
use crate::controllers::claims;
use crate::controllers::compute_domains;
use crate::controllers::error::ReconcileError;
use grove_runtime::converge::{self, OwnKind};
use grove_runtime::object::{JsonObject, Object};
use grove_runtime::plan::Plan;
use grove_runtime::report::Report;

const REASON: &str = "what the set says";

/// What to do about a replica.
#[derive(Default)]
pub(super) struct Decision<'o> {
    pub(super) plan: Plan,
    /// What cannot be done besides the plan.
    pub(super) refused: Option<ReconcileError>,
    /// The plan deletes the PodCliques of the replica, to recreate them.
    pub(super) terminates: bool,
    /// When the replica is terminated if it does not recover.
    pub(super) deadline: Option<Timestamp>,
    /// The statuses of the gangs, as their pods show them, when nothing else is left to write.
    pub(super) reports: Vec<GangReport<'o>>,
}

/// Decides about one replica.
pub(super) fn decide(seen: &Observed, now: Timestamp) -> Decision<'_> {
    let layout = Layout::of(&seen.set.object);
    let mut plan = Plan::default();
    let set_owner = owner::of_set(&seen.set.object);
    let (mut writes, refused) = resources(seen, &layout, &set_owner);
    if seen.index >= layout.replicas() {
        writes.extend(remove_all(seen));
        plan.step(writes);
        return Decision { plan, ..Decision::default() };
    }
    let mut deadline = None;
    match termination::judge(seen, &layout, now) {
        Verdict::Stay => {}
        Verdict::Wait(end) => deadline = Some(end),
        Verdict::Terminate => {
            let (plan, terminates) = termination::plan(seen, &layout);
            return Decision { plan, terminates, ..Decision::default() };
        }
    }
    if let Some(write) = termination::forget_replicas(seen, &layout) {
        plan.step([write]);
        return Decision { plan, deadline, ..Decision::default() };
    }
    let mut wanted = Wanted { seen, writes, refused, reports: Vec::new() };
    let service = children::headless_service(&layout, seen.index);
    wanted.part(&SERVICES, &seen.services, service);
    for autoscaler in children::autoscalers(&layout, seen.index) {
        wanted.part(&AUTOSCALERS, &seen.autoscalers, autoscaler);
    }
    let hashes = &seen.set.hashes().templates;
    let held_back = update::is_held_back(&seen.set.object, &seen.set.hashes().generation);
    for place in layout.standalone_cliques(seen.index) {
        let live = seen.cliques.get(&place.name).map(|live| &live.object);
        let generation = &seen.set.hashes().generation;
        let is_taken_over = |live| update::is_taken_over(&seen.set.object, generation, live);
        if live.is_some_and(|live| held_back || is_taken_over(live)) {
            continue;
        }
        let hash = hashes.get(&place.template.name).map(String::as_str).unwrap_or_default();
        let mut clique = children::pod_clique(&layout, &place, hash, &set_owner, live);
        // A pod with a start-order container cannot start before the token is there.
        if live.is_none() && !clique.spec.starts_after.is_empty() && !seen.has_token {
            continue;
        }
        if seen.compute_domains.is_some() {
            children::compute_domains::join(&layout, &place, &mut clique.spec.pod_spec);
        }
        if live.is_none() {
            let gang = seen.gangs.get(&place.gang).map(|gang| &gang.object);
            let recorded = gang.map(recreated_replicas).unwrap_or_default();
            clique.spec.replicas =
                recorded.get(&place.name).copied().unwrap_or(clique.spec.replicas);
            mark_recreated(&mut clique, gang);
        }
        wanted.own(&seen.cliques, &clique);
    }
    for group in layout.groups() {
        let name = layout.scaling_group_name(seen.index, group);
        let live = seen.groups.get(&name).map(|live| &live.object);
        wanted.own(&seen.groups, &children::scaling_group(&layout, seen.index, group, live));
    }
    let gangs = gangs(&layout, seen);
    for place in &gangs {
        wanted.gang(&layout, place, now);
    }
    wanted.remove_others(&layout, &gangs);
    plan.step(wanted.writes);
    let Wanted { refused, reports, .. } = wanted;
    Decision { plan, refused, terminates: false, deadline, reports }
}

/// What becomes of claims and ComputeDomains, and why some cannot be made.
fn resources(
    seen: &Observed,
    layout: &Layout<'_>,
    owner: &OwnerReference,
) -> (Vec<Write>, Option<ReconcileError>) {
    let claims = claims::decide(&seen.claims, layout, owner, &ErrorCode::SyncPcsResourceClaim);
    let (mut writes, problem) = (claims.writes, claims.problem);
    let Some(live) = &seen.compute_domains else { return (writes, problem) };
    let is_wanted = seen.index < layout.replicas();
    let wanted = is_wanted.then(|| children::compute_domains::compute_domains(layout, seen.index));
    let (domains, without_domain) =
        compute_domains::decide(live, &wanted.unwrap_or_default(), &seen.set.meta.uid);
    writes.extend(domains);
    (writes, problem.or(without_domain))
}

/// The base gang and the scaled gangs, for the groups as large as they are now.
fn gangs<'a>(layout: &Layout<'a>, seen: &Observed) -> Vec<layout::Gang<'a>> {
    let mut gangs = vec![layout.base_gang(seen.index)];
    for group in layout.groups() {
        let live = seen.groups.get(&layout.scaling_group_name(seen.index, group));
        let replicas = live.map_or_else(
            || group.initial_replicas(),
            |live| u32::try_from(live.object.spec.replicas).unwrap_or_default(),
        );
        gangs.extend(layout.scaled_gangs(seen.index, group, replicas));
    }
    gangs
}

/// A gang, and its status if it differs from the stored one.
pub(super) type GangReport<'o> = (&'o Object<PodGang>, Option<Report<'o, PodGangStatus>>);

/// The desired children of a replica, compared with the live ones one by one.
pub(super) struct Wanted<'s> {
    pub(super) seen: &'s Observed,
    pub(super) writes: Vec<Write>,
    /// The first object of another owner that has the name of a child.
    refused: Option<ReconcileError>,
    pub(super) reports: Vec<GangReport<'s>>,
}

impl Wanted<'_> {
    pub(super) fn own<K>(&mut self, live: &ByName<Object<K>>, wanted: &K)
    where
        K: OwnKind + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let name = wanted.meta().name.as_deref().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(&Resource::of::<K>(), live) {
            self.writes.extend(converge::whole(wanted, live, REASON));
        }
    }

    fn part(&mut self, resource: &Resource, live: &ByName<JsonObject>, wanted: Value) {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(resource, live) {
            let live = live.map(|live| (live.meta(), live.value()));
            let live = live.as_ref().map(|(meta, value)| (*meta, value));
            self.writes.extend(converge::fields(resource.clone(), wanted, live, REASON));
        }
    }

    /// Whether an object may be created or changed now. One that is going away is waited for, one
    /// of somebody else is left alone and reported.
    pub(super) fn may_write<T: View>(&mut self, resource: &Resource, live: Option<&T>) -> bool {
        let Some(meta) = live.map(View::meta) else { return true };
        if meta.deleting || meta.is_controlled_by(&self.seen.set.meta.uid) {
            return !meta.deleting;
        }
        let owner = meta.controller.as_ref();
        let owner = owner.map_or_else(|| "nobody".to_owned(), |o| format!("{} {}", o.kind, o.name));
        let set = &self.seen.set.meta.key;
        let text = format!(
            "{resource} {} belongs to {owner}, not to PodCliqueSet {set}; rename one of the two",
            meta.key
        );
        let refused = || ReconcileError::rule(ErrorCode::SetControllerReference, text);
        self.refused.get_or_insert_with(refused);
        false
    }

    /// Deletes what is of this replica and not wanted any more.
    fn remove_others(&mut self, layout: &Layout<'_>, gangs: &[layout::Gang<'_>]) {
        let seen = self.seen;
        let gangs: BTreeSet<&str> = gangs.iter().map(|gang| gang.name.as_str()).collect();
        let standalone: BTreeSet<String> =
            layout.standalone_cliques(seen.index).into_iter().map(|clique| clique.name).collect();
        let groups: BTreeSet<String> =
            layout.groups().iter().map(|one| layout.scaling_group_name(seen.index, one)).collect();
        let autoscalers: BTreeSet<String> = children::autoscalers(layout, seen.index)
            .iter()
            .filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        self.writes.extend(remove(seen, &Resource::of::<PodGang>(), &seen.gangs, |name| {
            gangs.contains(name)
        }));
        self.writes.extend(remove(seen, &Resource::of::<PodClique>(), &seen.cliques, |name| {
            standalone.contains(name)
        }));
        let resource = Resource::of::<PodCliqueScalingGroup>();
        self.writes.extend(remove(seen, &resource, &seen.groups, |name| groups.contains(name)));
        self.writes.extend(remove(seen, &AUTOSCALERS, &seen.autoscalers, |name| {
            autoscalers.contains(name)
        }));
    }
}

/// Deletes of the set's own objects that are not to be kept and not on their way out.
fn remove<T: View>(
    seen: &Observed,
    resource: &Resource,
    live: &ByName<T>,
    keep: impl Fn(&str) -> bool,
) -> Vec<Write> {
    // Members of groups, for example, are not controlled by the set itself.
    let is_owned = |meta: &Meta| meta.is_controlled_by(&seen.set.meta.uid);
    live.iter()
        .filter(|(name, one)| !keep(name) && !one.meta().deleting && is_owned(one.meta()))
        .map(|(_, one)| converge::delete(resource.clone(), one.meta(), "the set no longer has it"))
        .collect()
}

/// Services first: as long as one is there, every pod that goes makes others write its address out of it.
fn remove_all(seen: &Observed) -> Vec<Write> {
    let none = |_: &str| false;
    [
        remove(seen, &SERVICES, &seen.services, none),
        remove(seen, &Resource::of::<PodGang>(), &seen.gangs, none),
        remove(seen, &Resource::of::<PodClique>(), &seen.cliques, none),
        remove(seen, &Resource::of::<PodCliqueScalingGroup>(), &seen.groups, none),
        remove(seen, &AUTOSCALERS, &seen.autoscalers, none),
    ]
    .concat()
}

#[cfg(test)]
mod tests;
