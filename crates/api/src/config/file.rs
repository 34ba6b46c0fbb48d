//! The configuration file as users write it: every key optional, older spellings included.

use serde::Deserialize;
use serde_saphyr::Options;

use super::ConfigError;
use crate::duration::GoDuration;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) runtime_client_connection: Option<ClientConnection>,
    pub(super) leader_election: Option<LeaderElection>,
    pub(super) server: Option<Server>,
    pub(super) debugging: Option<Debugging>,
    pub(super) controllers: Option<Controllers>,
    pub(super) log_level: Option<String>,
    pub(super) log_format: Option<String>,
    pub(super) authorizer: Option<Authorizer>,
    pub(super) topology_aware_scheduling: Option<Topology>,
    /// Older spelling of `topologyAwareScheduling`.
    pub(super) topology: Option<Topology>,
    pub(super) network: Option<Network>,
    pub(super) scheduler: Option<Scheduler>,
    /// Older form of a `scheduler` block with one profile that is the default.
    pub(super) scheduler_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct ClientConnection {
    pub(super) qps: Option<f32>,
    pub(super) burst: Option<i32>,
    pub(super) content_type: Option<String>,
    pub(super) accept_content_types: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct LeaderElection {
    pub(super) enabled: Option<bool>,
    pub(super) lease_duration: Option<GoDuration>,
    pub(super) renew_deadline: Option<GoDuration>,
    pub(super) retry_period: Option<GoDuration>,
    pub(super) resource_lock: Option<String>,
    pub(super) resource_name: Option<String>,
    pub(super) resource_namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Server {
    pub(super) webhooks: Option<WebhookServer>,
    pub(super) health_probes: Option<Endpoint>,
    pub(super) metrics: Option<Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct WebhookServer {
    pub(super) bind_address: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) server_cert_dir: Option<String>,
    pub(super) secret_name: Option<String>,
    pub(super) cert_provision_mode: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Endpoint {
    pub(super) bind_address: Option<String>,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Debugging {
    pub(super) enable_profiling: Option<bool>,
    pub(super) pprof_bind_host: Option<String>,
    pub(super) pprof_bind_port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the fields are named after kinds")]
pub(super) struct Controllers {
    pub(super) pod_clique_set: Option<Controller>,
    pub(super) pod_clique: Option<Controller>,
    pub(super) pod_clique_scaling_group: Option<Controller>,
    pub(super) pod_gang: Option<Controller>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Controller {
    pub(super) concurrent_syncs: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Authorizer {
    pub(super) enabled: Option<bool>,
    pub(super) exempt_service_account_user_names: Option<Vec<String>>,
    /// Existing Helm charts write it, but it has no effect: the operator knows its own account.
    #[serde(rename = "reconcilerServiceAccountUserName")]
    _reconciler_service_account_user_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) enabled: Option<bool>,
    pub(super) levels: Option<Vec<TopologyLevel>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct TopologyLevel {
    pub(super) domain: String,
    pub(super) key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Network {
    #[serde(rename = "autoMNNVLEnabled")]
    pub(super) auto_mnnvl_enabled: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Scheduler {
    pub(super) profiles: Option<Vec<SchedulerProfile>>,
    pub(super) default_profile_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct SchedulerProfile {
    pub(super) name: String,
    pub(super) config: Option<ProfileConfig>,
    pub(super) default: Option<bool>,
}

/// The options of all backends together, so that a typo is found with its line. Which backend may have
/// which option is checked afterwards.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct ProfileConfig {
    pub(super) gang_scheduling: Option<bool>,
    /// Older spelling of `gangScheduling`.
    #[serde(rename = "GangScheduling")]
    pub(super) gang_scheduling_capital: Option<bool>,
    pub(super) default_queue: Option<String>,
    pub(super) create_pod_groups: Option<bool>,
    pub(super) endpoint: Option<BackendEndpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct BackendEndpoint {
    pub(super) url: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) cert_file: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) token_file: Option<String>,
    pub(super) timeout: Option<GoDuration>,
    pub(super) failure_policy: Option<String>,
    pub(super) kinds: Option<Vec<BackendKind>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct BackendKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) kind: String,
}

/// Reads the file.
pub(super) fn decode(text: &str) -> Result<File, ConfigError> {
    let options: Options = serde_saphyr::options! { with_snippet: false };
    let mut path = None;
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            path = Some(error.path().to_string());
            error.into_inner()
        })
    })
    .map_err(|error: serde_saphyr::Error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        // The root, and places where there is no key yet, have no path worth showing.
        let path = path.filter(|path| !path.ends_with(['.', '?']));
        let prefix = path.map(|path| format!("{path}: ")).unwrap_or_default();
        ConfigError::Decode { line, column, message: format!("{prefix}{}", explain(&error)) }
    })
}

/// The error for a user who edits the file and does not know the types behind it.
fn explain(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{key}` occurs twice")
        }
        serde_saphyr::Error::InvalidScalar { ty: "boolean", .. } => "must be true or false".into(),
        serde_saphyr::Error::InvalidScalar { ty: "u16", .. } => {
            "must be a whole number from 0 to 65535".into()
        }
        serde_saphyr::Error::InvalidScalar { ty: "i32", .. } => "must be a whole number".into(),
        serde_saphyr::Error::InvalidScalar { ty: "floating point", .. } => {
            "must be a number".into()
        }
        other => {
            // The library repeats the position in its text.
            let text = other.to_string();
            text.split(" at line ").next().unwrap_or(&text).to_owned()
        }
    }
}
