//! The metrics of the runtime, for Prometheus.
//!
//! One [`Metrics`] per process; parts take a clone and count through named methods, so that label sets are
//! fixed here. Labels are enums or kinds, never names of objects. Binaries add their own metrics with
//! [`Metrics::register`].

mod customary;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use self::customary::Customary;
use crate::class::Class;
use crate::resource::Resource;

/// A label value that is a constant of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub Cow<'static, str>);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        (&*self.0).encode(encoder)
    }
}

impl From<&'static str> for Word {
    fn from(word: &'static str) -> Self {
        Self(Cow::Borrowed(word))
    }
}

impl From<&Resource> for Word {
    fn from(resource: &Resource) -> Self {
        Self(resource.qualified_name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: Word,
    event: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: Word,
    verb: Word,
    result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: Word,
    result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AdmissionLabels {
    webhook: Word,
    result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionLabels {
    server: Word,
    result: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: Word,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
}

/// The metrics of one process; clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    cached: Family<KindLabels, Gauge>,
    watch_events: Family<WatchLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    writes_in_flight: Gauge,
    writes_paused: Counter,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_seconds: Histograms<ControllerLabels>,
    queue_depth: Family<ControllerLabels, Gauge>,
    queue_wait_seconds: Histograms<ControllerLabels>,
    fence_holds: Family<ControllerLabels, Counter>,
    fence_expiries: Family<ControllerLabels, Counter>,
    leading: Gauge,
    admissions: Family<AdmissionLabels, Counter>,
    events: Family<ResultLabels, Counter>,
    connections: Family<ConnectionLabels, Counter>,
    customary: Customary,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates all metrics with value zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let inner = Inner {
            customary: Customary::new(&mut registry),
            registry: Mutex::new(registry),
            cached: Family::default(),
            watch_events: Family::default(),
            writes: Family::default(),
            writes_in_flight: Gauge::default(),
            writes_paused: Counter::default(),
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            queue_depth: Family::default(),
            queue_wait_seconds: Family::new_with_constructor(seconds),
            fence_holds: Family::default(),
            fence_expiries: Family::default(),
            leading: Gauge::default(),
            admissions: Family::default(),
            events: Family::default(),
            connections: Family::default(),
        };
        let metrics = Self(Arc::new(inner));
        let m = &metrics.0;
        metrics.register("cache_objects", "Objects in the cache, by kind", m.cached.clone());
        metrics.register(
            "watch_events",
            "Watch events, lists, gaps and failures, by kind",
            m.watch_events.clone(),
        );
        metrics.register("writes", "Writes by kind, verb and result", m.writes.clone());
        metrics.register(
            "writes_in_flight",
            "Writes waiting for the API server's answer",
            m.writes_in_flight.clone(),
        );
        metrics.register(
            "writes_paused",
            "Times the API server asked us to slow down",
            m.writes_paused.clone(),
        );
        metrics.register("reconciles", "Reconciles by result", m.reconciles.clone());
        metrics.register(
            "reconcile_seconds",
            "Duration of reconciles",
            m.reconcile_seconds.clone(),
        );
        metrics.register("queue_depth", "Keys ready to be reconciled", m.queue_depth.clone());
        metrics.register(
            "queue_wait_seconds",
            "Time from queueing a key to the start of its reconcile",
            m.queue_wait_seconds.clone(),
        );
        metrics.register(
            "fence_holds",
            "Keys held back until the cache has observed their writes",
            m.fence_holds.clone(),
        );
        metrics.register(
            "fence_expiries",
            "Caches listed again because they did not catch up with a write in time",
            m.fence_expiries.clone(),
        );
        metrics.register("leading", "1 while this process holds the lease", m.leading.clone());
        metrics.register(
            "admission_reviews",
            "Admission reviews by webhook and result",
            m.admissions.clone(),
        );
        metrics.register("events", "Kubernetes events by result", m.events.clone());
        metrics.register(
            "connections",
            "Connections of clients by server and result of the handshake",
            m.connections.clone(),
        );
        metrics
    }

    /// Adds a metric of a binary, under the prefix `grove_`.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.sub_registry_with_prefix("grove").register(name, help, metric);
    }

    /// All metrics in `OpenMetrics` text format.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode(&mut out, &registry).expect("writing to a String cannot fail");
        out
    }

