//! The operator as a separate process next to a control plane, for the demo and the benchmark.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use xtask::cluster::{Cluster, User, get_plain};
use xtask::poll;

use crate::generate::cargo;

/// Time to become ready or to stop in order.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// The last part to become ready: the operator leads and has registered its webhooks.
const LAST_PART: &str = "[+] webhook registration";

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Fast to build.
    Dev,
    /// What images contain.
    Dist,
}

impl Profile {
    /// Where cargo puts a program of this workspace.
    pub(crate) fn program(self, root: &Path, name: &str) -> PathBuf {
        let directory = match self {
            Self::Dev => "debug",
            Self::Dist => "dist",
        };
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root.join("target"), PathBuf::from);
        target.join(directory).join(name)
    }

    /// Builds packages of this workspace.
    pub(crate) fn build(self, root: &Path, packages: &[&str]) -> Result<()> {
        let mut command = cargo(root);
        command.args(["build", "--quiet"]);
        if self == Self::Dist {
            command.args(["--profile", "dist"]);
        }
        for package in packages {
            command.args(["--package", package]);
        }
        let built = command.status().context("cannot run cargo")?;
        ensure!(built.success(), "{} does not build", packages.join(" or "));
        Ok(())
    }
}

/// Parameters of an operator process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The `grove` program.
    pub(crate) program: &'a Path,
    /// Its user.
    pub(crate) user: &'a User,
    /// Namespace of its lease and its certificate.
    pub(crate) namespace: &'a str,
    /// Its configuration, without the addresses it listens on.
    pub(crate) configuration: &'a str,
}

/// A running operator; killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
    health: u16,
}

impl Operator {
    /// Starts an operator with its files in the directory of the cluster.
    pub(crate) fn start(cluster: &Cluster, launch: Launch<'_>) -> Result<Self> {
        let [webhooks, health, metrics] = free_ports()?;
        let file = cluster.directory().join("operator.yaml");
        let text = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n\
             {}\nserver:\n  webhooks: {{port: {webhooks}}}\n  healthProbes: {{port: {health}}}\n  \
             metrics: {{port: {metrics}}}\n",
            launch.configuration
        );
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let log = cluster.directory().join("operator.log");
        // The main thread starts it and lives as long as this process, so the operator ends with it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(launch.program)
            .args(["operator", "--install-crds", "--webhook-host", "127.0.0.1"])
            .args(["--namespace", launch.namespace, "--init-image", "grove-initc", "--config"])
            .arg(&file)
            .env("KUBECONFIG", launch.user.kubeconfig())
            .stdin(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot start the operator")?;
        Ok(Self { child, log, health })
    }

    /// Waits until all parts are ready, including the registration of the webhooks: parts appear one after
    /// another, and before the first one none is missing.
    pub(crate) fn await_ready(&mut self) -> Result<()> {
        poll::until(READY_TIMEOUT, "the operator is ready", || {
            self.ensure_running()?;
            let ready = get_plain(self.health, "/readyz?verbose")
                .is_ok_and(|answer| answer.status == 200 && answer.body.contains(LAST_PART));
            Ok(ready.then_some(()))
        })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error with its log if it has stopped.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("the operator stopped: {status}\n{log}");
        }
        Ok(())
    }

    /// Requests a stop and waits for the end, so that the lease is released.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the operator has no process id")?, Signal::TERM)?;
        poll::until(READY_TIMEOUT, "the operator has stopped", || Ok(self.child.try_wait()?))?;
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_ports() -> Result<[u16; 3]> {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        let listener = listener.as_ref().map_err(|error| anyhow!("no free port: {error}"))?;
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
