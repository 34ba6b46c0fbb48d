//! The controller of scaling groups: each PodCliqueScalingGroup has the members of `spec.replicas`
//! replicas, reports how they are, and takes them along when it is deleted.
//!
//! A key is a group. Its spec is written elsewhere: replicas by users and autoscalers, the rest by
//! the controller of set replicas. Names that belong to somebody else are reported, never taken.

mod decide;
mod observe;

use grove_api::condition::{min_available, pod_clique as conditions};
use grove_api::error_code::ErrorCode;
use grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, labels};
use grove_core::status::Outcome;
use grove_core::update;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::Meta;
use grove_runtime::write::{Verb, Write};

use self::decide::Decision;
use self::observe::Observed;
use crate::claims::{self, RESOURCE_CLAIMS};
use crate::events;
use crate::objects::{Object, Set, TokenSecret};
use crate::plan::act;
use crate::reconcile::{Context, ReconcileError};
use crate::world::{BySet, World};

/// The groups that have something to do, woken by changes of themselves, their members and their
/// sets.
pub(crate) fn queue(world: &World, env: &Env) -> Queue<ObjectKey> {
    let queue = Queue::new(env.clock.clone());
    let itself = |group: &Object<PodCliqueScalingGroup>| vec![group.meta.key.clone()];
    queue.follow(&world.groups.store, Priority::UserChange, wish_of_group, itself);

    let groups = world.groups.clone();
    let of_member = move |clique: &Object<PodClique>| groups_of(clique, &groups);
    queue.follow(&world.cliques.store, Priority::ChildChange, report_of_member, of_member);

    let groups = world.groups.clone();
    let of_set = move |set: &Set| {
        groups.of(&set.meta.key).iter().map(|group| group.meta.key.clone()).collect()
    };
    queue.follow(&world.sets, Priority::ChildChange, wish_of_set, of_set.clone());
    let owner = |meta: &Meta| claims::group_of_claim(meta).into_iter().collect();
    world.claims.wake(&queue, &world.sets, owner, of_set);
    let all = world.clone();
    queue.follow(
        &world.secrets,
        Priority::Beginning,
        |one: &TokenSecret| (one.meta.uid.clone(), one.has_token),
        move |one| {
            let set = all.set_with_token(one);
            let groups = set.iter().flat_map(|set| all.groups.of(&set.meta.key));
            groups.map(|group| group.meta.key.clone()).collect()
        },
    );
    // Only an update that has come to the replica of a group concerns the group.
    let groups = world.groups.clone();
    let whose_turn = |set: &Set| update::whose_turn(&set.object);
    queue.follow(&world.sets, Priority::UserChange, whose_turn, move |set| {
        let replica = update::whose_turn(&set.object);
        let groups = replica.map(|replica| groups.of_replica(&set.meta.key, replica));
        groups.into_iter().flatten().map(|group| group.meta.key.clone()).collect()
    });
    queue
}

/// Brings one group one step further.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(seen) = Observed::of(&context.world, &attempt.key) else {
        context.held.forget((PodCliqueScalingGroup::KIND, &attempt.key));
        return Ok(None);
    };
    let now = context.env.clock.wall();
    let Decision { plan, waits, deadline, refused } = decide::decide(&seen, now);
    let acted = act(&plan, &context.writer, &attempt.fence).await;
    let recorder = context.events.component("podcliquescalinggroup-controller");
    events::tell(&recorder, events::occurrences(&seen.group, &acted, events::telling_of_group));
    if let Some(set) = &seen.set {
        let replicas = decide::deleted_replicas(&seen, &acted);
        let told = events::group_replicas_deleted(set, &attempt.key.name, replicas);
        events::tell(&recorder, told);
    }
    let failed = acted.error(code_of, attempt.failures).or(refused);
    let known = seen.group.object.status.as_ref().map(|status| &*status.last_errors);
    let told = events::claims_missing(&seen.group, failed.as_ref(), known.unwrap_or_default());
    events::tell(&recorder, told);
    let errors: Vec<_> = failed.iter().filter_map(|error| error.report(now)).collect();
    let generation = seen.group.object.metadata.generation;
    let outcome = match &failed {
        // Nothing that a user could act on.
        Some(_) if errors.is_empty() => None,
        Some(_) => Some(Outcome::Failed { generation, errors: &errors }),
        // The caches will show what was written, and wake the group for its status.
        None if !plan.is_empty() => None,
        None if waits => Some(Outcome::Waiting),
        None => Some(Outcome::Complete { generation }),
    };
    let report = outcome.and_then(|outcome| decide::status(&seen, outcome, now));
    let code = ErrorCode::UpdateStatus;
    let told = (PodCliqueScalingGroup::KIND, &attempt.key);
    let due = context.held.report(context, told, &attempt.fence, report, code).await?;
    let due = context.earlier(due, deadline);
    failed.map_or(Ok(due), |error| Err(error.with_due(due)))
}

