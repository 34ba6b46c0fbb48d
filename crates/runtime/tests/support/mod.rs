//! What the tests of the runtime on the real control plane share: a proxy that can be cut, and a cache to watch.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use grove_runtime::cache::Caches;
use grove_runtime::clock::Clock;
use grove_runtime::fence::Fence;
use grove_runtime::lease::Leadership;
use grove_runtime::process::{Env, Process};
use grove_runtime::resource::{ObjectKey, Resource, Uid};
use grove_runtime::store::Store;
use grove_runtime::view::MetaView;
use grove_runtime::watch::{Selection, WatchConfig};
use grove_runtime::write::{Precondition, Propagation, Verb, Write, Writer, Written};
use grove_testbed::cluster::{client_of, config_of};
use grove_testbed::in_time;
use kube::Client;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use xtask::cluster::{Cluster, Options, Parts};

pub const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

pub fn api_server() -> Cluster {
    Cluster::start(Options { parts: Parts::ApiServer, ..Options::default() }).unwrap()
}

pub async fn client(cluster: &Cluster) -> Client {
    client_of(cluster.admin()).await
}

/// A client whose connections go through `proxy`.
pub async fn client_through(cluster: &Cluster, proxy: &Proxy) -> Client {
    let mut config = config_of(cluster.admin()).await;
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port).parse().unwrap();
    grove_runtime::client::client(config, "grove-test").unwrap()
}

pub fn env() -> Env {
    Env::new(Clock::system(), 1)
}

pub fn writer(client: Client, env: &Env) -> Writer {
    Writer::new(client, env, Leadership::without_election(), "grove-test")
}

// === Config maps ===

pub fn create(namespace: &str, name: &str) -> Write {
    Write {
        resource: CONFIG_MAPS,
        key: ObjectKey::new(namespace, name),
        verb: Verb::Create {
            body: json!({"metadata": {"name": name, "labels": {"made-by": "test"}}}),
        },
        reason: "test",
    }
}

pub fn update(key: &ObjectKey, only_if: Precondition, value: &str) -> Write {
    Write {
        resource: CONFIG_MAPS,
        key: key.clone(),
        verb: Verb::Merge { patch: json!({"data": {"v": value}}), only_if, subresource: None },
        reason: "test",
    }
}

pub fn delete(key: &ObjectKey, uid: &Uid) -> Write {
    Write {
        resource: CONFIG_MAPS,
        key: key.clone(),
        verb: Verb::Delete {
            only_if: Precondition::uid(uid),
            propagation: Propagation::Background,
            grace_seconds: None,
        },
        reason: "test",
    }
}

pub async fn created(writer: &Writer, namespace: &str, name: &str) -> Written {
    writer.execute(&Fence::default(), &create(namespace, name)).await.unwrap()
}

// === A cache under test ===

pub struct Watched {
    pub store: Store<MetaView>,
    pub env: Env,
    _process: Process,
}

impl Watched {
    /// A cache of the tests' config maps.
    pub fn start(client: Client, config: WatchConfig) -> Self {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(1));
        let mut caches = Caches::new(client, &env, process.stage("caches")).with_config(config);
        let declared = caches.declare(Selection::all(CONFIG_MAPS).labels("made-by=test"));
        let store = caches.start(declared);
        Self { store, env, _process: process }
    }

    pub fn names(&self) -> Vec<String> {
        self.store.all().iter().map(|view| view.metadata.key.name.to_string()).collect()
    }

    /// Waits until the cache has observed a version.
    pub async fn observed(&self, version: u64) {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        self.store.when_observed(version, move || drop(send));
        in_time("the cache catches up", async { drop(receive.await) }).await;
    }

    /// The number of watch events `event`, from the metrics.
    pub fn count(&self, event: &str) -> u64 {
        let line = format!("grove_watch_events_total{{kind=\"configmaps\",event=\"{event}\"}} ");
        let text = self.env.metrics.encode();
        let count = text.lines().find_map(|l| l.strip_prefix(&line));
        count.map_or(0, |count| count.parse().unwrap())
    }
}

// === A connection that can break ===

/// Forwards connections to the API server, depending on its [`Mode`].
pub struct Proxy {
    pub port: u16,
    mode: Arc<watch::Sender<Mode>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All data passes. The number distinguishes generations of connections.
    Open(u64),
    /// Connections stay open but nothing passes, as when a machine in between vanished.
    Silent,
    /// Connections are closed, new ones too.
    Closed,
}

impl Proxy {
    pub async fn to(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = cluster.port();
        let mode = Arc::new(watch::channel(Mode::Open(0)).0);
        let shared = mode.clone();
        tokio::task::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::task::spawn(forward(connection, target, shared.subscribe()));
            }
        });
        Self { port, mode }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Closes every connection; new ones work.
    pub fn cut(&self) {
        self.mode.send_modify(|mode| {
            *mode = match *mode {
                Mode::Open(generation) => Mode::Open(generation + 1),
                Mode::Silent | Mode::Closed => Mode::Open(0),
            }
        });
    }
}

async fn forward(mut client: TcpStream, target: u16, mut mode: watch::Receiver<Mode>) {
    let opened_in = *mode.borrow_and_update();
    if opened_in == Mode::Closed {
        return;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    loop {
        let now = *mode.borrow_and_update();
        match now {
            Mode::Silent => drop(mode.changed().await),
            Mode::Open(_) if now == opened_in => {
                tokio::select! {
                    biased;
                    _ = mode.changed() => {}
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
                }
            }
            Mode::Open(_) | Mode::Closed => return,
        }
    }
}
