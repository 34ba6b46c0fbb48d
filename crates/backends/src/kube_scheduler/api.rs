//! Which of its versions of gangs a cluster serves, and how they differ.

use grove_api::foreign::{scheduling_v1alpha2, scheduling_v1alpha3, scheduling_v1beta1};
use grove_runtime::resource::Resource;
use serde_json::{Value, json};

use crate::contract::Objects;

/// What the cluster offers for gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// Kubernetes 1.36: groups without hierarchy that cannot be changed.
    V1alpha2,
    /// Kubernetes 1.37 without composites.
    V1beta1,
    /// Kubernetes 1.37 with composites.
    Composite,
}

impl Api {
    /// All kinds of all versions.
    pub(super) fn kinds() -> Vec<Resource> {
        let every = [Self::V1alpha2, Self::V1beta1];
        let mut kinds: Vec<_> =
            every.iter().flat_map(|api| [api.workloads(), api.pod_groups()]).collect();
        kinds.push(composites());
        kinds
    }

    /// The newest that is served.
    pub(super) fn served(objects: &dyn Objects) -> Option<Self> {
        let serves =
            |api: Self| objects.is_served(&api.workloads()) && objects.is_served(&api.pod_groups());
        if serves(Self::V1beta1) {
            let composite = objects.is_served(&composites());
            return Some(if composite { Self::Composite } else { Self::V1beta1 });
        }
        serves(Self::V1alpha2).then_some(Self::V1alpha2)
    }

    pub(super) fn workloads(self) -> Resource {
        match self {
            Self::V1alpha2 => Resource::of::<scheduling_v1alpha2::Workload>(),
            Self::V1beta1 | Self::Composite => Resource::of::<scheduling_v1beta1::Workload>(),
        }
    }

    pub(super) fn pod_groups(self) -> Resource {
        match self {
            Self::V1alpha2 => Resource::of::<scheduling_v1alpha2::PodGroup>(),
            Self::V1beta1 | Self::Composite => Resource::of::<scheduling_v1beta1::PodGroup>(),
        }
    }

    /// Whether a minimum can be changed once it is stored.
    pub(super) fn has_mutable_minima(self) -> bool {
        self != Self::V1alpha2
    }

    pub(super) fn all_at_once(self) -> Value {
        match self {
            Self::V1alpha2 => json!("PodGroup"),
            Self::V1beta1 | Self::Composite => json!({ "all": {} }),
        }
    }

    /// How a group names its template.
    pub(super) fn template_reference(
        self,
        workload: &str,
        template: &str,
    ) -> (&'static str, Value) {
        match self {
            Self::V1alpha2 => {
                let workload =
                    json!({ "workloadName": workload, "podGroupTemplateName": template });
                ("podGroupTemplateRef", json!({ "workload": workload }))
            }
            Self::V1beta1 | Self::Composite => {
                ("workloadRef", json!({ "workloadName": workload, "templateName": template }))
            }
        }
    }
}

pub(super) fn composites() -> Resource {
    Resource::of::<scheduling_v1alpha3::CompositePodGroup>()
}
