//! Events about the children of an object, which `kubectl describe` shows.
//!
//! A reconcile emits one event per kind of children and verb, however many children it wrote. Creates and deletes
//! have events; changes of references, gates and statuses do not. Failures have events when a user has to act.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api::condition::{Condition, FALSE, min_available::BREACHED};
use grove_api::error_code::{ErrorCode, LastError};
use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::pod_clique_set::{PodCliqueSetStatus, PodCliqueSetUpdateProgress};
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang};
use grove_core::admission::DEFAULT_TERMINATION_DELAY;
use grove_core::update::is_on_delete;
use grove_runtime::class::{Class, Classed};
use grove_runtime::events::{Occurrence, Recorder, Severity, Subject};
use grove_runtime::resource::Resource;
use grove_runtime::write::{Verb, Write};

use crate::caches::PODS;
use crate::controllers::error::ReconcileError;
use grove_runtime::object::Object;
use grove_runtime::plan::Acted;

/// Names beyond this many are only counted.
const NAMES: usize = 5;

/// Reasons and action of the events about one kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventReasons {
    pub(crate) success: &'static str,
    pub(crate) failure: &'static str,
    pub(crate) action: &'static str,
    /// `Created`, `Deleted`.
    pub(crate) done: &'static str,
}

/// The reasons for a write of the controllers of cliques, groups and replicas; none for writes without events.
pub(crate) fn reasons(write: &Write) -> Option<EventReasons> {
    let kind = &write.resource;
    let [created, deleted] = if *kind == PODS {
        [
            ["PodCreateSuccessful", "PodCreateFailed", "CreatePod"],
            ["PodDeleteSuccessful", "PodDeleteFailed", "DeletePod"],
        ]
    } else if *kind == Resource::of::<PodClique>() {
        [
            ["PodCliqueCreateSuccessful", "PodCliqueCreateFailed", "CreatePodClique"],
            ["PodCliqueDeleteSuccessful", "PodCliqueDeleteFailed", "DeletePodClique"],
        ]
    } else if *kind == Resource::of::<PodCliqueScalingGroup>() {
        [
            [
                "PodCliqueScalingGroupCreateSuccessful",
                "PodCliqueScalingGroupCreateOrUpdateFailed",
                "CreatePodCliqueScalingGroup",
            ],
            [
                "PodCliqueScalingGroupDeleteSuccessful",
                "PodCliqueScalingGroupDeleteFailed",
                "DeletePodCliqueScalingGroup",
            ],
        ]
    } else if *kind == Resource::of::<PodGang>() {
        [
            ["PodGangCreateOrUpdateSuccessful", "PodGangCreateOrUpdateFailed", "CreatePodGang"],
            ["PodGangDeleteSuccessful", "PodGangDeleteFailed", "DeletePodGang"],
        ]
    } else if *kind == Resource::of::<ComputeDomain>() {
        [
            ["ComputeDomainCreateSuccessful", "ComputeDomainCreateFailed", "CreateComputeDomain"],
            ["ComputeDomainDeleteSuccessful", "ComputeDomainDeleteFailed", "DeleteComputeDomain"],
        ]
    } else {
        return None;
    };
    let ([success, failure, action], done) = match write.verb {
        Verb::Create { .. } => (created, "Created"),
        Verb::Delete { .. } => (deleted, "Deleted"),
        _ => return None,
    };
    Some(EventReasons { success, failure, action, done })
}

/// Deleted members are reported by replica of the group, see [`group_replicas_deleted`].
pub(crate) fn reasons_of_group(write: &Write) -> Option<EventReasons> {
    reasons(write).filter(|_| !matches!(write.verb, Verb::Delete { .. }))
}

/// The standalone cliques of a set have another pair of reasons than the members of a group.
pub(crate) fn reasons_of_replica(write: &Write) -> Option<EventReasons> {
    let reasons = reasons(write)?;
    let creates = matches!(write.verb, Verb::Create { .. });
    if !creates || write.resource != Resource::of::<PodClique>() {
        return Some(reasons);
    }
    let success = "PodCliqueCreateOrUpdateSuccessful";
    Some(EventReasons { success, failure: "PodCliqueCreateOrUpdateFailed", ..reasons })
}

