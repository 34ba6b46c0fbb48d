//! A whole controller with the kit: pods that ask for it get a Service of their own, and their readiness gate
//! `example.com/has-service` follows it.
//!
//! ```console
//! $ cargo run -p grove-runtime --example controller
//! ```
//!
//! It shows the shape of every controller: a wake table, `observe` (caches to a plain struct), `decide` (pure,
//! to a plan and a status), and `act` and the reporter, which are the same for all controllers. A process with
//! several replicas also takes part in leader election, see [`grove_runtime::lease`].

use std::sync::Arc;
use std::time::Duration;

use grove_runtime::cache::Caches;
use grove_runtime::controller::{Attempt, Controller, Due};
use grove_runtime::converge;
use grove_runtime::events::events;
use grove_runtime::lease::Leadership;
use grove_runtime::object::{JsonObject, Object};
use grove_runtime::plan::{Plan, act};
use grove_runtime::process::{Env, Process, signalled_twice};
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::report::{Report, Reporter, Urgency};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Store;
use grove_runtime::view::View;
use grove_runtime::wake::{WakeTable, by};
use grove_runtime::watch::Selection;
use grove_runtime::write::{WriteError, Writer};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::Client;
use serde_json::json;

const NAME: &str = "pod-service-controller";
const LABEL: &str = "example.com/service";
const GATE: &str = "example.com/has-service";
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");

/// What the controller caches.
#[derive(Clone)]
struct Stores {
    pods: Store<Object<Pod>>,
    services: Store<JsonObject>,
}

/// What wakes a pod: every kind that `observe` reads has a row.
fn wake(stores: &Stores, env: &Env, process: &mut Process) -> Queue<ObjectKey> {
    let stage = process.stage("wake");
    let mut table = WakeTable::new(env, &stage);
    let facts = |pod: &Object<Pod>| (pod.meta.deleting, conditions(&pod.object).to_vec());
    table.on(&stores.pods, "the pod changed", Priority::UserChange, by(facts), |pod| {
        vec![pod.meta.key.clone()]
    });
    let text = |service: &JsonObject| service.text().to_owned();
    let owner = |service: &JsonObject| {
        let meta = service.meta();
        let owner = meta.controller.iter();
        owner.map(|owner| ObjectKey::new(&meta.key.namespace, &owner.name)).collect()
    };
    table.on(&stores.services, "its Service changed", Priority::ChildChange, by(text), owner);
    table.into_queue()
}

/// A pod and its Service.
struct Observed {
    pod: Arc<Object<Pod>>,
    service: Option<Arc<JsonObject>>,
}

fn observe(stores: &Stores, key: &ObjectKey) -> Option<Observed> {
    let pod = stores.pods.get(key).filter(|pod| !pod.meta.deleting)?;
    let service = stores.services.get(key);
    let service = service.filter(|service| service.meta().is_controlled_by(&pod.meta.uid));
    Some(Observed { pod, service })
}

/// The write that creates or repairs the Service, and the status when nothing is left to write.
fn decide(seen: &Observed) -> (Plan, Option<Report<'_, PodStatus>>) {
    let Object { meta, object } = &*seen.pod;
    let (namespace, name) = (&*meta.key.namespace, &*meta.key.name);
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": name, "uid": meta.uid, "controller": true,
    });
    let desired = json!({
        "metadata": { "namespace": namespace, "name": name, "ownerReferences": [owner],
            "labels": { LABEL: "true" } },
        "spec": { "clusterIP": "None", "selector": object.metadata.labels },
    });
    let live = seen.service.as_ref().map(|service| (service.meta(), service.value()));
    let live = live.as_ref().map(|(meta, value)| (*meta, value));
    let mut plan = Plan::default();
    plan.step(converge::fields(SERVICES, desired, live, "a pod asks for it"));
    let is_reported = conditions(object).iter().any(|one| one.type_ == GATE);
    if is_reported || !plan.is_empty() {
        return (plan, None);
    }
    let stored = object.status.as_ref();
    let mut desired = stored.cloned().unwrap_or_default();
    let gate = PodCondition {
        type_: GATE.to_owned(),
        status: "True".to_owned(),
        ..PodCondition::default()
    };
    desired.conditions.get_or_insert_default().push(gate);
    let (resource, urgency, events) = (PODS, Urgency::Now, Vec::new());
    (plan, Some(Report { resource, meta, stored, desired, urgency, events, component: NAME }))
}

fn conditions(pod: &Pod) -> &[PodCondition] {
    pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// One run of one key. A run that writes ends there: what it wrote wakes the key again.
async fn reconcile(
    stores: &Stores,
    writer: &Writer,
    reporter: &Reporter,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, WriteError> {
    let Some(seen) = observe(stores, &attempt.key) else { return Ok(None) };
    let (plan, report) = decide(&seen);
    let acted = act(&plan, writer, &attempt.fence).await;
    if let Some((_, error)) = acted.failed.into_iter().next() {
        return Err(error);
    }
    reporter.report(("Pod", &attempt.key), &attempt, report).await
}

/// The process: caches, events, and the controller.
pub(crate) fn start(client: &Client, env: &Env) -> Process {
    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let leadership = Leadership::without_election();
    let writer = Writer::new(client.clone(), env, leadership.clone(), NAME);
    let mut caches = Caches::new(client.clone(), env, process.stage("caches"));
    let labelled = |kind| Selection::all(kind).labels(&format!("{LABEL}=true"));
    let (pods, services) = (caches.declare(labelled(PODS)), caches.declare(labelled(SERVICES)));
    let stores = Stores { pods: caches.start(pods), services: caches.start(services) };
    let (recorder, sender) = events(NAME, NAME.to_owned(), env, writer.clone());
    process.stage("events").spawn(|shutdown| sender.run(shutdown));
    let reporter = Arc::new(Reporter::new(writer.clone(), recorder, env.clock.clone()));
    let queue = wake(&stores, env, &mut process);
    let controller = Controller::new(NAME, queue, 4, env, &caches, leadership);
    process.stage("controllers").spawn(|shutdown| {
        controller.run(shutdown, move |attempt| {
            let (stores, writer, reporter) = (stores.clone(), writer.clone(), reporter.clone());
            async move { reconcile(&stores, &writer, &reporter, attempt).await }
        })
    });
    process
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = grove_runtime::client::client(kube::Config::infer().await?, NAME)?;
    let env = Env::system();
    let process = start(&client, &env);
    tokio::select! {
        biased;
        ended = process.run() => ended?,
        signals = signalled_twice(&env.shutdown) => signals?,
    }
    Ok(())
}
