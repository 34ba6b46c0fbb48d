//! A control plane with nodes and an operator with its own role, and the measured steps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use xtask::cluster::{ClientLimits, Cluster, Connection, Connector, Fleet, Options, User};
use xtask::poll::{self, Stopwatch};

use super::audit::{AuditLog, Writes};
use super::floor::Inventory;
use super::progress::{Change, Goal, Kind, Marks, Progress};
use super::report::{Limits, OPERATOR, Phase, Seconds, Step, of_anybody, of_operator};
use super::shape::Shape;
use super::usage::{self, Cpu, Reading};
use super::watching;
use crate::operator::{Launch, Operator};

/// 100 nodes.
pub(crate) const FLEET: Fleet = Fleet { zones: 1, blocks: 4, racks: 5, hosts: 5, gpus: 8 };
/// Namespace of everything that is deployed.
const NAMESPACE: &str = "bench";
/// Namespace of the ceiling's pods.
pub(crate) const OTHER_NAMESPACE: &str = "other";
const OPERATOR_NAMESPACE: &str = "grove-system";
const RBAC: &str = include_str!("../../../deploy/operator/rbac.yaml");
const CONFIGURATION: &str = include_str!("../../../deploy/operator/configuration.yaml");
/// The cluster is idle after this time without a write.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// Maximum time of a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);
/// How often to check that the operator still runs while nothing changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const OUTSIDE: &str = include_str!("../../../deploy/outside/rbac.yaml");

/// A control plane with nodes.
pub(crate) struct World {
    cluster: Cluster,
    /// For the user that deploys and watches.
    pub(crate) connector: Connector,
    /// For clients that act as the operator, which its webhooks do not review.
    stand_in: Connector,
    operator: User,
    configuration: String,
    clock: Stopwatch,
}

impl World {
    /// Starts a control plane with nodes.
    pub(crate) fn start(limits: Limits, authorizer: bool) -> Result<Self> {
        let cluster = Cluster::start(Options {
            audit: true,
            controller_manager_limits: match limits {
                Limits::Raised => ClientLimits::Raised,
                Limits::Default => ClientLimits::Defaults,
            },
            ..Options::default()
        })?;
        cluster.nodes(&FLEET)?;
        cluster.kubectl(&["create", "namespace", OPERATOR_NAMESPACE])?;
        for manifests in [RBAC, OUTSIDE] {
            cluster.kubectl_with_stdin(&["apply", "-f", "-"], manifests)?;
        }
        // With the token of its account, as installed: verifying a certificate per request would be a
        // sixteenth of the API server's work.
        let operator = cluster.service_account(OPERATOR_NAMESPACE, OPERATOR)?;
        let connector = cluster.connector(&cluster.user("bench", &["system:masters"])?)?;
        let stand_in = cluster.user(operator.name(), &["system:masters"])?;
        let stand_in = cluster.connector(&stand_in)?;
        let configuration = configuration(CONFIGURATION, authorizer)?;
        let clock = Stopwatch::start();
        let world = Self { cluster, connector, stand_in, operator, configuration, clock };
        world.make_namespace(NAMESPACE)?;
        world.make_namespace(OTHER_NAMESPACE)?;
        Ok(world)
    }

    /// No pod can be created before its namespace has a service account.
    fn make_namespace(&self, name: &str) -> Result<()> {
        self.cluster.kubectl(&["create", "namespace", name])?;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        let mut connection = self.connector.connect()?;
        poll::until(STEP_TIMEOUT, "the namespace has a service account", || {
            Ok((connection.request("GET", &account, None)?.status == 200).then_some(()))
        })
    }

    /// Starts an operator and waits until it is idle.
    pub(crate) fn operate(&self, program: &Path) -> Result<Stage<'_>> {
        let launch = Launch {
            program,
            user: &self.operator,
            namespace: OPERATOR_NAMESPACE,
            configuration: &self.configuration,
        };
        let mut operator = Operator::start(&self.cluster, launch)?;
        operator.await_ready()?;
        let changes = watching::start(&self.connector, NAMESPACE, self.clock)?;
        let mut pids: BTreeMap<String, u32> = self
            .cluster
            .processes()
            .into_iter()
            .map(|(name, pid)| (name.to_owned(), pid))
            .collect();
        let pid = operator.pid();
        pids.insert(OPERATOR.to_owned(), pid);
        pids.insert("bench".to_owned(), std::process::id());
        let mut stage = Stage {
            operator: Some(operator),
            pid,
            changes,
            progress: Progress::default(),
            audit: AuditLog::open(&self.cluster.audit_log())?,
            pids,
            world: self,
        };
        stage.reach(Shape::A.goal(Some(1)), |set| set.create(Shape::A, "warm-up", 1))?;
        stage.reach(Shape::A.goal(None), |set| set.delete("warm-up"))?;
        stage.settle()?;
        Ok(stage)
    }
}

