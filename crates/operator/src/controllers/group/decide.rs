//! Decides about one group: its members first, its status when they need no more writes.
//!
//! Members are matched by exact name. A surplus member is deleted, a desired one that terminates is waited for,
//! and one of another owner is left alone and reported. Running members follow the template only with
//! `OnDelete`; a rolling update replaces them instead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use grove_api::error_code::ErrorCode;
use grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, finalizers, labels};
use grove_core::children::{self, owner};
use grove_core::layout::{Clique, Layout};
use grove_core::replicas::group_replica;
use grove_core::start_order;
use grove_core::status::{GroupFacts, Outcome, is_urgent_for_group, scaling_group};
use grove_core::termination::{
    self, Consequence, announced, clique_is_breached_since, group_breached_since,
    group_will_be_breached_since, is_announced, is_in_progress, terminating, will_be_in_progress,
};
use grove_core::update::group::{GroupUpdate, ReplicaUpdate};
use grove_core::update::{self, Rollout};
use grove_runtime::resource::Resource;
use grove_runtime::write::{Verb, Write};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observe::{Observed, Place};
use crate::caches::{ByName, replica_of};
use crate::controllers::claims;
use crate::controllers::error::ReconcileError;
use crate::controllers::events;
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::plan::{Acted, Plan};
use grove_runtime::report::{Report, Urgency};

/// Name of the controller, and source of its events.
pub(crate) const NAME: &str = "podcliquescalinggroup-controller";
const FINALIZER: &str = finalizers::POD_CLIQUE_SCALING_GROUP;

/// What to do about a group.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) plan: Plan,
    /// A desired member still terminates and cannot be recreated yet.
    pub(super) waits: bool,
    /// When a replica is terminated if it does not recover.
    pub(super) deadline: Option<Timestamp>,
    /// What cannot be done, besides the plan.
    pub(super) refused: Option<ReconcileError>,
}

/// Decides about the members and the finalizer of a group.
pub(super) fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if observed.group.meta.deleting {
        release(observed, &mut decision.plan);
    } else if let Some(place) = observed.place() {
        let reason = "its members have to be deleted first";
        decision.plan.step(converge::add_finalizer(&observed.group, FINALIZER, reason));
        sync_members(observed, &place, now, &mut decision);
        sync_claims(observed, &place, &mut decision);
    }
    decision
}

fn sync_claims(observed: &Observed, place: &Place<'_>, decision: &mut Decision) {
    let owner = owner::of_scaling_group(&observed.group.object);
    let code = ErrorCode::SyncPcsgResourceClaim;
    let claims = claims::decide(&observed.claims, &place.layout, &owner, &code);
    decision.plan.step(claims.writes);
    decision.waits |= claims.waits;
    decision.refused = decision.refused.take().or(claims.problem);
}

/// The report of a gang termination of the group's replica of the set, which the base gang lists and the group
/// does not report yet. The replica deletes the members when it is reported.
pub(super) fn announcement(
    observed: &Observed,
    now: Timestamp,
) -> Option<Report<'_, PodCliqueScalingGroupStatus>> {
    let Object { meta, object } = &*observed.group;
    let listed: BTreeSet<&str> =
        observed.gangs.values().flat_map(|gang| terminating(&gang.object)).collect();
    let is_listed = |clique: &Object<PodClique>| listed.contains(&*clique.meta.uid.0);
    let is_affected =
        observed.cliques.values().any(|clique| is_alive(observed, clique) && is_listed(clique));
    let set_replica = replica_of(meta).filter(|_| is_affected && !meta.deleting)?;
    let resource = Resource::of::<PodCliqueScalingGroup>();
    let (stored, urgency) = (object.status.as_ref(), Urgency::Now);
    (!is_announced(object)).then(|| {
        let desired = announced(object, set_replica, now);
        Report { resource, meta, stored, desired, urgency, events: Vec::new(), component: NAME }
    })
}

