//! Decides about one replica of a set, without IO.
//!
//! All writes of one pass are independent of each other: children name each other but do not need
//! each other to exist. Gangs are created in the first pass, before any pod.

use std::collections::BTreeSet;

use grove_api::error_code::ErrorCode;
use grove_api::pod_gang::PodGangStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_core::children::{self, owner};
use grove_core::layout::{self, Layout};
use grove_core::termination::{Consequence, mark_recreated, recreated_replicas};
use grove_core::update;
use grove_runtime::resource::{Resource, Uid};
use grove_runtime::view::{Meta, View};
use grove_runtime::write::Write;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::observe::Observed;
use super::termination;
use crate::caches::views::Hashes;
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
pub(super) fn decide(observed: &Observed, now: Timestamp) -> Decision<'_> {
    let layout = Layout::of(&observed.set.object);
    let mut plan = Plan::default();
    let set_owner = owner::of_set(&observed.set.object);
    let (mut writes, refused) = resources(observed, &layout, &set_owner);
    if observed.index >= layout.replicas() {
        writes.extend(remove_all(observed));
        plan.step(writes);
        return Decision { plan, ..Decision::default() };
    }
    let mut deadline = None;
    match termination::consequence(observed, &layout, now) {
        Consequence::Stay => {}
        Consequence::Wait(end) => deadline = Some(end),
        Consequence::Terminate => {
            let (plan, terminates) = termination::plan(observed, &layout);
            return Decision { plan, terminates, ..Decision::default() };
        }
    }
    if let Some(write) = termination::forget_replicas(observed, &layout) {
        plan.step([write]);
        return Decision { plan, deadline, ..Decision::default() };
    }
    let mut desired = DesiredChildren { observed, writes, refused, reports: Vec::new() };
    let service = children::headless_service(&layout, observed.index);
    desired.part(&SERVICES, &observed.services, service);
    for autoscaler in children::autoscalers(&layout, observed.index) {
        desired.part(&AUTOSCALERS, &observed.autoscalers, autoscaler);
    }
    let (set, Hashes { templates, generation }) = (&observed.set.object, observed.set.hashes());
    let held_back = update::is_held_back(set, generation);
    for place in layout.standalone_cliques(observed.index) {
        let live = observed.cliques.get(&place.name).map(|live| &live.object);
        let awaits_adoption = |live| update::awaits_adoption(set, generation, live);
        if live.is_some_and(|live| held_back || awaits_adoption(live)) {
            continue;
        }
        let hash = templates.get(&place.template.name).map(String::as_str).unwrap_or_default();
        let mut clique = children::pod_clique(&layout, &place, hash, &set_owner, live);
        // A pod with a start-order container cannot start before the token exists.
        if live.is_none() && !clique.spec.starts_after.is_empty() && !observed.has_token {
            continue;
        }
        if observed.compute_domains.is_some() {
            children::compute_domains::join(&layout, &place, &mut clique.spec.pod_spec);
        }
        if live.is_none() {
            let gang = observed.gangs.get(&place.gang).map(|gang| &gang.object);
            let recorded = gang.map(recreated_replicas).unwrap_or_default();
            clique.spec.replicas =
                recorded.get(&place.name).copied().unwrap_or(clique.spec.replicas);
            mark_recreated(&mut clique, gang);
        }
        desired.own(&observed.cliques, &clique);
    }
    for group in layout.groups() {
        let name = layout.scaling_group_name(observed.index, group);
        let live = observed.groups.get(&name).map(|live| &live.object);
        let group = children::scaling_group(&layout, observed.index, group, live);
        desired.own(&observed.groups, &group);
    }
    let gangs = gangs(&layout, observed);
    for place in &gangs {
        desired.gang(&layout, place, now);
    }
    desired.remove_others(&layout, &gangs);
    plan.step(desired.writes);
    let DesiredChildren { refused, reports, .. } = desired;
    Decision { plan, refused, terminates: false, deadline, reports }
}

/// The writes of claims and ComputeDomains, and why some cannot be created.
fn resources(
    observed: &Observed,
    layout: &Layout<'_>,
    owner: &OwnerReference,
) -> (Vec<Write>, Option<ReconcileError>) {
    let claims = claims::decide(&observed.claims, layout, owner, &ErrorCode::SyncPcsResourceClaim);
    let (mut writes, problem) = (claims.writes, claims.problem);
    let Some(live) = &observed.compute_domains else { return (writes, problem) };
    let (index, rules) = (observed.index, children::compute_domains::compute_domains);
    let desired = (index < layout.replicas()).then(|| rules(layout, index));
    let (domains, without_domain) =
        compute_domains::decide(live, &desired.unwrap_or_default(), &observed.set.meta.uid);
    writes.extend(domains);
    (writes, problem.or(without_domain))
}

/// The base gang and the scaled gangs, by the current replicas of the groups.
fn gangs<'a>(layout: &Layout<'a>, observed: &Observed) -> Vec<layout::Gang<'a>> {
    let mut gangs = vec![layout.base_gang(observed.index)];
    for group in layout.groups() {
        let live = observed.groups.get(&layout.scaling_group_name(observed.index, group));
        let replicas = live.map_or_else(
            || group.initial_replicas(),
            |live| u32::try_from(live.object.spec.replicas).unwrap_or_default(),
        );
        gangs.extend(layout.scaled_gangs(observed.index, group, replicas));
    }
    gangs
}

