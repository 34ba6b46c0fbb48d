//! Status conditions: the wire type, and the types and reasons of each kind.
//!
//! Types and reasons are constants, not enums: consumers compare strings, and a condition of
//! another controller must stay readable.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{schema, unknown::Unknown};

/// Condition holds.
pub const TRUE: &str = "True";
/// Condition does not hold.
pub const FALSE: &str = "False";
/// It is unknown whether the condition holds.
pub const UNKNOWN: &str = "Unknown";

/// Longest message that a condition may have.
pub const MESSAGE_MAX: usize = 32768;

/// A text of at most `max` bytes: unchanged, or cut with a mark that has its length. For texts of other
/// programs that end up in a status or an event.
pub fn bounded_text(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let mark = format!("… (cut, {} bytes in all)", text.len());
    let kept = text.floor_char_boundary(max.saturating_sub(mark.len()));
    Cow::Owned(format!("{}{mark}", &text[..kept]))
}

/// One aspect of the state of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Condition {
    /// When the status last changed.
    #[schemars(with = "schema::DateTime")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Details for a human. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Generation of the object that the condition was computed from.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Reason for the last change, in one word.
    #[schemars(length(min = 1, max = 1024), regex(pattern = schema::CONDITION_REASON_PATTERN))]
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(schema_with = "status_schema")]
    pub status: String,
    /// What the condition is about.
    #[schemars(length(max = 316), regex(pattern = schema::CONDITION_TYPE_PATTERN))]
    #[serde(rename = "type")]
    pub type_: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn status_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [TRUE, FALSE, UNKNOWN] })
}

/// Conditions of a PodCliqueSet.
pub mod pod_clique_set {
    /// Whether all replicas are available (True is good). Always present.
    pub const READY: &str = "Ready";
    /// They are.
    pub const ALL_REPLICAS_AVAILABLE: &str = "AllReplicasAvailable";
    /// They are, and something else failed: see `status.lastErrors`.
    pub const AVAILABLE_WITH_ERRORS: &str = "AvailableWithErrors";
    /// Some are not.
    pub const REPLICAS_UNAVAILABLE: &str = "ReplicasUnavailable";
    /// Some are not, and something failed: see `status.lastErrors`.
    pub const RECONCILE_ERROR: &str = "ReconcileError";

    /// Whether every level that a constraint needs exists (True is good).
    pub const TOPOLOGY_CONSTRAINTS: &str = "TopologyConstraints";
    /// Every needed level exists.
    pub const TOPOLOGY_LEVELS_AVAILABLE: &str = "TopologyLevelsAvailable";
    /// Topology support is switched off although the set has constraints.
    pub const TOPOLOGY_DISABLED: &str = "TopologyDisabled";
    /// One level is missing.
    pub const TOPOLOGY_LEVEL_NOT_FOUND: &str = "TopologyLevelNotFound";
    /// Several levels are missing.
    pub const TOPOLOGY_LEVELS_REMOVED: &str = "TopologyLevelsRemoved";
    /// The topology cannot be read.
    pub const TOPOLOGY_UNKNOWN: &str = "TopologyUnknown";

    /// Whether a level that a constraint needs is missing (True is bad).
    pub const TOPOLOGY_LEVELS_UNAVAILABLE: &str = "TopologyLevelsUnavailable";
    /// Nothing is missing.
    pub const ALL_LEVELS_AVAILABLE: &str = "AllClusterTopologyLevelsAvailable";
    /// A referenced domain is missing.
    pub const LEVELS_UNAVAILABLE: &str = "ClusterTopologyLevelsUnavailable";
    /// The topology object does not exist.
    pub const CLUSTER_TOPOLOGY_NOT_FOUND: &str = "ClusterTopologyNotFound";
    /// Constraints without any topology name.
    pub const TOPOLOGY_NAME_MISSING: &str = "TopologyNameMissing";
    /// The feature is off but the stored set has constraints.
    pub const TOPOLOGY_AWARE_SCHEDULING_DISABLED: &str = "TopologyAwareSchedulingDisabled";

    /// Whether the scheduler's own objects match the gangs of the set (True is good). Only present once
    /// they did not.
    pub const SCHEDULER_BACKEND_READY: &str = "SchedulerBackendReady";
    /// Whether the scheduler does only a part of what the set asks for (True is bad). Only there once it
    /// was so.
    pub const SCHEDULER_LIMITS: &str = "SchedulerLimits";
    /// It does all of it now.
    pub const NO_SCHEDULER_LIMITS: &str = "NoLimits";
    /// The scheduler's objects match the gangs again.
    pub const SCHEDULER_OBJECTS_IN_SYNC: &str = "SchedulerObjectsInSync";

    /// Whether the shared claims of the set can be created (True is good). Only present once they could
    /// not.
    pub const RESOURCE_CLAIMS_READY: &str = "ResourceClaimsReady";
    /// They can be created again.
    pub const RESOURCE_CLAIMS_AVAILABLE: &str = "ResourceClaimsAvailable";
    /// A template beside the set is missing.
    pub const RESOURCE_CLAIM_TEMPLATE_NOT_FOUND: &str = "ResourceClaimTemplateNotFound";
    /// Whether the ComputeDomains of the set can be created (True is good). Only present once they could
    /// not.
    pub const COMPUTE_DOMAINS_READY: &str = "ComputeDomainsReady";
    /// They can be created again.
    pub const COMPUTE_DOMAINS_AVAILABLE: &str = "ComputeDomainsAvailable";
    /// The cluster does not serve the kind.
    pub const API_NOT_SERVED: &str = "ApiNotServed";
    /// The operator may not see the kind.
    pub const API_FORBIDDEN: &str = "ApiForbidden";
    /// The API server refuses the kind, which may still exist.
    pub const API_UNKNOWN: &str = "ApiUnknown";
}

