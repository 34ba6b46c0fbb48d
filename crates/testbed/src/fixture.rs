//! What the rules of a table share: the cluster, the live copy of its objects, and the requests of the process
//! under test.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};

use crate::cluster::TestCluster;
use crate::kinds::{self, Kind, PODS, SETS};
use crate::mirror::{Mirror, Namespace, name_of, send};
use crate::requests::Requests;
use crate::table::{self, Row, Selected};

/// What a rule is checked with.
#[derive(Clone)]
pub struct Fixture {
    pub cluster: Arc<TestCluster>,
    pub mirror: Arc<Mirror>,
    pub requests: Requests,
}

/// A rule. [`rules!`](crate::rules) makes tables of them.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Path of the check, which states the rule.
    pub name: &'static str,
    pub check: fn(Fixture, Namespace) -> BoxFuture<'static, ()>,
}

/// The rules to check, or none when the test has nothing to do.
pub fn select(tables: &[&[Rule]]) -> Option<Selected<Rule>> {
    let rules = tables.iter().copied().flatten().copied();
    table::select(rules, |rule| rule.name.to_owned())
}

impl Fixture {
    pub async fn new(cluster: Arc<TestCluster>, requests: Requests) -> Self {
        Self::watching(cluster, requests, &kinds::ALL).await
    }

    /// A fixture whose copy has these kinds.
    pub async fn watching(cluster: Arc<TestCluster>, requests: Requests, kinds: &[Kind]) -> Self {
        let mirror = Arc::new(cluster.mirror_of(kinds).await);
        Self { cluster, mirror, requests }
    }

    /// A row for each rule. Row `n` has the namespace `row-n`.
    pub fn rows(&self, rules: &[Rule]) -> Vec<Row> {
        let row = |(number, rule): (usize, &Rule)| {
            let (fixture, rule) = (self.clone(), *rule);
            let name = rule.name.to_owned();
            let run = async move {
                let namespace = fixture.mirror.new_namespace(&format!("row-{number}")).await;
                (rule.check)(fixture, namespace).await;
            };
            Row { name, run: Box::pin(run) }
        };
        rules.iter().enumerate().map(row).collect()
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

/// Makes a table of rules from checks: async functions of a [`Fixture`] and a [`Namespace`] whose names state the
/// rules.
#[macro_export]
macro_rules! rules {
    ($($check:ident,)*) => {
        /// The rules of this module.
        pub const RULES: &[$crate::fixture::Rule] = &[
            $($crate::fixture::Rule {
                name: concat!(module_path!(), "::", stringify!($check)),
                check: |fixture, namespace| Box::pin($check(fixture, namespace)),
            },)*
        ];
    };
}
