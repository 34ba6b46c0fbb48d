//! Invariants that tests check in the simulation and on the real control plane: which deletes are justified, and
//! what a converged set looks like.

use grove_api::PodCliqueSet;
use jiff::Timestamp;
use serde_json::Value;

const HASH: &str = "grove.io/pod-template-hash";
const REPLICA: &str = "grove.io/podcliqueset-replica-index";
const GROUP_REPLICA: &str = "grove.io/podcliquescalinggroup-replica-index";

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    is_staying(pod)
        && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

pub fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

fn index(object: &Value, key: &str) -> Option<i64> {
    label(object, key).parse().ok()
}

fn owner(object: &Value) -> &str {
    object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_staying(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Whether the operator had a reason to delete a pod or PodClique, given all objects at that time. It may not
/// delete an up-to-date pod that is not surplus, nor a desired, up-to-date clique in a replica whose minimum was
/// not breached for the termination delay.
pub fn delete_is_justified(deleted: &Value, among: &[&Value], at: Timestamp) -> bool {
    if deleted["kind"] == "Pod" {
        pod_delete_is_justified(deleted, among)
    } else {
        clique_delete_is_justified(deleted, among, at)
    }
}

fn pod_delete_is_justified(deleted: &Value, among: &[&Value]) -> bool {
    let clique = among.iter().find(|one| uid(one) == owner(deleted));
    let Some(clique) = clique.filter(|clique| is_staying(clique)) else { return true };
    let siblings = among.iter().filter(|one| owner(one) == uid(clique) && is_staying(one));
    let pods = siblings.filter(|one| one["kind"] == "Pod").count();
    let surplus = pods > usize::try_from(number(&clique["spec"]["replicas"])).unwrap();
    surplus || label(deleted, HASH) != label(clique, HASH)
}

fn clique_delete_is_justified(deleted: &Value, among: &[&Value], at: Timestamp) -> bool {
    let part_of = label(deleted, "app.kubernetes.io/part-of");
    let is_set = |one: &&&Value| one["kind"] == "PodCliqueSet" && name(one) == part_of;
    let Some(set) = among.iter().find(is_set).filter(|set| is_staying(set)) else { return true };
    if index(deleted, REPLICA) >= set["spec"]["replicas"].as_i64() {
        return true;
    }
    if index(deleted, GROUP_REPLICA).is_some() {
        let group = among.iter().find(|one| uid(one) == owner(deleted));
        let Some(group) = group.filter(|group| is_staying(group)) else { return true };
        if index(deleted, GROUP_REPLICA) >= group["spec"]["replicas"].as_i64() {
            return true;
        }
    }
    let typed: PodCliqueSet = serde_json::from_value((*set).clone()).unwrap();
    let hashes = grove_core::hash::pod_template_hashes(&typed.spec.template);
    let delay = grove_core::termination::delay(&typed);
    let in_replica = |one: &&Value| {
        let kinds = ["PodClique", "PodCliqueScalingGroup"];
        kinds.iter().any(|kind| one["kind"] == **kind)
            && index(one, REPLICA) == index(deleted, REPLICA)
            && label(one, "app.kubernetes.io/part-of") == part_of
    };
    let outdated = |one: &Value| {
        let template = name(one).rsplit('-').next().unwrap();
        owner(one) == owner(deleted)
            && index(one, GROUP_REPLICA).is_some()
            && index(one, GROUP_REPLICA) == index(deleted, GROUP_REPLICA)
            && hashes.get(template).map(String::as_str) != Some(label(one, HASH))
    };
    let breached = |one: &Value| {
        let conditions = one["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| {
            let since = condition["lastTransitionTime"].as_str();
            let since: Option<Timestamp> = since.and_then(|since| since.parse().ok());
            let over = since.and_then(|since| since.checked_add(delay).ok());
            condition["type"] == "MinAvailableBreached"
                && condition["status"] == "True"
                && over.is_some_and(|over| over <= at)
        })
    };
    among.iter().copied().filter(in_replica).any(|one| outdated(one) || breached(one))
}

/// The first difference between the sets among these objects and their children, or an orphan; none when all
/// have converged.
pub fn not_converged(all: &[&Value]) -> Option<String> {
    let of = |kind: &'static str| all.iter().copied().filter(move |one| one["kind"] == kind);
    for (kind, up) in [
        ("PodCliqueSet", "availableReplicas"),
        ("PodCliqueScalingGroup", "availableReplicas"),
        ("PodClique", "readyReplicas"),
    ] {
        let counts = ["replicas", up, "updatedReplicas"];
        let problem = of(kind).find_map(|one| status_not_converged(one, &counts));
        if let Some(problem) = problem {
            return Some(format!("{kind} {problem}"));
        }
    }
    let mut desired = 0;
    for set in of("PodCliqueSet") {
        match cliques_of(set, all) {
            Ok(cliques) => desired += cliques,
            Err(problem) => return Some(problem),
        }
    }
    let cliques = of("PodClique").count();
    let orphan = all
        .iter()
        .find(|one| !owner(one).is_empty() && !all.iter().any(|other| uid(other) == owner(one)));
    if let Some(orphan) = orphan {
        return Some(format!("{} {} is an orphan", orphan["kind"], name(orphan)));
    }
    (cliques != desired).then(|| format!("{cliques} cliques instead of {desired}"))
}

fn status_not_converged(one: &Value, counts: &[&str]) -> Option<String> {
    let name = name(one);
    if !is_staying(one) {
        return Some(format!("{name} is terminating"));
    }
    let wanted = number(&one["spec"]["replicas"]);
    let status = &one["status"];
    if let Some(field) = counts.iter().find(|field| number(&status[**field]) != wanted) {
        return Some(format!("{name}: {field} is not {wanted}"));
    }
    if status["observedGeneration"] != one["metadata"]["generation"] {
        return Some(format!("{name} has not observed its generation"));
    }
    let progress = &status["updateProgress"];
    if !progress.is_null() && progress["updateEndedAt"].is_null() {
        return Some(format!("{name}: its update is in progress"));
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let bad = |one: &Value| {
        let type_ = one["type"].as_str().unwrap();
        type_ == "GangTerminationInProgress"
            || type_ == "MinAvailableBreached" && one["status"] != "False"
    };
    conditions.into_iter().any(bad).then(|| format!("{name} is breached"))
}

/// Number of cliques of a set, if all exist with all their pods.
fn cliques_of(set: &Value, all: &[&Value]) -> Result<usize, String> {
    let find = |kind: &str, wanted: &str| {
        let found = all.iter().copied().find(|one| one["kind"] == kind && name(one) == wanted);
        found.ok_or_else(|| format!("{kind} {wanted} is missing"))
    };
    let typed: PodCliqueSet = serde_json::from_value(set.clone()).unwrap();
    let hashes = grove_core::hash::pod_template_hashes(&typed.spec.template);
    let layout = grove_core::layout::Layout::of(&typed);
    let mut places = Vec::new();
    for replica in 0..layout.replicas() {
        places.extend(layout.standalone_cliques(replica));
        for group in layout.groups() {
            let live = find("PodCliqueScalingGroup", &layout.scaling_group_name(replica, group))?;
            let replicas = u32::try_from(number(&live["spec"]["replicas"])).unwrap();
            places.extend((0..replicas).flat_map(|one| layout.member_cliques(replica, group, one)));
        }
    }
    for place in &places {
        let clique = find("PodClique", &place.name)?;
        let hash = hashes[&place.template.name].as_str();
        if label(clique, HASH) != hash {
            return Err(format!("{} is outdated", place.name));
        }
        let pods = || {
            let pods = all.iter().filter(|one| one["kind"] == "Pod");
            pods.filter(|pod| owner(pod) == uid(clique))
        };
        let good = pods().filter(|pod| is_ready(pod) && label(pod, HASH) == hash).count();
        let wanted = usize::try_from(number(&clique["spec"]["replicas"])).unwrap();
        if (pods().count(), good) != (wanted, wanted) {
            return Err(format!("{}: {good} of {wanted} pods are up to date", place.name));
        }
    }
    Ok(places.len())
}
