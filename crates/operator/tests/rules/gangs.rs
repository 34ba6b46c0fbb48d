//! Which gangs there are, what is in them, and when their pods may go.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Fixture, pod, rules, scale};
use grove_testbed::kinds::{CLIQUES, GANGS, GROUPS, Kind, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, condition, is_initialized, name_of, text};
use grove_testbed::sets::{Manifest as _, clique, group, set, small};

rules! {
    a_gang_lists_standalone_cliques_before_groups,
    a_gang_is_complete_before_any_pod_is_released,
    the_minimum_of_a_clique_is_enough_to_start,
    scaled_gangs_wait_for_their_scheduled_base_gang,
    a_gang_names_scheduler_and_priority_of_its_set,
    labels_and_annotations_are_copied_to_gangs,
    an_annotation_without_effect_changes_no_pod,
    the_gang_of_a_breached_group_keeps_its_members,
}

/// Names and minima of the members of a gang.
fn pod_groups(gang: &Value) -> Vec<(String, i64)> {
    let groups = gang["spec"]["podgroups"].as_array().unwrap().iter();
    groups
        .map(|one| (text(&one["name"]).to_owned(), one["minReplicas"].as_i64().unwrap()))
        .collect()
}

async fn a_gang_lists_standalone_cliques_before_groups(fixture: Fixture, namespace: Namespace) {
    let cliques = [
        clique("e", 1),
        clique("d", 2).min_available(1),
        clique("c", 1),
        clique("b", 1),
        clique("a", 1),
    ];
    // Neither cliques nor groups are in alphabetical order, and one group has two in the base gang.
    let groups = [group("z", &["d", "b"], 2, 2), group("y", &["c"], 2, 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &groups), 10).await;

    assert_eq!(namespace.names(GANGS), ["x-0", "x-0-y-0"]);
    let expect = |gang: &str, expected: &[(&str, i64)]| {
        let found = pod_groups(&namespace.object(GANGS, gang));
        let expected: Vec<_> =
            expected.iter().map(|(name, min)| ((*name).to_owned(), *min)).collect();
        assert_eq!(found, expected, "{gang}");
    };
    expect(
        "x-0",
        &[
            ("x-0-e", 1),
            ("x-0-a", 1),
            ("x-0-z-0-d", 1),
            ("x-0-z-0-b", 1),
            ("x-0-z-1-d", 1),
            ("x-0-z-1-b", 1),
            ("x-0-y-0-c", 1),
        ],
    );
    expect("x-0-y-0", &[("x-0-y-1-c", 1)]);
    let scaled = namespace.object(CLIQUES, "x-0-y-1-c");
    assert_eq!(scaled["metadata"]["labels"]["grove.io/podgang"], "x-0-y-0");
    assert_eq!(scaled["metadata"]["labels"]["grove.io/base-podgang"], "x-0");
    let references = &namespace.object(GANGS, "x-0")["spec"]["podgroups"][2]["podReferences"];
    assert_eq!(references.as_array().unwrap().len(), 2, "all pods, not just the minimum");
}

fn version(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap()
}

/// The versions of an object that went by.
fn versions(state: &State, kind: Kind, name: &str) -> Vec<Arc<Value>> {
    let all = state.history.iter().filter(|(of, one)| *of == kind && name_of(one) == name);
    all.map(|(_, one)| one.clone()).collect()
}

/// The first version of which something is true.
fn first(versions: &[Arc<Value>], is: impl Fn(&Value) -> bool) -> u64 {
    version(versions.iter().find(|one| is(one)).expect("it came to that"))
}

