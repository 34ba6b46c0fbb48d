//! Complete processes on the real API server: an idle one sends nothing, and a dropped one leaves nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

#[path = "../examples/controller.rs"]
#[allow(dead_code, reason = "its main is for the command line")]
mod example;
mod support;

use std::time::Duration;

use grove_runtime::cache::Caches;
use grove_runtime::controller::{Attempt, Controller};
use grove_runtime::lease::{Elector, LeaseConfig};
use grove_runtime::process::{Env, Process};
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::MetaView;
use grove_runtime::wake::by;
use grove_runtime::watch::Selection;
use grove_runtime::write::{Precondition, Verb, Write, WriteError, Writer};
use grove_testbed::cluster::client_of;
use grove_testbed::in_time;
use grove_testbed::kinds::{PODS, SERVICES};
use grove_testbed::mirror::Mirror;
use grove_testbed::requests::{Requests, Sent};
use http::Method;
use kube::Client;
use serde_json::json;
use support::{CONFIG_MAPS, api_server, created, env};
use tokio::runtime::Handle;
use tokio::sync::watch;
use xtask::cluster::Cluster;

/// A client and the requests that it sends.
async fn recorded_client(cluster: &Cluster) -> (Client, Requests) {
    let requests = Requests::default();
    (requests.of(client_of(cluster.admin()).await), requests)
}

fn renews_lease(sent: &Sent) -> bool {
    sent.method == Method::PUT && sent.path.contains("/leases/")
}

/// Counters of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    runs: usize,
    seen_marked: usize,
}

/// A process that labels every config map with its identity, once.
fn marker(client: Client, env: &Env, identity: &'static str) -> (Process, watch::Receiver<Work>) {
    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let lease = LeaseConfig {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
        ..LeaseConfig::new(ObjectKey::new("default", "marker"), identity.to_owned())
    };
    let elector = Elector::new(client.clone(), env, lease);
    let leadership = elector.leadership();
    process.stage("lease").spawn(|shutdown| elector.run(shutdown));
    let mut caches = Caches::new(client.clone(), env, process.stage("caches"));
    let declared = caches.declare::<MetaView>(Selection::all(CONFIG_MAPS).labels("made-by=test"));
    let maps = caches.start(declared);
    let writer = Writer::new(client, env, leadership.clone(), "marker");
    let queue = Queue::new(env.clock.clone());
    queue.follow(
        &maps,
        Priority::UserChange,
        by(|map: &MetaView| map.metadata.labels.clone()),
        |map| vec![map.metadata.key.clone()],
    );
    let controller = Controller::new("marker", queue, 4, env, &caches, leadership);
    let (work, progress) = watch::channel(Work::default());
    process.stage("controllers").spawn(|shutdown| {
        controller.run(shutdown, move |attempt: Attempt<ObjectKey>| {
            let (map, writer) = (maps.get(&attempt.key), writer.clone());
            let marked =
                map.as_ref().is_some_and(|map| map.metadata.labels.get("marked").is_some());
            work.send_modify(|work| {
                work.runs += 1;
                work.seen_marked += usize::from(marked);
            });
            async move {
                if let Some(map) = map.filter(|_| !marked) {
                    writer.execute(&attempt.fence, &mark(&map, identity)).await?;
                }
                Ok::<_, WriteError>(None)
            }
        })
    });
    (process, progress)
}

fn mark(map: &MetaView, identity: &str) -> Write {
    let meta = &map.metadata;
    Write {
        resource: CONFIG_MAPS,
        key: meta.key.clone(),
        verb: Verb::Merge {
            patch: json!({"metadata": {"labels": {"marked": identity}}}),
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: None,
        },
        reason: "mark it",
    }
}

