//! Compares measurements with budgets.
//!
//! Pure: takes a report and returns one result per budget. A missed budget contains the breakdown of its
//! time, writes or memory; a budget without a measurement is marked as such.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::report::{Limits, OPERATOR, Phase, Report, Run, Step, median, number, of_operator};
use super::shape::Shape;

/// Allowed ratio of the costs per pod of different sizes.
const MAX_COST_RATIO: f64 = 1.2;
/// Allowed ratio of a teardown to its floor.
const TEARDOWN_RATIO: f64 = 1.2;
/// The size that the reference was measured with.
const REFERENCE_PODS: u32 = 1000;

/// Whether a budget is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mark {
    Met,
    /// Within the slower end of a reference range, but not the faster one.
    Partly,
    Missed,
    NotMeasured,
}

/// A budget and the measured figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BudgetResult {
    pub(crate) what: String,
    pub(crate) budget: String,
    pub(crate) figure: Option<String>,
    pub(crate) mark: Mark,
    /// The breakdown of a missed budget.
    pub(crate) why: String,
    /// Whether it counts writes, which do not depend on the machine. Times, CPU and memory do.
    pub(crate) is_count: bool,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Whole,
    Writes,
    Seconds,
    Milliseconds,
    CpuMilliseconds,
    Mebibytes,
    Times,
    Percent,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Whole => format!("{value:.0}"),
            Self::Writes => format!("{value:.2}"),
            Self::Seconds => format!("{value:.2} s"),
            Self::Milliseconds => format!("{value:.0} ms"),
            Self::CpuMilliseconds => format!("{value:.2} ms"),
            Self::Mebibytes => format!("{value:.1} MiB"),
            Self::Times => format!("{value:.2} ×"),
            Self::Percent => format!("{value:.0} %"),
        }
    }
}

/// A figure and its breakdown.
type Measured = Option<(f64, String)>;

fn at_most(what: &str, unit: Unit, limit: f64, measured: Measured) -> BudgetResult {
    let mark = match &measured {
        None => Mark::NotMeasured,
        Some((figure, _)) if *figure <= limit => Mark::Met,
        Some(_) => Mark::Missed,
    };
    let (figure, why) = measured.unzip();
    BudgetResult {
        what: what.to_owned(),
        budget: format!("≤ {}", unit.text(limit)),
        figure: figure.map(|figure| unit.text(figure)),
        why: why.filter(|_| mark == Mark::Missed).unwrap_or_default(),
        mark,
        is_count: false,
    }
}

/// A budget that counts writes.
fn count(what: &str, unit: Unit, limit: f64, measured: Measured) -> BudgetResult {
    BudgetResult { is_count: true, ..at_most(what, unit, limit, measured) }
}