/// The events about `object` after a plan was executed.
pub(crate) fn occurrences<K>(
    object: &Object<K>,
    acted: &Acted<'_>,
    reasons: impl Fn(&Write) -> Option<EventReasons>,
) -> Vec<Occurrence>
where
    K: kube::Resource<DynamicType = ()>,
{
    let mut done = BTreeMap::<EventReasons, Vec<(&str, &str)>>::new();
    for (write, written) in &acted.done {
        if let Some(reasons) = reasons(write) {
            done.entry(reasons).or_default().push((&write.resource.kind, &written.name));
        }
    }
    let succeeded = done.into_iter().map(|(reasons, mut children)| {
        let EventReasons { success, action, done, .. } = reasons;
        children.sort_unstable();
        occurrence(object, Severity::Normal, success, action, sentence(done, &children))
    });
    let failed = acted.failed.iter().filter_map(|(write, error)| {
        let EventReasons { failure, action, .. } = reasons(write)?;
        let needs_user = matches!(error.class(), Class::Invalid | Class::Denied);
        let event = || occurrence(object, Severity::Warning, failure, action, error.to_string());
        needs_user.then(event)
    });
    succeeded.chain(failed).collect()
}

/// `Created Pod: a`, `Deleted 7 Pods: a, b, c, d, e and 2 more`.
fn sentence(done: &str, children: &[(&str, &str)]) -> String {
    let kind = children.first().map_or("", |(kind, _)| kind);
    let names: Vec<&str> = children.iter().take(NAMES).map(|(_, name)| *name).collect();
    let names = names.join(", ");
    match children.len() {
        1 => format!("{done} {kind}: {names}"),
        count if count <= NAMES => format!("{done} {count} {kind}s: {names}"),
        count => format!("{done} {count} {kind}s: {names} and {} more", count - NAMES),
    }
}

/// None of the pods or replicas that were scheduled is left, although some are desired.
pub(crate) fn all_scheduled_lost<K>(
    object: &Object<K>,
    what: &str,
    (before, now): (i32, i32),
    desired: i32,
) -> Option<Occurrence>
where
    K: kube::Resource<DynamicType = ()>,
{
    (before > 0 && now == 0 && desired > 0).then(|| {
        let message = format!("All scheduled {what} lost (was {before})");
        occurrence(object, Severity::Warning, "AllScheduledReplicasLost", "Schedule", message)
    })
}

/// A clique or group started or ended a breach between two statuses. Emitted about itself and about its set,
/// of which a part is terminated when it does not recover.
pub(crate) fn breach<K>(
    object: &Object<K>,
    set: &Object<PodCliqueSet>,
    (before, after): (bool, bool),
    conditions: &[Condition],
) -> Vec<Occurrence>
where
    K: kube::Resource<DynamicType = ()>,
{
    let current = conditions.iter().find(|condition| condition.type_ == BREACHED);
    let (kind, name) = (K::kind(&()), &object.meta.key.name);
    let (severity, reason, message) = match (before, after, current) {
        (false, true, Some(current)) => {
            let delay = set.object.spec.template.termination_delay;
            let delay = delay.unwrap_or(DEFAULT_TERMINATION_DELAY);
            let message = format!(
                "{kind} {name} is below its minimum and is terminated after {delay} unless it \
                 recovers: {}",
                current.message
            );
            (Severity::Warning, "MinAvailableBreached", message)
        }
        (true, false, Some(current)) if current.status == FALSE => {
            let message = format!("{kind} {name} has its minimum again: {}", current.message);
            (Severity::Normal, "MinAvailableRestored", message)
        }
        _ => return Vec::new(),
    };
    let action = "WatchMinimum";
    let about_set = occurrence(set, severity, reason, action, message.clone());
    vec![occurrence(object, severity, reason, action, message), about_set]
}

/// A user scaled a clique or group below its minimum: it counts as lost, and is recreated with the replicas of
/// the template after the delay. Emitted about itself and its set, once per generation.
pub(crate) fn scaled_below_minimum<K>(
    object: &Object<K>,
    set: &Object<PodCliqueSet>,
    (replicas, minimum): (i32, i32),
    is_new_generation: bool,
) -> Vec<Occurrence>
where
    K: kube::Resource<DynamicType = ()>,
{
    if replicas >= minimum || !is_new_generation {
        return Vec::new();
    }
    let (kind, name) = (K::kind(&()), &object.meta.key.name);
    let message = format!(
        "{kind} {name}: spec.replicas {replicas} is below spec.minAvailable {minimum}, so it counts as lost; \
         scale it to {minimum} or more, or scale the PodCliqueSet"
    );
    let (reason, action) = ("ReplicasBelowMinAvailable", "Scale");
    let about_set = occurrence(set, Severity::Warning, reason, action, message.clone());
    vec![occurrence(object, Severity::Warning, reason, action, message), about_set]
}