async fn marked(progress: &mut watch::Receiver<Work>, count: usize) {
    let all = progress.wait_for(|work| work.seen_marked == count);
    in_time("every map is marked and observed", all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn an_idle_process_sends_nothing_but_its_lease() {
    let cluster = api_server();
    let env = env();
    let outside = support::writer(support::client(&cluster).await, &env);
    for index in 0..20 {
        created(&outside, "default", &format!("map-{index}")).await;
    }
    let (client, requests) = recorded_client(&cluster).await;
    let (process, mut progress) = marker(client, &env, "me");
    let running = tokio::task::spawn(process.run());

    marked(&mut progress, 20).await;
    let before = requests.mark();
    in_time("ten renewals", requests.until_mark(before + 10)).await;

    let since = requests.since(before);
    assert!(since.iter().all(renews_lease), "{since:?}");
    let runs = progress.borrow().runs;
    assert_eq!(runs, 40, "each map: one run to mark it, one to observe the mark");

    env.shutdown.start();
    in_time("the process stops", running).await.unwrap().unwrap();
    let last = requests.since(0).pop().unwrap();
    assert!(renews_lease(&last), "the lease is released last: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_dropped_process_leaves_nothing_and_its_standby_continues() {
    let cluster = api_server();
    let outside = support::writer(support::client(&cluster).await, &env());
    created(&outside, "default", "first").await;
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let (client, requests) = recorded_client(&cluster).await;
    let (leader, mut progress) = marker(client, &env(), "leader");
    marked(&mut progress, 1).await;
    let (client, standby_requests) = recorded_client(&cluster).await;
    let (standby, mut standby_progress) = marker(client, &env(), "standby");
    in_time("the standby watches", standby_requests.until_mark(4)).await;

    drop(leader);
    let sent = requests.mark();
    created(&outside, "default", "second").await;
    marked(&mut standby_progress, 2).await;

    let args = ["get", "configmaps", "-n", "default", "-l", "marked", "-o"];
    let columns = "custom-columns=:metadata.name,:metadata.labels.marked";
    let seen = cluster.kubectl(&[&args[..], &[columns, "--no-headers"]].concat()).unwrap();
    let seen: Vec<Vec<&str>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(seen, [["first", "leader"], ["second", "standby"]]);
    let since = requests.since(sent);
    assert!(since.is_empty(), "the dropped process is silent: {since:?}");
    drop(standby);
    // The executor removes dropped tasks when it next polls.
    in_time("every task is gone", async {
        while Handle::current().metrics().num_alive_tasks() > tasks_before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_example_controller_creates_repairs_and_reports_a_service_then_is_silent() {
    let cluster = api_server();
    let mirror = Mirror::start(support::client(&cluster).await, &[PODS, SERVICES]).await;
    let namespace = mirror.new_namespace("example").await;
    let (client, requests) = recorded_client(&cluster).await;
    let env = env();
    let running = tokio::spawn(example::start(&client, &env).run());
    let pod = json!({
        "metadata": { "name": "a", "labels": { "example.com/service": "true", "app": "a" } },
        "spec": { "containers": [{ "name": "c", "image": "c" }],
            "readinessGates": [{ "conditionType": "example.com/has-service" }] },
    });
    namespace.create(PODS, &pod).await;

    let has_gate = |pod: &serde_json::Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "example.com/has-service" && one["status"] == "True")
    };
    let is_reported = |state: &grove_testbed::mirror::State| {
        state.get(PODS, "a").is_some_and(|pod| has_gate(pod))
    };
    namespace.until_is("the gate is open", is_reported).await;
    namespace.patch(SERVICES, "a", json!({ "spec": { "selector": { "app": "b" } } })).await;
    namespace.until_field(SERVICES, "a", "/spec/selector/app", json!("a")).await;

    env.shutdown.start();
    in_time("the process stops", running).await.unwrap().unwrap();
    let writes = requests.since(0).into_iter().filter(|sent| sent.method != Method::GET).count();
    assert_eq!(writes, 3, "a create, a status and a repair: {:?}", requests.since(0));
}
