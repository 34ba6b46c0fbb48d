//! The measurements as data: [`super::render`] prints them, and they are written as JSON.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::audit::{Kind, Writes};
use super::budgets::BudgetResult;
use super::ceiling::Rates;
use super::progress::Marks;
use super::shape::Shape;
use super::usage::{Cpu, Memory};

/// The operator's user and process.
pub(crate) const OPERATOR: &str = "grove-operator";

/// A complete report.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) setting: Setting,
    /// Cycles of deploying, scaling and deleting.
    pub(crate) runs: Vec<Run>,
    /// Deployments of different sizes, smallest first.
    pub(crate) growth: Vec<Run>,
    pub(crate) latency: Option<Latency>,
    pub(crate) ceiling: Option<Ceiling>,
    /// One per limit.
    pub(crate) floors: Vec<Floor>,
    /// Budgets next to the figures.
    pub(crate) budgets: Vec<BudgetResult>,
    /// The reference next to the figures.
    pub(crate) reference: Vec<BudgetResult>,
}

/// The machine.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Setting {
    pub(crate) kubernetes: String,
    pub(crate) cores: usize,
    pub(crate) nodes: usize,
    pub(crate) profile: String,
    pub(crate) authorizer: bool,
    pub(crate) idle_seconds: u64,
}

/// Client limits of the controller manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Limits {
    /// So high that no client waits for them.
    Raised,
    /// The defaults of Kubernetes.
    Default,
}

impl Limits {
    /// Raised limits first: with them only the operator's speed counts.
    pub(crate) const BOTH: [Self; 2] = [Self::Raised, Self::Default];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Default => "default",
        }
    }
}

/// One set, from creation to deletion.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) shape: Shape,
    pub(crate) replicas: u32,
    pub(crate) limits: Limits,
    pub(crate) phases: Vec<Phase>,
}

/// Action of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// The set is created.
    Create,
    /// Half of the replicas are removed.
    Halve,
    /// They are added again.
    Double,
    /// All replicas are removed, the set stays.
    ToZero,
    /// Idle, without replicas.
    IdleEmpty,
    /// All replicas are added again.
    FromZero,
    /// Idle, with all replicas.
    IdleFull,
    /// The set changes without consequence.
    NoOp,
    /// The set is deleted.
    Delete,
}

/// One step and its cost.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Phase {
    pub(crate) step: Step,
    pub(crate) name: String,
    /// Pods added or removed; in other steps, existing pods.
    pub(crate) pods: u32,
    pub(crate) seconds: Seconds,
    pub(crate) writes: Writes,
    /// CPU time of the machine until the goal was reached.
    pub(crate) machine_ms: Cpu,
    /// CPU time of the operator until it was idle again.
    pub(crate) operator_cpu_ms: u64,
    pub(crate) memory_kib: Memory,
}

/// When each state was observed, in seconds since the request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Seconds {
    pub(crate) first_gang_ready: Option<f64>,
    pub(crate) created: Option<f64>,
    pub(crate) gates_lifted: Option<f64>,
    pub(crate) ready: Option<f64>,
    pub(crate) pods_gone: Option<f64>,
    /// Also cliques, groups, gangs, services and, in a deletion, the set.
    pub(crate) all_gone: Option<f64>,
}

impl Seconds {
    /// Times of a step that adds pods.
    pub(crate) fn up(start: Duration, marks: &Marks) -> Self {
        Self {
            first_gang_ready: since(start, marks.first_gang),
            created: since(start, marks.pods),
            gates_lifted: since(start, marks.ungated),
            ready: since(start, marks.ready),
            ..Self::default()
        }
    }

    /// Times of a step that removes pods.
    pub(crate) fn down(start: Duration, marks: &Marks) -> Self {
        let (pods_gone, all_gone) = (since(start, marks.pods), since(start, marks.all));
        Self { pods_gone, all_gone, ..Self::default() }
    }
}

fn since(start: Duration, mark: Option<Duration>) -> Option<f64> {
    mark.map(|mark| mark.saturating_sub(start).as_secs_f64())
}

impl Run {
    /// Number of pods of all replicas.
    pub(crate) fn pods(&self) -> u32 {
        self.replicas * self.shape.pods()
    }

    pub(crate) fn phase(&self, step: Step) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.step == step)
    }

    /// The mean over all runs of a step.
    pub(crate) fn mean(&self, step: Step, figure: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let phases = self.phases.iter().filter(|phase| phase.step == step);
        let figures: Vec<f64> = phases.filter_map(figure).collect();
        let count = u32::try_from(figures.len()).ok().filter(|count| *count > 0)?;
        Some(figures.iter().sum::<f64>() / f64::from(count))
    }

    pub(crate) fn title(&self) -> String {
        let shape = match self.shape {
            Shape::A => "shape a, 1 clique × 2 pods",
            Shape::B => "shape b, 3 roles and a scaling group, 20 pods",
            Shape::Ten => "1 clique × 10 pods",
            Shape::Pair => "2 cliques × 2 pods",
        };
        let limits = self.limits.word();
        format!("{} replicas of {shape}; client limits {limits}", self.replicas)
    }
}