/// Returns an error that lists the counts above their budget, or that none was measured.
pub(crate) fn check_counts(results: &[BudgetResult]) -> Result<(), String> {
    let counts = || results.iter().filter(|result| result.is_count);
    if counts().all(|result| result.mark == Mark::NotMeasured) {
        return Err("no budget that counts writes was measured".to_owned());
    }
    let missed: Vec<String> = counts()
        .filter(|result| result.mark == Mark::Missed)
        .map(|result| {
            let BudgetResult { what, budget, figure, why, .. } = result;
            format!("{what}: {} instead of {budget}; {why}", figure.as_deref().unwrap_or_default())
        })
        .collect();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

/// Every budget.
pub(crate) fn budgets(report: &Report) -> Vec<BudgetResult> {
    let [a, b] = [Shape::A, Shape::B].map(|shape| run(report, shape, &Limits::BOTH));
    let throttled = run(report, Shape::A, &[Limits::Default]);
    let writes = |run| created(run, Phase::operator_writes_per_pod, where_writes_went);
    let gone = |step| gone(report, throttled?, step);
    let memory = memory_line(&report.growth);
    let memory_at = |pods| memory.as_ref().map(|line| (line.at(pods), line.to_string()));
    let statuses = [a, b].into_iter().filter_map(clique_statuses);
    let mut results = vec![
        count("writes per pod until Ready, shape a", Unit::Writes, 6.0, writes(a)),
        count("writes per pod until Ready, shape b", Unit::Writes, 3.2, writes(b)),
        count(
            "status writes per clique until Ready",
            Unit::Writes,
            2.0,
            statuses.max_by(|one, other| one.0.total_cmp(&other.0)),
        ),
        at_most("first gang Ready while all are deployed", Unit::Seconds, 1.5, first_gang(a)),
        count("writes for a change without meaning", Unit::Whole, 1.0, no_op(a)),
        at_most(
            "scaled to zero, against the floor",
            Unit::Times,
            TEARDOWN_RATIO,
            gone(Step::ToZero),
        ),
        at_most("deleted, against the floor", Unit::Times, TEARDOWN_RATIO, gone(Step::Delete)),
        count("writes while idle, lease left out", Unit::Whole, 0.0, idle(report)),
        at_most(
            "operator CPU per pod deployed",
            Unit::CpuMilliseconds,
            2.0,
            created(a, Phase::operator_cpu_per_pod, where_operator_cpu_went),
        ),
        at_most(
            "operator memory, 1,000 pods, peak",
            Unit::Mebibytes,
            25.0,
            created(a, Phase::peak_mib, where_memory_went),
        ),
        at_most(
            "operator memory, 10,000 pods, extrapolated",
            Unit::Mebibytes,
            90.0,
            memory_at(10_000.0),
        ),
        at_most("operator CPU per pod of others", Unit::CpuMilliseconds, 0.05, foreign(report)),
        at_most("10 pods created and ungated, median", Unit::Milliseconds, 500.0, latency(report)),
    ];
    results.extend(growth(&report.growth, memory.as_ref()));
    // Budgets of components that a deployment does not use.
    results.extend([
        at_most("placement of a gang of 1,000 pods", Unit::Milliseconds, 1.0, None),
        at_most("verdict on a gang that cannot fit", Unit::Seconds, 1.0, None),
        at_most("sandbox start to ready", Unit::Seconds, 1.0, None),
    ]);
    results
}

/// The first run of a shape with one of these limits, in their order.
fn run<'a>(report: &'a Report, shape: Shape, limits: &[Limits]) -> Option<&'a Run> {
    limits.iter().find_map(|&limits| {
        report.runs.iter().find(|run| (run.shape, run.limits) == (shape, limits))
    })
}

fn created(run: Option<&Run>, figure: fn(&Phase) -> f64, why: fn(&Phase) -> String) -> Measured {
    let phase = run?.phase(Step::Create)?;
    Some((figure(phase), why(phase)))
}

fn clique_statuses(run: Option<&Run>) -> Measured {
    let (run, phase) = (run?, run?.phase(Step::Create)?);
    let statuses =
        phase.writes.accepted(|kind| of_operator(kind) && kind.resource == "podcliques/status");
    let cliques = run.replicas * run.shape.cliques();
    let why = format!("{statuses} writes for {cliques} cliques of {}", run.title());
    Some((f64::from(statuses) / f64::from(cliques), why))
}

fn first_gang(run: Option<&Run>) -> Measured {
    let phase = run?.phase(Step::Create)?;
    let created = phase.seconds.created.unwrap_or_default();
    let why = format!("the last pod was created after {created:.1} s; {}", where_cpu_went(phase));
    Some((phase.seconds.first_gang_ready?, why))
}

fn no_op(run: Option<&Run>) -> Measured {
    let phase = run?.phase(Step::NoOp)?;
    Some((f64::from(phase.writes.sent(of_operator)), where_writes_went(phase)))
}

fn gone(report: &Report, run: &Run, step: Step) -> Measured {
    let phase = run.phase(step)?;
    let pods = phase.seconds.pods_gone?;
    let collected = phase.writes.accepted(|kind| kind.user == "generic-garbage-collector");
    let (took, floor) = (phase.seconds.all_gone?, report.floor(run)?.seconds);
    let why = format!(
        "{took:.1} s, clients that only delete the same take {floor:.1} s; the last pod went after \
         {pods:.1} s, the garbage collector wrote {collected} times; {}",
        where_cpu_went(phase)
    );
    Some((took / floor.max(0.001), why))
}

/// The worst of all idle phases.
fn idle(report: &Report) -> Measured {
    let phases = report.runs.iter().flat_map(|run| &run.phases);
    phases
        .filter(|phase| matches!(phase.step, Step::IdleEmpty | Step::IdleFull))
        .map(|phase| (f64::from(phase.writes.sent(of_operator)), where_writes_went(phase)))
        .max_by(|one, other| one.0.total_cmp(&other.0))
}

