//! Annotation keys that Grove reads or writes.

/// On a PodCliqueSet: `"true"` switches the protection of managed objects off for this set.
pub const DISABLE_MANAGED_RESOURCE_PROTECTION: &str =
    "grove.io/disable-managed-resource-protection";
/// On a PodCliqueSet: any change of the value forces a reconcile.
pub const RECONCILE_TRIGGER: &str = "grove.io/reconcile-trigger";
/// On a PodCliqueSet: `"true"` delays updates until the annotation is removed.
pub const ROLLOUT_PAUSED: &str = "grove.io/rollout-paused";
/// On a PodCliqueSet: why its template is as it is, in the words of the user. Copied to the revision of
/// the template. The key is that of Kubernetes.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// On a PodGang: the topology that its translated constraints refer to. Never copied from a clique
/// template.
pub const TOPOLOGY_NAME: &str = "grove.io/topology-name";
/// On a PodCliqueSet, clique template or group template: MNNVL group, or [`MNNVL_GROUP_NONE`].
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";
/// Value of [`MNNVL_GROUP`] that opts out.
pub const MNNVL_GROUP_NONE: &str = "none";
/// Older spelling of the MNNVL switch, on the same objects: [`AUTO_MNNVL_ENABLED`] puts cliques into a group
/// without a name, [`AUTO_MNNVL_DISABLED`] opts out. [`MNNVL_GROUP`] of the same object counts more.
pub const AUTO_MNNVL: &str = "grove.io/auto-mnnvl";
/// Value of [`AUTO_MNNVL`].
pub const AUTO_MNNVL_ENABLED: &str = "enabled";
/// Value of [`AUTO_MNNVL`].
pub const AUTO_MNNVL_DISABLED: &str = "disabled";
/// On a PodCliqueSet or clique template: the Volcano queue.
pub const VOLCANO_QUEUE: &str = "scheduling.grove.io/volcano-queue";
/// On the base PodGang of a replica: uids of the PodCliques that a gang termination deletes, separated by
/// commas. The operator removes the annotation when they are gone.
pub const TERMINATING_POD_CLIQUES: &str = "grove.io/terminating-podcliques";
/// On the base PodGang of a replica: how many pods the standalone PodCliques have that a gang termination deletes,
/// where it is not what the template says, as a JSON object by name. They are recreated with as many.
pub const RECREATED_REPLICAS: &str = "grove.io/recreated-replicas";
/// On a PodClique: `"true"` when its gang was complete before it was created, so that it replaces an earlier
/// PodClique. Never copied to pods.
pub const RECREATED: &str = "grove.io/recreated";
/// On a PodGang: which of its labels and annotations came from the set, as JSON. Only those are removed
/// when they leave the set.
pub const MIRRORED_KEYS: &str = "grove.io/mirrored-keys";
