//! PodGang: pods that are scheduled together or not at all.
//!
//! Written by the operator, read by scheduler backends. Constraints are already translated: they name node
//! label keys, not topology domains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    crd::{Column, Definition, Scope},
    open_enum::open_enum,
    resource::resource,
    schema,
    unknown::Unknown,
    wire,
};

resource! {
    /// Pods that are scheduled together or not at all.
    pub struct PodGang {
        group: "scheduler.grove.io",
        version: "v1alpha1",
        plural: "podgangs",
        scope: NamespaceResourceScope,
        spec: PodGangSpec,
        status: PodGangStatus,
    }
}

/// The members of the gang and where they have to go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodGangSpec {
    /// One entry per member PodClique.
    #[serde(rename = "podgroups", deserialize_with = "wire::or_default")]
    pub pod_groups: Vec<PodGroup>,
    /// Placement of the whole gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TranslatedConstraint>,
    /// Placement of groups of members. Base gangs only.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub topology_constraint_group_configs: Vec<ConstraintGroup>,
    /// Priority class of the gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// A gang whose resources may be reused. Reserved; not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse_reservation_ref: Option<NamespacedName>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The pods of one PodClique.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodGroup {
    /// Name of the PodClique.
    pub name: String,
    /// The pods, sorted by name. Always written, also when empty.
    #[serde(deserialize_with = "wire::or_default")]
    pub pod_references: Vec<NamespacedName>,
    /// Number of pods that have to be scheduled together.
    pub min_replicas: i32,
    /// Placement of the PodClique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TranslatedConstraint>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Name of a namespaced object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NamespacedName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Placement of one replica of a scaling group inside the base gang.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ConstraintGroup {
    /// Name of the scaling group and index of its replica.
    pub name: String,
    /// Names of the member entries of `podgroups`.
    #[serde(deserialize_with = "wire::or_default")]
    pub pod_group_names: Vec<String>,
    /// The placement; absent when nothing of it could be translated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TranslatedConstraint>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A constraint in terms of node labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TranslatedConstraint {
    /// Node label keys to pack by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_constraint: Option<PackConstraint>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Node label keys to pack by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PackConstraint {
    /// All nodes have to agree on the value of this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
    /// All nodes should agree on the value of this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What schedulers and the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodGangStatus {
    /// Phase. The operator derives it from the pods unless the scheduler writes it.
    #[schemars(with = "String")]
    pub phase: PodGangPhase,
    /// Conditions.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How good the placement is, between 0 and 1. Written by schedulers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_score: Option<f64>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Phase of a gang.
    pub enum PodGangPhase {
        /// Not all required pods are scheduled.
        Pending = "Pending",
        /// Scheduled, not all pods ready.
        Starting = "Starting",
        /// All required pods are ready.
        Running = "Running",
    }
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::SCHEDULER_GROUP,
        kind: PodGang::KIND,
        plural: PodGang::PLURAL,
        short_name: Some("pg"),
        scope: Scope::Namespaced,
        description: "PodGang is a number of pods that are scheduled together or not at all. It is \
                      written by the operator and read by schedulers.",
        spec: schema::of::<PodGangSpec>(),
        status: schema::of::<PodGangStatus>(),
        scale: None,
        columns: vec![Column::string("Phase", ".status.phase"), Column::AGE],
    }
}
