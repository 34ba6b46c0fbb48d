//! The cache on the real API server, with broken connections, compaction and a killed server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grove_runtime::cache::Caches;
use grove_runtime::fence::Fence;
use grove_runtime::process::Process;
use grove_runtime::resource::{ObjectKey, Resource, Uid};
use grove_runtime::store::{Presence, Store};
use grove_runtime::view::MetaView;
use grove_runtime::watch::{Selection, WatchConfig};
use grove_runtime::write::{Precondition, Writer};
use grove_testbed::in_time;
use support::{Mode, Proxy, Watched, api_server, client, client_through, created, delete, update};

/// Creates, changes and deletes config maps `prefix-0…`; the odd ones stay. Returns the last version.
async fn churn(writer: &Writer, prefix: &str, count: usize) -> u64 {
    let mut last = 0;
    for index in 0..count {
        let map = created(writer, "default", &format!("{prefix}-{index}")).await;
        let key = ObjectKey::new("default", &map.name);
        let change = update(&key, Precondition::version(&map.uid, map.resource_version), "1");
        last = writer.execute(&Fence::default(), &change).await.unwrap().resource_version;
        if index % 2 == 0 {
            let gone = writer.execute(&Fence::default(), &delete(&key, &map.uid)).await.unwrap();
            last = last.max(gone.resource_version);
        }
    }
    last
}