/// A replica of a set is terminated as a gang.
pub(crate) fn replica_terminated(set: &Object<PodCliqueSet>, replica: u32) -> Occurrence {
    let delay = set.object.spec.template.termination_delay.unwrap_or(DEFAULT_TERMINATION_DELAY);
    let message = format!(
        "Deleted PodCliques of PodCliqueSet replica {replica}, which was below its minimum for {delay}"
    );
    let (reason, action) = ("PodCliqueSetReplicaDeleteSuccessful", "TerminateReplica");
    occurrence(set, Severity::Normal, reason, action, message)
}

/// The steps of an update of a set, from one status to the next.
pub(crate) fn update_steps(
    set: &Object<PodCliqueSet>,
    next: &PodCliqueSetStatus,
) -> Vec<Occurrence> {
    let before = set.object.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let Some(now) = &next.update_progress else { return Vec::new() };
    let began =
        before.and_then(|it| it.update_started_at.as_ref()) != now.update_started_at.as_ref();
    let before = before.filter(|_| !began);
    let event = |reason, message| occurrence(set, Severity::Normal, reason, "Update", message);
    let mut events = Vec::new();
    if began {
        let hash = next.current_generation_hash.as_deref().unwrap_or_default();
        let how = if is_on_delete(&set.object) {
            "pods get it when somebody deletes them"
        } else {
            "replicas get it one after the other"
        };
        events.push(event("UpdateStarted", format!("Update to template {hash} started: {how}")));
    }
    let turn = |progress: &PodCliqueSetUpdateProgress| {
        progress.currently_updating.first().map(|current| current.replica_index)
    };
    if let Some(replica) = turn(now).filter(|_| before.and_then(turn) != turn(now)) {
        let (updated, all) = (next.updated_replicas, next.replicas);
        let message = format!("Updating replica {replica} ({updated} of {all} are updated)");
        events.push(event("ReplicaUpdateStarted", message));
    }
    let over = |progress: &PodCliqueSetUpdateProgress| progress.update_ended_at.is_some();
    if over(now) && !before.is_some_and(over) && !is_on_delete(&set.object) {
        let message = format!("Update ended: {} replicas are updated", next.updated_replicas);
        events.push(event("UpdateEnded", message));
    }
    events
}

/// A claim cannot be created before a user acts. Emitted once: `known` has the errors that are reported already.
pub(crate) fn claims_missing<K>(
    object: &Object<K>,
    error: Option<&ReconcileError>,
    known: &[LastError],
) -> Option<Occurrence>
where
    K: kube::Resource<DynamicType = ()>,
{
    const CODES: [ErrorCode; 3] = [
        ErrorCode::SyncPcsResourceClaim,
        ErrorCode::SyncPcsgResourceClaim,
        ErrorCode::SyncPclqResourceClaim,
    ];
    let error = error.filter(|error| CODES.contains(error.code()))?;
    let message = error.lasting()?;
    let is_known = known.iter().any(|known| known.description.contains(message));
    let (reason, action) = ("ResourceClaimCreateFailed", "CreateResourceClaim");
    (!is_known).then(|| occurrence(object, Severity::Warning, reason, action, message.to_owned()))
}

/// Errors of the groups and cliques of a set that the set did not report before.
pub(crate) fn errors_of_parts(
    set: &Object<PodCliqueSet>,
    errors: &[LastError],
    known: &[LastError],
) -> Vec<Occurrence> {
    let is_new = |error: &&LastError| !known.iter().any(|known| known.code == error.code);
    let event = |error: &LastError| {
        let message = error.description.clone();
        occurrence(set, Severity::Warning, "ReconcileError", "Reconcile", message)
    };
    errors.iter().filter(is_new).map(event).collect()
}

