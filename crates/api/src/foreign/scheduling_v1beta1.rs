//! `scheduling.k8s.io/v1beta1`, Kubernetes 1.37: Workload and PodGroup.

use super::scheduling::{GroupStatus, PodGroupSpec, WorkloadSpec};
use crate::resource::resource;

resource! {
    /// Templates of the groups of one workload. Schedulers do not read it.
    pub struct Workload {
        group: "scheduling.k8s.io",
        version: "v1beta1",
        plural: "workloads",
        scope: NamespaceResourceScope,
        spec: WorkloadSpec,
    }
}

resource! {
    /// Pods that are scheduled together.
    pub struct PodGroup {
        group: "scheduling.k8s.io",
        version: "v1beta1",
        plural: "podgroups",
        scope: NamespaceResourceScope,
        spec: PodGroupSpec,
        status: GroupStatus,
    }
}
