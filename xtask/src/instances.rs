//! Instances that outlive the command that started them.
//!
//! Each is owned by a supervisor: this same program, detached, holding a
//! [`Cluster`] and waiting to be told to stop. What others need to know is one
//! file in the instance directory, written once everything is ready. A supervisor that is
//! killed takes its processes along; its directory goes with the next command.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use xtask::cluster::directory::{self, Owner, start_time};
use xtask::cluster::{Cluster, Gates, Kube, Options, Parts};
use xtask::poll;

const DESCRIPTION: &str = "instance.json";
const CONTROL: &str = "control";
/// What a supervisor says when its instance can be used.
const READY: &str = "ready";
/// Time for a supervisor to stop by itself, and for a killed one to disappear.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// What is known about a running instance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) kube: Kube,
    pub(crate) gates: Gates,
    pub(crate) parts: Parts,
    pub(crate) server: String,
    pub(crate) port: u16,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl_dir: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) seconds_to_ready: f64,
    pub(crate) processes: BTreeMap<String, u32>,
}

impl Instance {
    /// Programs that are no longer running.
    pub(crate) fn stopped_programs(&self) -> Vec<&str> {
        let stopped = self.processes.iter().filter(|(_, pid)| start_time(**pid).is_none());
        stopped.map(|(name, _)| name.as_str()).collect()
    }

    /// Stops everything; returns when no process and no file is left.
    pub(crate) fn stop(&self) -> Result<()> {
        let owner = Owner::of(&self.directory).context("the instance has no owner")?;
        ask_to_stop(&self.directory.join(CONTROL));
        let stopped = await_end(owner, &self.processes);
        if stopped.is_err() && owner.is_alive() {
            let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
            kill_process(pid.context("the owner has no process id")?, Signal::KILL)?;
            await_end(owner, &self.processes)?;
        }
        directory::sweep();
        if self.directory.exists() {
            bail!("cannot remove {}", self.directory.display());
        }
        Ok(())
    }
}

