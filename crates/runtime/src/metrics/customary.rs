//! Metrics with the names that controller-runtime and client-go use, so that existing dashboards and alerts
//! work. They are less detailed than our own.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use super::{ControllerLabels, Histograms, ReconcileLabels, Word, seconds};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: Word,
    method: Word,
}

/// The customary metrics of one process.
pub(super) struct Customary {
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_errors: Family<ControllerLabels, Counter>,
    reconcile_seconds: Histograms<ControllerLabels>,
    queue_depth: Family<QueueLabels, Gauge>,
    queue_seconds: Histograms<QueueLabels>,
    work_seconds: Histograms<QueueLabels>,
    retries: Family<QueueLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
}

impl Customary {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let new = Self {
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            queue_depth: Family::default(),
            queue_seconds: Family::new_with_constructor(seconds),
            work_seconds: Family::new_with_constructor(seconds),
            retries: Family::default(),
            requests: Family::default(),
        };
        let runtime = registry.sub_registry_with_prefix("controller_runtime");
        runtime.register("reconcile", "Reconciles by result", new.reconciles.clone());
        let errors = new.reconcile_errors.clone();
        runtime.register("reconcile_errors", "Reconciles that failed", errors);
        let duration = new.reconcile_seconds.clone();
        runtime.register("reconcile_time_seconds", "Duration of reconciles", duration);
        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register("depth", "Keys ready to be reconciled", new.queue_depth.clone());
        let waiting = new.queue_seconds.clone();
        queue.register("queue_duration_seconds", "Time that keys wait", waiting);
        let working = new.work_seconds.clone();
        queue.register("work_duration_seconds", "Time that reconciles of keys take", working);
        queue.register("retries", "Keys that are retried", new.retries.clone());
        let requests = new.requests.clone();
        registry.register("rest_client_requests", "Requests by method and status code", requests);
        registry.register_collector(Box::new(ThisProcess));
        new
    }

    pub(super) fn reconciled(
        &self,
        controller: &'static str,
        ok: bool,
        waited: Duration,
        took: Duration,
    ) {
        let result = if ok { "success" } else { "error" };
        let labels = ReconcileLabels { controller: controller.into(), result: result.into() };
        self.reconciles.get_or_create(&labels).inc();
        let labels = ControllerLabels { controller: controller.into() };
        self.reconcile_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let queue = QueueLabels { name: controller.into() };
        self.queue_seconds.get_or_create(&queue).observe(waited.as_secs_f64());
        self.work_seconds.get_or_create(&queue).observe(took.as_secs_f64());
        if !ok {
            self.reconcile_errors.get_or_create(&labels).inc();
            self.retries.get_or_create(&queue).inc();
        }
    }

    pub(super) fn queue_depth(&self, controller: &'static str, depth: i64) {
        self.queue_depth.get_or_create(&QueueLabels { name: controller.into() }).set(depth);
    }

    pub(super) fn requested(&self, method: &str, code: u16) {
        let word = |word: String| Word(word.into());
        let labels =
            RequestLabels { code: word(code.to_string()), method: word(method.to_owned()) };
        self.requests.get_or_create(&labels).inc();
    }
}

/// Processor time and memory of this process, read at each scrape.
#[derive(Debug)]
struct ThisProcess;

impl Collector for ThisProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric = |name, help, unit: &Unit, metric: &dyn EncodeOne| {
            metric.encode_one(&mut encoder, name, help, unit)
        };
        if let Some(spent) = processor_seconds() {
            let spent = ConstCounter::new(spent);
            metric("process_cpu", "Processor time, user and system", &Unit::Seconds, &spent)?;
        }
        if let Some(bytes) = resident_bytes() {
            let bytes = ConstGauge::new(bytes);
            metric("process_resident_memory", "Resident memory", &Unit::Bytes, &bytes)?;
        }
        Ok(())
    }
}

/// A metric of any type that can be encoded.
trait EncodeOne {
    fn encode_one(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: &Unit,
    ) -> Result<(), fmt::Error>;
}

impl<M: EncodeMetric> EncodeOne for M {
    fn encode_one(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: &Unit,
    ) -> Result<(), fmt::Error> {
        self.encode(encoder.encode_descriptor(name, help, Some(unit), self.metric_type())?)
    }
}

/// Kernel ticks per second on every supported Linux.
const TICKS_PER_SECOND: f64 = 100.0;

fn processor_seconds() -> Option<f64> {
    ticks(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Returns user plus system time, the twelfth and thirteenth field after the name of the program. The name
/// may contain spaces and parentheses.
fn ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut times = after_name.split(' ').skip(11);
    let mut next = || times.next()?.parse::<u32>().ok();
    Some(f64::from(next()? + next()?) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<i64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_and_memory_are_read_from_proc() {
        let stat = "42 (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(ticks(stat), Some(2.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads: 1\n"), Some(2048 * 1024));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
