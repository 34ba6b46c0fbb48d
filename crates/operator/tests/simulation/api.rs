//! The API server of the simulation: objects in memory, and exactly the requests that the operator
//! sends. What a real one does besides (admission, schemas, field managers) is left to the tests that
//! run on a real one.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use grove_runtime::clock::Clock;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request that changed something, as the operator sent it.
#[derive(Clone, Debug)]
pub struct Change {
    pub verb: &'static str,
    pub plural: String,
    /// The object before; null for a create.
    pub before: Value,
    /// For deletes: everything there was.
    pub among: Vec<Value>,
    pub at: jiff::Timestamp,
}

type Key = (String, String, String);
type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

struct Watcher {
    collection: String,
    selector: Vec<(String, String)>,
    lines: UnboundedSender<Bytes>,
}

#[derive(Default)]
struct Stored {
    version: u64,
    names: u64,
    objects: BTreeMap<Key, Value>,
    watchers: Vec<Watcher>,
    changes: Vec<Change>,
    /// How long a write takes.
    delay: Duration,
    /// Pods with this image are refused.
    refused_image: Option<String>,
    /// How many were.
    refused: usize,
}

/// The API server; clones are the same one.
#[derive(Clone)]
pub struct Api {
    stored: Arc<Mutex<Stored>>,
    clock: Clock,
}

