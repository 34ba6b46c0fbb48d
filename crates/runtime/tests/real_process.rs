//! Whole processes on the real API server: one that has done its work is quiet, and one that is
//! dropped is gone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::sync::Arc;
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
use http::{Method, Request};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use support::{CONFIG_MAPS, api_server, config, created, env, in_time};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tower::util::MapRequestLayer;
use xtask::cluster::Cluster;

/// Method and path of every request that a client sends.
#[derive(Clone)]
struct Requests(Arc<watch::Sender<Vec<(Method, String)>>>);

impl Requests {
    /// A client and what it sends.
    async fn of_client(cluster: &Cluster) -> (Client, Self) {
        let requests = Self(Arc::new(watch::channel(Vec::new()).0));
        let log = requests.clone();
        let layer = MapRequestLayer::new(move |request: Request<Body>| {
            let seen = (request.method().clone(), request.uri().path().to_owned());
            log.0.send_modify(|all| all.push(seen));
            request
        });
        let client = ClientBuilder::try_from(config(cluster.admin()).await).unwrap();
        (client.with_layer(&layer).build(), requests)
    }

    fn since(&self, count: usize) -> Vec<(Method, String)> {
        self.0.borrow()[count..].to_vec()
    }

    fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

fn renews_lease((method, path): &(Method, String)) -> bool {
    *method == Method::PUT && path.contains("/leases/")
}

/// What a process has done so far.
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
    in_time("every map is marked and seen marked", all).await.unwrap();
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
    let (client, requests) = Requests::of_client(&cluster).await;
    let (process, mut progress) = marker(client, &env, "me");
    let running = tokio::task::spawn(process.run());

    marked(&mut progress, 20).await;
    let before = requests.count();
    let mut sent = requests.0.subscribe();
    in_time("ten renewals", sent.wait_for(|all| all.len() >= before + 10)).await.unwrap();

    let since = requests.since(before);
    assert!(since.iter().all(renews_lease), "{since:?}");
    let runs = progress.borrow().runs;
    assert_eq!(runs, 40, "each map: one run to mark it, one to see it marked");

    env.shutdown.start();
    in_time("the process stops", running).await.unwrap().unwrap();
    let last = requests.0.borrow().last().cloned().unwrap();
    assert!(renews_lease(&last), "the lease is released last: {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_dropped_process_leaves_nothing_and_its_standby_goes_on() {
    let cluster = api_server();
    let outside = support::writer(support::client(&cluster).await, &env());
    created(&outside, "default", "first").await;
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let (client, requests) = Requests::of_client(&cluster).await;
    let (leader, mut progress) = marker(client, &env(), "leader");
    marked(&mut progress, 1).await;
    let (client, standby_requests) = Requests::of_client(&cluster).await;
    let (standby, mut standby_progress) = marker(client, &env(), "standby");
    let mut looked = standby_requests.0.subscribe();
    in_time("the standby watches", looked.wait_for(|all| all.len() > 3)).await.unwrap();

    drop(leader);
    let sent = requests.count();
    created(&outside, "default", "second").await;
    marked(&mut standby_progress, 2).await;

    let args = ["get", "configmaps", "-n", "default", "-l", "marked", "-o"];
    let columns = "custom-columns=:metadata.name,:metadata.labels.marked";
    let seen = cluster.kubectl(&[&args[..], &[columns, "--no-headers"]].concat()).unwrap();
    let seen: Vec<Vec<&str>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(seen, [["first", "leader"], ["second", "standby"]]);
    assert_eq!(requests.since(sent), [], "the dropped process is silent");
    drop(standby);
    // Dropped tasks go away when the executor next looks at them.
    in_time("every task is gone", async {
        while Handle::current().metrics().num_alive_tasks() > tasks_before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
