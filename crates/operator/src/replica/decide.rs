//! What one replica of a set needs: the whole pipeline of its gangs, without IO.
//!
//! All writes of one pass are independent of each other: children name each other but do not need
//! each other to exist. Gangs are there from the first pass on, before any pod can be.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::condition::pod_gang::INITIALIZED;
use grove_api::error_code::ErrorCode;
use grove_api::pod_gang::PodGangStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang};
use grove_backends::{Objects, Registry};
use grove_core::children::{self, owner};
use grove_core::gang::{self, Initialization, Member};
use grove_core::layout::{self, Layout};
use grove_core::pods::GangPods;
use grove_core::termination::{Verdict, mark_recreated, recreated_replicas};
use grove_core::update;
use grove_runtime::resource::Resource;
use grove_runtime::view::{Meta, View};
use grove_runtime::write::Write;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::object::HasSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::observe::Observed;
use super::termination;
use crate::claims;
use crate::coalesce::{Report, Urgency};
use crate::compute_domains;
use crate::converge;
use crate::objects::{Object, Raw};
use crate::plan::Plan;
use crate::reconcile::ReconcileError;
use crate::world::{AUTOSCALERS, ByName, SERVICES};

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
    /// What the pods of gangs show, once nothing else is left to write.
    pub(super) reports: Vec<Report<'o, PodGangStatus>>,
}

/// Decides about one replica.
pub(super) fn decide<'o>(
    seen: &'o Observed,
    backends: &Registry,
    objects: &dyn Objects,
    now: Timestamp,
) -> Decision<'o> {
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
            let (plan, terminates) = termination::plan(seen, &layout, now);
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
        wanted.gang(&layout, place, (backends, objects), now);
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

struct Wanted<'s> {
    seen: &'s Observed,
    writes: Vec<Write>,
    /// The first of the objects that are in the way.
    refused: Option<ReconcileError>,
    reports: Vec<Report<'s, PodGangStatus>>,
}

impl Wanted<'_> {
    fn own<K>(&mut self, live: &ByName<Object<K>>, wanted: &K)
    where
        K: kube::Resource<DynamicType = ()> + HasSpec<Spec: PartialEq>,
        K: Serialize + Clone + DeserializeOwned + Send + Sync + 'static,
        K::Scope: 'static,
    {
        let name = wanted.meta().name.as_deref().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(&Resource::of::<K>(), live) {
            self.writes.extend(converge::own(wanted, live, REASON));
        }
    }

    fn part(&mut self, resource: &Resource, live: &ByName<Raw>, wanted: Value) {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let live = live.get(name).map(AsRef::as_ref);
        if self.may_write(resource, live) {
            self.writes.extend(converge::part(resource.clone(), wanted, live, REASON));
        }
    }

    /// Whether an object may be created or changed now. One that is going away is waited for, one
    /// of somebody else is left alone and reported.
    fn may_write<T: View>(&mut self, resource: &Resource, live: Option<&T>) -> bool {
        let Some(meta) = live.map(View::meta) else { return true };
        if meta.deleting || is_owned(self.seen, meta) {
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

    fn gang(
        &mut self,
        layout: &Layout<'_>,
        place: &layout::Gang<'_>,
        (backends, objects): (&Registry, &dyn Objects),
        now: Timestamp,
    ) {
        let none = Vec::new();
        let pods = |clique: &str| self.seen.pods.get(clique).unwrap_or(&none);
        let live = self.seen.gangs.get(&place.name);
        let handling =
            live.and_then(|live| backends.for_gang(&live.object).handling(&live.object, objects));
        let minimum_first = handling.is_some_and(|handling| handling.minimum_first);
        let member = |name: &str| {
            let clique = self.seen.cliques.get(name).filter(|clique| !clique.meta.deleting)?;
            let mut wanted = u32::try_from(clique.object.spec.replicas).unwrap_or_default();
            if minimum_first {
                let mut members = place.cliques.iter();
                let minimum =
                    members.find(|one| one.name == name).map(layout::Clique::min_available);
                let minimum = minimum.and_then(|minimum| u32::try_from(minimum).ok());
                wanted = minimum.map_or(wanted, |minimum| wanted.min(minimum));
            }
            let missing_claim = self.seen.missing_claims.get(name).map(String::as_str);
            Some(Member { wanted, pods: pods(name), missing_claim })
        };
        let pending = live.is_some_and(|live| {
            let state = gang::initialization(&place.name, &live.object.spec, member);
            state == Initialization::PodsPending && !gang::is_initialized(&live.object)
        });
        let references: BTreeMap<_, _> = place
            .cliques
            .iter()
            // Nobody reads the references before they are complete: one write for all of them.
            .filter(|_| !pending)
            .map(|clique| {
                let references =
                    gang::references(layout.namespace(), &place.name, pods(&clique.name));
                (clique.name.clone(), references)
            })
            .collect();
        // A new gang says first that it is not complete, and only then gets its references.
        if live.is_none_or(|live| has_state(&live.object)) {
            let stored = live.map(|live| &live.object);
            let scheduler = backends.default_backend().name();
            let wanted = gang::pod_gang(layout, place, &references, scheduler, stored);
            let acted_on = |key: &str| backends.for_gang(&wanted).acts_on(key);
            let before = self.writes.len();
            if !stored.is_some_and(|stored| gang::can_wait(stored, &wanted, acted_on)) {
                self.own(&self.seen.gangs, &wanted);
            }
            if self.writes.len() > before {
                // The state is judged on what is stored, so it waits for what is being written.
                return;
            }
        }
        let Some(live) =
            live.filter(|_| self.may_write(&Resource::of::<PodGang>(), live.map(|live| &**live)))
        else {
            return;
        };
        let state = gang::initialization(&place.name, &live.object.spec, member);
        let stored = live.object.status.as_ref();
        let generation = live.object.metadata.generation;
        let mut names = place.cliques.iter().map(|clique| clique.name.as_str());
        let missing_claim = names.find_map(|name| self.seen.missing_claims.get(name));
        let missing_claim = missing_claim.map(String::as_str);
        let mut status = gang::status(stored, generation, now, state, missing_claim);
        let write = converge::status(Resource::of::<PodGang>(), &live.meta, stored, &status);
        if write.is_some() {
            self.writes.extend(write);
            return;
        }
        let members = place.cliques.iter().map(|one| (one.min_available(), pods(&one.name)));
        gang::report_pods(&mut status, GangPods::of(members), generation, now);
        if stored != Some(&status) {
            self.reports.push(Report {
                resource: Resource::of::<PodGang>(),
                meta: &live.meta,
                stored,
                wanted: status,
                urgency: Urgency::Idle,
                events: Vec::new(),
            });
        }
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

/// Whether a gang says whether it is complete.
fn has_state(gang: &PodGang) -> bool {
    let conditions = gang.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == INITIALIZED)
}

/// Whether the set itself controls an object. Members of groups, for example, it does not.
fn is_owned(seen: &Observed, meta: &Meta) -> bool {
    meta.controller.as_ref().is_some_and(|owner| owner.uid == seen.set.meta.uid)
}

/// Deletes of the set's own objects that are not to be kept and not on their way out.
fn remove<T: View>(
    seen: &Observed,
    resource: &Resource,
    live: &ByName<T>,
    keep: impl Fn(&str) -> bool,
) -> Vec<Write> {
    live.iter()
        .filter(|(name, one)| !keep(name) && !one.meta().deleting && is_owned(seen, one.meta()))
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