/// Whether a write counts: leases do not.
pub(crate) fn of_anybody(kind: &Kind) -> bool {
    kind.resource != "leases"
}

/// Whether the operator made the write, leases excluded.
pub(crate) fn of_operator(kind: &Kind) -> bool {
    kind.user == OPERATOR && of_anybody(kind)
}

impl Phase {
    /// Accepted writes of the operator per pod.
    pub(crate) fn operator_writes_per_pod(&self) -> f64 {
        self.per_pod(f64::from(self.writes.accepted(of_operator)))
    }

    /// Accepted writes of all users per pod, leases excluded.
    pub(crate) fn all_writes_per_pod(&self) -> f64 {
        self.per_pod(f64::from(self.writes.accepted(of_anybody)))
    }

    /// CPU time of the operator per pod, in milliseconds.
    pub(crate) fn operator_cpu_per_pod(&self) -> f64 {
        self.per_pod(number(self.operator_cpu_ms))
    }

    pub(crate) fn peak_mib(&self) -> f64 {
        f64::from(self.memory_kib.peak) / 1024.0
    }

    pub(crate) fn steady_mib(&self) -> f64 {
        f64::from(self.memory_kib.resident) / 1024.0
    }

    fn per_pod(&self, count: f64) -> f64 {
        count / f64::from(self.pods.max(1))
    }
}

/// Converts a count for calculations.
pub(crate) fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Times of single sets, one after another on an idle cluster.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Latency {
    /// Pods of each set.
    pub(crate) pods: u32,
    pub(crate) gates_lifted_ms: Vec<f64>,
    pub(crate) ready_ms: Vec<f64>,
}

/// Maximum rates of the API server, and the operator's CPU time for pods of other owners meanwhile.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ceiling {
    pub(crate) pods: u32,
    pub(crate) per_second: Rates,
    pub(crate) machine_ms: Cpu,
}

/// The minimum time in which clients delete all objects of a set of shape a.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Floor {
    pub(crate) limits: Limits,
    pub(crate) replicas: u32,
    pub(crate) seconds: f64,
}

impl Report {
    /// The floor to compare a run with.
    pub(crate) fn floor(&self, run: &Run) -> Option<&Floor> {
        self.floors
            .iter()
            .filter(|_| run.shape == Shape::A)
            .find(|floor| (floor.limits, floor.replicas) == (run.limits, run.replicas))
    }
}

/// The median; of two middle values the lower one.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
pub(crate) mod testkit {
    use super::*;

    /// A phase with 1,000 pods whose operator wrote `writes` times and used `cpu` ms.
    pub(crate) fn phase(step: Step, writes: usize, cpu: u64) -> Phase {
        let line = r#"{"verb":"create","user":{"username":"grove-operator"},
            "objectRef":{"resource":"pods"},"responseStatus":{"code":201}}"#
            .replace('\n', "");
        Phase {
            step,
            name: "0 → 500".to_owned(),
            pods: 1000,
            seconds: Seconds::default(),
            writes: Writes::from_log(&vec![line; writes].join("\n")).unwrap(),
            machine_ms: Cpu {
                processes: [(OPERATOR.to_owned(), cpu), ("etcd".to_owned(), 3000)].into(),
                others: 100,
                capacity: 20000,
            },
            operator_cpu_ms: cpu,
            memory_kib: Memory { peak: 20 << 10, resident: 19 << 10, file: 9 << 10 },
        }
    }

    pub(crate) fn run(limits: Limits, phases: Vec<Phase>) -> Run {
        Run { shape: Shape::A, replicas: 500, limits, phases }
    }
}

#[cfg(test)]
mod tests {
    use super::testkit::phase;
    use super::*;

    #[test]
    fn figures_are_per_pod() {
        let phase = phase(Step::Create, 5500, 1200);
        assert!((phase.operator_writes_per_pod() - 5.5).abs() < 1e-9);
        assert!((phase.operator_cpu_per_pod() - 1.2).abs() < 1e-9);
        assert!((phase.peak_mib() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn marks_count_from_the_request() {
        let at = |seconds| Some(Duration::from_secs(seconds));
        let marks =
            Marks { first_gang: at(11), pods: at(12), ungated: at(13), ready: at(14), all: at(15) };
        let start = Duration::from_secs(10);
        let up = Seconds::up(start, &marks);
        assert_eq!((up.first_gang_ready, up.created), (Some(1.0), Some(2.0)));
        assert_eq!((up.gates_lifted, up.ready, up.all_gone), (Some(3.0), Some(4.0), None));
        let down = Seconds::down(start, &marks);
        assert_eq!((down.pods_gone, down.all_gone, down.ready), (Some(2.0), Some(5.0), None));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