/// Where a request goes.
struct Place {
    collection: String,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Place {
    fn of(path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let mut collection = vec![parts.next().unwrap(), parts.next().unwrap()];
        if collection[0] == "apis" {
            collection.push(parts.next().unwrap());
        }
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest[..] {
            ["namespaces", namespace, _, ..] => (namespace, &rest[2..]),
            _ => ("", &rest[..]),
        };
        collection.push(rest[0]);
        let text = |index: usize| rest.get(index).map(|&text| text.to_owned());
        let (name, subresource) = (text(1), text(2));
        let collection = collection.join("/");
        Self { collection, namespace: namespace.to_owned(), name, subresource }
    }

    fn key(&self, name: &str) -> Key {
        (self.collection.clone(), self.namespace.clone(), name.to_owned())
    }
}

fn labels_match(object: &Value, selector: &[(String, String)]) -> bool {
    selector.iter().all(|(key, value)| object["metadata"]["labels"][key] == value.as_str())
}

impl Api {
    pub fn new(clock: Clock) -> Self {
        // A real one is never at version 0.
        let stored = Stored { version: 1, ..Stored::default() };
        Self { stored: Arc::new(Mutex::new(stored)), clock }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        let api = self.clone();
        Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            }),
            "default",
        )
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    /// Changes with everything that happens.
    pub fn version(&self) -> u64 {
        self.stored().version
    }

    /// From now on, every write takes so long.
    pub fn slow_down(&self, delay: Duration) {
        self.stored().delay = delay;
    }

    /// Refuses pods with this image from now on, dry runs included.
    pub fn refuse_image(&self, image: Option<&str>) {
        self.stored().refused_image = image.map(str::to_owned);
    }

    /// How many pods were refused.
    pub fn refused(&self) -> usize {
        self.stored().refused
    }

    /// Everything of a kind.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        let stored = self.stored();
        let of_kind = |key: &Key| key.0.rsplit('/').next() == Some(plural);
        stored.objects.iter().filter(|(key, _)| of_kind(key)).map(|(_, one)| one.clone()).collect()
    }

    /// Looks at everything there is.
    pub fn look<T>(&self, at: impl FnOnce(&[&Value]) -> T) -> T {
        let stored = self.stored();
        at(&stored.objects.values().collect::<Vec<_>>())
    }

    pub fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.all(plural).into_iter().find(|one| one["metadata"]["name"] == name)
    }

    /// What the operator changed since the last call.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.stored().changes)
    }

    /// Creates an object, as a user.
    pub fn create(&self, path: &str, object: Value) {
        self.insert(&Place::of(path), object).unwrap();
    }

    /// Changes an object, as a user or a node; true if there is such an object.
    pub fn edit(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let mut stored = self.stored();
        let found =
            |(key, _): &(&Key, &Value)| key.0.rsplit('/').next() == Some(plural) && key.2 == name;
        let Some(key) = stored.objects.iter().find(found).map(|(key, _)| key.clone()) else {
            return false;
        };
        let mut object = stored.objects[&key].clone();
        change(&mut object);
        stored.put(&key, object);
        true
    }

    /// Deletes an object, as a user or a node does.
    pub fn delete(&self, plural: &str, name: &str) {
        let deleted = self.edit(plural, name, |object| {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        if deleted && plural != "pods" {
            self.collect();
        }
    }

    /// Removes a pod whose node is done with it.
    pub fn remove_pod(&self, name: &str) {
        let mut stored = self.stored();
        let key =
            stored.objects.keys().find(|key| key.0 == "api/v1/pods" && key.2 == name).cloned();
        if let Some(key) = key {
            stored.remove(&key);
        }
    }

    // === requests ===

    async fn answer(&self, request: Request<Body>) -> Reply {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let delay = self.stored().delay;
        if head.method != Method::GET && !delay.is_zero() {
            self.clock.sleep(delay).await;
        }
        let place = Place::of(head.uri.path());
        let query = head.uri.query().unwrap_or_default();
        let query: BTreeMap<String, String> = form(query).into_iter().collect();
        let result = match head.method {
            Method::GET if query.contains_key("watch") => return self.watch(&place, &query),
            Method::GET => self.read(&place),
            Method::POST => self.create_if(&place, body, query.contains_key("dryRun")),
            Method::PATCH => self.patch(&place, &head.headers, body),
            Method::DELETE => self.delete_if(&place, &body),
            method => panic!("the operator sent {method}"),
        };
        let (code, object) = match result {
            Ok(object) => (200, object),
            Err((code, message)) => {
                let reason = match code {
                    404 => "NotFound",
                    422 if message.contains("is invalid") => "Invalid",
                    409 if message.contains("exists") => "AlreadyExists",
                    _ => "Conflict",
                };
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": code, "reason": reason, "message": message });
                (code, status)
            }
        };
        let body = Full::new(Bytes::from(object.to_string())).boxed_unsync();
        Response::builder().status(code).body(body).unwrap()
    }

    fn create_if(
        &self,
        place: &Place,
        object: Value,
        is_dry_run: bool,
    ) -> Result<Value, (u16, String)> {
        {
            let mut stored = self.stored();
            let image = object["spec"]["containers"][0]["image"].as_str();
            if image.is_some() && image == stored.refused_image.as_deref() {
                stored.refused += 1;
                let prefix = object["metadata"]["generateName"].as_str().unwrap();
                let name = format!("{prefix}{:05}", stored.refused);
                return Err((422, format!("Pod {name:?} is invalid: image: Invalid value")));
            }
        }
        if is_dry_run {
            return Ok(object);
        }
        let created = self.insert(place, object)?;
        self.stored().note("create", place, Value::Null, &self.clock);
        Ok(created)
    }

    fn read(&self, place: &Place) -> Result<Value, (u16, String)> {
        let Some(name) = &place.name else {
            // Discovery of what is not served here.
            return Err((404, "no such kind".to_owned()));
        };
        let found = self.stored().objects.get(&place.key(name)).cloned();
        found.ok_or_else(|| (404, format!("{name} not found")))
    }

    fn watch(&self, place: &Place, query: &BTreeMap<String, String>) -> Reply {
        let selector = query.get("labelSelector").map(String::as_str).unwrap_or_default();
        let pair = |pair: &str| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        let selector: Vec<_> = selector.split(',').filter_map(pair).collect();
        let (lines, receive) = unbounded();
        let mut stored = self.stored();
        let of_kind = stored.objects.iter().filter(|(key, _)| key.0 == place.collection);
        for (_, object) in of_kind.filter(|(_, object)| labels_match(object, &selector)) {
            lines.unbounded_send(line("ADDED", object)).unwrap();
        }
        let version = stored.version.to_string();
        let end = json!({ "metadata": { "resourceVersion": version,
            "annotations": { "k8s.io/initial-events-end": "true" } } });
        lines.unbounded_send(line("BOOKMARK", &end)).unwrap();
        let collection = place.collection.clone();
        stored.watchers.push(Watcher { collection, selector, lines });
        let frames = receive.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn insert(&self, place: &Place, mut object: Value) -> Result<Value, (u16, String)> {
        let mut stored = self.stored();
        if object["metadata"]["name"].is_null() {
            stored.names += 1;
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{prefix}{}", stored.names).into();
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if stored.objects.contains_key(&place.key(&name)) {
            return Err((409, format!("{name} already exists")));
        }
        stored.names += 1;
        object["metadata"]["uid"] = format!("uid-{}", stored.names).into();
        object["metadata"]["namespace"] = place.namespace.clone().into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = whole_seconds(&self.clock).into();
        if place.collection == "api/v1/pods" {
            let gated = object["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty());
            let reason = if gated { "SchedulingGated" } else { "Unschedulable" };
            object["status"] = json!({ "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": reason }] });
        }
        let stored_object = stored.put(&place.key(&name), object.clone());
        if object["type"] == "kubernetes.io/service-account-token" {
            // The token controller is another writer: its change comes after the create.
            object["data"]["token"] = json!("dG9rZW4=");
            stored.put(&place.key(&name), object);
        }
        Ok(stored_object)
    }

    fn patch(
        &self,
        place: &Place,
        headers: &http::HeaderMap,
        patch: Value,
    ) -> Result<Value, (u16, String)> {
        let name = place.name.as_deref().unwrap();
        let key = place.key(name);
        let mut stored = self.stored();
        let Some(before) = stored.objects.get(&key).cloned() else {
            return Err((404, format!("{name} not found")));
        };
        let mut after = before.clone();
        let content = headers["content-type"].to_str().unwrap();
        if content == "application/json-patch+json" {
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut after, &patch).map_err(|error| (422, error.to_string()))?;
        } else {
            for field in ["uid", "resourceVersion"] {
                let wanted = &patch["metadata"][field];
                if !wanted.is_null() && *wanted != before["metadata"][field] {
                    return Err((409, format!("{name}: metadata.{field} is another one")));
                }
            }
            json_patch::merge(&mut after, &patch);
        }
        match place.subresource.as_deref() {
            Some("status") => {
                let status = after["status"].take();
                after = before.clone();
                after["status"] = status;
            }
            None => after["status"] = before["status"].clone(),
            other => panic!("the operator patched {other:?}"),
        }
        if after == before {
            return Ok(before);
        }
        stored.note("patch", place, before, &self.clock);
        let written = stored.put(&key, after);
        drop(stored);
        self.collect();
        Ok(written)
    }

    fn delete_if(&self, place: &Place, options: &Value) -> Result<Value, (u16, String)> {
        let name = place.name.as_deref().unwrap();
        let key = place.key(name);
        let mut stored = self.stored();
        let Some(before) = stored.objects.get(&key).cloned() else {
            return Err((404, format!("{name} not found")));
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != before["metadata"][field] {
                return Err((409, format!("{name}: metadata.{field} is another one")));
            }
        }
        if before["metadata"]["deletionTimestamp"].is_null() {
            stored.note("delete", place, before.clone(), &self.clock);
            let mut after = before;
            after["metadata"]["deletionTimestamp"] = whole_seconds(&self.clock).into();
            stored.put(&key, after);
        }
        drop(stored);
        self.collect();
        Ok(json!({ "kind": "Status", "status": "Success" }))
    }

    /// Removes deleted objects without finalizers, and objects whose owners are gone. A node removes
    /// its pods first.
    fn collect(&self) {
        let mut stored = self.stored();
        loop {
            let uids: BTreeSet<String> = stored
                .objects
                .values()
                .filter_map(|one| one["metadata"]["uid"].as_str().map(str::to_owned))
                .collect();
            let released = |(key, object): &(&Key, &Value)| {
                let metadata = &object["metadata"];
                let held = metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty());
                !metadata["deletionTimestamp"].is_null() && !held && key.0 != "api/v1/pods"
            };
            let gone = stored.objects.iter().find(released).map(|(key, _)| key.clone());
            if let Some(key) = gone {
                stored.remove(&key);
                continue;
            }
            let orphaned = |(_, object): &(&Key, &Value)| {
                let metadata = &object["metadata"];
                let owners = metadata["ownerReferences"].as_array();
                let alive =
                    |owner: &Value| owner["uid"].as_str().is_some_and(|it| uids.contains(it));
                metadata["deletionTimestamp"].is_null()
                    && owners.is_some_and(|all| !all.is_empty() && !all.iter().any(alive))
            };
            let Some(key) = stored.objects.iter().find(orphaned).map(|(key, _)| key.clone()) else {
                return;
            };
            let mut object = stored.objects[&key].clone();
            object["metadata"]["deletionTimestamp"] = whole_seconds(&self.clock).into();
            stored.put(&key, object);
        }
    }
}

