//! The versions of the gang API that clusters serve, and how they differ.

use grove_runtime::resource::Resource;
use grove_runtime::store::Presence;
use serde_json::{Value, json};

use super::NAME;
use crate::contract::SchedulerObjects;
use crate::error::{BackendError, BackendFailure};

const GROUP: &str = "scheduling.k8s.io";

/// A version of the gang API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// Kubernetes 1.36: immutable groups without hierarchy.
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

    /// The newest served version, if any. Fails while the presence of a deciding kind is unknown: pods
    /// without their group, or in a group of another version, cannot be corrected.
    pub(super) fn served(objects: &dyn SchedulerObjects) -> Result<Option<Self>, BackendError> {
        let newest = Self::newest(|kind| objects.presence(kind));
        newest.map_err(|kind| BackendError::new(NAME, BackendFailure::PresenceUnknown(kind)))
    }

    /// The same, but unknown kinds count as served: for decisions that can be corrected later.
    pub(super) fn assumed(objects: &dyn SchedulerObjects) -> Option<Self> {
        let newest = Self::newest(|kind| match objects.presence(kind) {
            Presence::Served | Presence::Unknown => Presence::Served,
            Presence::Absent => Presence::Absent,
        });
        newest.ok().flatten()
    }

    /// The newest served version, or the kind whose presence has to be known first.
    fn newest(presence: impl Fn(&Resource) -> Presence) -> Result<Option<Self>, Resource> {
        for api in [Self::V1beta1, Self::V1alpha2] {
            let kinds = [api.workloads(), api.pod_groups()];
            if kinds.iter().any(|kind| presence(kind) == Presence::Absent) {
                continue;
            }
            if let Some(unknown) =
                kinds.into_iter().find(|kind| presence(kind) == Presence::Unknown)
            {
                return Err(unknown);
            }
            if api == Self::V1alpha2 {
                return Ok(Some(api));
            }
            return match presence(&composites()) {
                Presence::Served => Ok(Some(Self::Composite)),
                Presence::Absent => Ok(Some(Self::V1beta1)),
                Presence::Unknown => Err(composites()),
            };
        }
        Ok(None)
    }

    /// The version of Workloads and PodGroups.
    const fn version(self) -> &'static str {
        match self {
            Self::V1alpha2 => "v1alpha2",
            Self::V1beta1 | Self::Composite => "v1beta1",
        }
    }

    pub(super) fn workloads(self) -> Resource {
        Resource::namespaced(GROUP, self.version(), "workloads", "Workload")
    }

    pub(super) fn pod_groups(self) -> Resource {
        Resource::namespaced(GROUP, self.version(), "podgroups", "PodGroup")
    }

    /// Whether a stored minimum can be changed.
    pub(super) fn has_mutable_minima(self) -> bool {
        self != Self::V1alpha2
    }

    /// The disruption mode in which all pods of a group are preempted together.
    pub(super) fn all_at_once(self) -> Value {
        match self {
            Self::V1alpha2 => json!("PodGroup"),
            Self::V1beta1 | Self::Composite => json!({ "all": {} }),
        }
    }

    /// The field with which a group refers to its template, and its value.
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
    Resource::namespaced(GROUP, "v1alpha3", "compositepodgroups", "CompositePodGroup")
}