/// Replicas of a group were deleted. Emitted about its set.
pub(crate) fn group_replicas_deleted(
    set: &Object<PodCliqueSet>,
    group: &str,
    replicas: impl IntoIterator<Item = (u32, &'static str)>,
) -> Vec<Occurrence> {
    let reason = "PodCliqueScalingGroupReplicaDeleteSuccessful";
    let action = "DeletePodCliqueScalingGroupReplica";
    let event = |(replica, why)| {
        let message =
            format!("Deleted PodCliqueScalingGroup {group} replicaIndex: {replica} ({why})");
        occurrence(set, Severity::Normal, reason, action, message)
    };
    replicas.into_iter().map(event).collect()
}

/// One event about an object.
pub(crate) fn occurrence<K>(
    object: &Object<K>,
    severity: Severity,
    reason: impl Into<Cow<'static, str>>,
    action: &'static str,
    message: String,
) -> Occurrence
where
    K: kube::Resource<DynamicType = ()>,
{
    let meta = &object.meta;
    let about = Subject {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        namespace: meta.key.namespace.to_string(),
        name: meta.key.name.to_string(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version,
    };
    Occurrence { about, severity, reason: reason.into(), action, message }
}

/// Records events.
pub(crate) fn emit(recorder: &Recorder, occurrences: impl IntoIterator<Item = Occurrence>) {
    occurrences.into_iter().for_each(|occurrence| recorder.record(occurrence));
}

#[cfg(test)]
mod tests {
    use grove_runtime::resource::ObjectKey;
    use serde_json::json;

    use super::*;

    fn clique() -> Object<PodClique> {
        serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "3" },
            "spec": {},
        }))
        .unwrap()
    }

    fn write(resource: Resource, verb: Verb) -> Write {
        Write { resource, key: ObjectKey::new("n", ""), verb, reason: "test" }
    }

    fn create() -> Verb {
        Verb::Create { body: json!({}) }
    }

    #[test]
    fn children_of_one_kind_share_an_event() {
        let names: Vec<String> = (0..7).map(|index| format!("p{index}")).collect();
        for (count, message) in [
            (1, "Created Pod: p0"),
            (3, "Created 3 Pods: p0, p1, p2"),
            (7, "Created 7 Pods: p0, p1, p2, p3, p4 and 2 more"),
        ] {
            let children: Vec<_> =
                names.iter().take(count).map(|name| ("Pod", name.as_str())).collect();
            assert_eq!(sentence("Created", &children), message);
        }
    }

    #[test]
    fn status_writes_and_services_have_no_events() {
        let status = Verb::Merge {
            patch: json!({}),
            only_if: grove_runtime::write::Precondition::version(&clique().meta.uid, 3),
            subresource: Some("status"),
        };
        let unreported =
            [write(Resource::of::<PodClique>(), status), write(crate::caches::SERVICES, create())];
        for write in unreported {
            assert_eq!(reasons(&write), None, "{write:?}");
        }
    }

    #[test]
    fn reasons_depend_on_who_owns_a_clique() {
        let clique = write(Resource::of::<PodClique>(), create());
        let reason = |reasons: Option<EventReasons>| reasons.unwrap().success;
        assert_eq!(reason(reasons_of_group(&clique)), "PodCliqueCreateSuccessful");
        assert_eq!(reason(reasons_of_replica(&clique)), "PodCliqueCreateOrUpdateSuccessful");
        let pod = write(PODS, create());
        assert_eq!(reason(reasons(&pod)), "PodCreateSuccessful");
    }

    #[test]
    fn losing_all_scheduled_pods_is_reported_about_the_clique() {
        for (change, desired) in [((3, 1), 3), ((0, 0), 3), ((3, 0), 0)] {
            assert_eq!(all_scheduled_lost(&clique(), "pods", change, desired), None, "{change:?}");
        }
        let lost = all_scheduled_lost(&clique(), "pods", (3, 0), 3).unwrap();
        assert_eq!(lost.message, "All scheduled pods lost (was 3)");
        assert_eq!((lost.about.kind.as_str(), lost.about.name.as_str()), ("PodClique", "a"));
        assert_eq!(lost.about.api_version, "grove.io/v1alpha1");
        assert_eq!(occurrences(&clique(), &Acted::default(), reasons), []);
    }

    #[test]
    fn scaling_below_the_minimum_is_reported_once_per_generation() {
        let set: Object<PodCliqueSet> = serde_json::from_value(json!({
            "metadata": { "name": "x", "namespace": "n", "uid": "s", "resourceVersion": "3" },
            "spec": { "template": { "cliques": [] } },
        }))
        .unwrap();
        let count = |counts, is_new| scaled_below_minimum(&clique(), &set, counts, is_new).len();
        assert_eq!(count((1, 2), true), 2, "on the clique and on the set");
        assert_eq!(count((1, 2), false), 0);
        assert_eq!(count((2, 2), true), 0);
    }

    #[test]
    fn a_claim_that_cannot_be_created_is_reported_once() {
        let missing = ReconcileError::rule(ErrorCode::SyncPclqResourceClaim, "no template");
        let event = claims_missing(&clique(), Some(&missing), &[]).unwrap();
        assert_eq!(
            (&*event.reason, event.message.as_str()),
            ("ResourceClaimCreateFailed", "no template")
        );
        let known = missing.report(jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(claims_missing(&clique(), Some(&missing), &[known]), None);
        let other = ReconcileError::rule(ErrorCode::CreatePod, "no pod");
        assert_eq!(claims_missing(&clique(), Some(&other), &[]), None);
        assert_eq!(claims_missing(&clique(), None, &[]), None);
    }
}
