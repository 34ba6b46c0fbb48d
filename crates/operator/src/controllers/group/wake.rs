//! What wakes a PodCliqueScalingGroup.

use std::sync::Arc;

use grove_api::condition::{min_available, pod_clique as conditions};
use grove_api::pod_clique_scaling_group::PodCliqueScalingGroupStatus;
use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, labels};
use grove_core::{termination, update};
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::Priority::{Beginning, ChildChange, UserChange};
use grove_runtime::queue::Queue;
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::Meta;
use grove_runtime::wake::{WakeTable, by};

use crate::caches::views::{Set, TokenSecret};
use crate::caches::{BySet, Stores, replica_of, set_of};
use crate::controllers::claims;

/// The wake table of scaling groups.
pub(crate) fn queue(stores: &Stores, env: &Env, stage: &Stage) -> Queue<ObjectKey> {
    let mut table = WakeTable::new(env, stage);
    let why = "the group changed, also by other controllers";
    table.on(&stores.groups.store, why, UserChange, by(own_facts), |group| {
        vec![group.meta.key.clone()]
    });
    let groups = stores.groups.clone();
    let why = "a member changed its state";
    table.on(&stores.cliques.store, why, ChildChange, by(member_facts), move |clique| {
        groups_of(clique, &groups)
    });
    let groups = stores.groups.clone();
    let of_set = move |set: &Set| keys(groups.of(&set.meta.key));
    let why = "the set changed its template, is paused, deleted or triggered";
    table.on(&stores.sets, why, ChildChange, by(set_facts), of_set.clone());
    // Only an update that has reached the replica of a group concerns the group.
    let groups = stores.groups.clone();
    let why = "an update reached the replica of the group";
    let turn = |set: &Set| update::updating_replica(&set.object);
    table.on(&stores.sets, why, UserChange, by(turn), move |set| {
        let replica = update::updating_replica(&set.object);
        replica.map(|replica| keys(groups.of_replica(&set.meta.key, replica))).unwrap_or_default()
    });
    let groups = stores.groups.clone();
    let terminating = |gang: &Object<PodGang>| -> Vec<String> {
        termination::terminating(&gang.object).into_iter().map(str::to_owned).collect()
    };
    let why = "the base gang lists members that a gang termination deletes";
    table.on(&stores.gangs.store, why, UserChange, by(terminating), move |gang| {
        let place = set_of(&gang.meta).zip(replica_of(&gang.meta));
        place.map(|(set, replica)| keys(groups.of_replica(&set, replica))).unwrap_or_default()
    });
    table.reads(&stores.pods, "confirm a breach that the status of a member reports");
    let all = stores.clone();
    let why = "members that start after others wait for the token";
    let token = |one: &TokenSecret| (one.meta.uid.clone(), one.has_token);
    table.on(&stores.secrets, why, Beginning, by(token), move |one| {
        let set = all.set_with_token(one);
        set.map(|set| keys(all.groups.of(&set.meta.key))).unwrap_or_default()
    });
    let owner = |meta: &Meta| claims::group_of_claim(meta).into_iter().collect();
    stores.claims.wake(&mut table, &stores.sets, owner, of_set);
    table.into_queue()
}

fn keys(groups: Vec<Arc<Object<PodCliqueScalingGroup>>>) -> Vec<ObjectKey> {
    groups.into_iter().map(|group| group.meta.key.clone()).collect()
}

/// The status counts because another controller may have changed it. The errors that we report do not:
/// nothing follows from them.
fn own_facts(group: &Object<PodCliqueScalingGroup>) -> impl PartialEq + use<> {
    let Object { meta, object } = group;
    let status = object.status.clone();
    let status =
        status.map(|status| PodCliqueScalingGroupStatus { last_errors: Vec::new(), ..status });
    let finalizers = object.metadata.finalizers.clone();
    let owner = meta.owner_uid().cloned();
    (meta.generation, meta.labels.clone(), finalizers, meta.deleting, owner, status)
}

/// What decisions and the status of a group read of a member.
fn member_facts(clique: &Object<PodClique>) -> impl PartialEq + use<> {
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
    // The annotations of a template are written to its members without a new generation.
    let texts = (meta.labels.clone(), object.metadata.annotations.clone());
    (meta.generation, texts, meta.deleting, meta.owner_uid().cloned(), status)
}

/// What decisions and the status of a group read of the set.
fn set_facts(set: &Set) -> impl PartialEq + use<> {
    let status = set.object.status.as_ref();
    let hash = status.and_then(|status| status.current_generation_hash.clone());
    let trigger = set.reconcile_trigger();
    (set.meta.generation, set.meta.deleting, hash, update::is_paused(&set.object), trigger)
}

/// The group in the label of a PodClique, and groups that may wait for its name.
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

/// Names of groups that could have a member of this name: the parts in front of its dashes.
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
        assert!(set_facts(&before) == set_facts(&same));
        assert!(set_facts(&before) != set_facts(&after));
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
            assert_eq!(member_facts(&before) != member_facts(&after), wakes, "{what}");
        }
    }

    #[test]
    fn a_member_name_may_belong_to_any_group_in_front_of_a_dash() {
        let names: Vec<&str> = possible_groups("demo-0-decode-1-worker").collect();
        assert_eq!(names, ["demo", "demo-0", "demo-0-decode", "demo-0-decode-1"]);
    }
}
