//! What the cases of a table have in common.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};

use super::World;
use super::cases::Case;
use super::kinds::{self, Kind, PODS, SETS};
use super::mirror::{Mirror, Namespace, name_of, send};
use super::requests::{Requests, Sent};

/// What a case works with.
#[derive(Clone)]
pub struct Bench {
    pub world: Arc<World>,
    pub mirror: Arc<Mirror>,
    pub requests: Requests,
}

/// What must be so, and what shows it.
pub type Rule = (&'static str, fn(Bench, Namespace) -> BoxFuture<'static, ()>);

/// A case for each rule. Its namespace is called after its place in the table.
pub fn cases<'a>(bench: &Bench, rules: impl Iterator<Item = &'a Rule>) -> Vec<Case> {
    let case = |(number, (what, rule)): (usize, &'a Rule)| -> Case {
        let (bench, rule) = (bench.clone(), *rule);
        let case = async move {
            let namespace = bench.mirror.new_namespace(&format!("case-{number}")).await;
            rule(bench, namespace).await;
        };
        (what, case.boxed())
    };
    rules.enumerate().map(case).collect()
}

impl Bench {
    pub async fn new(world: Arc<World>, requests: Requests) -> Self {
        Self::watching(world, requests, &kinds::ALL).await
    }

    /// The same with other kinds to look at.
    pub async fn watching(world: Arc<World>, requests: Requests, kinds: &[Kind]) -> Self {
        let mirror = Arc::new(world.mirror_of(kinds).await);
        Self { world, mirror, requests }
    }

    /// A node with places that only pods who ask for them take.
    pub async fn node(&self, name: &str, place: &str, places: u32) {
        let capacity =
            json!({ "cpu": "128", "memory": "1Ti", "pods": "256", place: places.to_string() });
        let node = json!({
            "metadata": { "name": name, "annotations": { "kwok.x-k8s.io/node": "fake" } },
            "status": { "capacity": capacity, "allocatable": capacity },
        });
        send(self.mirror.client(), Method::POST, "/api/v1/nodes", &node).await.unwrap();
    }

    /// Gives such a node another number of places.
    pub async fn set_places(&self, name: &str, place: &str, places: u32) {
        let capacity = json!({ place: places.to_string() });
        let status = json!({ "status": { "capacity": capacity, "allocatable": capacity } });
        let path = format!("/api/v1/nodes/{name}/status");
        send(self.mirror.client(), Method::PATCH, &path, &status).await.unwrap();
    }

    /// Deploys a set and waits until it is complete.
    pub async fn deploy(&self, namespace: &Namespace, set: &Value, pods: usize) {
        namespace.create(SETS, set).await;
        namespace.until_complete(pods).await;
    }

    /// Waits until the operator has nothing to do in a namespace.
    pub async fn quiet(&self, namespace: &Namespace) {
        let is_here = |sent: &Sent| sent.is_in(&namespace.name);
        self.world.quiet(&self.mirror, &self.requests, is_here).await;
    }

    /// What the operator writes in a quiet namespace because of something, until it is quiet again.
    pub async fn writes(
        &self,
        namespace: &Namespace,
        act: impl Future<Output = ()>,
    ) -> Vec<String> {
        let mark = self.requests.mark();
        act.await;
        self.quiet(namespace).await;
        self.requests.writes_since(mark, |sent| sent.is_in(&namespace.name))
    }
}

/// The pod with an index of a PodClique.
pub fn pod(namespace: &Namespace, clique: &str, index: u32) -> Arc<Value> {
    let pods = namespace.look(|state| state.pods_of(clique));
    let host = format!("{clique}-{index}");
    pods.get(&host).unwrap_or_else(|| panic!("{}: there is no {host}", namespace.name)).clone()
}

/// The status of a pod whose containers have failed for good, or are well again.
pub fn health(pod: &Value, is_well: bool) -> Value {
    let mut conditions = pod["status"]["conditions"].clone();
    for one in conditions.as_array_mut().unwrap() {
        if one["type"] == "Ready" {
            one["status"] = json!(if is_well { "True" } else { "False" });
        }
    }
    let ended = if is_well { Value::Null } else { json!({ "exitCode": 1 }) };
    let containers = json!([{ "name": "c", "ready": is_well, "started": is_well, "image": "busybox",
        "imageID": "", "restartCount": 1, "lastState": { "terminated": ended } }]);
    json!({ "status": { "conditions": conditions, "containerStatuses": containers } })
}

/// Deletes a pod that does not go before its finalizer is removed.
pub async fn hold_terminating(namespace: &Namespace, pod: &Value) -> String {
    let name = name_of(pod);
    let held = json!({ "metadata": { "finalizers": ["somebody.else/waits"] } });
    namespace.patch(PODS, &name, held).await;
    namespace.delete(PODS, &name).await;
    name
}

pub async fn release(namespace: &Namespace, pod: &str) {
    namespace.patch(PODS, pod, json!({ "metadata": { "finalizers": null } })).await;
    namespace.until_gone(PODS, pod).await;
}

pub async fn scale(namespace: &Namespace, kind: Kind, name: &str, replicas: i32) {
    let patch = json!({ "spec": { "replicas": replicas } });
    namespace.patch(kind, &format!("{name}/scale"), patch).await;
}

/// Turns an async function into an entry of a table.
macro_rules! rules {
    ($($what:literal: $rule:ident,)*) => {
        pub(crate) const RULES: &[crate::support::bench::Rule] = &[
            $(($what, |bench, namespace| futures::FutureExt::boxed($rule(bench, namespace))),)*
        ];
    };
}
pub(crate) use rules;