    /// The number of cached objects of a kind, which its cache updates.
    pub(crate) fn cached(&self, resource: &Resource) -> Gauge {
        self.0.cached.get_or_create(&KindLabels { kind: resource.into() }).clone()
    }

    pub(crate) fn watch_event(&self, resource: &Resource, event: &'static str) {
        let labels = WatchLabels { kind: resource.into(), event: event.into() };
        self.0.watch_events.get_or_create(&labels).inc();
    }

    pub(crate) fn write(&self, resource: &Resource, verb: &'static str, result: &'static str) {
        let labels =
            WriteLabels { kind: resource.into(), verb: verb.into(), result: result.into() };
        self.0.writes.get_or_create(&labels).inc();
    }

    /// Counts an answered request.
    pub(crate) fn requested(&self, method: &str, code: u16) {
        self.0.customary.requested(method, code);
    }

    pub(crate) fn writes_in_flight(&self, writes: usize) {
        self.0.writes_in_flight.set(i64::try_from(writes).unwrap_or(i64::MAX));
    }

    pub(crate) fn write_paused(&self) {
        self.0.writes_paused.inc();
    }

    pub(crate) fn reconciled(
        &self,
        controller: &'static str,
        result: Result<(), Class>,
        waited: Duration,
        took: Duration,
    ) {
        self.0.customary.reconciled(controller, result.is_ok(), waited, took);
        let result = match result {
            Ok(()) => "ok",
            Err(class) => class.as_str(),
        };
        let labels = ReconcileLabels { controller: controller.into(), result: result.into() };
        self.0.reconciles.get_or_create(&labels).inc();
        let labels = ControllerLabels { controller: controller.into() };
        self.0.reconcile_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.0.queue_wait_seconds.get_or_create(&labels).observe(waited.as_secs_f64());
    }

    pub(crate) fn queue_depth(&self, controller: &'static str, depth: usize) {
        let labels = ControllerLabels { controller: controller.into() };
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.0.queue_depth.get_or_create(&labels).set(depth);
        self.0.customary.queue_depth(controller, depth);
    }

    pub(crate) fn fence_hold(&self, controller: &'static str) {
        self.0.fence_holds.get_or_create(&ControllerLabels { controller: controller.into() }).inc();
    }

    pub(crate) fn fence_expiry(&self, controller: &'static str) {
        let labels = ControllerLabels { controller: controller.into() };
        self.0.fence_expiries.get_or_create(&labels).inc();
    }

    pub(crate) fn leading(&self, leading: bool) {
        self.0.leading.set(i64::from(leading));
    }

    pub(crate) fn connection(&self, server: &'static str, result: &'static str) {
        let labels = ConnectionLabels { server: server.into(), result: result.into() };
        self.0.connections.get_or_create(&labels).inc();
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.0.events.get_or_create(&ResultLabels { result: result.into() }).inc();
    }

    pub(crate) fn admission(&self, webhook: &'static str, result: &'static str) {
        let labels = AdmissionLabels { webhook: webhook.into(), result: result.into() };
        self.0.admissions.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_read_as_open_metrics_text() {
        let metrics = Metrics::new();
        let pods = Resource::namespaced("", "v1", "pods", "Pod");

        metrics.write(&pods, "create", "ok");
        metrics.leading(true);
        metrics.requested("GET", 200);
        let moment = Duration::from_millis(1);
        metrics.reconciled("podclique-controller", Ok(()), moment, moment);
        metrics.reconciled("podclique-controller", Err(Class::Conflict), moment, moment);
        metrics.queue_depth("podclique-controller", 3);

        let text = metrics.encode();
        assert!(
            text.contains(r#"grove_writes_total{kind="pods",verb="create",result="ok"} 1"#),
            "{text}"
        );
        assert!(text.contains("grove_leading 1"), "{text}");
        for line in [
            r#"controller_runtime_reconcile_total{controller="podclique-controller",result="success"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="podclique-controller"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="podclique-controller"} 2"#,
            r#"workqueue_depth{name="podclique-controller"} 3"#,
            r#"workqueue_retries_total{name="podclique-controller"} 1"#,
            r#"rest_client_requests_total{code="200",method="GET"} 1"#,
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
