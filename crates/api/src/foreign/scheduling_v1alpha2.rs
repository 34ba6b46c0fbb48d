//! `scheduling.k8s.io/v1alpha2`, Kubernetes 1.36: Workload and PodGroup.
//!
//! Nothing in a PodGroup spec can change, the disruption mode is a word, and the reference to a template
//! has one more level than in 1.37.

use serde::{Deserialize, Serialize};

use super::scheduling::{
    ControllerReference, GroupResourceClaim, GroupStatus, SchedulingConstraints, SchedulingPolicy,
};
use crate::{open_enum::open_enum, resource::resource, unknown::Unknown, wire};

resource! {
    /// Templates of the groups of one workload. Schedulers do not read it.
    pub struct Workload {
        group: "scheduling.k8s.io",
        version: "v1alpha2",
        plural: "workloads",
        scope: NamespaceResourceScope,
        spec: WorkloadSpec,
    }
}

resource! {
    /// Pods that are scheduled together.
    pub struct PodGroup {
        group: "scheduling.k8s.io",
        version: "v1alpha2",
        plural: "podgroups",
        scope: NamespaceResourceScope,
        spec: PodGroupSpec,
        status: GroupStatus,
    }
}

open_enum! {
    /// What is disrupted at once.
    pub enum DisruptionMode {
        /// Single pods.
        Pod = "Pod",
        /// The whole group.
        PodGroup = "PodGroup",
    }
}

/// Spec of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// The object that the Workload stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_ref: Option<ControllerReference>,
    /// Templates of groups.
    #[serde(deserialize_with = "wire::or_default")]
    pub pod_group_templates: Vec<PodGroupTemplate>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Template of a PodGroup.
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
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Spec of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// Where the group comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_template_ref: Option<PodGroupTemplateReference>,
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
    /// Priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Reference to a template; today always in a Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupTemplateReference {
    /// The Workload and the template in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadTemplateReference>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A template in a Workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadTemplateReference {
    /// Name of the Workload.
    pub workload_name: String,
    /// Name of the template in it.
    pub pod_group_template_name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
