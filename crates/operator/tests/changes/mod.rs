//! The stories, by subject.

pub(crate) mod termination;
pub(crate) mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use grove_testbed::fixture::health;
use grove_testbed::kinds::{CLIQUES, EVENTS, GANGS, KAI_GROUPS, KUBE_GROUPS, Kind, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, condition, name_of, text};
use grove_testbed::sets::{clique, new_image};

/// Gives all cliques of a set another template.
async fn set_image(namespace: &Namespace, set: &str, image: &str) {
    let patch = new_image(&namespace.object(SETS, set), None, image);
    namespace.patch(SETS, set, patch).await;
}

/// Waits until a set is complete with this image in all its pods, and its update has ended.
async fn until_updated(namespace: &Namespace, set: &str, image: &str, pods: usize) {
    let what = format!("{set} is updated to {image}, with {pods} pods");
    namespace
        .until_is(&what, |state| {
            let all = state.of(PODS);
            let progress = &state.get(SETS, set).unwrap()["status"]["updateProgress"];
            all.len() == pods
                && all.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image)
                && state.is_complete()
                && !progress["updateEndedAt"].is_null()
        })
        .await;
}

fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready")["status"] == "True"
}

/// Every version of every pod since a moment, in order.
fn pods_since(state: &State, mark: usize) -> Vec<Arc<Value>> {
    let since = state.history[mark..].iter();
    since.filter(|(kind, _)| *kind == PODS).map(|(_, pod)| pod.clone()).collect()
}

/// The lowest number of ready pods at any moment since one, of those that a choice is about.
fn fewest_ready(state: &State, mark: usize, choice: impl Fn(&Value) -> bool) -> usize {
    let mut ready = BTreeMap::<String, bool>::new();
    let mut fewest = usize::MAX;
    for (number, (kind, pod)) in state.history.iter().enumerate() {
        if *kind != PODS || !choice(pod) {
            continue;
        }
        ready.insert(text(&pod["metadata"]["uid"]).to_owned(), is_ready(pod));
        if number >= mark {
            fewest = fewest.min(ready.values().filter(|is| **is).count());
        }
    }
    fewest
}

/// Names of objects in the order in which they were deleted since a moment.
fn deleted_since(state: &State, kind: Kind, mark: usize) -> Vec<Arc<Value>> {
    let mut seen = BTreeSet::new();
    let since = state.history[mark..].iter().filter(|(of, _)| *of == kind);
    let going = since.filter(|(_, one)| !one["metadata"]["deletionTimestamp"].is_null());
    let first = going.filter(|(_, one)| seen.insert(text(&one["metadata"]["uid"]).to_owned()));
    first.map(|(_, one)| one.clone()).collect()
}

fn uid_of(namespace: &Namespace, kind: Kind, name: &str) -> Value {
    namespace.object(kind, name)["metadata"]["uid"].clone()
}

fn uids_of_cliques(namespace: &Namespace) -> BTreeMap<String, Value> {
    namespace.look(|state| {
        let cliques = state.of(CLIQUES).into_iter();
        cliques.map(|one| (name_of(one), one["metadata"]["uid"].clone())).collect()
    })
}

/// The groups of the scheduler: uid and spec, by name.
fn scheduler_groups(namespace: &Namespace) -> Groups {
    namespace.look(|state| {
        let groups = [KAI_GROUPS, KUBE_GROUPS].into_iter().flat_map(|kind| state.of(kind));
        let group = |one: &Arc<Value>| {
            (name_of(one), (one["metadata"]["uid"].clone(), one["spec"].clone()))
        };
        groups.map(group).collect()
    })
}

type Groups = BTreeMap<String, (Value, Value)>;

/// Whatever version of them went by, the scheduler's objects were the same.
fn assert_groups_stayed(state: &State, mark: usize, before: &Groups) {
    for (kind, group) in &state.history[mark..] {
        if [KAI_GROUPS, KUBE_GROUPS].contains(kind) {
            let now = (group["metadata"]["uid"].clone(), group["spec"].clone());
            assert_eq!(before.get(&name_of(group)), Some(&now), "{}", name_of(group));
        }
    }
}