/// The configuration in the installed `ConfigMap`.
fn configuration(installed: &str, authorizer: bool) -> Result<String> {
    let (_, document) = installed
        .split_once("config.yaml: |\n")
        .context("deploy/operator/configuration.yaml has no config.yaml")?;
    let lines = document.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let settings: Vec<&str> = lines
        .filter(|line| !line.starts_with("apiVersion:") && !line.starts_with("kind:"))
        .collect();
    let (on, chosen) =
        ("authorizer:\n  enabled: false", format!("authorizer:\n  enabled: {authorizer}"));
    let text = settings.join("\n");
    ensure!(text.contains(on), "the installed configuration has no authorizer setting: {text}");
    Ok(text.replace(on, &chosen))
}

/// A running operator.
pub(crate) struct Stage<'a> {
    /// None after it was stopped.
    operator: Option<Operator>,
    pid: u32,
    changes: Receiver<Result<(Duration, Change)>>,
    progress: Progress,
    audit: AuditLog,
    pids: BTreeMap<String, u32>,
    world: &'a World,
}

/// The goal of a step.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) name: String,
    /// Pods that figures refer to.
    pub(crate) pods: u32,
    pub(crate) goal: Goal,
    /// Time to observe after the goal is reached.
    pub(crate) linger: Duration,
}

impl Stage<'_> {
    /// Executes a step and measures until the cluster is idle.
    pub(crate) fn take(
        &mut self,
        plan: Plan,
        act: impl FnOnce(&mut Sets) -> Result<()>,
    ) -> Result<Phase> {
        usage::forget_peak(self.pid)?;
        // Writes between two steps belong to neither.
        self.audit.read()?;
        let before = Reading::take(&self.pids)?;
        let (start, marks) =
            self.reach(plan.goal, act).with_context(|| format!("in the step {}", plan.name))?;
        self.watch_for(plan.linger)?;
        let machine_ms = Reading::take(&self.pids)?.since(&before);
        let writes = self.settle()?;
        Ok(Phase {
            step: plan.step,
            name: plan.name,
            pods: plan.pods,
            seconds: match plan.step {
                Step::Create | Step::Double | Step::FromZero => Seconds::up(start, &marks),
                Step::Halve | Step::ToZero | Step::Delete => Seconds::down(start, &marks),
                Step::IdleEmpty | Step::IdleFull | Step::NoOp => Seconds::default(),
            },
            writes,
            machine_ms,
            operator_cpu_ms: Reading::take(&self.pids)?.since(&before).of(OPERATOR),
            memory_kib: usage::memory(self.pid)?,
        })
    }

    /// Acts and waits until the goal is reached; returns the start and the time of each mark.
    pub(crate) fn reach(
        &mut self,
        goal: Goal,
        act: impl FnOnce(&mut Sets) -> Result<()>,
    ) -> Result<(Duration, Marks)> {
        self.watch_for(Duration::ZERO)?;
        // A new connection each time: the server closes idle ones.
        let mut sets = Sets(self.world.connector.connect()?);
        let start = self.world.clock.elapsed();
        self.progress.begin(goal, start);
        act(&mut sets)?;
        while self.progress.marks().all.is_none() {
            self.record_next(CHECK_INTERVAL)?;
            let waited = self.world.clock.elapsed().saturating_sub(start);
            if waited > STEP_TIMEOUT {
                bail!("gave up after {} s: {}", waited.as_secs(), self.progress);
            }
        }
        Ok((start, self.progress.marks()))
    }

    /// Changes the template of a set and measures until all pods are up to date.
    pub(crate) fn update(&mut self, shape: Shape, name: &str, replicas: u32) -> Result<Updated> {
        self.audit.read()?;
        let before = Reading::take(&self.pids)?;
        self.watch_for(Duration::ZERO)?;
        let mut sets = Sets(self.world.connector.connect()?);
        let start = self.world.clock.elapsed();
        self.progress.begin(shape.goal(Some(replicas)), start);
        sets.update(shape, name)?;
        let mut checked = Stopwatch::start();
        loop {
            self.record_next(Duration::from_millis(50))?;
            let waited = self.world.clock.elapsed().saturating_sub(start);
            if waited > STEP_TIMEOUT {
                bail!("gave up on the update after {} s: {}", waited.as_secs(), self.progress);
            }
            if checked.elapsed() > Duration::from_millis(100) {
                checked = Stopwatch::start();
                if sets.is_updated(name)? {
                    break;
                }
            }
        }
        let took = self.world.clock.elapsed().saturating_sub(start);
        self.watch_for(Duration::ZERO)?;
        let fewest_ready = self.progress.fewest_ready();
        let writes = self.settle()?;
        let cpu = Reading::take(&self.pids)?.since(&before).of(OPERATOR);
        Ok(Updated { took, fewest_ready, writes: writes.accepted(of_operator), cpu_ms: cpu })
    }

    /// Records the changes of some time.
    fn watch_for(&mut self, time: Duration) -> Result<()> {
        let watch = Stopwatch::start();
        while self.record_next(time.saturating_sub(watch.elapsed()))? || watch.elapsed() < time {}
        Ok(())
    }

    /// Records the next change, if one arrives within `timeout`.
    fn record_next(&mut self, timeout: Duration) -> Result<bool> {
        match self.changes.recv_timeout(timeout) {
            Ok(change) => {
                let (at, change) = change?;
                self.progress.observe(at, change);
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.operator.as_mut().map_or(Ok(()), Operator::ensure_running)?;
                Ok(false)
            }
            Err(RecvTimeoutError::Disconnected) => bail!("every watch has ended"),
        }
    }

    /// Waits until no client writes, and returns the writes since the last reading. With its default limits
    /// the controller manager is late, and its remaining work would slow down the next step.
    pub(crate) fn settle(&mut self) -> Result<Writes> {
        let mut writes = Writes::default();
        let mut quiet = Stopwatch::start();
        poll::until(STEP_TIMEOUT, "no client writes", || {
            let new = self.audit.read()?;
            if new.sent(of_anybody) > 0 {
                quiet = Stopwatch::start();
            }
            writes.merge(new);
            Ok((quiet.elapsed() > IDLE_AFTER).then_some(()))
        })?;
        Ok(writes)
    }

    /// CPU time of the machine while `act` runs.
    pub(crate) fn meanwhile<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<(T, Cpu)> {
        let before = Reading::take(&self.pids)?;
        let done = act()?;
        Ok((done, Reading::take(&self.pids)?.since(&before)))
    }

    /// Stops the operator in order, so that the next one need not wait for its lease.
    pub(crate) fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        self.operator.take().map_or(Ok(()), Operator::stop)
    }

    /// Stops the operator and lets clients delete the children of a set in its place; returns the seconds
    /// until they are deleted. The finalizer of the set stays until the next operator.
    pub(crate) fn delete_without_operator(mut self, shape: Shape, name: &str) -> Result<f64> {
        self.stop()?;
        let stand_in = &self.world.stand_in;
        let inventory = Inventory::take(stand_in, NAMESPACE)?;
        let (start, marks) = self.reach(shape.goal(Some(0)), |_| inventory.delete(stand_in))?;
        Sets(self.world.connector.connect()?).delete(name)?;
        Seconds::down(start, &marks).all_gone.context("all objects are deleted")
    }
}

