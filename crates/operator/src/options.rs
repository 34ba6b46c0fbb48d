//! Options of the operator: its configuration file, and facts about its environment.

use grove_api::config::OperatorConfiguration;

/// Everything the operator needs to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file.
    pub configuration: OperatorConfiguration,
    /// The identity of this replica.
    pub identity: Identity,
    /// How the API server reaches the webhooks.
    pub webhooks: WebhookAddress,
    /// Whether to install or upgrade the CRDs at start.
    pub install_crds: bool,
    /// Image of the start-order container, with tag. Without it, sets that need the container
    /// cannot start, and report it.
    pub init_image: Option<String>,
}

/// The identity of a replica of the operator.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Unique per start: the holder of the lease and the source of events.
    pub instance: String,
    /// Namespace of the operator, where its lease and certificate are.
    pub namespace: String,
    /// Name of the service account that the operator runs under.
    pub service_account: String,
}

impl Identity {
    /// The operator as the API server sees it.
    pub fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.service_account)
    }
}

/// How the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// Through the Service `grove-operator`, as in the installed webhook configurations. The
    /// operator only keeps their `caBundle` current.
    Service,
    /// Under a host or address of this machine, for an operator outside the cluster. The operator
    /// registers the webhooks itself.
    Host(String),
}
