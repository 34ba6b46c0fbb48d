//! A live copy of the objects of the API server, to wait on.
//!
//! It has one watch per kind for all namespaces. A wait wakes on changes in its own namespace, and fails after
//! the deadline with the last state. The copy keeps every version of an object, so that a test can check the
//! order of changes afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use grove_runtime::clock::Clock;
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::DEADLINE;
use crate::kinds::{CLIQUES, EVENTS, GANGS, GROUPS, Kind, PODS, SETS};
use crate::normalized::{Normalized, difference, normalize, without_recreated_marks};

/// The objects of one namespace.
#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<(Kind, String), Arc<Value>>,
    /// Every observed version; those of one kind are in their order.
    pub history: Vec<(Kind, Arc<Value>)>,
    /// Indices in the history of the last versions of deleted objects.
    pub gone: BTreeSet<usize>,
}

type Namespaces = Arc<Mutex<BTreeMap<String, Arc<watch::Sender<State>>>>>;

/// The live copy.
pub struct Mirror {
    client: Client,
    namespaces: Namespaces,
    watches: Arc<Vec<(Kind, JoinHandle<()>)>>,
}

impl Mirror {
    /// Lists all objects of these kinds and watches them from there.
    pub async fn start(client: Client, kinds: &[Kind]) -> Self {
        let namespaces = Namespaces::default();
        let mut watches = Vec::new();
        for kind in kinds.iter().copied() {
            let list = list(&client, kind).await;
            for mut object in list["items"].as_array().unwrap().iter().cloned() {
                object["kind"] = kind.name.into();
                note(&namespaces, kind, object, false);
            }
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let follow = follow(client.clone(), namespaces.clone(), kind, version);
            watches.push((kind, tokio::task::spawn(follow)));
        }
        Self { client, namespaces, watches: Arc::new(watches) }
    }

    /// One namespace of the copy; objects without one are in the empty one.
    pub fn namespace(&self, name: &str) -> Namespace {
        Namespace {
            name: name.to_owned(),
            client: self.client.clone(),
            state: sender(&self.namespaces, name),
            watches: self.watches.clone(),
        }
    }

    /// A namespace that does not exist yet.
    pub async fn new_namespace(&self, name: &str) -> Namespace {
        let body = json!({ "metadata": { "name": name } });
        send(&self.client, Method::POST, "/api/v1/namespaces", &body).await.unwrap();
        self.namespace(name)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// Lists a kind. The objects of an established CRD may still be unreadable, and no watch shows when that ends.
async fn list(client: &Client, kind: Kind) -> Value {
    let clock = Clock::system();
    let listed = async {
        loop {
            match send(client, Method::GET, &kind.everywhere(), &Value::Null).await {
                Ok(list) => return list,
                Err(why) if why.starts_with("429") => clock.sleep(Duration::from_millis(50)).await,
                Err(why) => panic!("{}: {why}", kind.plural),
            }
        }
    };
    let in_time = clock.timeout(DEADLINE, listed).await;
    in_time.unwrap_or_else(|| panic!("{} cannot be listed", kind.plural))
}

fn sender(namespaces: &Namespaces, name: &str) -> Arc<watch::Sender<State>> {
    let mut namespaces = namespaces.lock().unwrap();
    let new = || Arc::new(watch::channel(State::default()).0);
    namespaces.entry(name.to_owned()).or_insert_with(new).clone()
}

fn note(namespaces: &Namespaces, kind: Kind, object: Value, gone: bool) {
    let namespace = text(&object["metadata"]["namespace"]).to_owned();
    let key = (kind, name_of(&object));
    let object = Arc::new(object);
    sender(namespaces, &namespace).send_modify(|state| {
        state.history.push((kind, object.clone()));
        if gone {
            state.gone.insert(state.history.len() - 1);
            state.objects.remove(&key);
        } else {
            state.objects.insert(key, object);
        }
    });
}

/// Watches a kind. The API server ends the watch of a slow reader, which continues where it was.
async fn follow(client: Client, namespaces: Namespaces, kind: Kind, mut version: String) {
    loop {
        let path = format!("{}?watch=true&resourceVersion={version}", kind.everywhere());
        let request = Request::get(path).body(Vec::new()).unwrap();
        // The API server has stopped.
        let Ok(events) = client.request_events::<Value>(request).await else { return };
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.try_next().await.unwrap() {
            let (object, gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => panic!("watch of {}: {status:?}", kind.plural),
            };
            text(&object["metadata"]["resourceVersion"]).clone_into(&mut version);
            note(&namespaces, kind, object, gone);
        }
    }
}

/// Sends one request. A refusal is its code and message.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value, String> {
    let content = match (&method, body) {
        (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
        (&Method::PATCH, _) => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("Content-Type", content);
    client.request::<Value>(request.body(bytes).unwrap()).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        other => other.to_string(),
    })
}

pub fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

// === one namespace ===

/// One namespace: its objects, and writes that return when the copy has observed them.
#[derive(Clone)]
pub struct Namespace {
    pub name: String,
    client: Client,
    state: Arc<watch::Sender<State>>,
    watches: Arc<Vec<(Kind, JoinHandle<()>)>>,
}

impl Namespace {
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until `done` returns something; fails with the last state.
    pub async fn until<T>(&self, what: &str, mut done: impl FnMut(&State) -> Option<T>) -> T {
        let mut state = self.state.subscribe();
        let found = async {
            loop {
                if let Some(found) = done(&state.borrow_and_update()) {
                    return found;
                }
                state.changed().await.unwrap();
            }
        };
        let in_time = Clock::system().timeout(DEADLINE, found).await;
        in_time.unwrap_or_else(|| {
            let ended: Vec<_> =
                self.watches.iter().filter(|(_, task)| task.is_finished()).collect();
            assert!(ended.is_empty(), "watches have ended: {ended:?}");
            let seconds = DEADLINE.as_secs();
            panic!("{}: not within {seconds} s: {what}\n{}", self.name, *self.state.borrow())
        })
    }

