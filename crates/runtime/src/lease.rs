//! Leader election on a `coordination.k8s.io` Lease.
//!
//! No process compares the times in the lease with its own clock, so clock skew is harmless: a candidate
//! takes over when the record *it observed* has not changed for `lease_duration` on its own monotonic
//! clock, and the holder stops acting `renew_deadline` after it *sent* its last successful renewal. Since
//! `renew_deadline < lease_duration`, the holder has stopped before a candidate takes over, however long
//! either process was paused. Every update has the observed resourceVersion as its precondition, so of two
//! candidates one fails. After a conflict the holder reads the lease again and continues while it is still
//! the holder, because other programs may label the lease.
//!
//! An orderly stop releases the lease, and another process leads within its next `retry_period`. After a
//! kill it waits for `lease_duration` and up to one `retry_period`.
//!
//! The rest of the process reads [`Leadership`]; the writer checks it before each write. Followers keep
//! their caches up to date and wait in [`Leadership::acquired`].

use std::time::Duration;

use jiff::fmt::temporal::DateTimePrinter;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::clock::{Clock, Instant};
use crate::metrics::Metrics;
use crate::process::Env;
use crate::resource::{ObjectKey, Resource};
use crate::rng::Rng;
use crate::tasks::Shutdown;

/// Writes per attempt; more conflicts in a row are a failure.
const MAX_WRITES: usize = 3;

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Whether this process may act; clones share it.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Standing>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// There is no election: this process is the only one.
    Alone,
    Follower,
    LeaderUntil(Instant),
}

impl Leadership {
    /// Leadership of a process without leader election.
    pub fn without_election() -> Self {
        Self(watch::channel(Standing::Alone).1)
    }

    /// Leadership of a process that never leads.
    #[cfg(test)]
    pub(crate) fn follower_for_test() -> Self {
        Self(watch::channel(Standing::Follower).1)
    }

    /// Whether leadership can be lost.
    pub(crate) fn is_contended(&self) -> bool {
        !matches!(*self.0.borrow(), Standing::Alone)
    }

    /// Whether this process leads at `now`.
    pub fn held(&self, now: Instant) -> bool {
        match *self.0.borrow() {
            Standing::Alone => true,
            Standing::Follower => false,
            Standing::LeaderUntil(deadline) => now < deadline,
        }
    }

