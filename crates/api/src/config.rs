//! The configuration file of the operator, `operator.config.grove.io/v1alpha1` `OperatorConfiguration`.
//!
//! [`OperatorConfiguration::from_yaml`] is the only way in: it decodes strictly (a key that does not exist
//! is an error that names the key, its path and the line), folds older spellings into the current ones,
//! fills in defaults and validates. What comes out has no alternatives left: one list of scheduler
//! profiles under canonical names, one default, one topology block.
//!
//! Nothing here reads files or talks to a cluster.

use crate::{
    cluster_topology::TopologyDomain, duration::GoDuration, field_error::FieldError,
    open_enum::open_enum,
};

mod endpoint;
mod file;
mod resolve;
mod scheduler;
mod topology;
mod validate;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "operator.config.grove.io/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "OperatorConfiguration";

/// Canonical name of the backend for the scheduler that Kubernetes ships. It is the value of
/// `pod.spec.schedulerName`.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Older name of [`DEFAULT_SCHEDULER`] in configuration files.
const KUBE_SCHEDULER: &str = "kube-scheduler";
/// The KAI scheduler.
pub const KAI_SCHEDULER: &str = "kai-scheduler";
/// Canonical names of the scheduler backends that are a part of Grove.
pub const SCHEDULER_PROFILES: [&str; 5] =
    [DEFAULT_SCHEDULER, KAI_SCHEDULER, "volcano", "lpx-scheduler", "grove-scheduler"];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not the YAML of a configuration.
    #[error("configuration line {line}, column {column}: {message}")]
    Decode {
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// Path of the offending key, where there is one, and what is wrong with it.
        message: String,
    },
    /// Values that break a rule, all of them.
    #[error("configuration is invalid: {}", join(.0))]
    Invalid(Vec<FieldError>),
}

fn join(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The effective configuration of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorConfiguration {
    /// Limits of the Kubernetes client.
    pub client_connection: ClientConnection,
    /// Leader election.
    pub leader_election: LeaderElection,
    /// Webhook, health and metrics servers.
    pub server: Server,
    /// Profiling.
    pub debugging: Debugging,
    /// Concurrency of each controller.
    pub controllers: Controllers,
    /// Least severe level that is logged.
    pub log_level: LogLevel,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Protection of managed objects.
    pub authorizer: Authorizer,
    /// Topology-aware scheduling.
    pub topology: Topology,
    /// Networking of accelerators.
    pub network: Network,
    /// Scheduler backends.
    pub scheduler: Scheduler,
}

impl OperatorConfiguration {
    /// Decodes, completes and validates a configuration. JSON is YAML.
    pub fn from_yaml(text: &str) -> Result<Self, ConfigError> {
        let file = file::decode(text)?;
        let (configuration, mut errors) = resolve::resolve(&file);
        errors.extend(validate::validate(&configuration));
        if errors.is_empty() { Ok(configuration) } else { Err(ConfigError::Invalid(errors)) }
    }

    /// Whether the operator owns the ClusterTopology: levels are configured and the feature is on.
    pub fn manages_topology(&self) -> bool {
        self.topology.enabled && !self.topology.levels.is_empty()
    }
}

/// Limits of the Kubernetes client (`runtimeClientConnection`).
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// Requests per second.
    pub qps: f32,
    /// Requests that may exceed the rate at once.
    pub burst: i32,
    /// Content type of requests; empty for the default.
    pub content_type: String,
    /// Content types accepted in answers; empty for the default.
    pub accept_content_types: String,
}

/// Leader election (`leaderElection`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether replicas elect a leader at all.
    pub enabled: bool,
    /// How long a lease is valid.
    pub lease_duration: GoDuration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: GoDuration,
    /// Pause between attempts.
    pub retry_period: GoDuration,
    /// Kind of lock; only `leases` exists.
    pub resource_lock: String,
    /// Name of the lease.
    pub resource_name: String,
    /// Accepted for compatibility. The lease is in the operator's own namespace.
    pub resource_namespace: String,
}

/// Servers (`server`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Admission webhooks.
    pub webhooks: WebhookServer,
    /// Liveness and readiness.
    pub health_probes: Endpoint,
    /// Prometheus metrics.
    pub metrics: Endpoint,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address; empty for all.
    pub bind_address: String,
    /// Port.
    pub port: u16,
}

/// Admission webhooks (`server.webhooks`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookServer {
    /// Where to listen.
    pub endpoint: Endpoint,
    /// Directory with certificate and key.
    pub server_cert_dir: String,
    /// Secret with certificate and key.
    pub secret_name: String,
    /// Who provides the certificate. An unknown value is reported when certificates are set up.
    pub cert_provision_mode: CertProvisionMode,
}

