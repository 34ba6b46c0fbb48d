//! A whole process on the real API server: it does its work, and then it is quiet.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use grove_runtime::cache::Caches;
use grove_runtime::controller::{Attempt, Controller};
use grove_runtime::lease::{Elector, LeaseConfig};
use grove_runtime::process::Process;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::MetaView;
use grove_runtime::watch::Selection;
use grove_runtime::write::{Precondition, Verb, Write, WriteError, Writer};
use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use support::{CONFIG_MAPS, api_server, config, created, env, in_time};
use tokio::sync::watch;
use tower::util::MapRequestLayer;

/// Method and path of every request that a client sends.
#[derive(Clone)]
struct Requests(Arc<watch::Sender<Vec<(Method, String)>>>);

impl Requests {
    fn lease_renewals(requests: &[(Method, String)]) -> usize {
        requests.iter().filter(|request| Self::renews_lease(request)).count()
    }

    fn renews_lease((method, path): &(Method, String)) -> bool {
        *method == Method::PUT && path.ends_with("/leases/idle")
    }
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
    let requests = Requests(Arc::new(watch::channel(Vec::new()).0));
    let log = requests.clone();
    let layer = MapRequestLayer::new(move |request: Request<Body>| {
        let seen = (request.method().clone(), request.uri().path().to_owned());
        log.0.send_modify(|all| all.push(seen));
        request
    });
    let client =
        ClientBuilder::try_from(config(cluster.admin()).await).unwrap().with_layer(&layer).build();

    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let lease = LeaseConfig {
        retry_period: Duration::from_millis(200),
        ..LeaseConfig::new(ObjectKey::new("default", "idle"), "me".to_owned())
    };
    let elector = Elector::new(client.clone(), &env, lease);
    let leadership = elector.leadership();
    process.stage("lease").spawn(|shutdown| elector.run(shutdown));
    let mut caches = Caches::new(client.clone(), &env, process.stage("caches"));
    let declared = caches.declare::<MetaView>(Selection::all(CONFIG_MAPS).labels("made-by=test"));
    let maps = caches.start(declared);
    let writer = Writer::new(client, &env, leadership.clone(), "idle-test");
    let queue = Queue::new(env.clock.clone());
    queue.follow(
        &maps,
        Priority::UserChange,
        |map: &MetaView| map.metadata.labels.clone(),
        |map| vec![map.metadata.key.clone()],
    );
    let controller = Controller::new("maps", queue, 4, &env, &caches, leadership);
    let (done, mut marked) = watch::channel(0);
    let runs = Arc::new(Mutex::new(0));
    let counted = runs.clone();
    process.stage("controllers").spawn(|shutdown| {
        controller.run(shutdown, move |attempt: Attempt<ObjectKey>| {
            let (maps, writer, done) = (maps.clone(), writer.clone(), done.clone());
            *counted.lock().unwrap() += 1;
            async move {
                let Some(map) = maps.get(&attempt.key) else { return Ok(None) };
                if map.metadata.labels.get("marked").is_some() {
                    done.send_modify(|count| *count += 1);
                    return Ok(None);
                }
                let mark = Write {
                    resource: CONFIG_MAPS,
                    key: attempt.key.clone(),
                    verb: Verb::Merge {
                        patch: json!({"metadata": {"labels": {"marked": "yes"}}}),
                        only_if: Precondition::version(
                            &map.metadata.uid,
                            map.metadata.resource_version,
                        ),
                        subresource: None,
                    },
                    reason: "mark it",
                };
                writer.execute(&attempt.fence, &mark).await?;
                Ok::<_, WriteError>(None)
            }
        })
    });
    let running = tokio::task::spawn(process.run());

    in_time("every map is marked and seen marked", marked.wait_for(|count| *count == 20))
        .await
        .unwrap();
    let before = requests.0.borrow().len();
    let renewals = Requests::lease_renewals(&requests.0.borrow());
    let mut all = requests.0.subscribe();
    in_time("ten more renewals", all.wait_for(|r| Requests::lease_renewals(r) >= renewals + 10))
        .await
        .unwrap();
    let since: Vec<_> = requests.0.borrow()[before..].to_vec();
    assert!(since.iter().all(Requests::renews_lease), "{since:?}");
    assert_eq!(*runs.lock().unwrap(), 40, "each map: one run to mark it, one to see it marked");

    env.shutdown.start();
    in_time("the process stops", running).await.unwrap().unwrap();
    let last = requests.0.borrow().last().cloned().unwrap();
    assert!(Requests::renews_lease(&last), "the lease is released last: {last:?}");
}
