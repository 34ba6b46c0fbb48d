//! Instances that outlive the command that started them.
//!
//! A supervisor owns each instance: this program, detached, which holds a [`Cluster`] until it is stopped. A
//! file in the instance directory, written once all programs are ready, describes the instance. The programs
//! of a killed supervisor end with it; the next command removes its directory.

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
/// Output of a supervisor whose instance is ready.
const READY: &str = "ready";
/// Time for a supervisor to stop, and for a killed one to end.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Description of a running instance.
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

    /// Stops the instance; returns when no process and no file is left.
    pub(crate) fn stop(&self) -> Result<()> {
        let owner = Owner::of(&self.directory).context("the instance has no owner")?;
        request_stop(&self.directory.join(CONTROL));
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

/// The instance with this name, or the only one.
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

/// A supervisor that has not reported yet.
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
    /// Waits until the instance is ready, or returns why it is not.
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

/// The supervisor: starts an instance, reports that it is ready, and keeps it until it is stopped.
pub(crate) fn supervise(name: &str, options: &Options) -> Result<()> {
    let cluster = Cluster::start(options.clone())?;
    let control = UnixListener::bind(cluster.directory().join(CONTROL))
        .context("cannot listen for the command to stop")?;
    describe(name, options, &cluster)?;
    // If standard output is closed, the command was interrupted and the instance is not needed.
    writeln!(io::stdout(), "{READY}").context("the command that started the instance has ended")?;
    // The connection stays open until the instance is removed, which signals the end to the other side.
    let _connection = control.accept().context("cannot listen for the command to stop")?;
    drop(cluster);
    Ok(())
}

/// Writes to another name first, so that readers never read half of it.
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

/// Connects, and returns when the other side closes or does not listen.
fn request_stop(control: &Path) {
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
    fn an_ambiguous_choice_is_answered_with_the_next_step() {
        let error = |instances, name| select(instances, name).unwrap_err().to_string();
        assert_eq!(
            error(vec![instance("a"), instance("b")], None),
            "several instances are running, name one of them: a, b"
        );
        assert!(error(vec![], None).contains("cargo xtask cluster up"));
        assert!(error(vec![instance("a")], Some("c")).starts_with("no instance is named c"));
    }

    #[test]
    fn a_stopped_program_is_named() {
        let mut instance = instance("a");
        instance.processes.insert("alive".into(), std::process::id());
        instance.processes.insert("gone".into(), u32::MAX);
        assert_eq!(instance.stopped_programs(), ["gone"]);
    }
}