open_enum! {
    /// Who provides the certificate of the webhooks.
    pub enum CertProvisionMode {
        /// The operator.
        Auto = "auto",
        /// The user, who mounts certificate files.
        Manual = "manual",
    }
}

/// Profiling (`debugging`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debugging {
    /// Whether the profiling endpoint is served.
    pub enable_profiling: bool,
    /// Its address.
    pub pprof_bind_host: String,
    /// Its port.
    pub pprof_bind_port: u16,
}

/// Concurrency of each controller (`controllers`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// `podCliqueSet.concurrentSyncs`.
    pub pod_clique_set: i32,
    /// `podClique.concurrentSyncs`.
    pub pod_clique: i32,
    /// `podCliqueScalingGroup.concurrentSyncs`.
    pub pod_clique_scaling_group: i32,
    /// `podGang.concurrentSyncs`.
    pub pod_gang: i32,
}

open_enum! {
    /// Least severe level that is logged.
    pub enum LogLevel {
        /// Decisions with their inputs.
        Debug = "debug",
        /// State changes.
        Info = "info",
        /// Problems only.
        Error = "error",
    }
}

open_enum! {
    /// Format of log lines.
    pub enum LogFormat {
        /// One JSON object per line.
        Json = "json",
        /// For humans.
        Text = "text",
    }
}

/// Protection of managed objects (`authorizer`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorizer {
    /// Whether the authorizer webhook is registered.
    pub enabled: bool,
    /// Users that may change managed objects: `system:serviceaccount:<namespace>:<name>`.
    pub exempt_service_account_user_names: Vec<String>,
}

/// Topology-aware scheduling (`topologyAwareScheduling` or `topology`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Whether constraints are honoured.
    pub enabled: bool,
    /// Levels of the topology that the operator manages. Empty when users manage topologies themselves.
    pub levels: Vec<TopologyLevel>,
}

/// One level of the managed topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyLevel {
    /// The level.
    pub domain: TopologyDomain,
    /// Node label key.
    pub key: String,
}

/// Networking of accelerators (`network`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Whether ComputeDomains are managed.
    pub auto_mnnvl_enabled: bool,
}

/// Scheduler backends (`scheduler`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// Active backends. [`DEFAULT_SCHEDULER`] is always among them.
    pub profiles: Vec<SchedulerProfile>,
    /// Backend of pods that name none.
    pub default_profile_name: String,
}

/// One active backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerProfile {
    /// Canonical name: one of [`SCHEDULER_PROFILES`], or any other with an [`endpoint`](Self::endpoint).
    pub name: String,
    /// [`DEFAULT_SCHEDULER`] only: whether gangs become Workload objects. Not set means undecided.
    pub gang_scheduling: Option<bool>,
    /// [`KAI_SCHEDULER`] only: queue of workloads that name none. Without it such workloads are refused.
    pub default_queue: Option<String>,
    /// [`KAI_SCHEDULER`] only: whether Grove creates the PodGroups. Not set means yes; otherwise KAI's
    /// own pod grouper creates them from the PodGangs.
    pub create_pod_groups: Option<bool>,
    /// Where the backend answers when it is a program of its own.
    pub endpoint: Option<BackendEndpoint>,
}

/// A scheduler backend that is a program of its own and answers over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendEndpoint {
    /// `https://` URL.
    pub url: String,
    /// PEM file with the authorities that may have signed its certificate.
    pub ca_file: String,
    /// PEM file with the certificate that the operator shows, if any.
    pub cert_file: Option<String>,
    /// PEM file with the key of that certificate.
    pub key_file: Option<String>,
    /// File with the bearer token that the operator shows, if any.
    pub token_file: Option<String>,
    /// How long a call may take.
    pub timeout: GoDuration,
    /// What happens to sets and pods while it does not answer.
    pub failure_policy: FailurePolicy,
    /// Kinds of the objects that it returns for gangs.
    pub kinds: Vec<BackendKind>,
}

open_enum! {
    /// What happens to sets and pods of a backend that does not answer.
    pub enum FailurePolicy {
        /// Sets are refused and pods wait.
        Fail = "Fail",
        /// Sets are admitted with a warning, and pods get the name of the scheduler only.
        Ignore = "Ignore",
    }
}

/// A namespaced kind of object that belongs to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendKind {
    /// API group.
    pub group: String,
    /// Version inside the group.
    pub version: String,
    /// Lower-case plural, as in URLs.
    pub plural: String,
    /// Kind, as in manifests.
    pub kind: String,
}

impl SchedulerProfile {
    /// A profile without options.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            gang_scheduling: None,
            default_queue: None,
            create_pod_groups: None,
            endpoint: None,
        }
    }
}

#[cfg(test)]
mod tests;