fn foreign(report: &Report) -> Measured {
    let ceiling = report.ceiling.as_ref()?;
    let used = number(ceiling.machine_ms.of(OPERATOR));
    let why = format!("{used:.0} ms while {} pods came and went", ceiling.pods);
    Some((used / f64::from(ceiling.pods), why))
}

fn latency(report: &Report) -> Measured {
    let values = &report.latency.as_ref()?.gates_lifted_ms;
    let list: Vec<String> = values.iter().map(|value| format!("{value:.0}")).collect();
    Some((median(values)?, format!("single values: {} ms", list.join(", "))))
}

// === growth ===

/// Whether all sizes cost the same per pod, and memory grows linearly.
fn growth(runs: &[Run], memory: Option<&Line>) -> Vec<BudgetResult> {
    let spread = |figure: fn(&Phase) -> f64| {
        let created = runs.iter().filter_map(|run| run.phase(Step::Create));
        let mean = |run: &Run| run.mean(Step::Create, |phase| Some(figure(phase)));
        let figures: Vec<f64> = runs.iter().filter_map(mean).collect();
        let most = figures.iter().copied().max_by(f64::total_cmp)?;
        let least = figures.iter().copied().min_by(f64::total_cmp)?;
        let list: Vec<String> = created
            .zip(&figures)
            .map(|(phase, figure)| format!("{figure:.2} with {} pods", phase.pods))
            .collect();
        (figures.len() > 1 && least > 0.0).then(|| (most / least, list.join(", ")))
    };
    let bend = memory.map(|line| (line.bend * 100.0, line.to_string()));
    vec![
        count(
            "writes per pod, largest size to smallest",
            Unit::Times,
            MAX_COST_RATIO,
            spread(Phase::operator_writes_per_pod),
        ),
        at_most(
            "operator CPU per pod, largest to smallest",
            Unit::Times,
            MAX_COST_RATIO,
            spread(Phase::operator_cpu_per_pod),
        ),
        at_most("memory off a line through the sizes", Unit::Percent, 20.0, bend),
    ]
}

/// Memory by number of pods: the line through the smallest and the largest size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    base: f64,
    per_pod: f64,
    /// The largest deviation of the sizes in between, relative to the line.
    bend: f64,
}

impl Line {
    fn at(&self, pods: f64) -> f64 {
        self.base + self.per_pod * pods
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_pod = self.per_pod * 1024.0;
        write!(f, "{:.1} MiB and {per_pod:.1} KiB per pod at the peak", self.base)
    }
}

fn memory_line(runs: &[Run]) -> Option<Line> {
    let points: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|run| run.phase(Step::Create))
        .map(|phase| (f64::from(phase.pods), phase.peak_mib()))
        .collect();
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 {
        return None;
    }
    let per_pod = (last.1 - first.1) / (last.0 - first.0);
    let line = Line { base: first.1 - per_pod * first.0, per_pod, bend: 0.0 };
    let off = |&(pods, mib): &(f64, f64)| (mib - line.at(pods)).abs() / line.at(pods);
    Some(Line { bend: points.iter().map(off).max_by(f64::total_cmp)?, ..line })
}

// === where it went ===

/// Writes of the operator by resource and verb, most first.
fn where_writes_went(phase: &Phase) -> String {
    let mut kinds: Vec<(u32, String)> = phase
        .writes
        .iter()
        .filter(|(kind, _)| of_operator(kind))
        .map(|(kind, count)| (count.accepted, format!("{} {}", kind.verb, kind.resource)))
        .collect();
    kinds.sort_by_key(|(count, _)| Reverse(*count));
    let pods = f64::from(phase.pods.max(1));
    let shares: Vec<String> = kinds
        .iter()
        .map(|(count, kind)| format!("{kind} {:.2}", f64::from(*count) / pods))
        .filter(|share| !share.ends_with(" 0.00"))
        .collect();
    format!("per pod: {}", shares.join(", "))
}

fn where_operator_cpu_went(phase: &Phase) -> String {
    let sent = phase.writes.sent(of_operator);
    let per_write = number(phase.operator_cpu_ms) / f64::from(sent.max(1));
    format!("{sent} writes at {per_write:.2} ms each, with all that leads to them")
}

fn where_memory_went(phase: &Phase) -> String {
    let steady = phase.steady_mib();
    let file = f64::from(phase.memory_kib.file) / 1024.0;
    format!("{steady:.1} MiB stay, of which {file:.1} MiB are pages of the program file")
}