    /// Waits until a condition holds.
    pub async fn until_is(&self, what: &str, mut is: impl FnMut(&State) -> bool) {
        self.until(what, |state| is(state).then_some(())).await;
    }

    /// Waits until an object has a value at a JSON pointer; null stands for no such value.
    pub async fn until_field(&self, kind: Kind, name: &str, pointer: &str, value: Value) {
        let what = format!("{} {name} has {pointer} = {value}", kind.name);
        self.until_is(&what, |state| {
            let object = state.objects.get(&(kind, name.to_owned()));
            object.is_some_and(|object| *object.pointer(pointer).unwrap_or(&Value::Null) == value)
        })
        .await;
    }

    pub async fn until_gone(&self, kind: Kind, name: &str) {
        let what = format!("{} {name} is gone", kind.name);
        self.until_is(&what, |state| state.get(kind, name).is_none()).await;
    }

    /// Waits until all objects are complete and there are so many pods.
    pub async fn until_complete(&self, pods: usize) {
        let what = format!("everything is complete, with {pods} pods");
        self.until_is(&what, |state| state.is_complete() && state.of(PODS).len() == pods).await;
    }

    /// Waits until all gangs are Running, which the operator reports last.
    pub async fn until_gangs_run(&self) {
        self.until_is("all gangs are Running", |state| {
            state.of(GANGS).iter().all(|gang| gang["status"]["phase"] == "Running")
        })
        .await;
    }

    /// Waits until the normalized objects are the expected ones; fails with the difference. It ignores whether a
    /// PodClique replaced an earlier one.
    pub async fn until_equal(&self, what: &str, expected: &Normalized) {
        let expected = &without_recreated_marks(expected.clone());
        let mut state = self.state.subscribe();
        let found = async {
            let actual = |state: &State| without_recreated_marks(self.normalize(state));
            while actual(&state.borrow_and_update()) != *expected {
                state.changed().await.unwrap();
            }
        };
        if Clock::system().timeout(DEADLINE, found).await.is_none() {
            let difference = difference(expected, &without_recreated_marks(self.normalized()));
            panic!("{}: not within {} s: {what}:\n{difference}", self.name, DEADLINE.as_secs());
        }
    }

    /// The objects without values that differ between runs.
    pub fn normalized(&self) -> Normalized {
        self.normalize(&self.state.borrow())
    }

    fn normalize(&self, state: &State) -> Normalized {
        normalize(&self.name, state.objects.values())
    }

    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&self.state.borrow())
    }

    /// An object that has to exist.
    pub fn object(&self, kind: Kind, name: &str) -> Arc<Value> {
        let found = self.look(|state| state.get(kind, name).cloned());
        found.unwrap_or_else(|| panic!("{}: there is no {} {name}", self.name, kind.name))
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.look(|state| state.names(kind))
    }

    // === changes ===

    pub async fn create(&self, kind: Kind, object: &Value) -> Value {
        let created = self.try_create(kind, object).await;
        created.unwrap_or_else(|refusal| panic!("{}: {refusal}", self.name))
    }

    pub async fn try_create(&self, kind: Kind, object: &Value) -> Result<Value, String> {
        let path = kind.in_namespace(&self.name);
        let created = send(&self.client, Method::POST, &path, object).await?;
        self.seen(kind, &created).await;
        Ok(created)
    }

    /// Sends a merge patch, or a JSON patch if it is a list. The name may include a subresource: `demo/scale`.
    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Value {
        let patched = self.try_patch(kind, name, patch).await;
        patched.unwrap_or_else(|refusal| panic!("{}: {name}: {refusal}", self.name))
    }

    pub async fn try_patch(&self, kind: Kind, name: &str, patch: Value) -> Result<Value, String> {
        let place = format!("{}/{name}", kind.in_namespace(&self.name));
        let patched = send(&self.client, Method::PATCH, &place, &patch).await?;
        self.seen(kind, &patched).await;
        Ok(patched)
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let uid = self.object(kind, name)["metadata"]["uid"].clone();
        let path = format!("{}/{name}", kind.in_namespace(&self.name));
        send(&self.client, Method::DELETE, &path, &Value::Null).await.unwrap();
        let what = format!("the delete of {} {name} is seen", kind.name);
        self.until_is(&what, |state| {
            state.get(kind, name).is_none_or(|object| {
                object["metadata"]["uid"] != uid
                    || !object["metadata"]["deletionTimestamp"].is_null()
            })
        })
        .await;
    }

    /// Waits until the copy has this version of an object, or a later one.
    async fn seen(&self, kind: Kind, object: &Value) {
        let (name, version) = (name_of(object), version_of(object));
        let uid = object["metadata"]["uid"].clone();
        self.until_is("a write is seen", |state| {
            let of_name = state.history.iter().rev().filter(|(of, _)| *of == kind);
            of_name
                .take_while(|(_, seen)| version_of(seen) >= version)
                .any(|(_, seen)| name_of(seen) == name && seen["metadata"]["uid"] == uid)
        })
        .await;
    }
}