async fn a_gang_is_complete_before_any_pod_is_released(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;

    namespace.look(|state| {
        let mut complete = BTreeMap::new();
        for name in ["x-0", "x-0-decode-0"] {
            let gang = versions(state, GANGS, name);
            for one in gang[0]["spec"]["podgroups"].as_array().unwrap() {
                assert_eq!(one["podReferences"], json!([]), "{name} is there before its pods");
            }
            let says: Vec<_> =
                gang.iter().map(|one| text(&condition(one, "Initialized")["reason"])).collect();
            let mut order = says.clone();
            order.dedup();
            let known = ["", "PodsPending", "RefsSyncing", "Ready"];
            let rank = |reason: &&str| known.iter().position(|one| one == reason).unwrap();
            assert!(order.is_sorted_by_key(rank), "{name}: {says:?}");
            assert_eq!(order[1], "PodsPending", "{name}: {says:?}");
            complete.insert(name, first(&gang, is_initialized));
        }
        let pods: Vec<_> =
            state.names(PODS).into_iter().map(|name| versions(state, PODS, &name)).collect();
        let gang_of =
            |pod: &[Arc<Value>]| text(&pod[0]["metadata"]["labels"]["grove.io/podgang"]).to_owned();
        let scheduled = |pod: &Value| condition(pod, "PodScheduled")["status"] == "True";
        let base = pods.iter().filter(|pod| gang_of(pod) == "x-0");
        let base_scheduled = base.map(|pod| first(pod, scheduled)).max().unwrap();
        for pod in &pods {
            let (name, gang) = (name_of(&pod[0]), gang_of(pod));
            let gates = json!([{ "name": "grove.io/podgang-pending-creation" }]);
            assert_eq!(pod[0]["spec"]["schedulingGates"], gates, "{name}");
            let free = first(pod, |one| one["spec"]["schedulingGates"].is_null());
            assert!(free > complete[gang.as_str()], "{name} waits for {gang}");
            assert!(gang == "x-0" || free > base_scheduled, "{name} waits for x-0");
        }
    });
}

/// Lets the pods of a clique ask for a place.
fn wants(mut clique: Value, place: &str) -> Value {
    let container = &mut clique["spec"]["podSpec"]["containers"][0];
    container["resources"] = json!({ "limits": { place: "1" } });
    clique
}

async fn the_minimum_of_a_clique_is_enough_to_start(fixture: Fixture, namespace: Namespace) {
    fixture.node("minimum", "example.com/minimum", 2).await;
    let clique = wants(clique("a", 4).min_available(2), "example.com/minimum");
    namespace.create(SETS, &set("x", &[clique], &[])).await;

    namespace.until_field(SETS, "x", "/status/availableReplicas", json!(1)).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/readyReplicas", json!(2)).await;
    let clique = namespace.object(CLIQUES, "x-0-a");
    assert_eq!(clique["status"]["scheduledReplicas"], 2);
    assert_eq!(clique["status"]["replicas"], 4);
    assert_eq!(condition(&clique, "PodCliqueScheduled")["status"], "True");
    assert_eq!(condition(&clique, "MinAvailableBreached")["status"], "False");
    let gang = namespace.object(GANGS, "x-0");
    let references = gang["spec"]["podgroups"][0]["podReferences"].as_array().unwrap();
    assert_eq!(
        (gang["spec"]["podgroups"][0]["minReplicas"].as_i64(), references.len()),
        (Some(2), 4)
    );
}

async fn scaled_gangs_wait_for_their_scheduled_base_gang(fixture: Fixture, namespace: Namespace) {
    let place = "example.com/base";
    let cliques = [wants(clique("a", 2), place), clique("b", 1)];
    namespace.create(SETS, &set("x", &cliques, &[group("g", &["b"], 3, 1)])).await;

    let gated = |state: &State, clique: &str| {
        let pods = state.pods_of(clique);
        pods.len() == 1 && pods.values().all(|pod| !pod["spec"]["schedulingGates"].is_null())
    };
    namespace.until_field(CLIQUES, "x-0-g-0-b", "/status/readyReplicas", json!(1)).await;
    namespace
        .until_is("both scaled gangs are complete and wait", |state| {
            let gangs = ["x-0-g-0", "x-0-g-1"].map(|name| state.get(GANGS, name));
            gangs.into_iter().flatten().filter(|gang| is_initialized(gang)).count() == 2
        })
        .await;
    fixture.node("half", place, 1).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/scheduledReplicas", json!(1)).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    for clique in ["x-0-g-1-b", "x-0-g-2-b"] {
        assert!(
            namespace.look(|state| gated(state, clique)),
            "half of the base gang is not enough"
        );
        let status = &namespace.object(CLIQUES, clique)["status"];
        assert_eq!(status["scheduleGatedReplicas"], 1);
    }
    fixture.node("whole", place, 1).await;
    namespace.until_complete(5).await;
}

