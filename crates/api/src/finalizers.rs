//! Finalizers and the scheduling gate.

/// On every PodCliqueSet, from its first reconcile on.
pub const POD_CLIQUE_SET: &str = "grove.io/podcliqueset.grove.io";
/// On every PodClique, already in the create request.
pub const POD_CLIQUE: &str = "grove.io/podclique.grove.io";
/// On every PodCliqueScalingGroup, already in the create request.
pub const POD_CLIQUE_SCALING_GROUP: &str = "grove.io/podcliquescalinggroup.grove.io";
/// On every ComputeDomain that Grove creates.
pub const COMPUTE_DOMAIN: &str = "grove.io/computedomain-finalizer";

/// Of the garbage collector: set by a delete that leaves the children behind.
pub const ORPHAN: &str = "orphan";

/// The scheduling gate that holds a pod until its gang is complete. Pods are created with exactly this
/// gate; on release only this entry is removed.
pub const SCHEDULING_GATE: &str = "grove.io/podgang-pending-creation";
