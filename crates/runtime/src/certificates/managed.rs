//! Our own certificate authority, kept in a Secret.
//!
//! Every replica watches the Secret and serves the leaf it finds there. The leader also looks after
//! it: it creates and repairs the Secret, renews the leaf, rotates the CA with overlap (see
//! `decide`), and keeps `caBundle` of the webhook configurations equal to the CAs in the Secret.
//! All state is in the Secret, so a new leader continues where the last one stopped.
//!
//! Every write names the version it was decided on: two leaders cannot both rotate. A Secret that
//! does not carry our labels belongs to somebody else and is not touched.
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

/// A machine that slept wakes with its monotonic clock where it was and its wall clock ahead, so
/// the wall clock is looked at again this often.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// A bundle that is not published may mean refused reviews, so failures are tried again sooner than
/// those of a reconcile.
const RETRY: Backoff = Backoff { first: Duration::from_millis(20), max: Duration::from_secs(10) };
/// Conflicts in a row after which a cache counts as stuck rather than late.
const STUCK: u32 = 3;

/// A webhook configuration whose `caBundle` is ours to keep.
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

/// What to manage.
#[derive(Clone, Debug)]
pub struct ManagedConfig {
    /// The Secret.
    pub secret: ObjectKey,
    /// Labels of the Secret; one that does not carry them all is not ours.
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

/// Why the Secret or a webhook configuration is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    /// The Secret belongs to somebody else.
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
    /// The Secret is of a type that cannot be changed any more.
    #[error("secret {secret} is of type {found}, not kubernetes.io/tls; delete it")]
    Type {
        /// The Secret.
        secret: ObjectKey,
        /// Its type.
        found: String,
    },
    /// A key or certificate could not be made.
    #[error("cannot make certificates for {names:?}: {source}")]
    Mint {
        /// The names asked for.
        names: Vec<String>,
        /// What is wrong.
        source: rcgen::Error,
    },
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Serves from, and while leading looks after, one Secret.
pub struct ManagedCertificate {
    config: ManagedConfig,
    env: Env,
    writer: Writer,
    leadership: Leadership,
    serving: ServingCertificate,
    secret: Followed<SecretView>,
    webhooks: Vec<Followed<ConfigurationView>>,
    changed: Arc<Notify>,
    /// The Secret's contents as last seen, and the version they were read from.
    contents: Contents,
    read_from: Option<u64>,
    leaf_since: Since<String>,
    signer_since: Since<CaId>,
    published_since: Since<String>,
    problem: Option<String>,
}

impl ManagedCertificate {
    /// Starts the watches, which end with `stage`; [`ManagedCertificate::run`] does the rest.
    /// `writer` must act under the same `leadership`; its pace does not delay certificates.
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
            // Every write may be the last one, so a shutdown need not wait for it.
            let round = tokio::select! {
                biased;
                () = shutdown.requested() => return,
                round = self.round() => round,
            };
            failures = match round {
                Ok(()) => 0,
                // Somebody else leads: what we saw is served, and that is all we may do.
                Err(ManagedError::Write(error)) if error.class() == Class::Fenced => 0,
                // The cache was behind: look again shortly.
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
                _ => RETRY.after(failures, &self.env.rng),
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

    /// Asks for new lists when conflict follows conflict: a cache must be behind for good.
    fn unstick(&self, conflicts: u32) {
        if conflicts.is_multiple_of(STUCK) {
            self.secret.store.request_resync();
            self.webhooks.iter().for_each(|webhook| webhook.store.request_resync());
        }
    }

    fn leading(&self) -> bool {
        self.leadership.held(self.env.clock.now())
    }

    /// Often enough for the shortest interval of the schedule.
    fn period(&self) -> Duration {
        let s = &self.config.schedule;
        let intervals = [s.leaf_renew_after, s.ca_renew_after, s.overlap, s.retire_after];
        let shortest = intervals.into_iter().min().unwrap_or(LONGEST_WAIT);
        (shortest / 4).clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }

    /// Serves what is there, then makes at most one change to the Secret and brings the webhook
    /// configurations up to date.
    async fn round(&mut self) -> Result<(), ManagedError> {
        if !self.secret.store.is_synced() {
            return Ok(());
        }
        let secret = self.secret.get();
        if let Some(secret) = &secret {
            self.ours(secret)?;
        }
        self.look(secret.as_deref());
        if !self.leading() || self.webhooks.iter().any(|webhook| !webhook.store.is_synced()) {
            return Ok(());
        }
        let stored = secret.is_some();
        // Bundles first: they follow what is stored, and must not wait for a failing renewal.
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
    fn look(&mut self, secret: Option<&SecretView>) {
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

    /// Says what is wrong, once.
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
