//! The rules, by subject.

mod autoscaling;
mod conflicts;
mod deletion;
mod events;
mod gangs;
mod names;
mod pods;
pub(crate) mod rights;
mod scaling;
mod sharing;
mod start_order;
mod status;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};

use crate::support::World;
use crate::support::cases::Case;
use crate::support::kinds::{Kind, PODS, SETS};
use crate::support::mirror::{Mirror, Namespace, name_of, send};
use crate::support::requests::{Requests, Sent};

/// What a case works with.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) world: Arc<World>,
    pub(crate) mirror: Arc<Mirror>,
    requests: Requests,
}

type Rule = (&'static str, fn(Bench, Namespace) -> BoxFuture<'static, ()>);

/// All cases. A case's namespace is called after its place in the table.
pub(crate) fn all(bench: &Bench) -> Vec<Case> {
    let tables = [
        autoscaling::RULES,
        start_order::RULES,
        gangs::RULES,
        names::RULES,
        pods::RULES,
        scaling::RULES,
        sharing::RULES,
        status::RULES,
        events::RULES,
        conflicts::RULES,
        deletion::RULES,
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (number, (what, rule)) in tables.into_iter().flatten().enumerate() {
        let (bench, rule) = (bench.clone(), *rule);
        let case = async move {
            let namespace = bench.mirror.new_namespace(&format!("case-{number}")).await;
            rule(bench, namespace).await;
        };
        cases.push((what, case.boxed()));
    }
    cases
}

impl Bench {
    pub(crate) async fn new(world: Arc<World>, requests: Requests) -> Self {
        let mirror = Arc::new(world.mirror().await);
        Self { world, mirror, requests }
    }

    /// A node with places that only pods who ask for them take.
    async fn node(&self, name: &str, place: &str, places: u32) {
        let capacity =
            json!({ "cpu": "128", "memory": "1Ti", "pods": "256", place: places.to_string() });
        let node = json!({
            "metadata": { "name": name, "annotations": { "kwok.x-k8s.io/node": "fake" } },
            "status": { "capacity": capacity, "allocatable": capacity },
        });
        send(self.mirror.client(), Method::POST, "/api/v1/nodes", &node).await.unwrap();
    }

    /// Deploys a set and waits until it is complete.
    async fn deploy(&self, namespace: &Namespace, set: &Value, pods: usize) {
        namespace.create(SETS, set).await;
        namespace.until_complete(pods).await;
    }

    /// Waits until the operator has nothing to do in a namespace.
    async fn quiet(&self, namespace: &Namespace) {
        let is_here = |sent: &Sent| sent.is_in(&namespace.name);
        self.world.quiet(&self.mirror, &self.requests, is_here).await;
    }

    /// What the operator writes in a quiet namespace because of something, until it is quiet again.
    async fn writes(&self, namespace: &Namespace, act: impl Future<Output = ()>) -> Vec<String> {
        let mark = self.requests.mark();
        act.await;
        self.quiet(namespace).await;
        self.requests.writes_since(mark, |sent| sent.is_in(&namespace.name))
    }
}

/// The pod with an index of a PodClique.
fn pod(namespace: &Namespace, clique: &str, index: u32) -> Arc<Value> {
    let pods = namespace.look(|state| state.pods_of(clique));
    let host = format!("{clique}-{index}");
    pods.get(&host).unwrap_or_else(|| panic!("{}: there is no {host}", namespace.name)).clone()
}

/// Deletes a pod that does not go before its finalizer is removed.
async fn hold_terminating(namespace: &Namespace, pod: &Value) -> String {
    let name = name_of(pod);
    let held = json!({ "metadata": { "finalizers": ["somebody.else/waits"] } });
    namespace.patch(PODS, &name, held).await;
    namespace.delete(PODS, &name).await;
    name
}

async fn release(namespace: &Namespace, pod: &str) {
    namespace.patch(PODS, pod, json!({ "metadata": { "finalizers": null } })).await;
    namespace.until_gone(PODS, pod).await;
}

async fn scale(namespace: &Namespace, kind: Kind, name: &str, replicas: i32) {
    let patch = json!({ "spec": { "replicas": replicas } });
    namespace.patch(kind, &format!("{name}/scale"), patch).await;
}

/// Turns an async function into an entry of a table.
macro_rules! rules {
    ($($what:literal: $rule:ident,)*) => {
        pub(super) const RULES: &[super::Rule] = &[
            $(($what, |bench, namespace| futures::FutureExt::boxed($rule(bench, namespace))),)*
        ];
    };
}
use rules;
