//! A control plane with nodes and an operator under its own role, and the steps taken on it.

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
/// Namespace of the pods of the ceiling.
pub(crate) const OTHER_NAMESPACE: &str = "other";
const OPERATOR_NAMESPACE: &str = "grove-system";
const RBAC: &str = include_str!("../../../deploy/operator/rbac.yaml");
const CONFIGURATION: &str = include_str!("../../../deploy/operator/configuration.yaml");
/// No write for so long means that all is done.
const QUIET: Duration = Duration::from_secs(2);
/// No step takes so long, whatever is wrong.
const LIMIT: Duration = Duration::from_secs(900);
/// How often to see whether the operator still runs while nothing changes.
const LOOK: Duration = Duration::from_secs(1);

const OUTSIDE: &str = include_str!("../../../deploy/outside/rbac.yaml");

/// A control plane with nodes.
pub(crate) struct World {
    cluster: Cluster,
    /// For the user that deploys and watches.
    pub(crate) connector: Connector,
    /// For clients that do what the operator would: its webhooks need not be asked about them.
    stand_in: Connector,
    operator: User,
    configuration: String,
    clock: Stopwatch,
}

impl World {
    /// Starts one.
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
        // As installed, it shows the token of its account: checking one certificate per request would
        // be a sixteenth of the API server's work.
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
        poll::until(LIMIT, "the namespace has a service account", || {
            Ok((connection.request("GET", &account, None)?.status == 200).then_some(()))
        })
    }

    /// A fresh operator, which has done everything once and rests.
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

/// The configuration inside the installed `ConfigMap`, without its head.
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
    ensure!(text.contains(on), "the installed configuration has no authorizer to choose: {text}");
    Ok(text.replace(on, &chosen))
}

/// An operator at work.
pub(crate) struct Stage<'a> {
    /// Until it is stopped.
    operator: Option<Operator>,
    pid: u32,
    changes: Receiver<Result<(Duration, Change)>>,
    progress: Progress,
    audit: AuditLog,
    pids: BTreeMap<String, u32>,
    world: &'a World,
}

/// What a step is to bring about.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) name: String,
    /// Pods that figures are divided by.
    pub(crate) pods: u32,
    pub(crate) goal: Goal,
    /// Time to look on after the goal is reached.
    pub(crate) linger: Duration,
}

impl Stage<'_> {
    /// Takes a step and measures it until the cluster rests.
    pub(crate) fn take(
        &mut self,
        plan: Plan,
        act: impl FnOnce(&mut Sets) -> Result<()>,
    ) -> Result<Phase> {
        usage::forget_peak(self.pid)?;
        // What was written between two steps belongs to neither.
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

    /// Acts and waits until the goal is reached; returns when it began and when each part of it was
    /// reached.
    pub(crate) fn reach(
        &mut self,
        goal: Goal,
        act: impl FnOnce(&mut Sets) -> Result<()>,
    ) -> Result<(Duration, Marks)> {
        self.watch_for(Duration::ZERO)?;
        // A new one each time: the server closes those that are idle for long.
        let mut sets = Sets(self.world.connector.connect()?);
        let start = self.world.clock.elapsed();
        self.progress.begin(goal, start);
        act(&mut sets)?;
        while self.progress.marks().all.is_none() {
            self.see(LOOK)?;
            let waited = self.world.clock.elapsed().saturating_sub(start);
            if waited > LIMIT {
                bail!("gave up after {} s: {}", waited.as_secs(), self.progress);
            }
        }
        Ok((start, self.progress.marks()))
    }

    /// Gives a set another template and measures until everything has it.
    pub(crate) fn update(&mut self, shape: Shape, name: &str, replicas: u32) -> Result<Updated> {
        self.audit.read()?;
        let before = Reading::take(&self.pids)?;
        self.watch_for(Duration::ZERO)?;
        let mut sets = Sets(self.world.connector.connect()?);
        let start = self.world.clock.elapsed();
        self.progress.begin(shape.goal(Some(replicas)), start);
        sets.update(shape, name)?;
        let mut look = Stopwatch::start();
        loop {
            self.see(Duration::from_millis(50))?;
            let waited = self.world.clock.elapsed().saturating_sub(start);
            if waited > LIMIT {
                bail!("gave up on the update after {} s: {}", waited.as_secs(), self.progress);
            }
            if look.elapsed() > Duration::from_millis(100) {
                look = Stopwatch::start();
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

    /// Takes in what the watches report for a while.
    fn watch_for(&mut self, time: Duration) -> Result<()> {
        let watch = Stopwatch::start();
        while self.see(time.saturating_sub(watch.elapsed()))? || watch.elapsed() < time {}
        Ok(())
    }

    /// Takes in the next change, if there is one in time.
    fn see(&mut self, patience: Duration) -> Result<bool> {
        match self.changes.recv_timeout(patience) {
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

    /// Waits until nobody writes any more, and returns what was written since the last look. With its
    /// default limits the controller manager is late: what it has left to do would slow down the next step.
    pub(crate) fn settle(&mut self) -> Result<Writes> {
        let mut writes = Writes::default();
        let mut quiet = Stopwatch::start();
        poll::until(LIMIT, "nobody writes any more", || {
            let new = self.audit.read()?;
            if new.sent(of_anybody) > 0 {
                quiet = Stopwatch::start();
            }
            writes.merge(new);
            Ok((quiet.elapsed() > QUIET).then_some(()))
        })?;
        Ok(writes)
    }

    /// What the machine does while somebody else acts.
    pub(crate) fn meanwhile<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<(T, Cpu)> {
        let before = Reading::take(&self.pids)?;
        let done = act()?;
        Ok((done, Reading::take(&self.pids)?.since(&before)))
    }

    /// Ends the operator in order, so that the next one need not wait for its lease.
    pub(crate) fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        self.operator.take().map_or(Ok(()), Operator::stop)
    }

    /// Stops the operator and has what it made for a set deleted by others in its place; seconds until
    /// all of that is gone. The set waits for the next operator to let it go.
    pub(crate) fn delete_without_operator(mut self, shape: Shape, name: &str) -> Result<f64> {
        self.stop()?;
        let stand_in = &self.world.stand_in;
        let inventory = Inventory::take(stand_in, NAMESPACE)?;
        let (start, marks) = self.reach(shape.goal(Some(0)), |_| inventory.delete(stand_in))?;
        Sets(self.world.connector.connect()?).delete(name)?;
        Seconds::down(start, &marks).all_gone.context("everything is gone")
    }
}

/// What an update took.
pub(crate) struct Updated {
    pub(crate) took: Duration,
    pub(crate) fewest_ready: u32,
    /// Of the operator.
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

    /// Whether an update was begun and has ended.
    fn is_updated(&mut self, name: &str) -> Result<bool> {
        let path = format!("{}/{name}", Kind::Set.path(NAMESPACE));
        let set = self.0.expect("GET", &path, None)?;
        let set: serde_json::Value = serde_json::from_str(&set)?;
        Ok(!set["status"]["updateProgress"]["updateEndedAt"].is_null())
    }

    /// Asks for a reconcile that has nothing to do.
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
    fn the_operator_runs_as_it_is_installed_but_for_the_authorizer_on_request() {
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
