//! `cargo xtask bench deploy`: deploys, scales and deletes sets, and measures every step.
//!
//! The operator runs as a separate process with its installed role and configuration, on a real control plane
//! with 100 simulated nodes. Progress goes to standard error, tables to standard output, all figures to a
//! JSON file on request.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use xtask::cluster::Kube;

use super::report::{Ceiling, Floor, Latency, Limits, Phase, Report, Run, Setting, Step};
use super::shape::Shape;
use super::world::{FLEET, OTHER_NAMESPACE, Plan, Stage, World};
use super::{budgets, ceiling, render};
use crate::generate::workspace_root;
use crate::operator::Profile;

/// Replicas to deploy per size, in several runs if needed: single figures of small sizes vary too much.
const MIN_REPLICAS: u32 = 500;
/// Number of single sets for the median.
const SINGLE_SETS: u32 = 15;
const SET: &str = "bench";

#[derive(Debug, Args)]
pub(crate) struct DeployArguments {
    /// What to measure; several are separated by commas.
    #[arg(long = "shape", value_enum, value_delimiter = ',', default_value = "all")]
    parts: Vec<Part>,
    /// Replicas instead of 500 (a, floor) and 50 (b); sizes instead of 100,500,2000 (scale).
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..))]
    replicas: Vec<u32>,
    /// Client limits of the controller manager; with both, a, b and floor are measured twice.
    #[arg(long, value_enum, default_value_t = LimitsChoice::Both)]
    controller_manager_limits: LimitsChoice,
    /// Seconds of each idle phase, in shape a.
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Whether the authorizer protects managed objects; off as installed.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    authorizer: bool,
    /// How the operator and the benchmark are compiled.
    #[arg(long, value_enum, default_value_t = Profile::Dist)]
    profile: Profile,
    /// Exit with 1 when a budget that counts writes is missed; times, CPU and memory depend on the machine.
    #[arg(long)]
    check: bool,
    /// Write everything that was measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 500 replicas of 1 clique of 2 pods: up, half, up, none, idle, up, idle, touched, deleted.
    A,
    /// The same with 50 replicas of 20 pods, 3 roles and a scaling group, without idling.
    B,
    /// Shape a with 100 (five times), 500 and 2,000 replicas: does the cost per pod stay the same?
    Scale,
    /// Single sets of 10 pods: how soon are their gates removed?
    Latency,
    /// 2,000 pods created, bound and deleted by 32 clients: what can the API server do at most?
    Ceiling,
    /// All objects of shape a deleted by 32 clients, without operator: what is the minimum time?
    Floor,
    /// All of these.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LimitsChoice {
    /// So high that no client waits for them.
    Raised,
    /// The defaults of Kubernetes.
    Default,
    /// One after the other.
    Both,
}

impl DeployArguments {
    fn includes(&self, part: Part) -> bool {
        self.parts.iter().any(|&one| one == part || one == Part::All)
    }

    /// The limits to measure with; only some parts are measured with all of them.
    fn limits(&self) -> Vec<Limits> {
        let twice = [Part::A, Part::B, Part::Floor].into_iter().any(|part| self.includes(part));
        match self.controller_manager_limits {
            LimitsChoice::Both if twice => vec![Limits::Raised, Limits::Default],
            LimitsChoice::Raised | LimitsChoice::Both => vec![Limits::Raised],
            LimitsChoice::Default => vec![Limits::Default],
        }
    }

    fn replicas(&self, default: u32) -> u32 {
        self.replicas.first().copied().unwrap_or(default)
    }

