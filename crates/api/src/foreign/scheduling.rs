//! Parts that the versions of `scheduling.k8s.io` for gangs have in common.
//!
//! The roots are in one module per version, because each is its own type on the wire. Version v1alpha2
//! (Kubernetes 1.36) shares the policies and constraints; v1alpha3 and v1beta1 (1.37) share everything.

use serde::{Deserialize, Serialize};

use crate::{condition::Condition, unknown::Unknown, wire};

/// Condition of a PodGroup that was admitted once, in 1.37.
pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// The same in 1.36.
pub const SCHEDULED_V1ALPHA2: &str = "PodGroupScheduled";
/// Finalizer that keeps a PodGroup while pods refer to it.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

/// An object without fields of its own, used as the marker of a choice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Marker {
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The object that a Workload stands for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerReference {
    /// API group; empty for core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How the pods of a group are scheduled: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingPolicy {
    /// Pod by pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<Marker>,
    /// Together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangPolicy>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl SchedulingPolicy {
    /// A gang with a minimum.
    pub fn gang(min_count: i32) -> Self {
        Self { gang: Some(GangPolicy { min_count, ..GangPolicy::default() }), ..Self::default() }
    }
}

/// A gang of pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GangPolicy {
    /// Number of pods that have to be scheduled together, at least 1.
    pub min_count: i32,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How the groups below a composite group are scheduled: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompositeSchedulingPolicy {
    /// Group by group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<Marker>,
    /// Together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<CompositeGangPolicy>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl CompositeSchedulingPolicy {
    /// A gang of groups with a minimum.
    pub fn gang(min_group_count: i32) -> Self {
        Self {
            gang: Some(CompositeGangPolicy { min_group_count, ..CompositeGangPolicy::default() }),
            ..Self::default()
        }
    }
}

/// A gang of groups.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompositeGangPolicy {
    /// Number of child groups that have to be scheduled together, at least 1.
    pub min_group_count: i32,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where a group may be placed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingConstraints {
    /// Topology keys; at most one.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<TopologyKey>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl SchedulingConstraints {
    /// All pods on nodes with the same value of a label.
    pub fn same(key: &str) -> Self {
        let key = TopologyKey { key: key.to_owned(), ..TopologyKey::default() };
        Self { topology: vec![key], ..Self::default() }
    }
}

/// A node label whose value has to be the same for all pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyKey {
    /// Label key.
    pub key: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A claim shared by the pods of a group: exactly one of the two names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupResourceClaim {
    /// Name inside the group.
    pub name: String,
    /// An existing ResourceClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_name: Option<String>,
    /// A ResourceClaimTemplate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_template_name: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is disrupted at once: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionMode {
    /// Single pods or groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<Marker>,
    /// Everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Marker>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl DisruptionMode {
    /// Everything is disrupted at once.
    pub fn all() -> Self {
        Self { all: Some(Marker::default()), ..Self::default() }
    }
}

/// Spec of a Workload, 1.37: exactly one of the two lists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// The object that the Workload stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_ref: Option<ControllerReference>,
    /// Templates of groups without hierarchy.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_group_templates: Vec<PodGroupTemplate>,
    /// Templates of trees of groups.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub composite_pod_group_templates: Vec<CompositePodGroupTemplate>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Template of a PodGroup, 1.37.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupTemplate {
    /// Name, unique in the Workload.
    pub name: String,
    /// How the pods are scheduled.
    pub scheduling_policy: SchedulingPolicy,
    /// Where the pods may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// Claims shared by the pods.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<GroupResourceClaim>,
    /// What is disrupted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption_mode: Option<DisruptionMode>,
    /// Priority class, the same in the whole Workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority, the same in the whole Workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether the group may preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Template of a CompositePodGroup and of everything below it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompositePodGroupTemplate {
    /// Name, unique in the Workload.
    pub name: String,
    /// How the child groups are scheduled.
    pub scheduling_policy: CompositeSchedulingPolicy,
    /// Where the pods below may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// What is disrupted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption_mode: Option<DisruptionMode>,
    /// Priority class, the same in the whole Workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority, the same in the whole Workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether the group may preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
    /// Leaves below.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_group_templates: Vec<PodGroupTemplate>,
    /// Composite groups below.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub composite_pod_group_templates: Vec<Self>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where in a Workload a group comes from, 1.37.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadReference {
    /// Name of the Workload.
    pub workload_name: String,
    /// Name of the template in it.
    pub template_name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Spec of a PodGroup, 1.37. Only `schedulingPolicy.gang.minCount` may change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// Name of the CompositePodGroup above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_composite_pod_group_name: Option<String>,
    /// Where the group comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadReference>,
    /// How the pods are scheduled.
    pub scheduling_policy: SchedulingPolicy,
    /// Where the pods may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
    /// Claims shared by the pods.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<GroupResourceClaim>,
    /// What is disrupted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption_mode: Option<DisruptionMode>,
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority; filled in at admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether the group may preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Status of a group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// Conditions. None means that the group was not attempted yet.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Claims made from templates.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A claim made from a template of a group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// Name inside the group.
    pub name: String,
    /// The claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_name: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
