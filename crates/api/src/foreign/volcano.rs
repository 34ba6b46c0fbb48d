//! PodGroup and Queue of the Volcano scheduler.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{resource::resource, unknown::Unknown, wire};

/// `schedulerName` of pods.
pub const SCHEDULER_NAME: &str = "volcano";
/// Pod annotation: name of the PodGroup.
pub const GROUP_NAME_ANNOTATION: &str = "scheduling.volcano.sh/group-name";
/// Pod annotation: name of the PodGroup, in the spelling of older versions.
pub const LEGACY_GROUP_NAME_ANNOTATION: &str = "scheduling.k8s.io/group-name";
/// Queue of workloads that name none.
pub const DEFAULT_QUEUE: &str = "default";
/// `status.state` of a queue that takes workloads.
pub const QUEUE_OPEN: &str = "Open";

resource! {
    /// Pods that are scheduled together.
    pub struct PodGroup {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        plural: "podgroups",
        scope: NamespaceResourceScope,
        spec: PodGroupSpec,
        status: PodGroupStatus,
    }
}

/// The wanted group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodGroupSpec {
    /// Number of pods that have to be scheduled together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_member: Option<i32>,
    /// Name of the Queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Minimum of each part of the group.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub sub_group_policy: Vec<SubGroupPolicy>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Minimum of one part of a group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SubGroupPolicy {
    /// Name of the part.
    pub name: String,
    /// Pods of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Labels whose values tell instances of the part from each other.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
    /// Pods per instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_group_size: Option<i32>,
    /// Number of instances that have to be scheduled together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sub_groups: Option<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Selects pods by label.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LabelSelector {
    /// Labels that have to be equal.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The observed group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// Phase, for example `Inqueue` or `Running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

resource! {
    /// Share of the cluster.
    pub struct Queue {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        plural: "queues",
        scope: ClusterResourceScope,
        spec: QueueSpec,
        status: QueueStatus,
    }
}

/// The wanted share. Grove reads nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct QueueSpec {
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The observed queue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// [`QUEUE_OPEN`] when it takes workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