impl Stored {
    fn note(&mut self, verb: &'static str, place: &Place, before: Value, clock: &Clock) {
        let plural = place.collection.rsplit('/').next().unwrap().to_owned();
        let all = || self.objects.values().cloned().collect();
        let among = if verb == "delete" { all() } else { Vec::new() };
        self.changes.push(Change { verb, plural, before, among, at: clock.wall() });
    }

    fn put(&mut self, key: &Key, mut object: Value) -> Value {
        let before = self.objects.get(key);
        self.version += 1;
        if let Some(before) = before
            && before["spec"] != object["spec"]
        {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = generation.into();
        }
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let was = before.cloned();
        self.objects.insert(key.clone(), object.clone());
        self.tell(&key.0, was.as_ref(), Some(&object));
        object
    }

    fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else { return };
        let was = object.clone();
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.tell_gone(&key.0, &was, &object);
    }

    fn tell(&mut self, collection: &str, was: Option<&Value>, is: Option<&Value>) {
        self.watchers.retain(|watcher| {
            if watcher.collection != *collection {
                return true;
            }
            let seen =
                |one: Option<&Value>| one.is_some_and(|one| labels_match(one, &watcher.selector));
            let kind = match (seen(was), seen(is)) {
                (false, false) => return true,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            watcher.lines.unbounded_send(line(kind, is.unwrap())).is_ok()
        });
    }

    fn tell_gone(&mut self, collection: &str, was: &Value, last: &Value) {
        self.watchers.retain(|watcher| {
            watcher.collection != *collection
                || !labels_match(was, &watcher.selector)
                || watcher.lines.unbounded_send(line("DELETED", last)).is_ok()
        });
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })))
}

fn whole_seconds(clock: &Clock) -> String {
    jiff::Timestamp::from_second(clock.wall().as_second()).unwrap().to_string()
}

/// The parts of a query, decoded.
fn form(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        let mut parts = text.split('%');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let byte = u8::from_str_radix(&part[..2], 16).unwrap();
            out.push(char::from(byte));
            out.push_str(&part[2..]);
        }
        out
    };
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    };
    query.split('&').map(pair).collect()
}
