//! BindRequest: how the KAI scheduler tells its binder where a pod goes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{open_enum::open_enum, resource::resource, unknown::Unknown, wire};

resource! {
    /// Order to bind one pod. Has the name of the pod.
    pub struct BindRequest {
        group: "scheduling.run.ai",
        version: "v1alpha2",
        plural: "bindrequests",
        scope: NamespaceResourceScope,
        spec: BindRequestSpec,
        status: BindRequestStatus,
    }
}

/// What to bind, where and with which devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindRequestSpec {
    /// The pod.
    pub pod_name: String,
    /// The node.
    pub selected_node: String,
    /// `Regular`, `Fraction`, `MigInstance` or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// Devices.
    #[serde(rename = "receivedGPU", skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// Groups of shared devices.
    #[serde(
        rename = "selectedGPUGroups",
        deserialize_with = "wire::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub selected_gpu_groups: Vec<String>,
    /// Allocations of resource claims.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_allocations: Vec<ResourceClaimAllocation>,
    /// Number of retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Devices of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceivedGpu {
    /// Number of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Decimal portion of each device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portion: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Allocation of one resource claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimAllocation {
    /// Name of the claim in the pod.
    pub name: String,
    /// A resource.k8s.io/v1 `AllocationResult`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Value>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What became of the order.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindRequestStatus {
    /// Phase; absent counts as pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BindRequestPhase>,
    /// Error text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of failed attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_attempts: Option<i32>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

open_enum! {
    /// Phase of a BindRequest.
    pub enum BindRequestPhase {
        /// Not done yet.
        Pending = "Pending",
        /// The pod is bound.
        Succeeded = "Succeeded",
        /// The pod could not be bound.
        Failed = "Failed",
    }
}
