//! Our own certificate authority, kept in a Secret.
//!
//! Every replica watches the Secret and serves its leaf. The leader also creates and repairs the Secret,
//! renews the leaf, rotates the CA with overlap (see `decide`), and keeps `caBundle` of the webhook
//! configurations equal to the CAs in the Secret. All state is in the Secret, so a new leader continues
//! where the last one stopped.
//!
//! Every write has the observed version as its precondition: two leaders cannot both rotate. A Secret
//! without our labels has another owner and is not changed.
//!
//! Needs list, watch, create and patch of that Secret (create cannot be restricted by name), and
//! list, watch and patch of the webhook configurations.

mod act;
mod observe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::Notify;

pub(super) use self::observe::Since;
use self::observe::{ConfigurationView, Follow, Followed, SecretView};
use super::ServingCertificate;
pub use super::authority::AuthorityName;
use super::contents::Contents;
pub use super::decide::Schedule;
use super::decide::{Ages, CaId, decide};
use crate::backoff::Backoff;
use crate::class::{Class, Classed};
use crate::lease::Leadership;
use crate::process::{Env, Stage};
use crate::resource::{ObjectKey, Resource};
use crate::tasks::Shutdown;
use crate::write::{WriteError, Writer};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const VALIDATING: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
);
const MUTATING: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
);

/// The monotonic clock stands still while a machine is suspended and the wall clock does not, so the wall
/// clock is checked this often.
const MAX_WAIT: Duration = Duration::from_secs(60);
const MIN_WAIT: Duration = Duration::from_millis(50);
/// API servers may refuse reviews until the bundle is published, so retries are faster than those of
/// reconciles.
const RETRY_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(20), max: Duration::from_secs(10) };
/// Conflicts in a row after which the caches are listed again.
const MAX_CONFLICTS: u32 = 3;

/// A webhook configuration whose `caBundle` the manager writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Webhook {
    /// A `ValidatingWebhookConfiguration` by name.
    Validating(String),
    /// A `MutatingWebhookConfiguration` by name.
    Mutating(String),
}

impl Webhook {
    fn resource_and_name(&self) -> (Resource, &str) {
        match self {
            Self::Validating(name) => (VALIDATING, name),
            Self::Mutating(name) => (MUTATING, name),
        }
    }
}

/// Configuration of the manager.
#[derive(Clone, Debug)]
pub struct ManagedConfig {
    /// The Secret.
    pub secret: ObjectKey,
    /// Labels of the Secret; a Secret that lacks one of them has another owner.
    pub labels: BTreeMap<String, String>,
    /// DNS names and addresses under which clients reach the server.
    pub names: Vec<String>,
    /// Names in the CA certificate.
    pub authority: AuthorityName,
    /// Where the CA is published.
    pub webhooks: Vec<Webhook>,
    /// When certificates are replaced.
    pub schedule: Schedule,
}

/// Why the Secret or a webhook configuration is not up to date.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// The Secret has another owner.
    #[error(
        "secret {secret} exists without the label {label}: it is not ours; delete it, label it or \
         choose another name"
    )]
    Foreign {
        /// The Secret.
        secret: ObjectKey,
        /// The label it lacks, as `key=value`.
        label: String,
    },
    /// The Secret has another type, which is immutable.
    #[error("secret {secret} is of type {found}, not kubernetes.io/tls; delete it")]
    Type {
        /// The Secret.
        secret: ObjectKey,
        /// Its type.
        found: String,
    },
    /// Creating a key or certificate failed.
    #[error("cannot make certificates for {names:?}: {source}")]
    Mint {
        /// The requested names.
        names: Vec<String>,
        /// What is wrong.
        source: rcgen::Error,
    },
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Serves the certificate of one Secret, and manages the Secret while this process leads.
pub struct ManagedCertificate {
    config: ManagedConfig,
    env: Env,
    writer: Writer,
    leadership: Leadership,
    serving: ServingCertificate,
    secret: Followed<SecretView>,
    webhooks: Vec<Followed<ConfigurationView>>,
    changed: Arc<Notify>,
    /// The last observed contents of the Secret, and the version they were read from.
    contents: Contents,
    read_from: Option<u64>,
    leaf_since: Since<String>,
    signer_since: Since<CaId>,
    published_since: Since<String>,
    problem: Option<String>,
}