/// The status of a group that has a place, if it differs from the stored one.
pub(super) fn status<'o>(
    observed: &'o Observed,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> Option<Report<'o, PodCliqueScalingGroupStatus>> {
    let Object { meta, object } = &*observed.group;
    let place = observed.place().filter(|_| !meta.deleting)?;
    let rollout = rollout(&place);
    let replicas = states(observed, &place, &rollout);
    let group = GroupUpdate { object, set_replica: place.set_replica, replicas: &replicas };
    let facts = GroupFacts { set: place.layout.set_name(), group, rollout };
    let desired = scaling_group(&facts, outcome, now);
    let stored = object.status.as_ref();
    if stored == Some(&desired) {
        return None;
    }
    let before = stored.map_or(0, |status| status.scheduled_replicas);
    let scheduled = (before, desired.scheduled_replicas);
    let replicas = object.spec.replicas;
    let lost = events::all_scheduled_lost(&observed.group, "replicas", scheduled, replicas);
    let urgent = lost.is_some() || is_urgent_for_group(object, &desired);
    let available = stored.map(|status| status.available_replicas);
    // A recovery after a termination ends the breach too.
    let before = group_breached_since(object).is_some() || is_in_progress(object);
    let after = group_will_be_breached_since(&desired).is_some() || will_be_in_progress(&desired);
    let set = observed.set.as_deref()?;
    let breach = events::breach(&observed.group, set, (before, after), &desired.conditions);
    let generation = stored.and_then(|stored| stored.observed_generation);
    let is_new = generation != desired.observed_generation;
    let counts = (replicas, object.spec.min_available.unwrap_or(1));
    let low = events::scaled_below_minimum(&observed.group, set, counts, is_new);
    let events = lost.into_iter().chain(breach).chain(low).collect();
    let resource = Resource::of::<PodCliqueScalingGroup>();
    let urgency = Urgency::of(urgent, available);
    Some(Report { resource, meta, stored, desired, urgency, events, component: NAME })
}

/// The state of the set's update.
fn rollout<'a>(place: &Place<'a>) -> Rollout<'a> {
    Rollout::of(place.layout.set(), &place.hashes.generation)
}

/// The states of the group's replicas, for its status and its update.
fn states(observed: &Observed, place: &Place<'_>, rollout: &Rollout<'_>) -> Vec<ReplicaUpdate> {
    let hashes = &place.hashes.templates;
    let base_gang = observed.gangs.get(&place.layout.base_gang_name(place.set_replica));
    let terminating = base_gang.map(|gang| terminating(&gang.object)).unwrap_or_default();
    // Members that a termination is about to delete do not count.
    let counts = |clique: &Object<PodClique>| {
        observed.owns(clique) && !terminating.contains(&*clique.meta.uid.0)
    };
    let member = |name: &str| {
        let clique = observed.cliques.get(name).filter(|clique| counts(clique))?;
        Some(&clique.object)
    };
    let state = |members: &Vec<_>| {
        let reported = group_replica(members, member, hashes, rollout.generation_hash);
        update::group::replica(members, member, hashes, reported)
    };
    place.replicas.iter().map(state).collect()
}

/// Deletes the members and removes our finalizer.
fn release(observed: &Observed, plan: &mut Plan) {
    if !observed.group.has_finalizer(finalizers::ORPHAN) {
        let members = observed.cliques.values().filter(|clique| is_alive(observed, clique));
        plan.step(members.map(|clique| {
            let reason = "its scaling group is being deleted";
            converge::delete_with_owner(Resource::of::<PodClique>(), &clique.meta, reason)
        }));
        plan.step(claims::remove_with_owner(&observed.claims, &observed.group.meta.uid));
    }
    let reason = "its members are being deleted";
    plan.step(converge::remove_finalizer(&observed.group, FINALIZER, reason));
}

