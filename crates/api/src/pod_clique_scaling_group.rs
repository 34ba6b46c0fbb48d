//! PodCliqueScalingGroup: cliques that are scaled together.
//!
//! Created by the operator. `spec.replicas` belongs to users and autoscalers from then on; the rest of the
//! spec follows the template of the set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    crd::{Column, Definition, Scale, Scope},
    error_code::LastError,
    resource::resource,
    schema,
    unknown::Unknown,
    wire,
};

resource! {
    /// Cliques that are scaled together.
    pub struct PodCliqueScalingGroup {
        group: "grove.io",
        version: "v1alpha1",
        plural: "podcliquescalinggroups",
        scope: NamespaceResourceScope,
        spec: PodCliqueScalingGroupSpec,
        status: PodCliqueScalingGroupStatus,
    }
}

/// The desired replicas.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueScalingGroupSpec {
    /// Number of copies of the group.
    #[schemars(extend("default" = 1))]
    pub replicas: i32,
    /// Smallest number of copies that is of any use.
    #[schemars(extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Names of the member cliques.
    #[serde(deserialize_with = "wire::or_default")]
    pub clique_names: Vec<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The observed replicas.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueScalingGroupStatus {
    /// Wanted number of copies.
    #[serde(default, skip_serializing_if = "wire::is_zero")]
    pub replicas: i32,
    /// Number of copies whose members all have their minimum scheduled.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// Number of scheduled copies whose members all have their minimum ready.
    #[serde(default)]
    pub available_replicas: i32,
    /// Number of available copies with the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Generation that the last complete reconcile was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last incomplete reconcile.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation hash of the set that all members satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The running or last update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<ScalingGroupUpdateProgress>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far an update of a scaling group is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ScalingGroupUpdateProgress {
    /// When the update started.
    #[schemars(with = "schema::DateTime")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When the update ended.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Generation hash of the set that the update leads to.
    pub pod_clique_set_generation_hash: String,
    /// Number of PodCliques that reached the new template.
    #[serde(default)]
    pub updated_pod_cliques_count: i32,
    /// Number of PodCliques of the group.
    #[serde(default)]
    pub total_pod_cliques_count: i32,
    /// Ready copies that are replaced one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replica_indices_selected_to_update: Option<ReplicasSelectedToUpdate>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Ready copies that an update replaces.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReplicasSelectedToUpdate {
    /// Index of the copy that is being replaced.
    pub current: i32,
    /// Indices of copies that have been replaced.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::GROUP,
        kind: PodCliqueScalingGroup::KIND,
        plural: PodCliqueScalingGroup::PLURAL,
        short_name: Some("pcsg"),
        scope: Scope::Namespaced,
        description: "PodCliqueScalingGroup is a number of cliques that are scaled together. It is \
                      created by the operator.",
        spec: schema::of::<PodCliqueScalingGroupSpec>(),
        status: schema::of::<PodCliqueScalingGroupStatus>(),
        scale: Some(Scale { selector_path: ".status.selector" }),
        columns: vec![
            Column::integer("MinAvail", ".spec.minAvailable"),
            Column::integer("Replicas", ".spec.replicas"),
            Column::integer("Available", ".status.availableReplicas"),
            Column::integer("Scheduled", ".status.scheduledReplicas"),
            Column::integer("Updated", ".status.updatedReplicas"),
            Column::integer("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
            Column::integer("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
            Column::MIN_BREACHED,
            Column::AGE,
        ],
    }
}