async fn a_gang_names_scheduler_and_priority_of_its_set(fixture: Fixture, namespace: Namespace) {
    let mut urgent = small("x");
    urgent["spec"]["template"]["priorityClassName"] = json!("system-cluster-critical");
    fixture.deploy(&namespace, &urgent, 5).await;

    for gang in namespace.look(|state| state.of(GANGS).into_iter().cloned().collect::<Vec<_>>()) {
        assert_eq!(gang["spec"]["priorityClassName"], "system-cluster-critical");
        assert_eq!(gang["metadata"]["labels"]["grove.io/scheduler-name"], "default-scheduler");
    }
    for pod in namespace.look(|state| state.of(PODS).into_iter().cloned().collect::<Vec<_>>()) {
        assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
        assert_eq!(pod["spec"]["priorityClassName"], json!(null), "that is the clique's own");
    }
}

async fn labels_and_annotations_are_copied_to_gangs(fixture: Fixture, namespace: Namespace) {
    let mut labelled = small("x");
    labelled["metadata"]["labels"] = json!({ "team": "a", "grove.io/own": "no" });
    labelled["metadata"]["annotations"] = json!({ "queue": "q", "grove.io/own": "no" });
    fixture.deploy(&namespace, &labelled, 5).await;

    let gang = namespace.object(GANGS, "x-0-decode-0");
    assert_eq!(gang["metadata"]["labels"]["team"], "a");
    assert_eq!(gang["metadata"]["annotations"]["queue"], "q");
    assert_eq!(gang["metadata"]["labels"]["grove.io/own"], json!(null));
    assert_eq!(gang["metadata"]["annotations"]["grove.io/own"], json!(null));
    let clique = namespace.object(CLIQUES, "x-0-router");
    assert_eq!(clique["metadata"]["labels"]["team"], json!(null), "gangs only");

    let theirs = json!({ "metadata": { "annotations": { "theirs": "yes" } } });
    namespace.patch(GANGS, "x-0", theirs).await;
    let gone =
        json!({ "metadata": { "labels": { "team": null }, "annotations": { "queue": "r" } } });
    namespace.patch(SETS, "x", gone).await;
    // The scheduler does not act on these keys, so they travel with the next change of each gang.
    for clique in ["x-0-router", "x-0-decode-1-worker"] {
        namespace.delete(PODS, &name_of(&pod(&namespace, clique, 0))).await;
    }
    for gang in ["x-0", "x-0-decode-0"] {
        namespace.until_field(GANGS, gang, "/metadata/labels/team", json!(null)).await;
        namespace.until_field(GANGS, gang, "/metadata/annotations/queue", json!("r")).await;
    }
    assert_eq!(namespace.object(GANGS, "x-0")["metadata"]["annotations"]["theirs"], "yes");
}

async fn an_annotation_without_effect_changes_no_pod(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let annotate = |key: &'static str| {
        let namespace = namespace.clone();
        async move {
            let patch = json!({ "metadata": { "annotations": { key: "nothing" } } });
            namespace.patch(SETS, "x", patch).await;
        }
    };

    fixture.until_no_writes(&namespace).await;
    let writes = fixture.writes_after(&namespace, annotate("grove.io/reconcile-trigger")).await;
    assert_eq!(writes, [""; 0], "a trigger finds everything in order");
    let writes = fixture.writes_after(&namespace, annotate("note")).await;
    assert_eq!(writes, [""; 0], "a note that no scheduler acts on waits for the next change");
}

async fn the_gang_of_a_breached_group_keeps_its_members(fixture: Fixture, namespace: Namespace) {
    let set = set("x", &[clique("a", 1)], &[group("g", &["a"], 2, 2)]);
    fixture.deploy(&namespace, &set, 2).await;

    scale(&namespace, GROUPS, "x-0-g", 1).await;
    namespace.until_gone(CLIQUES, "x-0-g-1-a").await;
    namespace
        .until_is("the breach is reported", |state| {
            let group = state.get(GROUPS, "x-0-g").unwrap();
            condition(group, "MinAvailableBreached")["status"] == "True"
        })
        .await;
    namespace.until_field(SETS, "x", "/status/availableReplicas", json!(0)).await;
    let members = pod_groups(&namespace.object(GANGS, "x-0"));
    assert_eq!(members, [("x-0-g-0-a".to_owned(), 1), ("x-0-g-1-a".to_owned(), 1)]);
    scale(&namespace, GROUPS, "x-0-g", 2).await;
    namespace.until_complete(2).await;
}
