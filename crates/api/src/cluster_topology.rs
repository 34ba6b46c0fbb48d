//! ClusterTopology: the topology that the operator manages from its own configuration.
//!
//! Domains come from a fixed list with a fixed order, and the levels keep the order of the configuration.
//! For topologies that users manage, see [`crate::cluster_topology_binding`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    crd::{Definition, Scope},
    error_code::LastError,
    open_enum::open_enum,
    resource::resource,
    schema,
    unknown::Unknown,
    wire,
};

/// Name of the one ClusterTopology that the operator manages.
pub const MANAGED_NAME: &str = "grove-topology";
/// Longest label key that a level can hold.
pub const MAX_KEY_LENGTH: usize = 64;

resource! {
    /// The topology that the operator manages from its own configuration.
    pub struct ClusterTopology {
        group: "grove.io",
        version: "v1alpha1",
        plural: "clustertopologies",
        scope: ClusterResourceScope,
        spec: ClusterTopologySpec,
        status: ClusterTopologyStatus,
    }
}

open_enum! {
    /// A level of the topology, from the broadest to the narrowest.
    pub enum TopologyDomain {
        /// Region.
        Region = "region",
        /// Zone.
        Zone = "zone",
        /// Data centre.
        DataCenter = "datacenter",
        /// Block of racks.
        Block = "block",
        /// Rack.
        Rack = "rack",
        /// Host.
        Host = "host",
        /// NUMA node.
        Numa = "numa",
    }
}

/// The levels of the topology.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTopologySpec {
    /// Levels in the configured order.
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-validations" = [
        {
            "rule": "self.all(x, self.filter(y, y.domain == x.domain).size() == 1)",
            "message": "domain must be unique across all levels",
        },
        {
            "rule": "self.all(x, self.filter(y, y.key == x.key).size() == 1)",
            "message": "key must be unique across all levels",
        },
    ]))]
    #[serde(deserialize_with = "wire::or_default")]
    pub levels: Vec<ClusterTopologyLevel>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One level: its name and the node label that distinguishes its domains.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTopologyLevel {
    /// The level.
    pub domain: TopologyDomain,
    /// Node label key.
    #[schemars(length(min = 1, max = 64), regex(pattern = schema::LABEL_KEY_PATTERN))]
    pub key: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Whether the scheduler's own topology follows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTopologyStatus {
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation that the last complete reconcile was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last incomplete reconcile.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::GROUP,
        kind: ClusterTopology::KIND,
        plural: ClusterTopology::PLURAL,
        // `ct` belongs to ClusterTopologyBinding: only one kind can have it.
        short_name: None,
        scope: Scope::Cluster,
        description: "ClusterTopology is the topology that the operator manages from its own \
                      configuration.",
        spec: schema::of::<ClusterTopologySpec>(),
        status: schema::of::<ClusterTopologyStatus>(),
        scale: None,
        columns: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::TopologyDomain;

    #[test]
    fn domains_order_from_broadest_to_narrowest() {
        assert!(TopologyDomain::Region < TopologyDomain::Zone);
        assert!(TopologyDomain::Block < TopologyDomain::Rack);
        assert!(TopologyDomain::Host < TopologyDomain::Numa);
        assert_eq!(
            TopologyDomain::KNOWN,
            ["region", "zone", "datacenter", "block", "rack", "host", "numa"]
        );
    }
}