/// Cost of an update.
pub(crate) struct Updated {
    pub(crate) took: Duration,
    pub(crate) fewest_ready: u32,
    /// Writes of the operator.
    pub(crate) writes: u32,
    pub(crate) cpu_ms: u64,
}

/// Requests about sets.
pub(crate) struct Sets(Connection);

impl Sets {
    pub(crate) fn create(&mut self, shape: Shape, name: &str, replicas: u32) -> Result<()> {
        let set = shape.set(name, replicas).to_string();
        self.0.expect("POST", &Kind::Set.path(NAMESPACE), Some(&set)).map(drop)
    }

    pub(crate) fn scale(&mut self, name: &str, replicas: u32) -> Result<()> {
        self.patch(name, &json!({ "spec": { "replicas": replicas } }))
    }

    /// Changes the template of every clique.
    fn update(&mut self, shape: Shape, name: &str) -> Result<()> {
        let mut cliques = shape.set(name, 0)["spec"]["template"]["cliques"].clone();
        for clique in cliques.as_array_mut().context("a set has cliques")? {
            clique["spec"]["podSpec"]["containers"][0]["image"] = "new".into();
        }
        self.patch(name, &json!({ "spec": { "template": { "cliques": cliques } } }))
    }

    /// Whether an update has started and ended.
    fn is_updated(&mut self, name: &str) -> Result<bool> {
        let path = format!("{}/{name}", Kind::Set.path(NAMESPACE));
        let set = self.0.expect("GET", &path, None)?;
        let set: serde_json::Value = serde_json::from_str(&set)?;
        Ok(!set["status"]["updateProgress"]["updateEndedAt"].is_null())
    }

    /// Triggers a reconcile without consequence.
    pub(crate) fn touch(&mut self, name: &str) -> Result<()> {
        let annotations = json!({ "grove.io/reconcile-trigger": "bench" });
        self.patch(name, &json!({ "metadata": { "annotations": annotations } }))
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<()> {
        let path = format!("{}/{name}", Kind::Set.path(NAMESPACE));
        self.0.expect("DELETE", &path, None).map(drop)
    }

    fn patch(&mut self, name: &str, change: &serde_json::Value) -> Result<()> {
        let path = format!("{}/{name}", Kind::Set.path(NAMESPACE));
        self.0.expect("PATCH", &path, Some(&change.to_string())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_runs_with_the_installed_configuration_and_an_optional_authorizer() {
        let installed = configuration(CONFIGURATION, false).unwrap();
        assert!(installed.contains("leaderElection:\n  enabled: true\n"), "{installed}");
        assert!(installed.contains("\nauthorizer:\n  enabled: false"), "{installed}");
        let protected = configuration(CONFIGURATION, true).unwrap();
        assert_eq!(
            protected,
            installed.replace("authorizer:\n  enabled: false", "authorizer:\n  enabled: true")
        );
        assert!(configuration("data: {}", true).is_err());
    }
}
