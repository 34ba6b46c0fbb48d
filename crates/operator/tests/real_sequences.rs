//! Anything, in any order, while the operator is killed again and again: nothing is deleted without a
//! reason on the way, and at rest everything is what the sets say.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use grove_runtime::clock::Clock;
use grove_runtime::rng::Rng;
use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::health;
use grove_testbed::invariants::{delete_is_justified, is_ready, not_converged};
use grove_testbed::kinds::{CLIQUES, EVENTS, GROUPS, Kind, PODS, SETS};
use grove_testbed::mirror::{Mirror, Namespace, State, condition, name_of, send, text};
use grove_testbed::operator::{OPERATOR, Operator, Setup};
use grove_testbed::sets::{self, Manifest as _};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use xtask::cluster::Kube;

const SEQUENCES: u64 = 20;
const STEPS: usize = 8;
/// Sequences that run at a time.
const AT_ONCE: u64 = 5;

const AGAIN: Setup<'_> = Setup {
    configuration: "",
    instance: "operator-0",
    install_crds: false,
    init_image: Some("grove-initc:test"),
};

/// The API server refuses changes of sets while no operator serves the webhooks.
async fn insist(namespace: &Namespace, kind: Kind, name: &str, patch: &Value) {
    let clock = Clock::system();
    let accepted = async {
        while let Err(refusal) = namespace.try_patch(kind, name, patch.clone()).await {
            assert!(!refusal.starts_with("404") || kind != SETS, "{refusal}");
            if refusal.starts_with("404") {
                return;
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
    };
    clock.timeout(grove_testbed::DEADLINE, accepted).await.expect("a change is accepted");
}

async fn scale(namespace: &Namespace, kind: Kind, name: &str, replicas: u64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    insist(namespace, kind, &format!("{name}/scale"), &patch).await;
}

/// The containers of a pod fail for good, or are well again. It may be gone by now.
async fn set_health(namespace: &Namespace, pod: &Value, is_well: bool) {
    let status = health(pod, is_well);
    let _ = namespace.try_patch(PODS, &format!("{}/status", name_of(pod)), status).await;
}

/// Deletes a pod, which may be gone by now.
async fn delete(namespace: &Namespace, pod: &Value) -> String {
    let path = format!("{}/{}", PODS.in_namespace(&namespace.name), name_of(pod));
    let _ = send(namespace.client(), Method::DELETE, &path, &Value::Null).await;
    path
}

// === nodes ===

/// A node goes down for good: Kubernetes evicts its pods, of all namespaces, and then there is no such
/// node any more. The sequences share nodes, so another one may have taken it down already.
async fn lose_node(namespaces: &[Namespace], node: &str) -> Option<Value> {
    let client = namespaces[0].client();
    let path = format!("/api/v1/nodes/{node}");
    let before = send(client, Method::GET, &path, &Value::Null).await.ok()?;
    let taint = json!({ "key": "test.grove.io/lost", "effect": "NoExecute" });
    let taint = json!({ "spec": { "taints": [taint] } });
    send(client, Method::PATCH, &path, &taint).await.ok()?;
    for namespace in namespaces {
        namespace
            .until_is("the pods of a lost node go", |state| {
                state.of(PODS).into_iter().all(|pod| pod["spec"]["nodeName"] != node)
            })
            .await;
    }
    send(client, Method::DELETE, &path, &Value::Null).await.ok()?;
    Some(before)
}

/// It is replaced by another one of its name.
async fn replace_node(namespace: &Namespace, lost: Option<Value>) {
    let Some(lost) = lost else { return };
    let (metadata, status) = (&lost["metadata"], &lost["status"]);
    let (capacity, allocatable) = (&status["capacity"], &status["allocatable"]);
    let node = json!({
        "metadata": { "name": metadata["name"], "labels": metadata["labels"],
            "annotations": metadata["annotations"] },
        "status": { "capacity": capacity, "allocatable": allocatable },
    });
    let client = namespace.client();
    send(client, Method::POST, "/api/v1/nodes", &node).await.unwrap();
    // Its simulated kubelet only acts on changes, and a pod may have been bound before it started.
    let clock = Clock::system();
    let path = format!("/api/v1/nodes/{}", name_of(&lost));
    let is_there = async {
        while let Ok(node) = send(client, Method::GET, &path, &Value::Null).await
            && condition(&node, "Ready").is_null()
        {
            clock.sleep(Duration::from_millis(50)).await;
        }
    };
    clock.timeout(grove_testbed::DEADLINE, is_there).await.expect("the node has a kubelet");
    let bound = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", name_of(&lost));
    let bound = send(client, Method::GET, &bound, &Value::Null).await.unwrap();
    for pod in bound["items"].as_array().unwrap() {
        let (place, name) = (text(&pod["metadata"]["namespace"]), name_of(pod));
        let path = format!("{}/{name}", PODS.in_namespace(place));
        let touch = json!({ "metadata": { "annotations": { "test.grove.io/node": "replaced" } } });
        let _ = send(client, Method::PATCH, &path, &touch).await;
    }
}

// === sequences ===

/// What happens in one namespace of several. Answers with the pods that a user deleted.
async fn sequence(namespaces: Arc<Vec<Namespace>>, number: usize, rng: Rng) -> Vec<String> {
    let namespace = namespaces[number].clone();
    let clock = Clock::system();
    let pick = |below: u64| rng.next_u64() % below;
    let (mut lost, mut deleted) = (None, Vec::new());
    for _ in 0..STEPS {
        let pods = namespace.look(|state| {
            state.of(PODS).into_iter().filter(|pod| is_ready(pod)).cloned().collect::<Vec<_>>()
        });
        let any_pod = usize::try_from(pick(64)).unwrap();
        let any_pod = pods.get(any_pod % pods.len().max(1));
        match pick(9) {
            0 => scale(&namespace, SETS, "x", 1 + pick(3)).await,
            1 => scale(&namespace, GROUPS, "x-0-decode", 1 + pick(3)).await,
            2 => scale(&namespace, CLIQUES, "x-0-router", 1 + pick(3)).await,
            3..=5 => {
                let image = ["a", "b", "c"][usize::try_from(pick(3)).unwrap()];
                let patch = sets::new_image(&namespace.object(SETS, "x"), None, image);
                insist(&namespace, SETS, "x", &patch).await;
            }
            6 => {
                if let Some(pod) = any_pod {
                    set_health(&namespace, pod, false).await;
                }
            }
            7 => {
                if let Some(pod) = any_pod {
                    deleted.push(delete(&namespace, pod).await);
                }
            }
            _ => {
                if let Some(pod) = any_pod {
                    replace_node(&namespace, lost.take()).await;
                    lost = lose_node(&namespaces, text(&pod["spec"]["nodeName"])).await;
                }
            }
        }
        clock.sleep(Duration::from_millis(pick(1500))).await;
    }
    // What failed is well again.
    replace_node(&namespace, lost).await;
    let failed = namespace.look(|state| {
        let failed = |pod: &Value| condition(pod, "Ready")["status"] == "False";
        state.of(PODS).into_iter().filter(|pod| failed(pod)).cloned().collect::<Vec<_>>()
    });
    for pod in failed {
        set_health(&namespace, &pod, true).await;
    }
    deleted
}

/// Every object is as the set specifies, and no other is left.
async fn until_at_rest(namespace: &Namespace) {
    let at_rest = |state: &State| {
        let all: Vec<&Value> = state.objects.values().map(|one| &**one).collect();
        not_converged(&all).is_none() && state.is_complete()
    };
    namespace.until_is("everything is at rest", at_rest).await;
}

// === what the operator deleted ===

/// How many changes of its namespace ago an operator may have seen its reason for a delete: it works on a
/// copy, and users and Kubernetes go on meanwhile.
const STALE: usize = 20;

/// Whatever the operator deleted, it had a reason to. The watches of a namespace are put into the one order
/// that they have in the API server, and every delete is judged by what there was before it.
fn assert_deletes_had_reasons(namespace: &Namespace, by_operator: &BTreeSet<String>) -> usize {
    let (history, gone) = namespace.look(|state| (state.history.clone(), state.gone.clone()));
    let version =
        |one: &Value| -> u64 { text(&one["metadata"]["resourceVersion"]).parse().unwrap() };
    let versions = history.into_iter().enumerate().filter(|(_, (kind, _))| *kind != EVENTS);
    let mut versions: Vec<_> =
        versions.map(|(number, (kind, one))| (version(&one), kind, one, number)).collect();
    versions.sort_by_key(|(version, ..)| *version);
    let (mut judged, mut lists) = (BTreeSet::new(), BTreeSet::new());
    let mut now = BTreeMap::<String, Arc<Value>>::new();
    let mut moments = VecDeque::<Vec<Arc<Value>>>::new();
    for (_, kind, object, number) in versions {
        let uid = text(&object["metadata"]["uid"]).to_owned();
        let path = format!("{}/{}", kind.in_namespace(&namespace.name), name_of(&object));
        let goes = text(&object["metadata"]["deletionTimestamp"]);
        let is_gone = gone.contains(&number);
        let is_evicted = condition(&object, "DisruptionTarget")["status"] == "True";
        // A termination decides when the gang lists the cliques; the deletes follow when their groups report it.
        // Only its first version counts: what happens later is no reason.
        let list = text(&object["metadata"]["annotations"]["grove.io/terminating-podcliques"]);
        let is_new = !list.is_empty() && lists.insert(list.to_owned());
        for listed in list.split(',').filter(|_| is_new).filter_map(|uid| now.get(uid)) {
            let writes = object["metadata"]["managedFields"].as_array().into_iter().flatten();
            let Some(at) = writes.filter_map(|one| text(&one["time"]).parse().ok()).max() else {
                continue;
            };
            let is_justified = |moment: &Vec<Arc<Value>>| {
                let among: Vec<&Value> = moment.iter().map(|one| &**one).collect();
                delete_is_justified(listed, &among, at)
            };
            let uid = text(&listed["metadata"]["uid"]);
            if moments.iter().rev().any(is_justified) {
                judged.insert(uid.to_owned());
            }
        }
        let is_judged =
            [PODS, CLIQUES].contains(&kind) && by_operator.contains(&path) && !is_evicted;
        if is_judged && (is_gone || !goes.is_empty()) && judged.insert(uid.clone()) {
            let at = goes.parse().unwrap_or_else(|_| Clock::system().wall());
            let had_reason = moments.iter().rev().any(|moment| {
                delete_is_justified(
                    &object,
                    &moment.iter().map(|one| &**one).collect::<Vec<_>>(),
                    at,
                )
            });
            let name = &namespace.name;
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            let owner = now.get(text(owner));
            let listed = lists.iter().filter(|list| list.contains(&uid)).count();
            assert!(
                had_reason,
                "{name}: deleted what is wanted, current and well, and listed for termination {listed} \
                 times: {object}\nof {owner:?}"
            );
        }
        if is_gone {
            now.remove(&uid);
        } else {
            now.insert(uid, object);
        }
        moments.push_back(now.values().cloned().collect());
        if moments.len() > STALE {
            moments.pop_front();
        }
    }
    judged.len()
}

/// The objects that an operator asked to delete.
fn deletes(operator: &Operator) -> impl Iterator<Item = String> {
    let sent = operator.requests.since(0).into_iter();
    sent.filter(|sent| sent.method == Method::DELETE).map(|sent| sent.path)
}

async fn kill(operator: Operator, rng: &Rng) -> Vec<String> {
    operator.env.clock.sleep(Duration::from_millis(500 + rng.next_u64() % 2500)).await;
    let deleted = deletes(&operator).collect();
    operator.crash().await;
    deleted
}

async fn deploy(mirror: &Mirror, seed: u64) -> Namespace {
    let namespace = mirror.new_namespace(&format!("seed-{seed}")).await;
    let set = sets::small("x").replicas(2).termination_delay("2s");
    namespace.create(SETS, &set).await;
    namespace
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn twenty_random_sequences_under_kills_converge() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let mut operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let kills = Rng::seeded(99);
    let mut judged = 0;
    for first in (0..SEQUENCES).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let mut namespaces = Vec::new();
        for seed in first..first + AT_ONCE {
            namespaces.push(deploy(&mirror, seed).await);
        }
        for namespace in &namespaces {
            namespace.until_complete(10).await;
        }
        let namespaces = Arc::new(namespaces);
        let mut running = JoinSet::new();
        for (number, seed) in (first..first + AT_ONCE).enumerate() {
            running.spawn(sequence(namespaces.clone(), number, Rng::seeded(seed)));
        }
        let (mut deleted, mut by_users) = (BTreeSet::new(), Vec::new());
        while !running.is_empty() {
            deleted.extend(kill(operator, &kills).await);
            operator = cluster.operator(AGAIN).await;
            while let Some(ended) = running.try_join_next() {
                by_users.extend(ended.unwrap());
            }
        }
        for namespace in namespaces.iter() {
            until_at_rest(namespace).await;
        }
        deleted.extend(deletes(&operator));
        // The operator may have wanted the same a moment later, for a reason that came up by then.
        deleted.retain(|path| !by_users.contains(path));
        for namespace in namespaces.iter() {
            judged += assert_deletes_had_reasons(namespace, &deleted);
        }
    }
    println!("{judged} deletes were judged");
    assert!(judged > 100, "{judged}");
    operator.stop().await;
}