impl State {
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub fn of(&self, kind: Kind) -> Vec<&Arc<Value>> {
        self.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object).collect()
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.of(kind).into_iter().map(|object| name_of(object)).collect()
    }

    /// The pods of a PodClique that are not terminating, by host name.
    pub fn pods_of(&self, clique: &str) -> BTreeMap<String, Arc<Value>> {
        let pods = self.of(PODS).into_iter().filter(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["metadata"]["ownerReferences"][0]["name"] == clique
        });
        pods.map(|pod| (text(&pod["spec"]["hostname"]).to_owned(), pod.clone())).collect()
    }

    /// How many objects of a kind have existed so far.
    pub fn ever(&self, kind: Kind) -> usize {
        let all = self.history.iter().filter(|(of, _)| *of == kind);
        all.map(|(_, object)| text(&object["metadata"]["uid"])).collect::<BTreeSet<_>>().len()
    }

    /// Whether there are no sets and no objects that the operator manages.
    pub fn is_empty(&self) -> bool {
        let managed = |object: &Value| {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "grove-operator"
        };
        self.of(SETS).is_empty() && !self.objects.values().any(|object| managed(object))
    }

    /// Whether the status of all sets and their children reports completeness, and nothing is terminating.
    pub fn is_complete(&self) -> bool {
        let staying = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
        let current = |object: &Value| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        };
        let counts = |object: &Value, counts: &[&str]| {
            let wanted = object["spec"]["replicas"].as_i64();
            counts.iter().all(|count| object["status"][count].as_i64().or(Some(0)) == wanted)
        };
        let all = |kind, names: &[&str]| {
            self.of(kind).into_iter().all(|object| current(object) && counts(object, names))
        };
        self.objects.values().all(|object| staying(object))
            && all(SETS, &["replicas", "availableReplicas", "updatedReplicas"])
            && all(GROUPS, &["replicas", "availableReplicas", "updatedReplicas"])
            && all(CLIQUES, &["replicas", "readyReplicas", "updatedReplicas"])
            && self.of(GANGS).into_iter().all(|gang| is_initialized(gang))
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn is_initialized(gang: &Value) -> bool {
    condition(gang, "Initialized")["status"] == "True"
}

/// A condition of an object, or null.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|one| one["type"] == type_).unwrap_or(&Value::Null)
}

/// A line for each object, enough to find what is missing.
impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in self.of(EVENTS) {
            let about = &event["involvedObject"];
            if SETS.name == about["kind"] {
                let [name, reason, message] =
                    [&about["name"], &event["reason"], &event["message"]].map(text);
                let [version, time] =
                    [&event["metadata"]["resourceVersion"], &event["lastTimestamp"]].map(text);
                writeln!(f, "  {time} {version} {name} {reason}: {message}")?;
            }
        }
        for ((kind, name), object) in self.objects.iter().filter(|((kind, _), _)| *kind != EVENTS) {
            let mut line = format!("  {} {name}", kind.name);
            if !object["metadata"]["deletionTimestamp"].is_null() {
                write!(line, " deleting, finalizers {}", object["metadata"]["finalizers"])?;
            }
            match *kind {
                PODS => {
                    let gates = &object["spec"]["schedulingGates"];
                    let ready = &condition(object, "Ready")["status"];
                    let (host, phase) = (&object["spec"]["hostname"], &object["status"]["phase"]);
                    let node = &object["spec"]["nodeName"];
                    write!(line, " {host} phase {phase} ready {ready} gates {gates} on {node}")?;
                }
                SETS | GROUPS | CLIQUES | GANGS => {
                    let generation = &object["metadata"]["generation"];
                    let replicas = &object["spec"]["replicas"];
                    write!(line, " generation {generation} replicas {replicas} ")?;
                    let mut status = object["status"].clone();
                    for one in status["conditions"].as_array_mut().into_iter().flatten() {
                        let value = [&one["type"], &one["status"], &one["reason"]].map(text);
                        *one = value.join(" ").into();
                    }
                    write!(line, "status {status}")?;
                }
                _ => {}
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}