/// Condition and reason shared by PodClique and PodCliqueScalingGroup.
pub mod min_available {
    /// Whether fewer pods or replicas than the minimum are usable.
    pub const BREACHED: &str = "MinAvailableBreached";
    /// Whether the minimum was ready at some moment since the object was created or, for a group, since its
    /// replica of the set was last terminated. Once True it stays True: only what was reached can be lost.
    pub const REACHED: &str = "MinAvailableReached";
    /// The minimum was ready.
    pub const MINIMUM_WAS_READY: &str = "MinimumWasReady";
    /// The minimum was not ready yet.
    pub const NOT_READY_YET: &str = "NotReadyYet";
    /// The object comes from a version without this condition, and its other conditions show that it was up.
    pub const INFERRED: &str = "InferredFromOtherConditions";
    /// An automatic update runs, so a breach is not evaluated.
    pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
}

/// Conditions of a PodClique, besides [`min_available::BREACHED`].
pub mod pod_clique {
    /// Whether the minimum of pods is scheduled.
    pub const SCHEDULED: &str = "PodCliqueScheduled";
    /// Enough pods are scheduled.
    pub const SUFFICIENT_SCHEDULED_PODS: &str = "SufficientScheduledPods";
    /// Too few pods are scheduled.
    pub const INSUFFICIENT_SCHEDULED_PODS: &str = "InsufficientScheduledPods";
    /// Breached: too few pods are scheduled.
    pub const SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE: &str = "ScheduledReplicasBelowMinAvailable";
    /// Breached: too few pods are ready or starting.
    pub const INSUFFICIENT_READY_PODS: &str = "InsufficientReadyPods";
    /// Not breached.
    pub const SUFFICIENT_READY_PODS: &str = "SufficientReadyPods";
}

/// Conditions of a PodCliqueScalingGroup, besides [`min_available::BREACHED`].
pub mod pod_clique_scaling_group {
    /// Breached: too few group replicas are usable.
    pub const INSUFFICIENT_AVAILABLE_REPLICAS: &str =
        "InsufficientAvailablePodCliqueScalingGroupReplicas";
    /// Not breached.
    pub const SUFFICIENT_AVAILABLE_REPLICAS: &str =
        "SufficientAvailablePodCliqueScalingGroupReplicas";
    /// Written by older versions: not breached because the group was never scheduled.
    pub const INSUFFICIENT_SCHEDULED_REPLICAS: &str =
        "InsufficientScheduledPodCliqueScalingGroupReplicas";
    /// Set right after the set replica of this group was terminated as a gang.
    pub const GANG_TERMINATION_IN_PROGRESS: &str = "GangTerminationInProgress";
    /// The only reason of [`GANG_TERMINATION_IN_PROGRESS`].
    pub const GANG_TERMINATION_ACTIVE: &str = "GangTerminationActive";
}

/// Conditions of a ClusterTopology.
pub mod cluster_topology {
    /// Whether the scheduler's topology object exists and matches.
    pub const READY: &str = "Ready";
    /// It does.
    pub const TOPOLOGY_READY: &str = "TopologyReady";
    /// It could not be created or updated.
    pub const KAI_TOPOLOGY_CREATION_OR_UPDATE_FAILED: &str = "KAITopologyCreationOrUpdateFailed";
}

/// Conditions of a ClusterTopologyBinding.
pub mod cluster_topology_binding {
    /// Whether a scheduler's topology differs from the binding.
    pub const SCHEDULER_TOPOLOGY_DRIFT: &str = "SchedulerTopologyDrift";
    /// No scheduler differs.
    pub const IN_SYNC: &str = "InSync";
    /// At least one scheduler differs.
    pub const DRIFT: &str = "Drift";
    /// A listed scheduler is not an active topology-aware backend.
    pub const TOPOLOGY_NOT_FOUND: &str = "TopologyNotFound";
}

/// Conditions of a PodGang.
pub mod pod_gang {
    /// Written by the operator: all pods exist and are referenced. Consumers rely on the status only.
    pub const INITIALIZED: &str = "Initialized";
    /// Initialised.
    pub const READY_REASON: &str = "Ready";
    /// Not initialised: pods are missing.
    pub const PODS_PENDING: &str = "PodsPending";
    /// Not initialised: labels or references are incomplete.
    pub const REFS_SYNCING: &str = "RefsSyncing";

    /// All required pods are scheduled. Written by schedulers, else by the operator.
    pub const SCHEDULED: &str = "Scheduled";
    /// The operator's reason while it holds.
    pub const PODS_SCHEDULED: &str = "PodsScheduled";
    /// The operator's reason while it does not hold.
    pub const PODS_NOT_SCHEDULED: &str = "PodsNotScheduled";
    /// All required pods are ready. Written by schedulers, else by the operator.
    pub const READY: &str = "Ready";
    /// The operator's reason while it holds.
    pub const PODS_READY: &str = "PodsReady";
    /// The operator's reason while it does not hold.
    pub const PODS_NOT_READY: &str = "PodsNotReady";
    /// Written by schedulers: the gang is unhealthy.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Written by schedulers: the gang is about to be disrupted.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_with_a_mark() {
        let short = "ä".repeat(50);
        assert_eq!(bounded_text(&short, 100), short);
        let long = "ä".repeat(1000);
        for max in [60, 61, 62, 63, 1999] {
            let cut = bounded_text(&long, max);
            assert!(cut.len() <= max && cut.len() > max - 4, "{max}: {}", cut.len());
            assert!(cut.starts_with('ä') && cut.ends_with("… (cut, 2000 bytes in all)"), "{cut}");
        }
        assert_eq!(bounded_text(&long, 2000), long);
    }
}
