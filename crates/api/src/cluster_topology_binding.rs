//! ClusterTopologyBinding: a topology that users define and constraints refer to by name.
//!
//! Level names are free; the order of the list is the order of the levels, broadest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    crd::{Column, Definition, Scope},
    resource::resource,
    schema,
    unknown::Unknown,
    wire,
};

resource! {
    /// A topology that users define.
    pub struct ClusterTopologyBinding {
        group: "grove.io",
        version: "v1alpha1",
        plural: "clustertopologybindings",
        scope: ClusterResourceScope,
        spec: ClusterTopologyBindingSpec,
        status: ClusterTopologyBindingStatus,
    }
}

/// The levels, and topologies that schedulers already have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTopologyBindingSpec {
    /// Levels, broadest first. Domains and keys are unique.
    #[schemars(length(min = 1))]
    #[serde(deserialize_with = "wire::or_default")]
    pub levels: Vec<TopologyLevel>,
    /// Topology objects of schedulers that another owner manages.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduler_topology_bindings: Vec<SchedulerTopologyBinding>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One level: its name and the node label that distinguishes its domains.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TopologyLevel {
    /// Name of the level, as used in constraints.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DOMAIN_PATTERN))]
    pub domain: String,
    /// Node label key.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL_KEY_PATTERN))]
    pub key: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A topology object that a scheduler already has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SchedulerTopologyBinding {
    /// Name of the scheduler, for example `kai-scheduler`.
    pub scheduler_name: String,
    /// Name of the scheduler's topology object.
    pub topology_reference: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Whether the schedulers' own topologies agree.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterTopologyBindingStatus {
    /// Generation that the last reconcile without error was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// One entry per topology-aware scheduler, sorted by name.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduler_topology_statuses: Vec<SchedulerTopologyStatus>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Whether one scheduler's topology agrees.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SchedulerTopologyStatus {
    /// Name of the scheduler.
    pub scheduler_name: String,
    /// Name of the scheduler's topology object.
    pub topology_reference: String,
    /// Whether it has the same levels.
    pub in_sync: bool,
    /// Generation of the scheduler's topology object, for external references that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_backend_topology_observed_generation: Option<i64>,
    /// Why it is not in sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::GROUP,
        kind: ClusterTopologyBinding::KIND,
        plural: ClusterTopologyBinding::PLURAL,
        short_name: Some("ct"),
        scope: Scope::Cluster,
        description: "ClusterTopologyBinding is a topology that users define and constraints refer to \
                      by name.",
        spec: schema::of::<ClusterTopologyBindingSpec>(),
        status: schema::of::<ClusterTopologyBindingStatus>(),
        scale: None,
        columns: vec![Column::string("Domains", ".spec.levels[*].domain"), Column::AGE],
    }
}
