//! `scheduling.k8s.io/v1alpha3`, Kubernetes 1.37: Workload, PodGroup and CompositePodGroup.

use serde::{Deserialize, Serialize};

use super::scheduling::{
    CompositeSchedulingPolicy, DisruptionMode, GroupStatus, PodGroupSpec, SchedulingConstraints,
    WorkloadReference, WorkloadSpec,
};
use crate::{resource::resource, unknown::Unknown};

resource! {
    /// Templates of the groups of one workload. Schedulers do not read it.
    pub struct Workload {
        group: "scheduling.k8s.io",
        version: "v1alpha3",
        plural: "workloads",
        scope: NamespaceResourceScope,
        spec: WorkloadSpec,
    }
}

resource! {
    /// Pods that are scheduled together.
    pub struct PodGroup {
        group: "scheduling.k8s.io",
        version: "v1alpha3",
        plural: "podgroups",
        scope: NamespaceResourceScope,
        spec: PodGroupSpec,
        status: GroupStatus,
    }
}

resource! {
    /// Groups that are scheduled together.
    pub struct CompositePodGroup {
        group: "scheduling.k8s.io",
        version: "v1alpha3",
        plural: "compositepodgroups",
        scope: NamespaceResourceScope,
        spec: CompositePodGroupSpec,
        status: GroupStatus,
    }
}

/// The wanted group of groups. Nothing of it can change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompositePodGroupSpec {
    /// Name of the CompositePodGroup above; absent for the root of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_composite_pod_group_name: Option<String>,
    /// Where the group comes from.
    pub workload_ref: WorkloadReference,
    /// How the child groups are scheduled.
    pub scheduling_policy: CompositeSchedulingPolicy,
    /// Where the pods below may be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
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
