//! PodClique: a number of equal pods with one role.
//!
//! Created by the operator only. Users change nothing but `spec.replicas`, through the scale
//! subresource. The spec is also the body of a clique template in a PodCliqueSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    condition::Condition,
    crd::{Column, Definition, Scale, Scope},
    error_code::LastError,
    pod_spec::PodSpec,
    resource::resource,
    schema,
    unknown::Unknown,
    wire,
};

resource! {
    /// A number of equal pods with one role.
    pub struct PodClique {
        group: "grove.io",
        version: "v1alpha1",
        plural: "podcliques",
        scope: NamespaceResourceScope,
        spec: PodCliqueSpec,
        status: PodCliqueStatus,
    }
}

/// The desired pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueSpec {
    /// Free-form role of the pods, unique in the set.
    pub role_name: String,
    /// Template of the pods.
    pub pod_spec: PodSpec,
    /// Number of pods.
    pub replicas: i32,
    /// Smallest number of pods that is of any use. Defaults to the number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Cliques whose minimum has to be ready before pods of this one start.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub starts_after: Vec<String>,
    /// How the number of pods is scaled automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling_config: Option<AutoScalingConfig>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Settings of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AutoScalingConfig {
    /// Lower bound. Defaults to the number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Upper bound.
    pub max_replicas: i32,
    /// What to scale by: autoscaling/v2 `MetricSpec` objects.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "metrics_schema")]
    pub metrics: Vec<Value>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn metrics_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": schema::kubernetes("io.k8s.api.autoscaling.v2.MetricSpec"),
        "x-kubernetes-list-type": "atomic",
    })
}

/// The observed pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueStatus {
    /// Generation that the last complete reconcile was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last incomplete reconcile.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// Number of pods that are not terminating.
    #[serde(default, skip_serializing_if = "wire::is_zero")]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Number of pods with the current template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Number of pods that are held back by a scheduling gate.
    #[serde(default)]
    pub schedule_gated_replicas: i32,
    /// Number of scheduled pods.
    #[serde(default)]
    pub scheduled_replicas: i32,
    /// Label selector of the pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation hash of the set that all pods satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// Template hash that all pods satisfy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pod_template_hash: Option<String>,
    /// The running or last update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueUpdateProgress>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far an update of a PodClique is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueUpdateProgress {
    /// When the update started.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_started_at: Option<Time>,
    /// When the update ended.
    #[schemars(with = "Option<schema::DateTime>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
    /// Generation hash of the set that the update leads to.
    pub pod_clique_set_generation_hash: String,
    /// Template hash that the update leads to.
    pub pod_template_hash: String,
    /// Ready pods that are replaced one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods_selected_to_update: Option<PodsSelectedToUpdate>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Ready pods that an update replaces.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodsSelectedToUpdate {
    /// Name of the pod that is being replaced.
    pub current: String,
    /// Names of pods that have been replaced.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::GROUP,
        kind: PodClique::KIND,
        plural: PodClique::PLURAL,
        short_name: Some("pclq"),
        scope: Scope::Namespaced,
        description: "PodClique is a number of equal pods with one role. It is created by the operator.",
        spec: schema::of::<PodCliqueSpec>(),
        status: schema::of::<PodCliqueStatus>(),
        scale: Some(Scale { selector_path: ".status.hpaPodSelector" }),
        columns: vec![
            Column::integer("MinAvail", ".spec.minAvailable"),
            Column::integer("Replicas", ".spec.replicas"),
            Column::integer("Ready", ".status.readyReplicas"),
            Column::integer("Scheduled", ".status.scheduledReplicas"),
            Column::integer("Updated", ".status.updatedReplicas"),
            Column::integer("Gated", ".status.scheduleGatedReplicas").wide(),
            Column::MIN_BREACHED,
            Column::AGE,
        ],
    }
}