/// Parts of the machine by process, most first.
pub(crate) fn where_cpu_went(phase: &Phase) -> String {
    let capacity = number(phase.machine_ms.capacity.max(1));
    let mut users: BTreeMap<&str, u64> =
        phase.machine_ms.processes.iter().map(|(name, used)| (name.as_str(), *used)).collect();
    users.insert("others", phase.machine_ms.others);
    let idle = phase.machine_ms.capacity.saturating_sub(users.values().sum());
    users.insert("idle", idle);
    let mut users: Vec<(&str, u64)> = users.into_iter().collect();
    users.sort_by_key(|(_, used)| Reverse(*used));
    let shares: Vec<String> = users
        .iter()
        .map(|(name, used)| format!("{name} {:.0} %", number(*used) * 100.0 / capacity))
        .collect();
    format!("machine: {}", shares.join(", "))
}

// === reference ===

/// Times of another operator on the same kind of machine, and our goal relative to them.
struct Reference {
    what: &'static str,
    limits: Limits,
    step: Step,
    ours: fn(&Phase) -> Option<f64>,
    /// Range in seconds.
    theirs: (f64, f64),
    goal: Goal,
}

#[derive(Debug, Clone, Copy)]
enum Goal {
    /// This many times faster.
    Times(f64),
    /// At most this many seconds.
    Seconds(f64),
}

const REFERENCES: [Reference; 5] = [
    Reference {
        what: "1,000 pods created",
        limits: Limits::Raised,
        step: Step::Create,
        ours: |phase| phase.seconds.created,
        theirs: (13.0, 22.0),
        goal: Goal::Times(2.0),
    },
    Reference {
        what: "1,000 pods Ready",
        limits: Limits::Raised,
        step: Step::Create,
        ours: |phase| phase.seconds.ready,
        theirs: (46.0, 57.0),
        goal: Goal::Times(1.7),
    },
    Reference {
        what: "set of 1,000 pods gone",
        limits: Limits::Raised,
        step: Step::Delete,
        ours: |phase| phase.seconds.all_gone,
        theirs: (14.0, 18.0),
        goal: Goal::Times(3.0),
    },
    Reference {
        what: "1,000 pods scaled to zero, default limits",
        limits: Limits::Default,
        step: Step::ToZero,
        ours: |phase| phase.seconds.all_gone,
        theirs: (53.0, 53.0),
        goal: Goal::Seconds(10.0),
    },
    Reference {
        what: "set of 1,000 pods gone, default limits",
        limits: Limits::Default,
        step: Step::Delete,
        ours: |phase| phase.seconds.all_gone,
        theirs: (187.0, 187.0),
        goal: Goal::Seconds(10.0),
    },
];

/// Compares shape a with the reference.
pub(crate) fn reference(report: &Report) -> Vec<BudgetResult> {
    let result = |reference: &Reference| {
        let phase = run(report, Shape::A, &[reference.limits])
            .filter(|run| run.pods() == REFERENCE_PODS)
            .and_then(|run| run.phase(reference.step));
        compare(reference, phase)
    };
    REFERENCES.iter().map(result).collect()
}