/// All running instances that have a name, in order of their names.
pub(crate) fn list() -> Vec<Instance> {
    directory::sweep();
    let mut found: Vec<Instance> = directory::list()
        .iter()
        .filter_map(|directory| fs::read(directory.join(DESCRIPTION)).ok())
        .filter_map(|text| serde_json::from_slice(&text).ok())
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The instance with this name, or the only one there is.
pub(crate) fn find(name: Option<&str>) -> Result<Instance> {
    select(list(), name)
}

fn select(mut instances: Vec<Instance>, name: Option<&str>) -> Result<Instance> {
    if let Some(name) = name {
        instances.retain(|instance| instance.name == name);
    }
    match (instances.pop(), name) {
        (Some(instance), _) if instances.is_empty() => Ok(instance),
        (Some(last), _) => {
            let mut names: Vec<_> = instances.into_iter().map(|instance| instance.name).collect();
            names.push(last.name);
            bail!("several instances are running, name one of them: {}", names.join(", "))
        }
        (None, Some(name)) => {
            bail!("no instance is named {name}; see `cargo xtask cluster status`")
        }
        (None, None) => bail!("nothing is running; start with `cargo xtask cluster up`"),
    }
}

/// A supervisor that has not said yet whether its instance is ready.
pub(crate) struct Starting {
    name: String,
    supervisor: Child,
    says: PipeReader,
}

/// Starts a supervisor for a new instance.
pub(crate) fn start(name: &str, options: &Options) -> Result<Starting> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let (says, out) = io::pipe()?;
    let supervisor = Command::new(program)
        .args(["cluster", "supervise", "--name", name, "--kube", options.kube.minor()])
        .args(["--gates", &options.gates.to_string(), "--parts", &options.parts.to_string()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .process_group(0)
        .spawn()
        .context("cannot start the supervisor")?;
    Ok(Starting { name: name.to_owned(), supervisor, says })
}

impl Starting {
    /// Waits until the instance can be used, or tells why it cannot.
    pub(crate) fn wait(mut self) -> Result<Instance> {
        let mut said = String::new();
        for line in BufReader::new(self.says).lines() {
            let line = line?;
            if line == READY {
                return find(Some(&self.name));
            }
            said.push_str(&line);
            said.push('\n');
        }
        let status = self.supervisor.wait()?;
        let why = said.trim_end().trim_start_matches("error: ");
        bail!("instance {} did not start ({status}): {why}", self.name)
    }
}

/// The supervisor: starts an instance, says so, and keeps it until it is told to stop.
pub(crate) fn supervise(name: &str, options: &Options) -> Result<()> {
    let cluster = Cluster::start(options.clone())?;
    let control = UnixListener::bind(cluster.directory().join(CONTROL))
        .context("cannot listen for the command to stop")?;
    describe(name, options, &cluster)?;
    // If nobody is there to hear it, the command was interrupted and the instance is unwanted.
    writeln!(io::stdout(), "{READY}").context("the command that wanted the instance is gone")?;
    // The connection stays open until everything is gone, which is how the other side knows.
    let _connection = control.accept().context("cannot listen for the command to stop")?;
    drop(cluster);
    Ok(())
}

/// Written under another name first, so that nobody reads half of it.
fn describe(name: &str, options: &Options, cluster: &Cluster) -> Result<()> {
    let instance = Instance {
        name: name.to_owned(),
        kube: options.kube,
        gates: options.gates,
        parts: options.parts,
        server: cluster.server_url(),
        port: cluster.port(),
        kubeconfig: cluster.admin().kubeconfig().to_owned(),
        kubectl_dir: cluster.kubectl_dir()?,
        directory: cluster.directory().to_owned(),
        seconds_to_ready: cluster.ready_after().as_secs_f64(),
        processes: cluster.processes().into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
    };
    let partial = cluster.directory().join("instance.partial");
    fs::write(&partial, serde_json::to_vec(&instance)?)?;
    fs::rename(partial, cluster.directory().join(DESCRIPTION))?;
    Ok(())
}

/// Connects, and returns when the other side hangs up or does not listen.
fn ask_to_stop(control: &Path) {
    if let Ok(mut connection) = UnixStream::connect(control) {
        let _ = connection.set_read_timeout(Some(STOP_LIMIT));
        let _ = connection.read_to_end(&mut Vec::new());
    }
}

fn await_end(owner: Owner, processes: &BTreeMap<String, u32>) -> Result<()> {
    poll::until(STOP_LIMIT, "every process has ended", || {
        let left = processes.values().any(|pid| start_time(*pid).is_some());
        Ok((!left && !owner.is_alive()).then_some(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(name: &str) -> Instance {
        Instance {
            name: name.to_owned(),
            kube: Kube::V1_37,
            gates: Gates::All,
            parts: Parts::Full,
            server: String::new(),
            port: 0,
            kubeconfig: PathBuf::new(),
            kubectl_dir: PathBuf::new(),
            directory: PathBuf::new(),
            seconds_to_ready: 0.0,
            processes: BTreeMap::new(),
        }
    }

    #[test]
    fn the_only_instance_needs_no_name() {
        assert_eq!(select(vec![instance("a")], None).unwrap().name, "a");
        assert_eq!(select(vec![instance("a"), instance("b")], Some("b")).unwrap().name, "b");
    }

    #[test]
    fn an_unclear_choice_says_what_to_do() {
        let error = |instances, name| select(instances, name).unwrap_err().to_string();
        assert_eq!(
            error(vec![instance("a"), instance("b")], None),
            "several instances are running, name one of them: a, b"
        );
        assert!(error(vec![], None).contains("cargo xtask cluster up"));
        assert!(error(vec![instance("a")], Some("c")).starts_with("no instance is named c"));
    }

    #[test]
    fn a_program_that_is_gone_is_named() {
        let mut instance = instance("a");
        instance.processes.insert("alive".into(), std::process::id());
        instance.processes.insert("gone".into(), u32::MAX);
        assert_eq!(instance.stopped_programs(), ["gone"]);
    }
}
