//! Where the replicas of a set, group or clique have to be placed together.
//!
//! Both spellings are served: `packDomain` alone, which refers to the topology that the operator manages,
//! and `topologyName` with `pack`. Which of them a new object may use is decided at admission, because
//! it depends on the operator configuration; the schema only refuses contradictions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, unknown::Unknown};

/// Placement constraint for each replica of the object that carries it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.pack) || has(self.packDomain)",
        "message": "topologyConstraint must specify pack or deprecated packDomain",
        "fieldPath": ".pack",
        "reason": "FieldValueRequired",
    },
    {
        "rule": "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
        "message": "must not set both pack.required and deprecated packDomain",
        "fieldPath": ".pack.required",
    },
]))]
pub struct TopologyConstraint {
    /// Name of the ClusterTopologyBinding. Inherited from the parent when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
    /// Domains to pack into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<Pack>,
    /// Older spelling of `pack.required`.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DOMAIN_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_domain: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl TopologyConstraint {
    /// The domain that all pods of a replica have to be in, under either of its names.
    pub fn required(&self) -> Option<&str> {
        let pack = self.pack.as_ref().and_then(|pack| pack.required.as_deref());
        pack.or(self.pack_domain.as_deref())
    }

    /// The domain that is tried first.
    pub fn preferred(&self) -> Option<&str> {
        self.pack.as_ref().and_then(|pack| pack.preferred.as_deref())
    }
}

/// Domains that a replica is packed into. At least one has to be given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.required) || has(self.preferred)",
        "message": "pack must specify at least one of required or preferred",
        "reason": "FieldValueRequired",
    },
]))]
pub struct Pack {
    /// All pods of a replica have to be in one domain of this level.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DOMAIN_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
    /// One domain of this level is tried first.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DOMAIN_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