/// What a failed write is reported as.
fn code_of(write: &Write) -> ErrorCode {
    if write.resource == RESOURCE_CLAIMS {
        return ErrorCode::SyncPcsgResourceClaim;
    }
    if write.resource != Resource::of::<PodClique>() {
        return ErrorCode::SyncPodCliqueScalingGroup;
    }
    match write.verb {
        Verb::Create { .. } => ErrorCode::CreatePodCliques,
        Verb::Delete { .. } => ErrorCode::DeletePodClique,
        _ => ErrorCode::CreateOrUpdatePodCliques,
    }
}

/// What decisions read of a group. The status is part of it because another controller may have changed it, but
/// for the errors that we report: nothing follows from them.
fn wish_of_group(group: &Object<PodCliqueScalingGroup>) -> impl PartialEq + use<> {
    let Object { meta, object } = group;
    let finalizers = object.metadata.finalizers.clone();
    let status = object.status.clone();
    let status =
        status.map(|status| PodCliqueScalingGroupStatus { last_errors: Vec::new(), ..status });
    (
        meta.generation,
        meta.labels.clone(),
        finalizers,
        meta.deleting,
        meta.owner_uid().cloned(),
        status,
    )
}

/// What decisions and the status of a group read of a member.
fn report_of_member(clique: &Object<PodClique>) -> impl PartialEq + use<> {
    let Object { meta, object } = clique;
    let status = object.status.as_ref().map(|status| {
        let condition = |type_: &str| {
            let found = status.conditions.iter().find(|condition| condition.type_ == type_);
            found.map(|found| (found.status.clone(), found.last_transition_time.clone()))
        };
        (
            (status.ready_replicas, status.updated_replicas),
            status.current_pod_template_hash.clone(),
            status.current_pod_clique_set_generation_hash.clone(),
            [conditions::SCHEDULED, min_available::BREACHED, min_available::REACHED].map(condition),
        )
    });
    // A template's annotations are written to its members without a new generation.
    let texts = (meta.labels.clone(), object.metadata.annotations.clone());
    (meta.generation, texts, meta.deleting, meta.owner_uid().cloned(), status)
}

/// What decisions and the status of a group read of the set.
fn wish_of_set(set: &Set) -> impl PartialEq + use<> {
    let status = set.object.status.as_ref();
    let hash = status.and_then(|status| status.current_generation_hash.clone());
    let trigger = set.reconcile_trigger();
    (set.meta.generation, set.meta.deleting, hash, update::is_paused(&set.object), trigger)
}

/// The group that a PodClique says it is in, and groups that may be waiting for its name.
fn groups_of(
    clique: &Object<PodClique>,
    groups: &BySet<Object<PodCliqueScalingGroup>>,
) -> Vec<ObjectKey> {
    let ObjectKey { namespace, name } = &clique.meta.key;
    let labelled = clique.meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP);
    let labelled = labelled.map(|group| ObjectKey::new(namespace, group));
    let by_name = possible_groups(name).filter_map(|group| groups.get(namespace, group));
    labelled.into_iter().chain(by_name.map(|group| group.meta.key.clone())).collect()
}

/// Names of groups that could have a member of this name: those in front of one of its dashes.
fn possible_groups(member: &str) -> impl Iterator<Item = &str> {
    member.match_indices('-').map(|(dash, _)| &member[..dash])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn member(change: impl FnOnce(&mut Value)) -> Object<PodClique> {
        let mut object = json!({
            "metadata": { "name": "a", "namespace": "n", "generation": 1, "resourceVersion": "1" },
            "spec": {},
            "status": { "readyReplicas": 1, "conditions": [
                { "type": "PodCliqueScheduled", "status": "True", "reason": "r", "message": "" },
            ] },
        });
        change(&mut object);
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_groups_of_a_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(wish_of_set(&before) == wish_of_set(&same));
        assert!(wish_of_set(&before) != wish_of_set(&after));
    }

    #[test]
    fn members_wake_their_group_only_with_what_it_reads() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change, bool); 10] = [
            ("version", |it| it["metadata"]["resourceVersion"] = json!("2"), false),
            ("gated", |it| it["status"]["scheduleGatedReplicas"] = json!(1), false),
            ("message", |it| it["status"]["conditions"][0]["message"] = json!("m"), false),
            ("ready", |it| it["status"]["readyReplicas"] = json!(2), true),
            ("condition", |it| it["status"]["conditions"][0]["status"] = json!("False"), true),
            ("hash", |it| it["status"]["currentPodTemplateHash"] = json!("h"), true),
            ("label", |it| it["metadata"]["labels"] = json!({ "a": "b" }), true),
            ("annotation", |it| it["metadata"]["annotations"] = json!({ "a": "b" }), true),
            ("spec", |it| it["metadata"]["generation"] = json!(2), true),
            (
                "deletion",
                |it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
                true,
            ),
        ];
        let before = member(|_| {});
        for (what, change, wakes) in cases {
            let after = member(change);
            assert_eq!(report_of_member(&before) != report_of_member(&after), wakes, "{what}");
        }
    }

    #[test]
    fn a_name_can_be_wanted_by_any_group_in_front_of_a_dash() {
        let names: Vec<&str> = possible_groups("demo-0-decode-1-worker").collect();
        assert_eq!(names, ["demo", "demo-0", "demo-0-decode", "demo-0-decode-1"]);
    }
}
