//! From what is known about a group to what is written: members first, status when they are as
//! they should be.
//!
//! Members are matched by exact name. One of ours that is not wanted is deleted, one that is wanted
//! and terminates is waited for, and one of somebody else is left alone and reported. Running
//! members follow the template only with `OnDelete`; a rolling update replaces them instead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use grove_api::error_code::ErrorCode;
use grove_api::pod_clique_set::UpdateStrategyType;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, finalizers, labels};
use grove_core::children::{self, owner};
use grove_core::layout::{Clique, Layout};
use grove_core::status::{Outcome, group_replica, is_urgent_for_group, scaling_group};
use grove_runtime::resource::Resource;
use grove_runtime::write::{Verb, Write};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::observe::{Observed, Place};
use crate::claims;
use crate::coalesce::{Report, patience};
use crate::converge;
use crate::events;
use crate::objects::Object;
use crate::plan::{Acted, Plan};
use crate::reconcile::ReconcileError;

const FINALIZER: &str = finalizers::POD_CLIQUE_SCALING_GROUP;

/// What to do about a group.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) plan: Plan,
    /// A wanted member has to vanish before it can be created again.
    pub(super) waits: bool,
    /// What cannot be done, besides the plan.
    pub(super) refused: Option<ReconcileError>,
}

/// Decides about the members and the finalizer of a group.
pub(super) fn decide(seen: &Observed) -> Decision {
    let mut decision = Decision::default();
    if seen.group.meta.deleting {
        release(seen, &mut decision.plan);
    } else if let Some(place) = seen.place() {
        decision.plan.step(missing_finalizer(&seen.group));
        sync_members(seen, &place, &mut decision);
        sync_claims(seen, &place, &mut decision);
    }
    decision
}

fn sync_claims(seen: &Observed, place: &Place<'_>, decision: &mut Decision) {
    let owner = owner::of_scaling_group(&seen.group.object);
    let code = ErrorCode::SyncPcsgResourceClaim;
    let claims = claims::decide(&seen.claims, &place.layout, &owner, &code);
    decision.plan.step(claims.writes);
    decision.waits |= claims.waits;
    decision.refused = decision.refused.take().or(claims.problem);
}

/// The status of a group that has a place, if it differs from the stored one.
pub(super) fn status(seen: &Observed, outcome: Outcome<'_>, now: Timestamp) -> Option<Report> {
    let Object { meta, object } = &*seen.group;
    let place = seen.place().filter(|_| !meta.deleting)?;
    let hashes = &place.hashes.templates;
    let generation_hash = generation_hash(place.layout.set());
    let member = |name: &str| {
        let clique = seen.cliques.get(name).filter(|clique| seen.owns(clique))?;
        Some(&clique.object)
    };
    let judge = |members: &Vec<_>| group_replica(members, member, hashes, generation_hash);
    let replicas: Vec<_> = place.replicas.iter().map(judge).collect();
    let set = place.layout.set_name();
    let wanted = scaling_group(set, object, generation_hash, &replicas, outcome, now);
    let resource = Resource::of::<PodCliqueScalingGroup>();
    let write = converge::status(resource, meta, object.status.as_ref(), &wanted)?;
    let before = object.status.as_ref().map_or(0, |status| status.scheduled_replicas);
    let scheduled = (before, wanted.scheduled_replicas);
    let replicas = object.spec.replicas;
    let event = events::all_scheduled_lost(&seen.group, "replicas", scheduled, replicas);
    let urgent = event.is_some() || is_urgent_for_group(object, &wanted);
    let available = object.status.as_ref().map(|status| status.available_replicas);
    Some(Report { write, patience: patience(urgent, available), event })
}

fn generation_hash(set: &PodCliqueSet) -> Option<&str> {
    set.status.as_ref()?.current_generation_hash.as_deref()
}

/// Takes the members along and lets go of the group. Finalizers of others stay.
fn release(seen: &Observed, plan: &mut Plan) {
    let stored = stored_finalizers(&seen.group);
    if !stored.iter().any(|one| one == finalizers::ORPHAN) {
        let members = seen.cliques.values().filter(|clique| is_alive(seen, clique));
        plan.step(members.map(|clique| {
            let reason = "its scaling group is being deleted";
            converge::delete_with_owner(Resource::of::<PodClique>(), &clique.meta, reason)
        }));
        plan.step(claims::remove_with_owner(&seen.claims, &seen.group.meta.uid));
    }
    let others: Vec<String> = stored.iter().filter(|one| *one != FINALIZER).cloned().collect();
    if others.len() < stored.len() {
        plan.step([write_finalizers(&seen.group, &others, "its members are being deleted")]);
    }
}

fn missing_finalizer(group: &Object<PodCliqueScalingGroup>) -> Option<Write> {
    let mut all = stored_finalizers(group).to_vec();
    if all.iter().any(|one| one == FINALIZER) {
        return None;
    }
    all.push(FINALIZER.to_owned());
    Some(write_finalizers(group, &all, "its members have to go first"))
}

fn stored_finalizers(group: &Object<PodCliqueScalingGroup>) -> &[String] {
    group.object.metadata.finalizers.as_deref().unwrap_or_default()
}

