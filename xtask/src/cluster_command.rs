//! `cargo xtask cluster`: builds, starts, shows and stops instances.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use xtask::cluster::{Fleet, Gates, Kube, Options, Parts, populate};
use xtask::poll::Stopwatch;
use xtask::tools::{Part, Toolbox};

use crate::instances::{self, Instance};
use crate::table::align;

const DEFAULT_NAME: &str = "grove";
/// Lines per program when no program is chosen.
const LOG_LINES: usize = 10;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Build the programs into the cache; the first time takes a quarter of an hour per version.
    Build {
        /// Kubernetes version: 1.37 or 1.36; both when not given.
        #[arg(long)]
        kube: Option<Kube>,
    },
    /// Start one or more instances and wait until they are ready.
    Up(UpArguments),
    /// Create a fleet of simulated nodes in a running instance.
    Nodes(NodesArguments),
    /// Print shell commands that point kubectl at an instance: eval "$(cargo xtask cluster env)".
    Env {
        /// Instance; may be left out when only one runs.
        #[arg(long)]
        name: Option<String>,
    },
    /// List running instances.
    Status,
    /// Print the log of one program, or the end of all logs.
    Logs {
        /// Program, such as kube-apiserver.
        program: Option<String>,
        /// Instance; may be left out when only one runs.
        #[arg(long)]
        name: Option<String>,
    },
    /// Stop instances and remove everything that belongs to them.
    Down {
        /// Instances; may be left out when only one runs.
        names: Vec<String>,
        /// Stop all of them.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Own an instance until it is stopped.
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        name: String,
        #[command(flatten)]
        choice: Choice,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Kubernetes version: 1.37 or 1.36.
    #[arg(long, default_value = "1.37")]
    kube: Kube,
    /// Scheduling features: all, cautious or defaults.
    #[arg(long, default_value_t)]
    gates: Gates,
    /// Processes: full, or api for etcd and kube-apiserver alone.
    #[arg(long, default_value_t)]
    parts: Parts,
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// How many instances; more than one are called NAME-1, NAME-2, …
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// Name to refer to the instance by.
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    #[command(flatten)]
    choice: Choice,
    /// Fleet to create, such as 2x2x4x8: zones, blocks, racks and hosts, with eight GPUs per host.
    #[arg(long)]
    nodes: Option<Fleet>,
}

#[derive(Debug, Args)]
pub(crate) struct NodesArguments {
    /// Zones.
    #[arg(long, default_value_t = 1)]
    zones: u32,
    /// Blocks per zone.
    #[arg(long, default_value_t = 2)]
    blocks: u32,
    /// Racks per block.
    #[arg(long, default_value_t = 4)]
    racks: u32,
    /// Hosts per rack.
    #[arg(long, default_value_t = 8)]
    hosts: u32,
    /// GPUs per host.
    #[arg(long, default_value_t = 8)]
    gpus: u32,
    /// Instance; may be left out when only one runs.
    #[arg(long)]
    name: Option<String>,
}

impl From<&Choice> for Options {
    fn from(choice: &Choice) -> Self {
        let Choice { kube, gates, parts } = *choice;
        Self { kube, gates, parts, ..Self::default() }
    }
}