    fn sizes(&self) -> Vec<u32> {
        let mut sizes =
            if self.replicas.is_empty() { vec![100, 500, 2000] } else { self.replicas.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Builds, measures, reports.
pub(crate) fn run(arguments: &DeployArguments) -> Result<ExitCode> {
    let root = workspace_root()?;
    build(&root, arguments.profile)?;
    let bench = Bench { arguments, program: arguments.profile.program(&root, "grove") };
    let mut report = bench.measure()?;
    report.budgets = budgets::budgets(&report);
    report.reference = budgets::reference(&report);
    if let Some(file) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    write!(io::stdout(), "{}", render::text(&report)).context("cannot write the tables")?;
    if arguments.check
        && let Err(missed) = budgets::check_counts(&report.budgets)
    {
        eprintln!("error: {missed}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The benchmark decodes every change of every pod on the machine that it measures, so it is compiled like
/// the operator and runs in place of this program.
pub(super) fn build(root: &Path, profile: Profile) -> Result<()> {
    let optimized = profile == Profile::Dist;
    say(if optimized { "building grove as for images" } else { "building grove" });
    if !optimized {
        return profile.build(root, &["grove"]);
    }
    profile.build(root, &["grove", "xtask"])?;
    if cfg!(debug_assertions) {
        let arguments = std::env::args_os().skip(1);
        let error = Command::new(profile.program(root, "xtask")).args(arguments).exec();
        return Err(error).context("cannot run the optimized benchmark");
    }
    Ok(())
}

pub(super) fn say(text: &str) {
    eprintln!("{text}");
}

struct Bench<'a> {
    arguments: &'a DeployArguments,
    program: PathBuf,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Report> {
        let mut report = Report { setting: self.setting(), ..Report::default() };
        for (limits, first) in self.arguments.limits().into_iter().zip([true, false]) {
            let nodes = FLEET.len();
            let plane =
                format!("a control plane with {nodes} nodes, client limits {}", limits.word());
            say(&format!("starting {plane}"));
            let world = World::start(limits, self.arguments.authorizer)?;
            if first && self.arguments.includes(Part::Ceiling) {
                report.ceiling = Some(self.ceiling(&world)?);
            }
            if first && self.arguments.includes(Part::Latency) {
                report.latency = Some(self.latency(&world)?);
            }
            if self.arguments.includes(Part::A) {
                report.runs.push(self.cycle(&world, limits, Shape::A, 500)?);
            }
            if self.arguments.includes(Part::Floor) {
                report.floors.push(self.floor(&world, limits)?);
            }
            if self.arguments.includes(Part::B) {
                report.runs.push(self.cycle(&world, limits, Shape::B, 50)?);
            }
            if first && self.arguments.includes(Part::Scale) {
                for replicas in self.arguments.sizes() {
                    report.growth.push(self.up_and_down(&world, limits, replicas)?);
                }
            }
        }
        Ok(report)
    }

    fn setting(&self) -> Setting {
        Setting {
            kubernetes: Kube::default().to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            nodes: FLEET.len(),
            profile: match self.arguments.profile {
                Profile::Dev => "dev".to_owned(),
                Profile::Dist => "dist".to_owned(),
            },
            authorizer: self.arguments.authorizer,
            idle_seconds: self.arguments.idle,
        }
    }

    fn ceiling(&self, world: &World) -> Result<Ceiling> {
        say("ceiling of the API server");
        let stage = world.operate(&self.program)?;
        let measure = || ceiling::measure(&world.connector, OTHER_NAMESPACE);
        let (per_second, machine_ms) = stage.meanwhile(measure)?;
        stage.end()?;
        Ok(Ceiling { pods: ceiling::PODS, per_second, machine_ms })
    }

    fn floor(&self, world: &World, limits: Limits) -> Result<Floor> {
        let (shape, replicas) = (Shape::A, self.arguments.replicas(500));
        say(&format!("{replicas} replicas of shape a, deleted by clients that do nothing else"));
        let mut stage = world.operate(&self.program)?;
        stage.reach(shape.goal(Some(replicas)), |set| set.create(shape, SET, replicas))?;
        stage.settle()?;
        let seconds = stage.delete_without_operator(shape, SET)?;
        Ok(Floor { limits, replicas, seconds })
    }

    fn latency(&self, world: &World) -> Result<Latency> {
        say("single sets of 10 pods");
        let mut stage = world.operate(&self.program)?;
        let (shape, mut gates_lifted_ms, mut ready_ms) = (Shape::Ten, Vec::new(), Vec::new());
        for _ in 0..SINGLE_SETS {
            let (start, marks) =
                stage.reach(shape.goal(Some(1)), |set| set.create(shape, SET, 1))?;
            let passed = |mark: Option<Duration>| {
                mark.unwrap_or_default().saturating_sub(start).as_secs_f64() * 1000.0
            };
            gates_lifted_ms.push(passed(marks.ungated));
            ready_ms.push(passed(marks.ready));
            stage.settle()?;
            stage.reach(shape.goal(None), |set| set.delete(SET))?;
            stage.settle()?;
        }
        stage.end()?;
        Ok(Latency { pods: shape.pods(), gates_lifted_ms, ready_ms })
    }

    /// Deploys, scales and deletes a set.
    fn cycle(&self, world: &World, limits: Limits, shape: Shape, default: u32) -> Result<Run> {
        let replicas = self.arguments.replicas(default);
        let mut run = Run { shape, replicas, limits, phases: Vec::new() };
        say(&run.title());
        let idle = Duration::from_secs(if shape == Shape::A { self.arguments.idle } else { 0 });
        let half = replicas / 2;
        let mut stage = world.operate(&self.program)?;
        let mut set_run = SetRun { stage: &mut stage, shape, run: &mut run, replicas: None };
        set_run.step(Step::Create, Some(replicas))?;
        set_run.step(Step::Halve, Some(half))?;
        set_run.step(Step::Double, Some(replicas))?;
        set_run.step(Step::ToZero, Some(0))?;
        set_run.idle(Step::IdleEmpty, idle)?;
        set_run.step(Step::FromZero, Some(replicas))?;
        set_run.idle(Step::IdleFull, idle)?;
        set_run.step(Step::NoOp, Some(replicas))?;
        set_run.step(Step::Delete, None)?;
        stage.end()?;
        Ok(run)
    }

    fn up_and_down(&self, world: &World, limits: Limits, replicas: u32) -> Result<Run> {
        let shape = Shape::A;
        let mut run = Run { shape, replicas, limits, phases: Vec::new() };
        say(&run.title());
        let mut stage = world.operate(&self.program)?;
        let mut set_run = SetRun { stage: &mut stage, shape, run: &mut run, replicas: None };
        for _ in 0..MIN_REPLICAS.div_ceil(replicas) {
            set_run.step(Step::Create, Some(replicas))?;
            set_run.step(Step::Delete, None)?;
        }
        stage.end()?;
        Ok(run)
    }
}

/// A set during its run.
struct SetRun<'a, 'w> {
    stage: &'a mut Stage<'w>,
    shape: Shape,
    run: &'a mut Run,
    /// Current number of replicas; none without a set.
    replicas: Option<u32>,
}

impl SetRun<'_, '_> {
    /// Scales from the current number of replicas to another one, or deletes the set.
    fn step(&mut self, step: Step, to: Option<u32>) -> Result<()> {
        let shape = self.shape;
        let plan = self.plan(step, to, Duration::ZERO);
        let phase = self.stage.take(plan, |set| match (step, to) {
            (Step::Create, Some(replicas)) => set.create(shape, SET, replicas),
            (Step::NoOp, _) => set.touch(SET),
            (_, Some(replicas)) => set.scale(SET, replicas),
            (_, None) => set.delete(SET),
        })?;
        self.replicas = to;
        self.done(phase);
        Ok(())
    }

    /// Measures an idle phase.
    fn idle(&mut self, step: Step, time: Duration) -> Result<()> {
        if time > Duration::ZERO {
            let plan = self.plan(step, self.replicas, time);
            let phase = self.stage.take(plan, |_| Ok(()))?;
            self.done(phase);
        }
        Ok(())
    }

    fn plan(&self, step: Step, to: Option<u32>, linger: Duration) -> Plan {
        let (before, after) = (self.replicas.unwrap_or_default(), to.unwrap_or_default());
        let name = match step {
            Step::IdleEmpty | Step::IdleFull => format!("idle at {after}"),
            Step::NoOp => format!("touched at {after}"),
            Step::Delete => format!("{before} → deleted"),
            Step::FromZero => format!("{before} → {after} again"),
            _ => format!("{before} → {after}"),
        };
        let moved = before.abs_diff(after);
        let pods = if moved == 0 { after } else { moved } * self.shape.pods();
        Plan { step, name, pods, goal: self.shape.goal(to), linger }
    }

    fn done(&mut self, phase: Phase) {
        let seconds = phase.seconds.ready.or(phase.seconds.all_gone);
        let took = seconds.map(|seconds| format!(" in {seconds:.2} s")).unwrap_or_default();
        say(&format!("  {}{took}", phase.name));
        self.run.phases.push(phase);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: DeployArguments,
    }

    fn arguments(line: &[&str]) -> DeployArguments {
        Line::try_parse_from([&["x"], line].concat()).unwrap().arguments
    }

    #[test]
    fn without_arguments_all_parts_are_measured() {
        let all = arguments(&[]);
        for part in [Part::A, Part::B, Part::Scale, Part::Latency, Part::Ceiling, Part::Floor] {
            assert!(all.includes(part), "{part:?}");
        }
        assert_eq!(all.limits(), [Limits::Raised, Limits::Default]);
        assert_eq!((all.replicas(500), all.sizes()), (500, vec![100, 500, 2000]));
        assert_eq!((all.idle, all.authorizer, all.check), (60, false, false));
        assert!(arguments(&["--check"]).check);
    }

    #[test]
    fn a_single_part_is_measured_once_unless_limits_affect_it() {
        let latency = arguments(&["--shape", "latency,ceiling"]);
        assert!(latency.includes(Part::Ceiling) && !latency.includes(Part::A));
        assert_eq!(latency.limits(), [Limits::Raised]);
        let limits = ["--controller-manager-limits", "default", "--shape", "scale"];
        assert_eq!(arguments(&limits).limits(), [Limits::Default]);
        let sizes = arguments(&["--replicas", "30,10,30"]);
        assert_eq!((sizes.replicas(500), sizes.sizes()), (30, vec![10, 30]));
        assert!(Line::try_parse_from(["x", "--replicas", "1"]).is_err(), "one cannot be halved");
    }
}
