//! What a set needs as a whole, without IO.
//!
//! A set that is deleted takes its children along at once instead of leaving them to the garbage
//! collector, which is there for what is missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::error_code::ErrorCode;
use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, finalizers};
use grove_backends::Limit;
use grove_core::children::{self, owner};
use grove_core::layout::Layout;
use grove_core::status::{self, Outcome, ResourceState, SchedulerState};
use grove_runtime::resource::Resource;
use grove_runtime::view::{Meta, View};
use grove_runtime::write::Write;
use jiff::Timestamp;
use serde_json::Value;

use super::observe::{Children, Observed};
use crate::claims::{self, RESOURCE_CLAIMS};
use crate::converge;
use crate::objects::Pod;
use crate::plan::Plan;
use crate::reconcile::ReconcileError;
use crate::world::{AUTOSCALERS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES};

/// The plan, and what cannot be done besides it. `children` are asked for only when the set is deleted.
pub(super) fn decide(
    seen: &Observed,
    children: impl FnOnce() -> Children,
) -> (Plan, Option<ReconcileError>) {
    let mut plan = Plan::default();
    let resource = Resource::of::<PodCliqueSet>();
    let mut held = seen.set.object.metadata.finalizers.clone().unwrap_or_default();
    let ours = held.iter().position(|one| one == finalizers::POD_CLIQUE_SET);
    if seen.set.meta.deleting {
        if !held.iter().any(|one| one == finalizers::ORPHAN) {
            plan.step(remove_children(seen, &children()));
        }
        if let Some(position) = ours {
            held.remove(position);
            plan.step([converge::finalizers(resource, &seen.set.meta, &held, "nothing is left")]);
        }
        return (plan, None);
    }
    if ours.is_none() {
        held.push(finalizers::POD_CLIQUE_SET.to_owned());
        plan.step([converge::finalizers(resource, &seen.set.meta, &held, "take charge")]);
    }
    let layout = Layout::of(&seen.set.object);
    let owner = owner::of_set(&seen.set.object);
    let claims = claims::decide(&seen.claims, &layout, &owner, &ErrorCode::SyncPcsResourceClaim);
    plan.step(
        [
            access(
                SERVICE_ACCOUNTS,
                seen.service_account.as_ref(),
                children::service_account(&layout),
            ),
            access(ROLES, seen.role.as_ref(), children::role(&layout)),
            access(SECRETS, seen.secret.as_ref(), children::token_secret(&layout)),
        ]
        .into_iter()
        .flatten()
        .chain(claims.writes),
    );
    // The API server looks at the role before it lets anybody bind it.
    plan.step(access(ROLE_BINDINGS, seen.role_binding.as_ref(), children::role_binding(&layout)));
    (plan, claims.problem)
}

/// Creates an object that the start-order container needs, or puts its labels back.
fn access(resource: Resource, live: Option<&Meta>, wanted: Value) -> Option<Write> {
    let reason = "for the start-order container";
    let Some(live) = live else {
        return converge::part(resource, wanted, None, reason);
    };
    let labels = wanted["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    converge::labels(resource, live, labels, reason)
}

fn remove_children(seen: &Observed, children: &Children) -> Vec<Write> {
    let mut found: Vec<(Resource, &Meta)> = Vec::new();
    found.extend(children.gangs.iter().map(|one| (Resource::of::<PodGang>(), &one.meta)));
    found.extend(
        children.groups.values().map(|one| (Resource::of::<PodCliqueScalingGroup>(), &one.meta)),
    );
    found.extend(children.cliques.values().map(|one| (Resource::of::<PodClique>(), &one.meta)));
    found.extend(children.services.iter().map(|one| (SERVICES, one.meta())));
    found.extend(children.autoscalers.iter().map(|one| (AUTOSCALERS, one.meta())));
    found.extend(children.claims.iter().map(|one| (RESOURCE_CLAIMS, one.meta())));
    let domains = children.compute_domains.iter();
    found.extend(domains.map(|one| (Resource::of::<ComputeDomain>(), &one.meta)));
    let access = [
        (SERVICE_ACCOUNTS, &seen.service_account),
        (ROLES, &seen.role),
        (ROLE_BINDINGS, &seen.role_binding),
        (SECRETS, &seen.secret),
    ];
    found.extend(access.into_iter().filter_map(|(kind, meta)| Some((kind, meta.as_ref()?))));
    let uid = &seen.set.meta.uid;
    let owned = |meta: &Meta| meta.controller.as_ref().is_some_and(|owner| owner.uid == *uid);
    found
        .into_iter()
        .filter(|(_, meta)| owned(meta) && !meta.deleting)
        .map(|(resource, meta)| converge::delete_with_owner(resource, meta, "the set is deleted"))
        .collect()
}

/// The status, if it differs from the stored one.
pub(super) fn status(
    seen: &Observed,
    children: &Children,
    outcome: Outcome<'_>,
    scheduler: SchedulerState<'_>,
    resources: ResourceState<'_>,
    now: Timestamp,
) -> Option<Write> {
    let set = &seen.set.object;
    if seen.set.meta.deleting {
        return None;
    }
    let layout = Layout::of(set);
    let hashes = seen.set.hashes();
    let stored = set.status.as_ref();
    let current = stored.and_then(|status| status.current_generation_hash.as_deref());
    let replicas: Vec<_> = (0..layout.replicas())
        .map(|index| {
            status::set_replica(
                &layout,
                index,
                |name| children.cliques.get(name).map(|one| &one.object),
                |name| children.groups.get(name).map(|one| &one.object),
                &hashes.templates,
                current,
            )
        })
        .collect();
    let mut wanted = status::pod_clique_set(set, &hashes.generation, &replicas, outcome);
    status::scheduler(&mut wanted, set.metadata.generation, scheduler, now);
    status::resources(&mut wanted, set.metadata.generation, resources, now);
    converge::status(Resource::of::<PodCliqueSet>(), &seen.set.meta, stored, &wanted)
}

/// Pods that were made for another scheduler than new ones are.
pub(super) fn left_behind(pods: impl Iterator<Item = Arc<Pod>>, scheduler: &str) -> Option<Limit> {
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
         delete them to have them made anew",
        others.join(", ")
    );
    Some(Limit { reason: "PodsOfAnotherScheduler", message })
}

#[cfg(test)]
mod tests;