/// Deletes surplus members and creates missing ones, all at once.
fn sync_members(observed: &Observed, place: &Place<'_>, now: Timestamp, decision: &mut Decision) {
    let mut writes = surplus(observed, place);
    let replaced = replaced(observed, place, now, &mut decision.deadline);
    let template = Template::of(observed, place);
    let follows_template = follows_template(place);
    let members = place.replicas.iter().enumerate();
    let members = members.flat_map(|(index, replica)| replica.iter().map(move |one| (index, one)));
    for (index, member) in members {
        match observed.cliques.get(&member.name) {
            // A pod with a start-order container cannot start before the token exists.
            None if !observed.has_token && has_start_order(place, member) => decision.waits = true,
            None => writes.extend(template.write(member, None)),
            Some(live) if live.meta.deleting => decision.waits = true,
            Some(live) if !observed.owns(live) => {
                decision.refused.get_or_insert_with(|| taken(observed, live));
            }
            Some(live) if let Some(reason) = replaced.get(&index) => {
                writes.push(converge::delete(Resource::of::<PodClique>(), &live.meta, reason));
            }
            Some(live) if follows_template && !awaits_adoption(place, live) => {
                writes.extend(template.write(member, Some(live)));
            }
            Some(live) => writes.extend(template.restore_labels(member, live)),
        }
    }
    decision.plan.step(writes);
}

/// Whether the pods of a member have a start-order container.
fn has_start_order(place: &Place<'_>, member: &Clique<'_>) -> bool {
    !start_order::parents(&place.layout, member).is_empty()
}

/// Whether running members are changed in place.
fn follows_template(place: &Place<'_>) -> bool {
    let set = place.layout.set();
    update::is_on_delete(set) && !update::is_held_back(set, &place.hashes.generation)
}

/// Whether a member waits until its pods are adopted from another implementation.
fn awaits_adoption(place: &Place<'_>, member: &Object<PodClique>) -> bool {
    update::awaits_adoption(place.layout.set(), &place.hashes.generation, &member.object)
}

/// The replicas of which all members are recreated, with the reason: they are outdated, or they have been below
/// their minimum for too long. While an update runs nothing is terminated.
fn replaced(
    observed: &Observed,
    place: &Place<'_>,
    now: Timestamp,
    deadline: &mut Option<Timestamp>,
) -> BTreeMap<usize, &'static str> {
    let (object, rollout) = (&observed.group.object, rollout(place));
    let progress = object.status.as_ref().and_then(|status| status.update_progress.as_ref());
    if progress.is_some_and(|progress| progress.update_ended_at.is_none()) {
        let replicas = states(observed, place, &rollout);
        let set_replica = place.set_replica;
        let group = GroupUpdate { object, set_replica, replicas: &replicas };
        let outdated = update::group::outdated(&group, &rollout);
        return outdated.into_iter().map(|index| (index, "its template is outdated")).collect();
    }
    let breaches = |members: &Vec<Clique<'_>>| -> Vec<Timestamp> {
        let live = members.iter().filter_map(|one| observed.cliques.get(&one.name));
        let live = live.filter(|clique| is_alive(observed, clique));
        live.filter_map(|clique| {
            let pods = observed.pods_of_breached.get(&*clique.meta.key.name)?;
            clique_is_breached_since(&clique.object, pods)
        })
        .collect()
    };
    let breaches: Vec<_> = place.replicas.iter().map(breaches).collect();
    let delay = termination::delay(place.layout.set());
    let mut expired = BTreeMap::new();
    let consequences = termination::group_replicas(object, &breaches, delay, now);
    for (index, consequence) in consequences.into_iter().enumerate() {
        match consequence {
            Consequence::Stay => {}
            Consequence::Wait(end) => *deadline = (*deadline).into_iter().chain([end]).min(),
            Consequence::Terminate => {
                expired.insert(index, "below its minimum for the termination delay");
            }
        }
    }
    expired
}