impl ManagedCertificate {
    /// Starts the watches, which `stage` stops; [`ManagedCertificate::run`] does the rest. `writer` must
    /// use the same `leadership`; its pace does not delay certificates.
    pub fn new(
        config: ManagedConfig,
        client: &Client,
        env: &Env,
        stage: &Stage,
        writer: &Writer,
        leadership: Leadership,
        serving: ServingCertificate,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let follow = Follow { client, env, stage, changed: &changed };
        let secret = follow.object(&SECRETS, config.secret.clone());
        let webhooks = config.webhooks.iter().map(|webhook| {
            let (resource, name) = webhook.resource_and_name();
            follow.object(&resource, ObjectKey::cluster(name))
        });
        let webhooks = webhooks.collect();
        Self {
            config,
            env: env.clone(),
            writer: writer.unpaced(),
            leadership,
            serving,
            secret,
            webhooks,
            changed,
            contents: Contents::default(),
            read_from: None,
            leaf_since: Since::default(),
            signer_since: Since::default(),
            published_since: Since::default(),
            problem: None,
        }
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: Shutdown) {
        self.serving.report("waiting for the Secret that holds it");
        let mut failures = 0;
        loop {
            // Each write leaves a consistent state, so a shutdown does not wait for the round.
            let round = tokio::select! {
                biased;
                () = shutdown.requested() => return,
                round = self.round() => round,
            };
            failures = match round {
                Ok(()) => 0,
                // Another process leads; this one only serves.
                Err(ManagedError::Write(error)) if error.class() == Class::Fenced => 0,
                // The cache is behind; the next round follows shortly.
                Err(ManagedError::Write(error)) if error.class() == Class::Conflict => {
                    tracing::debug!(%error, "certificates changed meanwhile");
                    self.unstick(failures + 1);
                    failures + 1
                }
                Err(error) => {
                    self.report(&error);
                    failures + 1
                }
            };
            let wait = match failures {
                0 => self.period(),
                _ => RETRY_BACKOFF.after(failures, &self.env.rng),
            };
            let follower = !self.leading();
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = self.changed.notified() => {}
                () = self.leadership.acquired(&self.env.clock), if follower => {}
                () = self.env.clock.sleep(wait) => {}
            }
        }
    }

    /// Lists the caches again after several conflicts in a row.
    fn unstick(&self, conflicts: u32) {
        if conflicts.is_multiple_of(MAX_CONFLICTS) {
            self.secret.store.request_resync();
            self.webhooks.iter().for_each(|webhook| webhook.store.request_resync());
        }
    }

    fn leading(&self) -> bool {
        self.leadership.held(self.env.clock.now())
    }

    /// Returns the interval between rounds, which fits the shortest interval of the schedule.
    fn period(&self) -> Duration {
        let s = &self.config.schedule;
        let intervals = [s.leaf_renew_after, s.ca_renew_after, s.overlap, s.retire_after];
        let shortest = intervals.into_iter().min().unwrap_or(MAX_WAIT);
        (shortest / 4).clamp(MIN_WAIT, MAX_WAIT)
    }

    /// Serves the observed leaf, then makes at most one change to the Secret and updates the webhook
    /// configurations.
    async fn round(&mut self) -> Result<(), ManagedError> {
        if !self.secret.store.is_synced() {
            return Ok(());
        }
        let secret = self.secret.get();
        if let Some(secret) = &secret {
            self.ours(secret)?;
        }
        self.observe_secret(secret.as_deref());
        if !self.leading() || self.webhooks.iter().any(|webhook| !webhook.store.is_synced()) {
            return Ok(());
        }
        let stored = secret.is_some();
        // Bundles come first: they follow the stored Secret and must not wait for a failing renewal.
        let bundles = if stored { self.publish().await } else { Ok(()) };
        let base = if stored { self.contents.clone() } else { self.contents.without_keys() };
        let (ages, now) = (self.ages(), self.env.clock.wall());
        let step = decide(&base.facts, ages, now, &self.config.schedule);
        self.store(&step, &base, secret.as_deref()).await?;
        bundles?;
        self.problem = None;
        Ok(())
    }

    /// Reads the Secret if it changed and serves its leaf.
    fn observe_secret(&mut self, secret: Option<&SecretView>) {
        let version = secret.map(|secret| secret.metadata.resource_version);
        let Some(secret) = secret.filter(|_| self.read_from != version) else {
            self.read_from = version;
            return;
        };
        let contents = Contents::read(&secret.data, &self.config.names);
        if let Some((leaf, key)) = contents.leaf()
            && contents.leaf_identity() != self.contents.leaf_identity()
            && let Err(error) = self.serving.install(leaf, key)
        {
            tracing::warn!(secret = %self.config.secret, %error, "certificate not served");
        }
        self.contents = contents;
        self.read_from = version;
    }

    fn ours(&self, secret: &SecretView) -> Result<(), ManagedError> {
        let missing = self
            .config
            .labels
            .iter()
            .find(|(key, value)| secret.metadata.labels.get(key) != Some(value.as_str()));
        if let Some((key, value)) = missing {
            let label = format!("{key}={value}");
            return Err(ManagedError::Foreign { secret: self.config.secret.clone(), label });
        }
        if secret.kind != observe::SECRET_TYPE {
            let found = secret.kind.clone();
            return Err(ManagedError::Type { secret: self.config.secret.clone(), found });
        }
        Ok(())
    }

    fn ages(&mut self) -> Ages {
        let now = self.env.clock.now();
        let bundle = self.contents.bundle();
        let carried = self
            .webhooks
            .iter()
            .all(|webhook| webhook.get().is_none_or(|view| view.outdated(&bundle).is_empty()));
        let published = self.published_since.update(carried.then_some(bundle), now);
        Ages {
            leaf: self
                .leaf_since
                .update(self.contents.leaf_identity().map(str::to_owned), now)
                .unwrap_or_default(),
            published,
            signer: self
                .signer_since
                .update(self.contents.facts.signer.clone(), now)
                .unwrap_or_default(),
        }
    }

    /// Logs a problem once.
    fn report(&mut self, error: &ManagedError) {
        let problem = error.to_string();
        self.serving.report(&problem);
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(secret = %self.config.secret, problem, "certificates not up to date");
            self.problem = Some(problem);
        }
    }
}

#[cfg(test)]
mod tests;
