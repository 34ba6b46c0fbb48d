//! The kinds that a set consists of, and those around it, as paths of the API.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub name: &'static str,
    api: &'static str,
    pub plural: &'static str,
}

impl Kind {
    const fn new(name: &'static str, api: &'static str, plural: &'static str) -> Self {
        Self { name, api, plural }
    }

    /// Path of all objects in all namespaces.
    pub fn everywhere(self) -> String {
        format!("/{}/{}", self.api, self.plural)
    }

    /// Path of all objects of one namespace; of kinds without namespaces it is the empty one.
    pub fn in_namespace(self, namespace: &str) -> String {
        if namespace.is_empty() {
            return self.everywhere();
        }
        format!("/{}/namespaces/{namespace}/{}", self.api, self.plural)
    }
}

pub const SETS: Kind = Kind::new("PodCliqueSet", "apis/grove.io/v1alpha1", "podcliquesets");
pub const GROUPS: Kind =
    Kind::new("PodCliqueScalingGroup", "apis/grove.io/v1alpha1", "podcliquescalinggroups");
pub const CLIQUES: Kind = Kind::new("PodClique", "apis/grove.io/v1alpha1", "podcliques");
pub const GANGS: Kind = Kind::new("PodGang", "apis/scheduler.grove.io/v1alpha1", "podgangs");
pub const PODS: Kind = Kind::new("Pod", "api/v1", "pods");
pub const SERVICES: Kind = Kind::new("Service", "api/v1", "services");
pub const SECRETS: Kind = Kind::new("Secret", "api/v1", "secrets");
pub const ACCOUNTS: Kind = Kind::new("ServiceAccount", "api/v1", "serviceaccounts");
pub const ROLES: Kind = Kind::new("Role", "apis/rbac.authorization.k8s.io/v1", "roles");
pub const BINDINGS: Kind =
    Kind::new("RoleBinding", "apis/rbac.authorization.k8s.io/v1", "rolebindings");
pub const AUTOSCALERS: Kind =
    Kind::new("HorizontalPodAutoscaler", "apis/autoscaling/v2", "horizontalpodautoscalers");

pub const REVISIONS: Kind = Kind::new("ControllerRevision", "apis/apps/v1", "controllerrevisions");
pub const CLAIMS: Kind = Kind::new("ResourceClaim", "apis/resource.k8s.io/v1", "resourceclaims");

pub const EVENTS: Kind = Kind::new("Event", "api/v1", "events");

pub const CLAIM_TEMPLATES: Kind =
    Kind::new("ResourceClaimTemplate", "apis/resource.k8s.io/v1", "resourceclaimtemplates");
/// Domains of the NVIDIA driver.
pub const DOMAINS: Kind =
    Kind::new("ComputeDomain", "apis/resource.nvidia.com/v1beta1", "computedomains");
/// Groups of the scheduler of Kubernetes.
pub const KUBE_GROUPS: Kind = Kind::new("PodGroup", "apis/scheduling.k8s.io/v1beta1", "podgroups");
/// Groups of such groups.
pub const KUBE_COMPOSITES: Kind =
    Kind::new("CompositePodGroup", "apis/scheduling.k8s.io/v1alpha3", "compositepodgroups");
/// What describes the groups of a gang.
pub const KUBE_WORKLOADS: Kind =
    Kind::new("Workload", "apis/scheduling.k8s.io/v1beta1", "workloads");
/// Groups in 1.36.
pub const KUBE_GROUPS_1_36: Kind =
    Kind::new("PodGroup", "apis/scheduling.k8s.io/v1alpha2", "podgroups");
/// Groups of the KAI scheduler.
pub const KAI_GROUPS: Kind = Kind::new("PodGroup", "apis/scheduling.run.ai/v2alpha2", "podgroups");
/// Groups of Volcano.
pub const VOLCANO_GROUPS: Kind =
    Kind::new("PodGroup", "apis/scheduling.volcano.sh/v1beta1", "podgroups");

/// Topologies that users define.
pub const TOPOLOGY_BINDINGS: Kind =
    Kind::new("ClusterTopologyBinding", "apis/grove.io/v1alpha1", "clustertopologybindings");
/// Topologies that the operator manages.
pub const CLUSTER_TOPOLOGIES: Kind =
    Kind::new("ClusterTopology", "apis/grove.io/v1alpha1", "clustertopologies");
/// Topologies of the KAI scheduler.
pub const KAI_TOPOLOGIES: Kind = Kind::new("Topology", "apis/kai.scheduler/v1alpha1", "topologies");

/// Crews of the scheduler in `examples/backend`.
pub const CREWS: Kind = Kind::new("Crew", "apis/crew.example.com/v1", "crews");

/// What every control plane has.
pub const ALL: [Kind; 14] = [
    SETS,
    GROUPS,
    CLIQUES,
    GANGS,
    PODS,
    SERVICES,
    SECRETS,
    ACCOUNTS,
    ROLES,
    BINDINGS,
    AUTOSCALERS,
    REVISIONS,
    CLAIMS,
    EVENTS,
];
