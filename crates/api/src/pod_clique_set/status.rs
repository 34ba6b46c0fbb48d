//! Status of a PodCliqueSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition, error_code::LastError, open_enum::open_enum, schema, unknown::Unknown,
    wire,
};

/// The observed copies of the system.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueSetStatus {
    /// Generation that the last complete reconcile was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Errors of the last incomplete reconcile.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// Wanted number of copies.
    #[serde(default, skip_serializing_if = "wire::is_zero")]
    pub replicas: i32,
    /// Number of available copies that are completely on the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Number of copies whose cliques and groups are all available.
    #[serde(default)]
    pub available_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// State of the gangs. Reserved; not filled.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_gang_statuses: Vec<PodGangStatusSummary>,
    /// Hash of all pod templates of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
    /// The running or last update; absent before the first template change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueSetUpdateProgress>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// State of one gang of the set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodGangStatusSummary {
    /// Name of the PodGang.
    pub name: String,
    /// Phase of the PodGang.
    pub phase: SummaryPhase,
    /// Conditions of the PodGang.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Phase of a gang as summarised in the status of its set.
    pub enum SummaryPhase {
        /// Not all pods exist or are scheduled.
        Pending = "Pending",
        /// Scheduled, not all pods ready.
        Starting = "Starting",
        /// All required pods are ready.
        Running = "Running",
        /// Failed for good.
        Failed = "Failed",
        /// Finished.
        Succeeded = "Succeeded",
    }
}

/// How far an update of a set is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueSetUpdateProgress {
    /// When the update started.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When every copy was updated.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Number of standalone PodCliques that reached the new template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// Number of standalone PodCliques.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// Number of scaling groups that reached the new template.
    #[serde(default)]
    pub updated_pod_clique_scaling_groups_count: i32,
    /// Number of scaling groups.
    #[serde(default)]
    pub total_pod_clique_scaling_groups_count: i32,
    /// The copy that is being updated; at most one entry.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub currently_updating: Vec<ReplicaUpdateProgress>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far the update of one copy is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReplicaUpdateProgress {
    /// Index of the copy.
    pub replica_index: i32,
    /// When its update started.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When its update ended.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
