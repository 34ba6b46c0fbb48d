//! `cargo xtask bench update`: measures the update of a running set.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::deploy::{build, say};
use super::report::Limits;
use super::shape::Shape;
use super::world::{Updated, World};
use crate::generate::workspace_root;
use crate::operator::Profile;
use crate::table;

const SET: &str = "bench";
const SHAPE: Shape = Shape::Pair;

#[derive(Debug, Args)]
pub(crate) struct UpdateArguments {
    /// Replicas, each of two cliques of two pods.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
    /// How the operator and the benchmark are compiled.
    #[arg(long, value_enum, default_value_t = Profile::Dist)]
    profile: Profile,
    /// Write everything that was measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    replicas: u32,
    pods: u32,
    seconds: f64,
    writes_per_pod: f64,
    operator_cpu_ms_per_pod: f64,
    fewest_ready: u32,
    /// The minimum of ready pods: one pod of each clique of one replica may be missing.
    floor: u32,
}

/// Builds, measures, reports.
pub(crate) fn run(arguments: &UpdateArguments) -> Result<ExitCode> {
    let root = workspace_root()?;
    build(&root, arguments.profile)?;
    let replicas = arguments.replicas;
    say(&format!("starting a control plane, and a set of {replicas} replicas"));
    let world = World::start(Limits::Raised, true)?;
    let mut stage = world.operate(&arguments.profile.program(&root, "grove"))?;
    stage.reach(SHAPE.goal(Some(replicas)), |set| set.create(SHAPE, SET, replicas))?;
    stage.settle()?;
    say("updating it");
    let report = report(replicas, &stage.update(SHAPE, SET, replicas)?);
    stage.end()?;
    if let Some(file) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    writeln!(io::stdout(), "{}", text(&report)).context("cannot write the table")?;
    Ok(ExitCode::SUCCESS)
}

fn report(replicas: u32, updated: &Updated) -> Report {
    let pods = replicas * SHAPE.pods();
    Report {
        replicas,
        pods,
        seconds: updated.took.as_secs_f64(),
        writes_per_pod: f64::from(updated.writes) / f64::from(pods),
        operator_cpu_ms_per_pod: f64::from(u32::try_from(updated.cpu_ms).unwrap_or(u32::MAX))
            / f64::from(pods),
        fewest_ready: updated.fewest_ready,
        floor: pods - SHAPE.cliques(),
    }
}

fn text(report: &Report) -> String {
    let row = |cells: [&str; 7]| cells.map(str::to_owned);
    let figures = [
        report.replicas.to_string(),
        report.pods.to_string(),
        format!("{:.1} s", report.seconds),
        format!("{:.2} s", report.seconds / f64::from(report.replicas)),
        format!("{:.2}", report.writes_per_pod),
        format!("{:.2} ms", report.operator_cpu_ms_per_pod),
        format!("{} (floor {})", report.fewest_ready, report.floor),
    ];
    let head = row([
        "REPLICAS",
        "PODS",
        "UPDATED IN",
        "PER REPLICA",
        "WRITES/POD",
        "CPU/POD",
        "FEWEST READY",
    ]);
    table::align(&[head, figures])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_are_per_pod_and_the_floor_is_one_pod_of_each_clique() {
        let took = Duration::from_secs(20);
        let updated = Updated { took, fewest_ready: 38, writes: 200, cpu_ms: 80 };

        let report = report(10, &updated);

        assert_eq!((report.pods, report.floor), (40, 38));
        assert!(
            text(&report).contains("20.0 s      2.00 s       5.00        2.00 ms  38 (floor 38)")
        );
    }
}