fn odd(prefix: &str, count: usize) -> Vec<String> {
    let mut names: Vec<String> =
        (0..count).filter(|i| i % 2 == 1).map(|i| format!("{prefix}-{i}")).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn watches_cut_by_the_server_and_by_the_network_lose_nothing() {
    let cluster = api_server();
    let proxy = Proxy::to(&cluster).await;
    let config = WatchConfig { server_timeout: Duration::from_secs(2), ..WatchConfig::default() };
    let watched = Watched::start(client_through(&cluster, &proxy).await, config);
    let lives: Arc<Mutex<BTreeMap<Uid, &str>>> = Arc::default();
    let log = lives.clone();
    watched.store.on_change(move |change| {
        let state = if change.new.is_some() { "there" } else { "gone" };
        let object = change.new.or(change.old).unwrap();
        log.lock().unwrap().insert(object.metadata.uid.clone(), state);
    });
    let writer = support::writer(client(&cluster).await, &watched.env);

    let mut last = 0;
    for round in 0..10 {
        last = churn(&writer, &format!("r{round}"), 20).await;
        proxy.cut();
    }
    watched.observed(last).await;

    let mut expected: Vec<String> = (0..10).flat_map(|r| odd(&format!("r{r}"), 20)).collect();
    expected.sort();
    assert_eq!(watched.names(), expected);
    let lives = lives.lock().unwrap();
    assert_eq!(lives.values().filter(|state| **state == "there").count(), expected.len());
    assert_eq!(watched.count("gap"), 0, "resumed, not listed again");
    assert_eq!(watched.count("list"), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_silent_connection_is_replaced() {
    let cluster = api_server();
    let proxy = Proxy::to(&cluster).await;
    let config = WatchConfig { idle_timeout: Duration::from_secs(2), ..WatchConfig::default() };
    let watched = Watched::start(client_through(&cluster, &proxy).await, config);
    let writer = support::writer(client(&cluster).await, &watched.env);
    watched.observed(churn(&writer, "before", 2).await).await;

    proxy.set(Mode::Silent);
    let last = churn(&writer, "during", 2).await;
    proxy.set(Mode::Open(1));
    watched.observed(last).await;

    assert_eq!(watched.names(), ["before-1", "during-1"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn deletes_before_a_compaction_are_reported() {
    let cluster = api_server();
    let proxy = Proxy::to(&cluster).await;
    for streaming_lists in [true, false] {
        let config = WatchConfig { streaming_lists, ..WatchConfig::default() };
        let watched = Watched::start(client_through(&cluster, &proxy).await, config);
        let writer = support::writer(client(&cluster).await, &watched.env);
        let kept = created(&writer, "default", &format!("kept-{streaming_lists}")).await;
        let gone = created(&writer, "default", &format!("gone-{streaming_lists}")).await;
        watched.observed(gone.resource_version).await;
        let deleted: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = deleted.clone();
        watched.store.on_change(move |change| {
            if let (Some(old), None) = (change.old, change.new) {
                log.lock().unwrap().push(old.metadata.key.name.to_string());
            }
        });

        proxy.set(Mode::Closed);
        let key = ObjectKey::new("default", &gone.name);
        writer.execute(&Fence::default(), &delete(&key, &gone.uid)).await.unwrap();
        cluster.etcd_compact().unwrap();
        // A restarted API server has no versions from before the compaction.
        cluster.kill_api_server().unwrap();
        cluster.start_api_server().unwrap();
        proxy.set(Mode::Open(1));
        let after = created(&writer, "default", &format!("after-{streaming_lists}")).await;
        watched.observed(after.resource_version).await;

        assert!(watched.names().contains(&kept.name));
        assert!(!watched.names().contains(&gone.name));
        assert_eq!(*deleted.lock().unwrap(), [gone.name]);
        assert_eq!((watched.count("gap"), watched.count("list")), (1, 2));
        proxy.set(Mode::Open(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_cache_survives_a_killed_api_server() {
    let cluster = api_server();
    let watched = Watched::start(client(&cluster).await, WatchConfig::default());
    let writer = support::writer(client(&cluster).await, &watched.env);
    watched.observed(churn(&writer, "before", 4).await).await;

    for round in 0..2 {
        cluster.kill_api_server().unwrap();
        cluster.start_api_server().unwrap();
        let last = churn(&writer, &format!("after-{round}"), 4).await;
        watched.observed(last).await;
    }

    let expected: Vec<String> =
        ["after-0", "after-1", "before"].iter().flat_map(|prefix| odd(prefix, 4)).collect();
    assert_eq!(watched.names(), expected);
}

const WIDGETS: Resource = Resource::namespaced("test.grove.io", "v1", "widgets", "Widget");

const DEFINITION: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.grove.io"},
    "spec": {
        "group": "test.grove.io", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}
        }]
    }
}"#;

fn widget(name: &str) -> String {
    format!(
        r#"{{"apiVersion": "test.grove.io/v1", "kind": "Widget",
             "metadata": {{"name": "{name}", "namespace": "default"}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_forbidden_kind_is_kept_and_a_removed_one_is_emptied() {
    let cluster = api_server();
    let apply = |object: &str| cluster.kubectl_with_stdin(&["apply", "-f", "-"], object).unwrap();
    let define = || {
        apply(DEFINITION);
        let ready = ["wait", "--for=condition=established", "crd/widgets.test.grove.io"];
        cluster.kubectl(&ready).unwrap();
    };
    let user = cluster.user("watcher", &[]).unwrap();
    let client = grove_testbed::cluster::client_of(&user).await;
    let config = WatchConfig { server_timeout: Duration::from_secs(2), ..WatchConfig::default() };
    let env = support::env();
    let mut process = Process::new(env.clone(), Duration::from_secs(1));
    let mut caches = Caches::new(client, &env, process.stage("caches")).with_config(config);
    let declared = caches.declare::<MetaView>(Selection::all(WIDGETS)).optional();
    let store = caches.start(declared);
    let names = || -> Vec<String> {
        store.all().iter().map(|view| view.metadata.key.name.to_string()).collect()
    };
    let is = async |presence: Presence| {
        let mut changes = store.presence_changes();
        let reached = changes.wait_for(|now| *now == presence);
        in_time(&format!("{presence:?}"), reached).await.unwrap();
    };

    // Without permission the API server answers 403, whether it serves the kind or not.
    is(Presence::Absent).await;
    define();
    is(Presence::Unknown).await;
    cluster
        .kubectl(&["create", "clusterrole", "widgets", "--verb=list,watch", "--resource=widgets"])
        .unwrap();
    let bind = ["create", "clusterrolebinding", "widgets", "--clusterrole=widgets"];
    let bind = || cluster.kubectl(&[&bind[..], &["--user=watcher"]].concat()).unwrap();
    bind();
    apply(&widget("a"));
    is(Presence::Served).await;
    in_time("the widget", until(&store, 1)).await;

    cluster.kubectl(&["delete", "clusterrolebinding", "widgets"]).unwrap();
    is(Presence::Unknown).await;
    assert_eq!(names(), ["a"], "refused is not gone");
    apply(&widget("b"));
    bind();
    is(Presence::Served).await;
    in_time("what happened meanwhile", until(&store, 2)).await;

    cluster.kubectl(&["delete", "crd", "widgets.test.grove.io"]).unwrap();
    is(Presence::Absent).await;
    assert_eq!(names(), [""; 0]);
    define();
    is(Presence::Served).await;
}

/// Waits until the store has `count` objects.
async fn until(store: &Store<MetaView>, count: usize) {
    let changed = Arc::new(tokio::sync::Notify::new());
    let notify = changed.clone();
    store.on_change(move |_| notify.notify_one());
    while store.len() != count {
        changed.notified().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_server_honours_every_precondition() {
    use grove_runtime::class::{Class, Classed};
    use grove_runtime::write::{Verb, Write};

    let cluster = api_server();
    let env = support::env();
    let writer = support::writer(client(&cluster).await, &env);
    let map = created(&writer, "default", "guarded").await;
    let key = ObjectKey::new("default", "guarded");
    let other = Uid::from("00000000-0000-0000-0000-000000000000");
    let (version, stale) = (map.resource_version, map.resource_version - 1);
    let json_patch = |only_if| Write {
        verb: Verb::Json {
            patch: serde_json::from_str(r#"[{"op":"add","path":"/data","value":{"v":"2"}}]"#)
                .unwrap(),
            only_if,
            subresource: None,
        },
        ..support::create("default", "guarded")
    };
    let apply = |only_if| Write {
        verb: Verb::Apply {
            body: serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"w": "3"}}),
            only_if: Some(only_if),
            force: false,
            subresource: None,
        },
        ..support::create("default", "guarded")
    };

    let refused = [
        ("create again", support::create("default", "guarded")),
        ("merge, other uid", update(&key, Precondition::uid(&other), "x")),
        ("merge, stale", update(&key, Precondition::version(&map.uid, stale), "x")),
        ("json, other uid", json_patch(Precondition::uid(&other))),
        ("json, stale", json_patch(Precondition::version(&map.uid, stale))),
        ("apply, other uid", apply(Precondition::uid(&other))),
        ("apply, stale", apply(Precondition::version(&map.uid, stale))),
        ("delete, other uid", delete(&key, &other)),
    ];
    for (name, write) in refused {
        let error = writer.execute(&Fence::default(), &write).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "{name}: {error}");
    }
    let invalid = Write {
        verb: Verb::Json {
            patch: serde_json::from_str(r#"[{"op":"add","path":"/data","value":{"/":"2"}}]"#)
                .unwrap(),
            only_if: Precondition::uid(&map.uid),
            subresource: None,
        },
        ..support::create("default", "guarded")
    };
    let error = writer.execute(&Fence::default(), &invalid).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid, "{error}");

    let patched = json_patch(Precondition::version(&map.uid, version));
    let version = writer.execute(&Fence::default(), &patched).await.unwrap().resource_version;
    let applied = apply(Precondition::version(&map.uid, version));
    writer.execute(&Fence::default(), &applied).await.unwrap();
    writer.execute(&Fence::default(), &delete(&key, &map.uid)).await.unwrap();
    writer.execute(&Fence::default(), &delete(&key, &map.uid)).await.unwrap();
}