fn compare(reference: &Reference, phase: Option<&Phase>) -> BudgetResult {
    let (from, to) = reference.theirs;
    let theirs = if from < to { format!("{from:.0}–{to:.0} s") } else { format!("{to:.0} s") };
    let goal = match reference.goal {
        Goal::Times(times) => format!("≥ {times} ×"),
        Goal::Seconds(seconds) => format!("≤ {seconds} s"),
    };
    let ours = phase.and_then(|phase| Some((phase, (reference.ours)(phase)?)));
    let Some((phase, ours)) = ours else {
        let budget = format!("{theirs}, {goal}");
        let what = reference.what.to_owned();
        return BudgetResult {
            what,
            budget,
            figure: None,
            mark: Mark::NotMeasured,
            why: String::new(),
            is_count: false,
        };
    };
    let (least, most) = (from / ours, to / ours);
    let mark = match reference.goal {
        Goal::Times(times) if least >= times => Mark::Met,
        Goal::Times(times) if most >= times => Mark::Partly,
        Goal::Seconds(seconds) if ours <= seconds => Mark::Met,
        Goal::Times(_) | Goal::Seconds(_) => Mark::Missed,
    };
    let times =
        if from < to { format!("{least:.1}–{most:.1} ×") } else { format!("{least:.1} ×") };
    BudgetResult {
        what: reference.what.to_owned(),
        budget: format!("{theirs}, {goal}"),
        figure: Some(format!("{ours:.2} s, {times}")),
        mark,
        why: if mark == Mark::Met { String::new() } else { where_cpu_went(phase) },
        is_count: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::audit::Writes;
    use super::super::report::testkit::{phase, run as run_of};
    use super::super::report::{Floor, Latency, Seconds};
    use super::*;

    fn find<'a>(results: &'a [BudgetResult], what: &str) -> &'a BudgetResult {
        results.iter().find(|result| result.what.starts_with(what)).unwrap()
    }

    #[test]
    fn budgets_without_measurements_are_marked_as_such() {
        let report = Report::default();
        let results = [budgets(&report), reference(&report)].concat();
        assert_eq!(results.len(), 24);
        for result in results {
            assert_eq!((result.mark, result.figure), (Mark::NotMeasured, None));
        }
    }

    #[test]
    fn a_budget_is_met_at_its_limit_and_missed_above_it() {
        let report = |writes| Report {
            runs: vec![run_of(Limits::Raised, vec![phase(Step::Create, writes, 1400)])],
            ..Report::default()
        };
        let within = budgets(&report(6000));
        assert_eq!(find(&within, "writes per pod until Ready, shape a").mark, Mark::Met);
        assert_eq!(find(&within, "operator CPU per pod deployed").mark, Mark::Met);
        let beyond = budgets(&report(6001));
        let missed = find(&beyond, "writes per pod until Ready, shape a");
        assert_eq!(missed.mark, Mark::Missed);
        assert_eq!(missed.figure.as_deref(), Some("6.00"));
        assert_eq!(missed.why, "per pod: create pods 6.00");
    }

    #[test]
    fn the_check_fails_only_for_counts_above_their_budget() {
        let report =
            |phases| Report { runs: vec![run_of(Limits::Raised, phases)], ..Report::default() };
        let check = |report: &Report| check_counts(&budgets(report));
        let slow = phase(Step::Create, 6000, 90_000);
        assert_eq!(check(&report(vec![slow.clone()])), Ok(()), "CPU is no count");
        let cases = [
            ("writes per pod until Ready, shape a", vec![phase(Step::Create, 6001, 0)]),
            ("writes while idle", vec![phase(Step::IdleFull, 1, 0)]),
            ("writes for a change without meaning", vec![phase(Step::NoOp, 2, 0)]),
        ];
        for (what, phases) in cases {
            let wrong = check(&report(phases)).unwrap_err();
            assert!(wrong.starts_with(what) && wrong.lines().count() == 1, "{wrong}");
        }
        let mut statuses = slow.clone();
        let line = r#"{"verb":"patch","user":{"username":"grove-operator"},"#.to_owned()
            + r#""objectRef":{"resource":"podcliques","subresource":"status"},"#
            + r#""responseStatus":{"code":200}}"#;
        statuses.writes = Writes::from_log(&vec![line; 1001].join("\n")).unwrap();
        let wrong = check(&report(vec![statuses])).unwrap_err();
        assert!(wrong.starts_with("status writes per clique until Ready: 2.00 instead"), "{wrong}");
        let sizes = vec![sized(200, 1000, 12), sized(1000, 6100, 30)];
        let wrong = check(&Report { growth: sizes, ..Report::default() }).unwrap_err();
        assert!(wrong.starts_with("writes per pod, largest size to smallest"), "{wrong}");
        assert!(check(&Report::default()).is_err(), "nothing was measured");
    }

    #[test]
    fn a_teardown_is_compared_with_the_floor_of_the_same_run() {
        let result = |seconds: f64, floors: Vec<Floor>| {
            let mut phase = phase(Step::Delete, 0, 0);
            let (pods_gone, all_gone) = (Some(1.0), Some(seconds));
            phase.seconds = Seconds { pods_gone, all_gone, ..Seconds::default() };
            let runs = vec![run_of(Limits::Default, vec![phase])];
            find(&budgets(&Report { runs, floors, ..Report::default() }), "deleted").clone()
        };
        let floor = || vec![Floor { limits: Limits::Default, replicas: 500, seconds: 10.0 }];
        assert_eq!(result(12.0, floor()).mark, Mark::Met);
        let missed = result(13.0, floor());
        assert_eq!((missed.mark, missed.figure.as_deref()), (Mark::Missed, Some("1.30 ×")));
        assert_eq!(result(1.0, Vec::new()).mark, Mark::NotMeasured);
    }

    #[test]
    fn the_worst_idle_phase_counts() {
        let phases = vec![phase(Step::IdleEmpty, 0, 0), phase(Step::IdleFull, 2, 0)];
        let report = Report { runs: vec![run_of(Limits::Raised, phases)], ..Report::default() };
        let results = budgets(&report);
        let idle = find(&results, "writes while idle");
        assert_eq!((idle.mark, idle.figure.as_deref()), (Mark::Missed, Some("2")));
    }

    #[test]
    fn the_median_of_the_single_sets_counts() {
        let gates_lifted_ms = vec![900.0, 400.0, 500.0];
        let latency = Latency { pods: 10, gates_lifted_ms, ready_ms: Vec::new() };
        let report = Report { latency: Some(latency), ..Report::default() };
        assert_eq!(find(&budgets(&report), "10 pods").mark, Mark::Met);
    }

    fn sized(pods: u32, writes: usize, peak_mib: u32) -> Run {
        let mut phase = phase(Step::Create, writes, u64::from(pods));
        phase.pods = pods;
        phase.memory_kib.peak = peak_mib << 10;
        run_of(Limits::Raised, vec![phase])
    }

    #[test]
    fn cost_per_pod_must_not_grow_with_the_size() {
        let even = [sized(200, 1200, 12), sized(1000, 5600, 20), sized(4000, 22000, 50)];
        let line = memory_line(&even).unwrap();
        assert_eq!((line.base, line.per_pod, line.bend), (10.0, 0.01, 0.0));
        assert!((line.at(10_000.0) - 110.0).abs() < 1e-9);
        let results = growth(&even, Some(&line));
        assert!(results.iter().all(|result| result.mark == Mark::Met), "{results:?}");

        let mut twice = sized(200, 1000, 12);
        twice.phases.extend(sized(200, 1400, 12).phases);
        let results = growth(&[twice, sized(1000, 6000, 20)], None);
        assert_eq!(results[0].figure.as_deref(), Some("1.00 ×"), "the mean counts");

        let uneven = [sized(200, 1000, 12), sized(1000, 6100, 30), sized(4000, 24000, 50)];
        let results = growth(&uneven, memory_line(&uneven).as_ref());
        let marks: Vec<Mark> = results.iter().map(|result| result.mark).collect();
        assert_eq!(marks, [Mark::Missed, Mark::Met, Mark::Missed]);
        assert_eq!(results[0].why, "5.00 with 200 pods, 6.10 with 1000 pods, 6.00 with 4000 pods");
        assert!(memory_line(&even[..1]).is_none());
    }

    #[test]
    fn a_reference_range_can_be_met_partly() {
        let mark = |created: f64| {
            let mut phase = phase(Step::Create, 0, 0);
            phase.seconds = Seconds { created: Some(created), ..Seconds::default() };
            compare(&REFERENCES[0], Some(&phase))
        };
        assert_eq!((mark(6.5).mark, mark(6.6).mark), (Mark::Met, Mark::Partly));
        assert_eq!((mark(11.0).mark, mark(11.1).mark), (Mark::Partly, Mark::Missed));
        assert_eq!(mark(6.5).figure.as_deref(), Some("6.50 s, 2.0–3.4 ×"));
        assert!(mark(6.5).why.is_empty() && mark(12.0).why.starts_with("machine: "));
    }

    #[test]
    fn only_a_run_of_the_reference_size_is_compared_with_it() {
        let mut phase = phase(Step::Create, 0, 0);
        phase.seconds.created = Some(0.1);
        let mut small = run_of(Limits::Raised, vec![phase]);
        let results =
            |run: &Run| reference(&Report { runs: vec![run.clone()], ..Report::default() });
        assert_eq!(results(&small)[0].mark, Mark::Met);
        small.replicas = 2;
        assert_eq!(results(&small)[0].mark, Mark::NotMeasured);
    }

    #[test]
    fn cpu_shares_add_up_to_the_machine() {
        let text = where_cpu_went(&phase(Step::Create, 0, 1000));
        assert_eq!(text, "machine: idle 80 %, etcd 15 %, grove-operator 5 %, others 0 %");
    }
}