/// Deletes own members that are not desired, highest replica first.
fn surplus(observed: &Observed, place: &Place<'_>) -> Vec<Write> {
    let desired: BTreeSet<&str> =
        place.replicas.iter().flatten().map(|clique| clique.name.as_str()).collect();
    let mut surplus: Vec<&Object<PodClique>> = observed
        .cliques
        .iter()
        .filter(|(name, clique)| !desired.contains(name.as_str()) && is_alive(observed, clique))
        .map(|(_, clique)| &**clique)
        .collect();
    surplus.sort_by_key(|clique| Reverse(group_replica_of(clique)));
    let delete = |clique: &Object<PodClique>| {
        let reason = "not among the wanted members of its scaling group";
        converge::delete(Resource::of::<PodClique>(), &clique.meta, reason)
    };
    surplus.into_iter().map(delete).collect()
}

/// The replicas of the group of which a plan deleted members, and why.
pub(super) fn deletions(observed: &Observed, acted: &Acted<'_>) -> BTreeMap<u32, &'static str> {
    let deleted = acted.done.iter().filter(|(write, _)| matches!(write.verb, Verb::Delete { .. }));
    let replica = |write: &Write| group_replica_of(observed.cliques.get(&*write.key.name)?);
    deleted.filter_map(|(write, _)| Some((replica(write)?, write.reason))).collect()
}

/// The replica of the group in the label of a member.
fn group_replica_of(clique: &Object<PodClique>) -> Option<u32> {
    clique.meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX)?.parse().ok()
}

/// Whether a PodClique is ours and not being deleted.
fn is_alive(observed: &Observed, clique: &Object<PodClique>) -> bool {
    observed.owns(clique) && !clique.meta.deleting
}

fn taken(observed: &Observed, live: &Object<PodClique>) -> ReconcileError {
    let owner = match &live.meta.controller {
        Some(owner) => format!("{} {} (uid {})", owner.kind, owner.name, owner.uid),
        None => "nobody".to_owned(),
    };
    let text = format!(
        "PodClique {} is a member of PodCliqueScalingGroup {} (uid {}) by its name, but it is \
         controlled by {owner}; delete it or rename one of the two",
        live.meta.key, observed.group.meta.key, observed.group.meta.uid,
    );
    ReconcileError::rule(ErrorCode::CreatePodClique, text)
}

/// The inputs of new members.
struct Template<'a> {
    gangs: &'a ByName<Object<PodGang>>,
    layout: &'a Layout<'a>,
    hashes: &'a BTreeMap<String, String>,
    owner: OwnerReference,
    mnnvl: bool,
}

impl<'a> Template<'a> {
    fn of(observed: &'a Observed, place: &'a Place<'a>) -> Self {
        let owner = owner::of_scaling_group(&observed.group.object);
        let hashes = &place.hashes.templates;
        let Observed { gangs, mnnvl, .. } = observed;
        Self { gangs, layout: &place.layout, hashes, owner, mnnvl: *mnnvl }
    }

    /// Creates a member, or changes it where it differs from its template.
    fn write(&self, clique: &Clique<'_>, live: Option<&Object<PodClique>>) -> Option<Write> {
        let hash = self.hashes.get(&clique.template.name)?;
        let stored = live.map(|live| &live.object);
        let mut desired = children::pod_clique(self.layout, clique, hash, &self.owner, stored);
        if self.mnnvl {
            children::compute_domains::join(self.layout, clique, &mut desired.spec.pod_spec);
        }
        if live.is_none() {
            let gang = self.gangs.get(&clique.gang).map(|gang| &gang.object);
            termination::mark_recreated(&mut desired, gang);
        }
        converge::whole(&desired, live, "what the template says")
    }

    /// Restores the labels of a member that is otherwise left alone.
    fn restore_labels(&self, clique: &Clique<'_>, live: &Object<PodClique>) -> Option<Write> {
        let hash = self.hashes.get(&clique.template.name)?;
        let desired =
            children::pod_clique(self.layout, clique, hash, &self.owner, Some(&live.object));
        let desired = desired.metadata.labels.unwrap_or_default();
        let place = labels::PLACE_OF_POD_CLIQUE.iter();
        let place = place.filter_map(|key| Some((*key, desired.get(*key)?.as_str())));
        let resource = Resource::of::<PodClique>();
        converge::labels(resource, &live.meta, place, "restore the labels")
    }
}

#[cfg(test)]
mod tests;
