//! ComputeDomain of the NVIDIA driver for dynamic resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{resource::resource, unknown::Unknown};

/// CRD that has to be served for MNNVL support.
pub const CRD_NAME: &str = "computedomains.resource.nvidia.com";

resource! {
    /// Nodes that share a high-speed network for one workload.
    pub struct ComputeDomain {
        group: "resource.nvidia.com",
        version: "v1beta1",
        plural: "computedomains",
        scope: NamespaceResourceScope,
        spec: ComputeDomainSpec,
    }
}

/// The desired domain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ComputeDomainSpec {
    /// Number of nodes; 0 means that the domain follows its pods.
    pub num_nodes: i32,
    /// How pods join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How pods join a domain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Channel {
    /// The claim template that the driver creates for pods of the domain.
    pub resource_claim_template: ResourceClaimTemplateReference,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Name of a ResourceClaimTemplate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceClaimTemplateReference {
    /// The name.
    pub name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