/// As long as a gang lives, each scheduler group of the gang stays the same. In the end every gang
/// has groups, and no group is without one.
pub(crate) async fn assert_groups_are_right(namespace: &Namespace, kind: Kind) {
    let uid = |gang: &Arc<Value>| Some(text(&gang["metadata"]["uid"]).to_owned());
    namespace
        .until_is("every gang has groups, and every group a gang", |state| {
            let gangs: BTreeSet<_> = state.of(GANGS).into_iter().map(uid).collect();
            let owners: BTreeSet<_> = state.of(kind).into_iter().map(|one| gang_of(one)).collect();
            owners == gangs
        })
        .await;
    let history = namespace.look(|state| state.history.clone());
    let mut reported = BTreeMap::new();
    for (_, group) in history.iter().filter(|(of, _)| *of == kind) {
        // The garbage collector takes the reference to a gang away that is gone before the Workload.
        let Some(gang) = gang_of(group) else { continue };
        let mut spec = group["spec"].clone();
        // In the order of the cliques, which does not matter and may change.
        if let Some(members) = spec["subGroups"].as_array_mut() {
            members.sort_by_key(|member| text(&member["name"]).to_owned());
        }
        let now = (group["metadata"]["uid"].clone(), spec);
        let (place, name) = (format!("{} {}", namespace.name, name_of(group)), name_of(group));
        assert_eq!(*reported.entry((gang, name)).or_insert_with(|| now.clone()), now, "{place}");
    }
    assert!(!reported.is_empty(), "{} had no groups", namespace.name);
}

/// Uid of the gang that owns a group.
fn gang_of(group: &Value) -> Option<String> {
    let mut owners = group["metadata"]["ownerReferences"].as_array()?.iter();
    let gang = owners.find(|owner| owner["kind"] == GANGS.name)?;
    Some(text(&gang["uid"]).to_owned())
}

/// A clique of pods that need places of a kind.
fn placed(name: &str, replicas: i32, place: &str) -> Value {
    let mut clique = clique(name, replicas);
    let containers = &mut clique["spec"]["podSpec"]["containers"];
    containers[0]["resources"] = json!({ "limits": { place: "1" }, "requests": { place: "1" } });
    clique
}

/// The containers of the first pods of a clique fail for good, or are well again.
async fn set_health(namespace: &Namespace, clique: &str, pods: usize, is_well: bool) {
    let all = namespace.look(|state| state.pods_of(clique));
    for pod in all.values().take(pods) {
        let status = health(pod, is_well);
        namespace.patch(PODS, &format!("{}/status", name_of(pod)), status).await;
    }
}

/// All pods of a clique fail.
async fn fail(namespace: &Namespace, clique: &str) {
    set_health(namespace, clique, usize::MAX, false).await;
}

async fn until_breached(namespace: &Namespace, clique: &str) -> Timestamp {
    until_lost(namespace, CLIQUES, clique).await
}

/// Waits until a PodClique or group reports that it lost the minimum that it had, and returns since when.
async fn until_lost(namespace: &Namespace, kind: Kind, name: &str) -> Timestamp {
    let what = format!("{name} is below its minimum");
    namespace
        .until(&what, |state| {
            let object = state.get(kind, name)?;
            let breached = condition(object, "MinAvailableBreached");
            let had_minimum = condition(object, "MinAvailableReached")["status"] == "True";
            let is_lost = breached["status"] == "True" && had_minimum;
            is_lost.then(|| text(&breached["lastTransitionTime"]).parse().unwrap())
        })
        .await
}

/// While an object reports a running update, it reports no breach; some version has shown that.
fn assert_no_breach_during_update(state: &State, kind: Kind, mark: usize) {
    let updating = |one: &Value| {
        let progress = &one["status"]["updateProgress"];
        !progress.is_null() && progress["updateEndedAt"].is_null()
    };
    let since = state.history[mark..].iter().filter(|(of, one)| *of == kind && updating(one));
    let reasons: Vec<&str> =
        since.map(|(_, one)| text(&condition(one, "MinAvailableBreached")["reason"])).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|one| *one == "UpdateInProgress"));
}

/// Waits until a set has events with these reasons, in this order, as `kubectl describe` lists them.
async fn until_events(namespace: &Namespace, set: &str, story: &[&str]) {
    let what = format!("{set} tells {story:?}");
    namespace
        .until_is(&what, |state| {
            let events = state.of(EVENTS).into_iter().filter(|event| {
                let about = &event["involvedObject"];
                about["kind"] == "PodCliqueSet"
                    && about["name"] == set
                    && story.contains(&text(&event["reason"]))
            });
            let mut reported: Vec<(&str, u64, &str)> = events
                .map(|event| {
                    let version = text(&event["metadata"]["resourceVersion"]).parse().unwrap();
                    (text(&event["lastTimestamp"]), version, text(&event["reason"]))
                })
                .collect();
            reported.sort_unstable();
            reported.dedup_by_key(|(_, _, reason)| *reason);
            reported.iter().map(|(_, _, reason)| *reason).eq(story.iter().copied())
        })
        .await;
}

fn mark(namespace: &Namespace) -> usize {
    namespace.look(|state| state.history.len())
}
