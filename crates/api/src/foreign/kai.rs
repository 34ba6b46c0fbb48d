//! PodGroup, Queue, Topology and BindRequest of the KAI scheduler, and the keys it reads on pods.
//!
//! Quantities, durations and queue numbers are kept as they were written: Grove compares or copies them,
//! it does not calculate with them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{resource::resource, unknown::Unknown, wire};

mod bind_request;

pub use bind_request::{
    BindRequest, BindRequestPhase, BindRequestSpec, BindRequestStatus, ReceivedGpu,
    ResourceClaimAllocation,
};

/// `schedulerName` of pods.
pub const SCHEDULER_NAME: &str = "kai-scheduler";
/// Label, and on some objects annotation: name of the queue.
pub const QUEUE: &str = "kai.scheduler/queue";
/// Label: node pool.
pub const NODE_POOL: &str = "kai.scheduler/node-pool";
/// Pod annotation: name of the PodGroup.
pub const POD_GROUP_NAME: &str = "pod-group-name";
/// Pod label: name of the leaf subgroup.
pub const SUBGROUP_NAME: &str = "kai.scheduler/subgroup-name";
/// Annotation: `"true"` keeps the pod grouper away.
pub const SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";
/// Annotation: name of the topology.
pub const TOPOLOGY: &str = "kai.scheduler/topology";

/// What subgroups may be called.
const NAME_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Amounts by resource name; each an integer or a quantity string.
pub type ResourceList = BTreeMap<String, Value>;

resource! {
    /// Pods that are scheduled together.
    pub struct PodGroup {
        group: "scheduling.run.ai",
        version: "v2alpha2",
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
    /// Number of pods that have to be placed together. Ignored when there are subgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// Number of direct subgroups that have to be placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// Name of a leaf queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// `preemptible` or `non-preemptible`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<String>,
    /// Placement of the whole group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Parts of the group.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<SubGroup>,
    /// Whether pending pods get a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_unschedulable: Option<bool>,
    /// Retry policy after a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_backoff: Option<i32>,
    /// Pending time before the group may cause evictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_delay: Option<String>,
    /// How long a running group may stay below its minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_grace_period: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Placement by topology level.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TopologyConstraint {
    /// Name of the Topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// All pods in one domain of this level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// One domain of this level first, then wider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Part of a group: a leaf with pods or a parent of other parts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SubGroup {
    /// Name, unique in the group.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Name of the parent; absent below the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub parent: Option<String>,
    /// Leaves: number of pods that have to be placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// Parents: number of children that have to be placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// Placement of everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The observed group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// Why the group is not scheduled; the highest transition id is the newest.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_conditions: Vec<SchedulingCondition>,
    /// Sums over the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_status: Option<ResourcesStatus>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Why a group is not scheduled on a node pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingCondition {
    /// `UnschedulableOnNodePool`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The node pool.
    pub node_pool: String,
    /// `True`.
    pub status: String,
    /// Old single reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Text for humans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// All reasons.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<SchedulingReason>,
    /// Decimal counter.
    #[serde(rename = "transitionID", skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When the condition appeared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One reason why a group is not scheduled.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingReason {
    /// One word, for example `QueueDoesNotExist`.
    pub reason: String,
    /// Text for humans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Sums over the pods of a group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesStatus {
    /// Pending and running pods.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: ResourceList,
    /// Running and scheduled pods.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    /// The same, for groups that cannot be preempted.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_non_preemptible: ResourceList,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

resource! {
    /// Share of the cluster.
    pub struct Queue {
        group: "scheduling.run.ai",
        version: "v2",
        plural: "queues",
        scope: ClusterResourceScope,
        spec: QueueSpec,
        status: QueueStatus,
    }
}

/// The wanted share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueSpec {
    /// Name for humans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Name of the parent queue; absent for a top queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_queue: Option<String>,
    /// Order in which surplus is divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Protection of running groups against preemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// Protection of running groups against reclaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
    /// Amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<QueueResources>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Amounts by resource. An absent resource has limit 0: nothing is allowed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueResources {
    /// CPU in thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<QueueResource>,
    /// Memory in megabytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<QueueResource>,
    /// GPU devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<QueueResource>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Amounts of one resource; -1 is unlimited, absent is 0.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueResource {
    /// Guaranteed amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Number>,
    /// Hard cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Number>,
    /// Share of the surplus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_quota_weight: Option<Number>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The observed queue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Names of the child queues. A queue without children is a leaf.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub child_queues: Vec<String>,
    /// Requested by its groups and children.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requested: ResourceList,
    /// Allocated to its groups and children.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
    /// The same, for groups that cannot be preempted.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_non_preemptible: ResourceList,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

resource! {
    /// Levels of the cluster by node label.
    pub struct Topology {
        group: "kai.scheduler",
        version: "v1alpha1",
        plural: "topologies",
        scope: ClusterResourceScope,
        spec: TopologySpec,
    }
}

/// The levels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TopologySpec {
    /// From the widest to the narrowest. The sequence of labels cannot change.
    #[serde(deserialize_with = "wire::or_default")]
    #[schemars(length(min = 1, max = 16))]
    pub levels: Vec<TopologyLevel>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One level.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TopologyLevel {
    /// Node label key.
    #[schemars(length(min = 1, max = 316))]
    pub node_label: String,
    /// Other name of the level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