    /// Waits until this process leads.
    pub async fn acquired(&self, clock: &Clock) {
        let mut standing = self.0.clone();
        loop {
            let _ = standing.borrow_and_update();
            if self.held(clock.now()) {
                return;
            }
            if standing.changed().await.is_err() {
                // The elector has stopped: this process never leads again.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this process does not lead.
    pub async fn lost(&self, clock: &Clock) {
        let mut standing = self.0.clone();
        loop {
            let current = *standing.borrow_and_update();
            match current {
                Standing::Alone => std::future::pending().await,
                Standing::Follower => return,
                Standing::LeaderUntil(deadline) if clock.now() >= deadline => return,
                Standing::LeaderUntil(deadline) => tokio::select! {
                    biased;
                    changed = standing.changed() => {
                        if changed.is_err() {
                            clock.sleep_until(deadline).await;
                            return;
                        }
                    }
                    () = clock.sleep_until(deadline) => {}
                },
            }
        }
    }
}

/// The lease, the identity of this process, and the three durations of an election.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Namespace and name of the Lease.
    pub lease: ObjectKey,
    /// Identity of this process, unique per start.
    pub identity: String,
    /// How long a candidate must observe no renewal before it takes over.
    pub lease_duration: Duration,
    /// How long the holder acts on its last successful renewal. Less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew.
    pub retry_period: Duration,
}

impl LeaseConfig {
    /// The usual durations: 15 s, 10 s and 2 s.
    pub fn new(lease: ObjectKey, identity: String) -> Self {
        Self {
            lease,
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Timeout of a request: one that outlives the deadline that it renews has no use.
    fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// The last observed lease, and when (on our clock) its spec last changed.
#[derive(Clone, Debug)]
struct Observed {
    lease: Value,
    since: Instant,
}

impl Observed {
    fn holder(&self) -> &str {
        self.lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The lease does not exist: create it.
    Create,
    /// This process holds the lease: renew it.
    Renew,
    /// The lease is free or expired: take it.
    Take,
    /// Another process holds it.
    Wait,
}

/// Decides what to do about the lease; the whole election, without IO.
fn step(observed: Option<&Observed>, config: &LeaseConfig, now: Instant) -> Step {
    match observed {
        None => Step::Create,
        Some(seen) if seen.holder() == config.identity => Step::Renew,
        Some(seen) if seen.holder().is_empty() => Step::Take,
        Some(seen) if now.since(seen.since) > config.lease_duration => Step::Take,
        Some(_) => Step::Wait,
    }
}

/// Takes part in an election until it is stopped.
pub struct Elector {
    client: Client,
    clock: Clock,
    rng: Rng,
    metrics: Metrics,
    config: LeaseConfig,
    standing: watch::Sender<Standing>,
    observed: Option<Observed>,
    failing: bool,
}

impl Elector {
    /// Creates an elector that has not read the lease yet.
    pub fn new(client: Client, env: &Env, config: LeaseConfig) -> Self {
        Self {
            client,
            clock: env.clock.clone(),
            rng: env.rng.fork("lease"),
            metrics: env.metrics.clone(),
            config,
            standing: watch::channel(Standing::Follower).0,
            observed: None,
            failing: false,
        }
    }

    /// Returns the leadership for the rest of the process.
    pub fn leadership(&self) -> Leadership {
        Leadership(self.standing.subscribe())
    }

    /// Acquires and renews until `shutdown`, then releases the lease so that the next holder need not wait.
    /// Start the shutdown only after the last write of this process.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            let sent = self.clock.now();
            let clock = self.clock.clone();
            let attempt = clock.timeout(self.config.request_timeout(), self.attempt()).await;
            match attempt {
                Some(Ok(true)) => self.lead_until(sent + self.config.renew_deadline),
                Some(Ok(false)) => self.follow(),
                Some(Err(error)) => self.failed(&error.to_string()),
                None => self.failed("the API server did not answer in time"),
            }
            let pause = self.rng.jitter(self.config.retry_period);
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                () = self.clock.sleep(pause) => {}
            }
        }
        self.release().await;
    }

    /// Reads the lease and, if this process may, writes it once. Returns whether this process holds it.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        // The holder writes on its last observation; a candidate reads first.
        if !self.holds() || self.failing {
            self.observe().await?;
        }
        let desired = |elector: &Self| match elector.step() {
            Step::Wait => None,
            Step::Create => Some(elector.new_lease()),
            Step::Renew => Some(elector.renewed()),
            Step::Take => Some(elector.taken()),
        };
        self.write(desired).await
    }

    /// Writes `desired` of the observed lease. After a conflict the holder reads the lease and writes
    /// again; a candidate has lost to another process. Returns whether the lease was written.
    async fn write(
        &mut self,
        desired: impl Fn(&Self) -> Option<Value>,
    ) -> Result<bool, kube::Error> {
        let mut writes = 0;
        loop {
            let Some(lease) = desired(self) else { return Ok(false) };
            let since = self.clock.now();
            writes += 1;
            match self.put(&lease).await {
                Ok(lease) => {
                    self.observed = Some(Observed { lease, since });
                    return Ok(true);
                }
                Err(kube::Error::Api(status)) if status.code == 409 && writes < MAX_WRITES => {
                    self.observe().await?;
                    if !self.holds() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&self) -> Step {
        step(self.observed.as_ref(), &self.config, self.clock.now())
    }

    /// Whether this process held the lease when it last observed it.
    fn holds(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.holder() == self.config.identity)
    }

    async fn observe(&mut self) -> Result<(), kube::Error> {
        let path = LEASES.path(&self.config.lease.namespace);
        let request = Request::new(path)
            .get(&self.config.lease.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        let lease: Value = match self.client.request(request).await {
            Ok(lease) => lease,
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.observed = None;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The time is that of the answer, not of the request: the record may have been renewed in between.
        // Only the spec counts: a label that another program adds is no renewal.
        let known = self.observed.take().filter(|known| known.lease["spec"] == lease["spec"]);
        let since = known.map_or_else(|| self.clock.now(), |known| known.since);
        self.observed = Some(Observed { lease, since });
        Ok(())
    }

    /// Creates or replaces the lease. This is the only write outside the writer, because it decides who may
    /// use the writer.
    async fn put(&self, lease: &Value) -> Result<Value, kube::Error> {
        let request = Request::new(LEASES.path(&self.config.lease.namespace));
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        let params = PostParams::default();
        let request = if lease["metadata"]["resourceVersion"].is_string() {
            request.replace(&self.config.lease.name, &params, body)
        } else {
            request.create(&params, body)
        };
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    fn now_text(&self) -> String {
        DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&self.clock.wall())
    }

    fn new_lease(&self) -> Value {
        json!({
            "apiVersion": LEASES.api_version(),
            "kind": LEASES.kind,
            "metadata": {
                "name": &*self.config.lease.name,
                "namespace": &*self.config.lease.namespace,
            },
            "spec": {
                "holderIdentity": self.config.identity,
                "leaseDurationSeconds": self.config.lease_duration.as_secs(),
                "acquireTime": self.now_text(),
                "renewTime": self.now_text(),
                "leaseTransitions": 0,
            },
        })
    }

    /// Returns the observed lease with some fields of its spec changed; unknown fields stay.
    fn observed_with(&self, changes: &Value) -> Value {
        let mut lease = self.observed.as_ref().map_or_else(|| json!({}), |o| o.lease.clone());
        json_patch::merge(&mut lease["spec"], changes);
        lease
    }

    fn renewed(&self) -> Value {
        self.observed_with(&json!({
            "leaseDurationSeconds": self.config.lease_duration.as_secs(),
            "renewTime": self.now_text(),
        }))
    }

    fn taken(&self) -> Value {
        let transitions =
            self.observed.as_ref().and_then(|o| o.lease["spec"]["leaseTransitions"].as_i64());
        self.observed_with(&json!({
            "holderIdentity": self.config.identity,
            "leaseDurationSeconds": self.config.lease_duration.as_secs(),
            "acquireTime": self.now_text(),
            "renewTime": self.now_text(),
            "leaseTransitions": transitions.unwrap_or_default() + 1,
        }))
    }

    fn lead_until(&mut self, deadline: Instant) {
        self.failing = false;
        let before = self.standing.send_replace(Standing::LeaderUntil(deadline));
        if before == Standing::Follower {
            tracing::info!(lease = %self.config.lease, identity = self.config.identity, "leading");
            self.metrics.leading(true);
        }
    }

    fn follow(&mut self) {
        self.failing = false;
        let before = self.standing.send_replace(Standing::Follower);
        if before != Standing::Follower {
            let holder = self.observed.as_ref().map_or("", Observed::holder);
            tracing::warn!(lease = %self.config.lease, holder, "another process leads now");
            self.metrics.leading(false);
        }
    }

    /// Keeps the standing: a leader acts until its deadline passes.
    fn failed(&mut self, error: &str) {
        if !self.failing {
            tracing::warn!(lease = %self.config.lease, error, "cannot reach the lease, retrying");
        }
        self.failing = true;
        let expired =
            matches!(*self.standing.borrow(), Standing::LeaderUntil(at) if self.clock.now() >= at);
        if expired {
            self.standing.send_replace(Standing::Follower);
            tracing::warn!(lease = %self.config.lease, "lost the lease: it could not be renewed");
            self.metrics.leading(false);
        }
    }

    async fn release(mut self) {
        let leading = matches!(*self.standing.borrow(), Standing::LeaderUntil(_));
        // This process stops acting, whether or not the release succeeds.
        self.standing.send_replace(Standing::Follower);
        self.metrics.leading(false);
        if !leading {
            return;
        }
        let released = |elector: &Self| {
            Some(elector.observed_with(&json!({
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "renewTime": elector.now_text(),
            })))
        };
        let (clock, timeout) = (self.clock.clone(), self.config.request_timeout());
        match clock.timeout(timeout, self.write(released)).await {
            Some(Ok(true)) => tracing::info!(lease = %self.config.lease, "released"),
            Some(Ok(false)) => {
                tracing::info!(lease = %self.config.lease, "held by another process");
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "could not release the lease; it will expire");
            }
            None => tracing::warn!("could not release the lease in time; it will expire"),
        }
    }
}

#[cfg(test)]
mod tests;
