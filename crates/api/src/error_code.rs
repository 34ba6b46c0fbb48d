//! Codes and texts of `status.lastErrors`.
//!
//! The text is part of the interface: tools and tests search for it. A component error reads
//! `failed to sync <kind>: [Operation: Sync, Code: ERR_X] message: …, cause: …`.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{open_enum::open_enum, schema, unknown::Unknown};

open_enum! {
    /// What went wrong, for machines.
    pub enum ErrorCode {
        // Control flow; not meant to be stored.
        /// `ERR_REQUEUE_AFTER`.
        RequeueAfter = "ERR_REQUEUE_AFTER",
        /// `ERR_CONTINUE_RECONCILE_AND_REQUEUE`.
        ContinueReconcileAndRequeue = "ERR_CONTINUE_RECONCILE_AND_REQUEUE",
        // Pods.
        /// `ERR_GET_POD`.
        GetPod = "ERR_GET_POD",
        /// `ERR_LIST_POD`.
        ListPod = "ERR_LIST_POD",
        /// `ERR_CREATE_POD`.
        CreatePod = "ERR_CREATE_POD",
        /// `ERR_DELETE_POD`.
        DeletePod = "ERR_DELETE_POD",
        /// `ERR_GET_PODGANG`.
        GetPodGang = "ERR_GET_PODGANG",
        /// `ERR_GET_PODCLIQUE`.
        GetPodClique = "ERR_GET_PODCLIQUE",
        /// `ERR_GET_PODCLIQUESET`.
        GetPodCliqueSet = "ERR_GET_PODCLIQUESET",
        /// `ERR_REMOVE_POD_SCHEDULING_GATE`.
        RemovePodSchedulingGate = "ERR_REMOVE_POD_SCHEDULING_GATE",
        /// `ERR_SET_CONTROLLER_REFERENCE`.
        SetControllerReference = "ERR_SET_CONTROLLER_REFERENCE",
        /// `ERR_BUILD_POD_RESOURCE`.
        BuildPodResource = "ERR_BUILD_POD_RESOURCE",
        /// `ERR_MISSING_PODCLIQUE_TEMPLATE`.
        MissingPodCliqueTemplate = "ERR_MISSING_PODCLIQUE_TEMPLATE",
        /// `ERR_GET_PODCLIQUE_TEMPLATE`.
        GetPodCliqueTemplate = "ERR_GET_PODCLIQUE_TEMPLATE",
        /// `ERR_GET_PODCLIQUESET_REPLICA_INDEX`.
        GetPodCliqueSetReplicaIndex = "ERR_GET_PODCLIQUESET_REPLICA_INDEX",
        /// `ERR_MISSING_PODGANG_LABEL_ON_PODCLIQUE`.
        MissingPodGangLabelOnPodClique = "ERR_MISSING_PODGANG_LABEL_ON_PODCLIQUE",
        /// `ERR_INITCONTAINER_ENVIRONMENT_VARIABLE_MISSING`.
        InitContainerEnvironmentVariableMissing = "ERR_INITCONTAINER_ENVIRONMENT_VARIABLE_MISSING",
        /// `ERR_GET_AVAILABLE_POD_HOSTNAME_INDICES`.
        GetAvailablePodHostnameIndices = "ERR_GET_AVAILABLE_POD_HOSTNAME_INDICES",
        /// `ERR_CREATE_PODCLIQUE_EXPECTATIONS_STORE_KEY`.
        CreatePodCliqueExpectationsStoreKey = "ERR_CREATE_PODCLIQUE_EXPECTATIONS_STORE_KEY",
        /// `ERR_DELETE_PODCLIQUE_EXPECTATIONS_STORE_KEY`.
        DeletePodCliqueExpectationsStoreKey = "ERR_DELETE_PODCLIQUE_EXPECTATIONS_STORE_KEY",
        /// `ERR_UPDATE_PODCLIQUE_STATUS`.
        UpdatePodCliqueStatus = "ERR_UPDATE_PODCLIQUE_STATUS",
        // PodCliques of a set.
        /// `ERR_LIST_PODCLIQUE`.
        ListPodClique = "ERR_LIST_PODCLIQUE",
        /// `ERR_LIST_PODCLIQUES`.
        ListPodCliques = "ERR_LIST_PODCLIQUES",
        /// `ERR_SYNC_PODCLIQUE`.
        SyncPodClique = "ERR_SYNC_PODCLIQUE",
        /// `ERR_DELETE_PODCLIQUE`.
        DeletePodClique = "ERR_DELETE_PODCLIQUE",
        /// `ERR_CREATE_OR_UPDATE_PODCLIQUE`.
        CreateOrUpdatePodClique = "ERR_CREATE_OR_UPDATE_PODCLIQUE",
        // PodCliques of a scaling group.
        /// `ERR_LIST_PODCLIQUE_FOR_PCSG`.
        ListPodCliqueForPcsg = "ERR_LIST_PODCLIQUE_FOR_PCSG",
        /// `ERR_CREATE_PODCLIQUE`.
        CreatePodClique = "ERR_CREATE_PODCLIQUE",
        /// `ERR_CREATE_PODCLIQUES`.
        CreatePodCliques = "ERR_CREATE_PODCLIQUES",
        /// `ERR_CREATE_OR_UPDATE_PODCLIQUES`.
        CreateOrUpdatePodCliques = "ERR_CREATE_OR_UPDATE_PODCLIQUES",
        /// `ERR_BUILD_PODCLIQUE`.
        BuildPodClique = "ERR_BUILD_PODCLIQUE",
        /// `ERR_MISSING_PODCLIQUESET_REPLICA_INDEX`.
        MissingPodCliqueSetReplicaIndex = "ERR_MISSING_PODCLIQUESET_REPLICA_INDEX",
        /// `ERR_PODCLIQUESET_REPLICA_INDEX_CONVERSION`.
        PodCliqueSetReplicaIndexConversion = "ERR_PODCLIQUESET_REPLICA_INDEX_CONVERSION",
        /// `ERR_PARSE_PODCLIQUESCALINGGROUP_REPLICA_INDEX`.
        ParsePodCliqueScalingGroupReplicaIndex = "ERR_PARSE_PODCLIQUESCALINGGROUP_REPLICA_INDEX",
        /// `ERR_SET_PODCLIQUE_OWNER_REFERENCE`.
        SetPodCliqueOwnerReference = "ERR_SET_PODCLIQUE_OWNER_REFERENCE",
        /// `ERR_UNDEFINED_STARTUP_TYPE`.
        UndefinedStartupType = "ERR_UNDEFINED_STARTUP_TYPE",
        /// `ERR_UPDATE_STATUS`.
        UpdateStatus = "ERR_UPDATE_STATUS",
        /// `ERR_COMPUTE_PENDINGUPDATE_WORK`.
        ComputePendingUpdateWork = "ERR_COMPUTE_PENDINGUPDATE_WORK",
        /// `ERR_SYNC_PCSG_RESOURCE_CLAIM`.
        SyncPcsgResourceClaim = "ERR_SYNC_PCSG_RESOURCE_CLAIM",
        // Scaling groups.
        /// `ERR_LIST_PODCLIQUESCALINGGROUP`.
        ListPodCliqueScalingGroup = "ERR_LIST_PODCLIQUESCALINGGROUP",
        /// `ERR_SYNC_PODCLIQUESCALINGGROUP`.
        SyncPodCliqueScalingGroup = "ERR_SYNC_PODCLIQUESCALINGGROUP",
        /// `ERR_CREATE_PODCLIQUESCALINGGROUP`.
        CreatePodCliqueScalingGroup = "ERR_CREATE_PODCLIQUESCALINGGROUP",
        /// `ERR_DELETE_PODCLIQUESCALINGGROUP`.
        DeletePodCliqueScalingGroup = "ERR_DELETE_PODCLIQUESCALINGGROUP",
        // Replicas of a set: gang termination, rolling update.
        /// `ERR_LIST_PCLQs`.
        ListPcsReplicaPclqs = "ERR_LIST_PCLQs",
        /// `ERR_LIST_PCGS`.
        ListPcsReplicaPcsgs = "ERR_LIST_PCGS",
        /// `ERR_COMPUTE_PCS_REPLICA_DELETION_WORK`.
        ComputePcsReplicaDeletionWork = "ERR_COMPUTE_PCS_REPLICA_DELETION_WORK",
        /// `ERR_DELETE_PCS_REPLICA`.
        DeletePcsReplica = "ERR_DELETE_PCS_REPLICA",
        /// `ERR_UPDATE_PCS_STATUS`.
        UpdatePcsStatus = "ERR_UPDATE_PCS_STATUS",
        // PodGangs.
        /// `ERR_LIST_PODGANGS`.
        ListPodGangs = "ERR_LIST_PODGANGS",
        /// `ERR_COMPUTE_EXISTING_PODGANG`.
        ComputeExistingPodGang = "ERR_COMPUTE_EXISTING_PODGANG",
        /// `ERR_DELETE_PODGANGS`.
        DeletePodGangs = "ERR_DELETE_PODGANGS",
        /// `ERR_DELETE_EXCESS_PODGANG`.
        DeleteExcessPodGang = "ERR_DELETE_EXCESS_PODGANG",
        /// `ERR_CREATE_PODGANG`.
        CreatePodGang = "ERR_CREATE_PODGANG",
        /// `ERR_CREATE_OR_PATCH_PODGANG`.
        CreateOrPatchPodGang = "ERR_CREATE_OR_PATCH_PODGANG",
        /// `ERR_LIST_PODS_FOR_PODCLIQUESET`.
        ListPodsForPodCliqueSet = "ERR_LIST_PODS_FOR_PODCLIQUESET",
        /// `ERR_LIST_PODCLIQUES_FOR_PODCLIQUESET`.
        ListPodCliquesForPodCliqueSet = "ERR_LIST_PODCLIQUES_FOR_PODCLIQUESET",
        /// `ERR_LIST_PODCLIQUESCALINGGROUPS_FOR_PODCLIQUESET`.
        ListPodCliqueScalingGroupsForPodCliqueSet = "ERR_LIST_PODCLIQUESCALINGGROUPS_FOR_PODCLIQUESET",
        /// `ERR_GET_CLUSTER_TOPOLOGY_LEVELS`.
        GetClusterTopologyLevels = "ERR_GET_CLUSTER_TOPOLOGY_LEVELS",
        // Service accounts, roles, secrets.
        /// `ERR_GET_ROLE`.
        GetRole = "ERR_GET_ROLE",
        /// `ERR_SYNC_ROLE`.
        SyncRole = "ERR_SYNC_ROLE",
        /// `ERR_DELETE_ROLE`.
        DeleteRole = "ERR_DELETE_ROLE",
        /// `ERR_GET_ROLEBINDING`.
        GetRoleBinding = "ERR_GET_ROLEBINDING",
        /// `ERR_SYNC_ROLEBINDING`.
        SyncRoleBinding = "ERR_SYNC_ROLEBINDING",
        /// `ERR_DELETE_ROLEBINDING`.
        DeleteRoleBinding = "ERR_DELETE_ROLEBINDING",
        /// `ERR_GET_SERVICEACCOUNT`.
        GetServiceAccount = "ERR_GET_SERVICEACCOUNT",
        /// `ERR_SYNC_SERVICEACCOUNT`.
        SyncServiceAccount = "ERR_SYNC_SERVICEACCOUNT",
        /// `ERR_DELETE_SERVICEACCOUNT`.
        DeleteServiceAccount = "ERR_DELETE_SERVICEACCOUNT",
        /// `ERR_GET_SECRET`.
        GetSecret = "ERR_GET_SECRET",
        /// `ERR_CREATE_SECRET`.
        CreateSecret = "ERR_CREATE_SECRET",
        /// `ERR_DELETE_SECRET`.
        DeleteSecret = "ERR_DELETE_SECRET",
        /// `ERR_SECRET_CONFLICT`.
        SecretConflict = "ERR_SECRET_CONFLICT",
        /// `ERR_LIST_PODS`.
        ListPods = "ERR_LIST_PODS",
        // Services, autoscalers, claims, compute domains.
        /// `ERR_SYNC_PODCLIQUESET_SERVICE`.
        SyncPodCliqueSetService = "ERR_SYNC_PODCLIQUESET_SERVICE",
        /// `ERR_DELETE_PODCLIQUESET_SERVICE`.
        DeletePodCliqueSetService = "ERR_DELETE_PODCLIQUESET_SERVICE",
        /// `ERR_LIST_HPA`.
        ListHpa = "ERR_LIST_HPA",
        /// `ERR_SYNC_HPA`.
        SyncHpa = "ERR_SYNC_HPA",
        /// `ERR_DELETE_HPA`.
        DeleteHpa = "ERR_DELETE_HPA",
        /// `ERR_SYNC_PCS_RESOURCE_CLAIM`.
        SyncPcsResourceClaim = "ERR_SYNC_PCS_RESOURCE_CLAIM",
        /// `ERR_DELETE_PCS_RESOURCE_CLAIM`.
        DeletePcsResourceClaim = "ERR_DELETE_PCS_RESOURCE_CLAIM",
        /// `ERR_SYNC_PCLQ_RESOURCE_CLAIM`.
        SyncPclqResourceClaim = "ERR_SYNC_PCLQ_RESOURCE_CLAIM",
        /// `ERR_DELETE_PCLQ_RESOURCE_CLAIM`.
        DeletePclqResourceClaim = "ERR_DELETE_PCLQ_RESOURCE_CLAIM",
        /// `ERR_LIST_COMPUTEDOMAIN`.
        ListComputeDomain = "ERR_LIST_COMPUTEDOMAIN",
        /// `ERR_SYNC_COMPUTEDOMAIN`.
        SyncComputeDomain = "ERR_SYNC_COMPUTEDOMAIN",
        /// `ERR_DELETE_COMPUTEDOMAIN`.
        DeleteComputeDomain = "ERR_DELETE_COMPUTEDOMAIN",
        // History.
        /// `ERR_SYNC_CONTROLLERREVISION`.
        SyncControllerRevision = "ERR_SYNC_CONTROLLERREVISION",
        // Admission.
        /// `ERR_VALIDATE_CREATE_PODCLIQUESET`.
        ValidateCreatePodCliqueSet = "ERR_VALIDATE_CREATE_PODCLIQUESET",
        /// `ERR_VALIDATE_UPDATE_PODCLIQUESET`.
        ValidateUpdatePodCliqueSet = "ERR_VALIDATE_UPDATE_PODCLIQUESET",
        // Topology.
        /// `KAI_TOPOLOGY_CREATE_ERROR`.
        KaiTopologyCreateError = "KAI_TOPOLOGY_CREATE_ERROR",
    }
}

