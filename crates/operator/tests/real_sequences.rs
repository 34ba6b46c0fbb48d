//! Anything, in any order, while the operator is killed again and again: at rest everything is what the
//! sets say.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::time::Duration;

use grove_runtime::clock::Clock;
use grove_runtime::rng::Rng;
use http::Method;
use serde_json::{Value, json};
use support::kinds::{CLIQUES, GROUPS, Kind, PODS, SETS};
use support::mirror::{Namespace, condition, name_of, send, text};
use support::{Operator, Setup, World, sets};
use tokio::task::JoinSet;
use xtask::cluster::Kube;

const SEQUENCES: u64 = 20;
const EVENTS: usize = 8;
/// Sequences that run at a time.
const AT_ONCE: u64 = 5;

const AGAIN: Setup<'_> = Setup {
    configuration: "",
    instance: "operator-0",
    install_crds: false,
    init_image: Some("grove-initc:test"),
};

/// Changes of sets are refused while nobody answers the webhooks.
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
    clock.timeout(support::DEADLINE, accepted).await.expect("a change is accepted");
}

async fn scale(namespace: &Namespace, kind: Kind, name: &str, replicas: u64) {
    let patch = json!({ "spec": { "replicas": replicas } });
    insist(namespace, kind, &format!("{name}/scale"), &patch).await;
}

async fn set_image(namespace: &Namespace, image: &str) {
    let mut cliques = namespace.object(SETS, "x")["spec"]["template"]["cliques"].clone();
    for clique in cliques.as_array_mut().unwrap() {
        clique["spec"]["podSpec"]["containers"][0]["image"] = image.into();
    }
    let patch = json!({ "spec": { "template": { "cliques": cliques } } });
    insist(namespace, SETS, "x", &patch).await;
}

/// The containers of a pod fail for good, or are well again.
async fn set_ready(namespace: &Namespace, pod: &Value, ready: bool) {
    let mut conditions = pod["status"]["conditions"].clone();
    for one in conditions.as_array_mut().unwrap() {
        if one["type"] == "Ready" {
            one["status"] = json!(if ready { "True" } else { "False" });
        }
    }
    let ended = if ready { Value::Null } else { json!({ "exitCode": 1 }) };
    let containers = json!([{ "name": "c", "ready": ready, "started": ready, "image": "busybox",
        "imageID": "", "restartCount": 1, "lastState": { "terminated": ended } }]);
    let status = json!({ "conditions": conditions, "containerStatuses": containers });
    // It may be gone by now.
    let status = json!({ "status": status });
    let _ = namespace.try_patch(PODS, &format!("{}/status", name_of(pod)), status).await;
}

/// Deletes a pod, which may be gone by now.
async fn delete(namespace: &Namespace, pod: &Value) {
    let path = format!("{}/{}", PODS.in_namespace(&namespace.name), name_of(pod));
    let _ = send(namespace.client(), Method::DELETE, &path, &Value::Null).await;
}

async fn sequence(namespace: Namespace, rng: Rng) {
    let clock = Clock::system();
    let pick = |below: u64| rng.next_u64() % below;
    for _ in 0..EVENTS {
        let pods = namespace.look(|state| {
            let ready = |pod: &Value| condition(pod, "Ready")["status"] == "True";
            state.of(PODS).into_iter().filter(|pod| ready(pod)).cloned().collect::<Vec<_>>()
        });
        let any_pod = usize::try_from(pick(64)).unwrap();
        let any_pod = pods.get(any_pod % pods.len().max(1));
        match pick(9) {
            0 => scale(&namespace, SETS, "x", 1 + pick(3)).await,
            1 => scale(&namespace, GROUPS, "x-0-decode", 1 + pick(3)).await,
            2 => scale(&namespace, CLIQUES, "x-0-router", 1 + pick(3)).await,
            3..=5 => {
                set_image(&namespace, ["a", "b", "c"][usize::try_from(pick(3)).unwrap()]).await;
            }
            6 => {
                if let Some(pod) = any_pod {
                    set_ready(&namespace, pod, false).await;
                }
            }
            7 => {
                if let Some(pod) = any_pod {
                    delete(&namespace, pod).await;
                }
            }
            // A node is lost, and with it every pod that was on it.
            _ => {
                let node = any_pod.map(|pod| pod["spec"]["nodeName"].clone());
                for pod in pods.iter().filter(|pod| Some(&pod["spec"]["nodeName"]) == node.as_ref())
                {
                    delete(&namespace, pod).await;
                }
            }
        }
        clock.sleep(Duration::from_millis(pick(1500))).await;
    }
    // What failed is well again.
    let failed = namespace.look(|state| {
        let failed = |pod: &Value| condition(pod, "Ready")["status"] == "False";
        state.of(PODS).into_iter().filter(|pod| failed(pod)).cloned().collect::<Vec<_>>()
    });
    for pod in failed {
        set_ready(&namespace, &pod, true).await;
    }
}

/// Everything is complete, and has the template of the set down to the last pod.
async fn until_at_rest(namespace: &Namespace) {
    namespace
        .until_is("everything is at rest", |state| {
            let set = state.get(SETS, "x").unwrap();
            let image = &set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0];
            let progress = &set["status"]["updateProgress"];
            let current = |pod: &Value| pod["spec"]["containers"][0]["image"] == image["image"];
            let owned = |one: &Value| {
                let owner = text(&one["metadata"]["ownerReferences"][0]["uid"]);
                let mut all = state.objects.values();
                all.any(|other| text(&other["metadata"]["uid"]) == owner)
            };
            state.is_complete()
                && (progress.is_null() || !progress["updateEndedAt"].is_null())
                && state.of(PODS).iter().all(|pod| current(pod) && owned(pod))
                && state.of(CLIQUES).iter().all(|clique| owned(clique))
        })
        .await;
}

async fn kill(operator: Operator, rng: &Rng) {
    operator.env.clock.sleep(Duration::from_millis(500 + rng.next_u64() % 2500)).await;
    operator.crash().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn twenty_random_sequences_under_kills_come_to_rest() {
    let world = World::full(Kube::default());
    let mut operator = world.operator(Setup::default()).await;
    let mirror = world.mirror().await;
    let kills = Rng::seeded(99);
    for first in (0..SEQUENCES).step_by(usize::try_from(AT_ONCE).unwrap()) {
        let mut namespaces = Vec::new();
        for seed in first..first + AT_ONCE {
            let namespace = mirror.new_namespace(&format!("seed-{seed}")).await;
            let mut set = sets::with_replicas(sets::small("x"), 2);
            set["spec"]["template"]["terminationDelay"] = json!("2s");
            namespace.create(SETS, &set).await;
            namespaces.push((namespace, seed));
        }
        for (namespace, _) in &namespaces {
            namespace.until_complete(10).await;
        }
        let mut running = JoinSet::new();
        for (namespace, seed) in &namespaces {
            running.spawn(sequence(namespace.clone(), Rng::seeded(*seed)));
        }
        while !running.is_empty() {
            kill(operator, &kills).await;
            operator = world.operator(AGAIN).await;
            while let Some(ended) = running.try_join_next() {
                ended.unwrap();
            }
        }
        for (namespace, _) in &namespaces {
            until_at_rest(namespace).await;
        }
    }
    operator.stop().await;
}