/// A gang, and its status if it differs from the stored one.
pub(super) type GangReport<'o> = (&'o Object<PodGang>, Option<Report<'o, PodGangStatus>>);

/// The desired children of a replica, compared with the live ones one by one.
pub(super) struct DesiredChildren<'s> {
    pub(super) observed: &'s Observed,
    pub(super) writes: Vec<Write>,
    /// The first object of another owner that has the name of a child.
    refused: Option<ReconcileError>,
    pub(super) reports: Vec<GangReport<'s>>,
}

impl DesiredChildren<'_> {
    pub(super) fn own<K>(&mut self, live: &ByName<Object<K>>, desired: &K)
    where
        K: OwnKind + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let name = desired.meta().name.as_deref().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(&Resource::of::<K>(), live) {
            self.writes.extend(converge::whole(desired, live, REASON));
        }
    }

    fn part(&mut self, resource: &Resource, live: &ByName<JsonObject>, desired: Value) {
        let name = desired["metadata"]["name"].as_str().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(resource, live) {
            let live = live.map(|live| (live.meta(), live.value()));
            let live = live.as_ref().map(|(meta, value)| (*meta, value));
            self.writes.extend(converge::fields(resource.clone(), desired, live, REASON));
        }
    }

    /// Whether an object may be created or changed now. One that is being deleted is waited for, one of another
    /// owner is left alone and reported.
    pub(super) fn may_write<T: View>(&mut self, resource: &Resource, live: Option<&T>) -> bool {
        let Some(meta) = live.map(View::meta) else { return true };
        if meta.deleting || meta.is_controlled_by(&self.observed.set.meta.uid) {
            return !meta.deleting;
        }
        let owner = meta.controller.as_ref();
        let owner = owner.map_or_else(|| "nobody".to_owned(), |o| format!("{} {}", o.kind, o.name));
        let set = &self.observed.set.meta.key;
        let text = format!(
            "{resource} {} belongs to {owner}, not to PodCliqueSet {set}; rename one of the two",
            meta.key
        );
        let refused = || ReconcileError::rule(ErrorCode::SetControllerReference, text);
        self.refused.get_or_insert_with(refused);
        false
    }

    /// Deletes surplus objects of this replica.
    fn remove_others(&mut self, layout: &Layout<'_>, gangs: &[layout::Gang<'_>]) {
        let (observed, index) = (self.observed, self.observed.index);
        let gangs: BTreeSet<&str> = gangs.iter().map(|gang| gang.name.as_str()).collect();
        let standalone: BTreeSet<String> =
            layout.standalone_cliques(index).into_iter().map(|clique| clique.name).collect();
        let groups: BTreeSet<String> =
            layout.groups().iter().map(|one| layout.scaling_group_name(index, one)).collect();
        let autoscalers: BTreeSet<String> = children::autoscalers(layout, index)
            .iter()
            .filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        let set = &observed.set.meta.uid;
        self.writes.extend(remove(set, &Resource::of::<PodGang>(), &observed.gangs, |name| {
            gangs.contains(name)
        }));
        self.writes.extend(remove(set, &Resource::of::<PodClique>(), &observed.cliques, |name| {
            standalone.contains(name)
        }));
        let resource = Resource::of::<PodCliqueScalingGroup>();
        self.writes.extend(remove(set, &resource, &observed.groups, |name| groups.contains(name)));
        self.writes.extend(remove(set, &AUTOSCALERS, &observed.autoscalers, |name| {
            autoscalers.contains(name)
        }));
    }
}

/// Deletes the set's own objects that are neither kept nor being deleted.
fn remove<T: View>(
    set: &Uid,
    resource: &Resource,
    live: &ByName<T>,
    keep: impl Fn(&str) -> bool,
) -> Vec<Write> {
    // Members of groups, for example, are not controlled by the set itself.
    let is_owned = |meta: &Meta| meta.is_controlled_by(set);
    live.iter()
        .filter(|(name, one)| !keep(name) && !one.meta().deleting && is_owned(one.meta()))
        .map(|(_, one)| converge::delete(resource.clone(), one.meta(), "the set no longer has it"))
        .collect()
}

/// Services first: while one exists, every deleted pod causes another write of its endpoints.
fn remove_all(observed: &Observed) -> Vec<Write> {
    let (set, none) = (&observed.set.meta.uid, |_: &str| false);
    [
        remove(set, &SERVICES, &observed.services, none),
        remove(set, &Resource::of::<PodGang>(), &observed.gangs, none),
        remove(set, &Resource::of::<PodClique>(), &observed.cliques, none),
        remove(set, &Resource::of::<PodCliqueScalingGroup>(), &observed.groups, none),
        remove(set, &AUTOSCALERS, &observed.autoscalers, none),
    ]
    .concat()
}

#[cfg(test)]
mod tests;