open_enum! {
    /// What the operator was doing.
    pub enum Operation {
        /// Bringing an object to the desired state.
        Sync = "Sync",
        /// Removing an object.
        Delete = "Delete",
        /// Finding out which objects exist.
        GetExistingResourceNames = "GetExistingResourceNames",
    }
}

/// A failed step of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationError {
    /// What the operator was doing.
    pub operation: Operation,
    /// What went wrong, for machines.
    pub code: ErrorCode,
    /// What went wrong, for humans.
    pub message: String,
    /// Why, when another error was the reason.
    pub cause: Option<String>,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, code, message, cause } = self;
        write!(f, "[Operation: {operation}, Code: {code}] message: {message}")?;
        match cause {
            Some(cause) => write!(f, ", cause: {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for OperationError {}

impl OperationError {
    /// The text stored when the sync of a whole component failed.
    pub fn component_description(&self, component_kind: &str) -> String {
        format!("failed to sync {component_kind}: {self}")
    }
}

/// One error of the last incomplete reconcile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LastError {
    /// What went wrong, for machines.
    #[schemars(with = "String")]
    pub code: ErrorCode,
    /// What went wrong, for humans.
    pub description: String,
    /// When the error was seen.
    #[schemars(with = "schema::DateTime")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_carries_operation_code_and_message() {
        let error = OperationError {
            operation: Operation::Sync,
            code: ErrorCode::SecretConflict,
            message: "Secret ns/x-ic-sat already exists but is not controlled by PodCliqueSet ns/x"
                .to_owned(),
            cause: None,
        };

        assert_eq!(
            error.component_description("ServiceAccountTokenSecret"),
            "failed to sync ServiceAccountTokenSecret: [Operation: Sync, Code: ERR_SECRET_CONFLICT] \
             message: Secret ns/x-ic-sat already exists but is not controlled by PodCliqueSet ns/x"
        );
    }

    #[test]
    fn cause_is_appended_only_when_there_is_one() {
        let error = OperationError {
            operation: Operation::Delete,
            code: ErrorCode::DeletePod,
            message: "pod a/b".to_owned(),
            cause: Some("timeout".to_owned()),
        };

        let text = "[Operation: Delete, Code: ERR_DELETE_POD] message: pod a/b, cause: timeout";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn codes_are_distinct_and_keep_their_spelling() {
        let mut codes = ErrorCode::KNOWN.to_vec();
        codes.sort_unstable();
        codes.dedup();

        assert_eq!(codes.len(), ErrorCode::KNOWN.len());
        assert_eq!(codes.len(), 88);
        assert_eq!(ErrorCode::from("ERR_LIST_PCLQs").as_str(), "ERR_LIST_PCLQs");
        assert_eq!(ErrorCode::KaiTopologyCreateError.as_str(), "KAI_TOPOLOGY_CREATE_ERROR");
    }
}