fn write_finalizers(
    group: &Object<PodCliqueScalingGroup>,
    all: &[String],
    reason: &'static str,
) -> Write {
    let resource = Resource::of::<PodCliqueScalingGroup>();
    converge::finalizers(resource, &group.meta, all, reason)
}

/// Deletes what is not wanted and creates what is missing, all at once.
fn sync_members(seen: &Observed, place: &Place<'_>, decision: &mut Decision) {
    let mut writes = surplus(seen, place);
    let template = Template::of(seen, place);
    for wanted in place.replicas.iter().flatten() {
        match seen.cliques.get(&wanted.name) {
            None => writes.extend(template.write(wanted, None)),
            Some(live) if live.meta.deleting => decision.waits = true,
            Some(live) if !seen.owns(live) => {
                decision.refused.get_or_insert_with(|| taken(seen, live));
            }
            Some(live) if follows_template(place.layout.set()) => {
                writes.extend(template.write(wanted, Some(live)));
            }
            Some(live) => writes.extend(template.put_labels_back(wanted, live)),
        }
    }
    decision.plan.step(writes);
}

/// Whether running members are changed in place.
fn follows_template(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_ref()) == Some(&UpdateStrategyType::OnDelete)
}

/// Deletes own members that have no place among the wanted replicas, highest replica first.
fn surplus(seen: &Observed, place: &Place<'_>) -> Vec<Write> {
    let wanted: BTreeSet<&str> =
        place.replicas.iter().flatten().map(|clique| clique.name.as_str()).collect();
    let mut surplus: Vec<&Object<PodClique>> = seen
        .cliques
        .iter()
        .filter(|(name, clique)| !wanted.contains(name.as_str()) && is_alive(seen, clique))
        .map(|(_, clique)| &**clique)
        .collect();
    surplus.sort_by_key(|clique| Reverse(replica_of(clique)));
    let delete = |clique: &Object<PodClique>| {
        let reason = "not among the wanted members of its scaling group";
        converge::delete(Resource::of::<PodClique>(), &clique.meta, reason)
    };
    surplus.into_iter().map(delete).collect()
}

/// The replicas of the group of which a plan deleted members.
pub(super) fn deleted_replicas(seen: &Observed, acted: &Acted<'_>) -> BTreeSet<u32> {
    let deleted = acted.done.iter().filter(|(write, _)| matches!(write.verb, Verb::Delete { .. }));
    deleted
        .filter_map(|(write, _)| seen.cliques.get(&*write.key.name))
        .filter_map(|clique| replica_of(clique))
        .collect()
}

/// The replica of the group that a member says it is for.
fn replica_of(clique: &Object<PodClique>) -> Option<u32> {
    clique.meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX)?.parse().ok()
}

/// Whether a PodClique is ours and not on its way out.
fn is_alive(seen: &Observed, clique: &Object<PodClique>) -> bool {
    seen.owns(clique) && !clique.meta.deleting
}

fn taken(seen: &Observed, live: &Object<PodClique>) -> ReconcileError {
    let owner = match &live.meta.controller {
        Some(owner) => format!("{} {} (uid {})", owner.kind, owner.name, owner.uid),
        None => "nobody".to_owned(),
    };
    let text = format!(
        "PodClique {} is a member of PodCliqueScalingGroup {} (uid {}) by its name, but it is \
         controlled by {owner}; delete it or rename one of the two",
        live.meta.key, seen.group.meta.key, seen.group.meta.uid,
    );
    ReconcileError::rule(ErrorCode::CreatePodClique, text)
}

/// What members are made from.
struct Template<'a> {
    layout: &'a Layout<'a>,
    hashes: &'a BTreeMap<String, String>,
    owner: OwnerReference,
    mnnvl: bool,
}

impl<'a> Template<'a> {
    fn of(seen: &Observed, place: &'a Place<'a>) -> Self {
        let owner = owner::of_scaling_group(&seen.group.object);
        let hashes = &place.hashes.templates;
        Self { layout: &place.layout, hashes, owner, mnnvl: seen.mnnvl }
    }

    /// Creates a member, or changes it where it differs from its template.
    fn write(&self, clique: &Clique<'_>, live: Option<&Object<PodClique>>) -> Option<Write> {
        let hash = self.hashes.get(&clique.template.name)?;
        let stored = live.map(|live| &live.object);
        let mut wanted = children::pod_clique(self.layout, clique, hash, &self.owner, stored);
        if self.mnnvl {
            children::compute_domains::join(self.layout, clique, &mut wanted.spec.pod_spec);
        }
        converge::own(&wanted, live, "what the template says")
    }

    /// A member that is otherwise left alone keeps the labels that say where it belongs.
    fn put_labels_back(&self, clique: &Clique<'_>, live: &Object<PodClique>) -> Option<Write> {
        let hash = self.hashes.get(&clique.template.name)?;
        let wanted =
            children::pod_clique(self.layout, clique, hash, &self.owner, Some(&live.object));
        let wanted = wanted.metadata.labels.unwrap_or_default();
        let place = labels::PLACE_OF_POD_CLIQUE.iter();
        let place = place.filter_map(|key| Some((*key, wanted.get(*key)?.as_str())));
        let resource = Resource::of::<PodClique>();
        converge::labels(resource, &live.meta, place, "labels that somebody changed")
    }
}

#[cfg(test)]
mod tests;