/// Runs one command.
pub(crate) fn run(command: ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Build { kube } => build(kube)?,
        ClusterCommand::Up(arguments) => up(&arguments)?,
        ClusterCommand::Nodes(arguments) => nodes(&arguments)?,
        ClusterCommand::Env { name } => env(name.as_deref())?,
        ClusterCommand::Status => say(&table(&instances::list()))?,
        ClusterCommand::Logs { program, name } => logs(name.as_deref(), program.as_deref())?,
        ClusterCommand::Down { names, all } => down(&names, all)?,
        ClusterCommand::Supervise { name, choice } => {
            instances::supervise(&name, &Options::from(&choice))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn build(kube: Option<Kube>) -> Result<()> {
    let toolbox = Toolbox::open()?;
    let versions = kube.map_or_else(|| Kube::ALL.to_vec(), |kube| vec![kube]);
    let parts: Vec<Part> = versions.into_iter().flat_map(Part::all).collect();
    toolbox.ensure(&parts)?;
    for part in BTreeSet::from_iter(parts) {
        say(&format!("{part}  {}", toolbox.path(part)?.display()))?;
    }
    Ok(())
}

fn up(arguments: &UpArguments) -> Result<()> {
    let options = Options::from(&arguments.choice);
    let names = names(&arguments.name, arguments.count)?;
    for instance in instances::list() {
        ensure!(
            !names.contains(&instance.name),
            "an instance named {0} is running: choose another --name or stop it with `cargo xtask \
             cluster down {0}`",
            instance.name
        );
    }
    // Built here and not by the supervisors, so that progress is visible.
    Toolbox::open()?.ensure(&options.parts.programs(options.kube))?;
    let starting =
        names.iter().map(|name| instances::start(name, &options)).collect::<Result<Vec<_>>>()?;
    // All are awaited before any failure is reported, so that the report is complete.
    let results: Vec<Result<Instance>> =
        starting.into_iter().map(instances::Starting::wait).collect();
    for instance in results.into_iter().collect::<Result<Vec<_>>>()? {
        if let Some(fleet) = &arguments.nodes {
            populate(&instance.directory, instance.port, fleet)?;
        }
        say(&welcome(&instance, arguments.count > 1))?;
    }
    Ok(())
}

fn names(name: &str, count: u32) -> Result<Vec<String>> {
    let simple = |c: char| c.is_ascii_alphanumeric() || c == '-';
    ensure!(!name.is_empty() && name.chars().all(simple), "a name is letters, digits and dashes");
    match count {
        0 => bail!("--count is at least 1"),
        1 => Ok(vec![name.to_owned()]),
        _ => Ok((1..=count).map(|number| format!("{name}-{number}")).collect()),
    }
}

fn welcome(instance: &Instance, several: bool) -> String {
    let choose = if several { format!(" --name {}", instance.name) } else { String::new() };
    format!(
        "{}: Kubernetes {} ready after {:.1} s\n    eval \"$(cargo xtask cluster env{choose})\" \
         && kubectl get nodes",
        instance.name, instance.kube, instance.seconds_to_ready
    )
}

fn nodes(arguments: &NodesArguments) -> Result<()> {
    let NodesArguments { zones, blocks, racks, hosts, gpus, ref name } = *arguments;
    let fleet = Fleet { zones, blocks, racks, hosts, gpus };
    ensure!(!fleet.is_empty(), "a fleet has at least one zone, block, rack and host");
    let instance = instances::find(name.as_deref())?;
    let watch = Stopwatch::start();
    populate(&instance.directory, instance.port, &fleet)?;
    let seconds = watch.elapsed().as_secs_f64();
    say(&format!("{}: {} nodes after {seconds:.1} s", instance.name, fleet.len()))
}

fn env(name: Option<&str>) -> Result<()> {
    let instance = instances::find(name)?;
    say(&format!(
        "export KUBECONFIG='{}'\nexport KUBECACHEDIR='{}'\nexport PATH='{}':\"$PATH\"",
        instance.kubeconfig.display(),
        instance.directory.join("kubectl-cache").display(),
        instance.kubectl_dir.display(),
    ))
}

fn logs(name: Option<&str>, program: Option<&str>) -> Result<()> {
    let instance = instances::find(name)?;
    let read = |program: &str| {
        let known = instance.processes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let path = instance.directory.join(format!("{program}.log"));
        fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .with_context(|| format!("{program} has no log here; programs are {known}"))
    };
    if let Some(program) = program {
        return say(read(program)?.trim_end());
    }
    for program in instance.processes.keys() {
        let text = read(program)?;
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        say(&format!("== {program}\n{}", tail.join("\n")))?;
    }
    Ok(())
}

fn down(names: &[String], all: bool) -> Result<()> {
    let chosen = match names {
        _ if all => instances::list(),
        [] => vec![instances::find(None)?],
        names => {
            names.iter().map(|name| instances::find(Some(name))).collect::<Result<Vec<_>>>()?
        }
    };
    for instance in chosen {
        instance.stop().with_context(|| format!("cannot stop {}", instance.name))?;
    }
    Ok(())
}

fn table(instances: &[Instance]) -> String {
    let heading = ["NAME", "VERSION", "GATES", "PARTS", "STATE", "SERVER", "DIRECTORY"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(instances.iter().map(|instance| {
        let stopped = instance.stopped_programs();
        let state = if stopped.is_empty() {
            "running".to_owned()
        } else {
            format!("without {}", stopped.join(" "))
        };
        [
            instance.name.clone(),
            instance.kube.to_string(),
            instance.gates.to_string(),
            instance.parts.to_string(),
            state,
            instance.server.clone(),
            instance.directory.display().to_string(),
        ]
    }));
    align(&rows)
}

/// Prints the requested output; everything else goes to standard error.
fn say(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_instances_are_numbered() {
        assert_eq!(names("a", 1).unwrap(), ["a"]);
        assert_eq!(names("a", 3).unwrap(), ["a-1", "a-2", "a-3"]);
        assert!(names("a", 0).is_err());
        assert!(names("a/b", 1).is_err());
    }
}
