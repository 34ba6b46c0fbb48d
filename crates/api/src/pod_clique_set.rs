//! PodCliqueSet: the only kind that users author.
//!
//! One replica of a set is one complete copy of the system in `spec.template`: the cliques that stand
//! alone and all scaling groups.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    crd::{Column, Definition, Scale, Scope},
    duration::GoDuration,
    open_enum::open_enum,
    pod_clique::{AutoScalingConfig, PodCliqueSpec},
    resource::resource,
    schema,
    topology_constraint::TopologyConstraint,
    unknown::Unknown,
    wire,
};

mod status;

pub use status::{
    PodCliqueSetStatus, PodCliqueSetUpdateProgress, PodGangStatusSummary, ReplicaUpdateProgress,
    SummaryPhase,
};

resource! {
    /// A system of cliques that is started, scaled and replaced as a whole.
    pub struct PodCliqueSet {
        group: "grove.io",
        version: "v1alpha1",
        plural: "podcliquesets",
        scope: NamespaceResourceScope,
        spec: PodCliqueSetSpec,
        status: PodCliqueSetStatus,
    }
}

/// The desired copies of the system.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueSetSpec {
    /// Number of copies of the whole template.
    #[serde(default)]
    pub replicas: i32,
    /// How template changes reach running pods. Without it they are rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// The system to run.
    pub template: PodCliqueSetTemplate,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How template changes reach running pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct UpdateStrategy {
    /// `RollingRecreate` replaces pods replica by replica, `OnDelete` waits until a user deletes them.
    #[schemars(extend("default" = "RollingRecreate"))]
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<UpdateStrategyType>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How template changes reach running pods.
    pub enum UpdateStrategyType {
        /// Replace pods replica by replica.
        RollingRecreate = "RollingRecreate",
        /// Wait until a user deletes the pods.
        OnDelete = "OnDelete",
    }
}

/// One system: cliques, groups of cliques and their shared resources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueSetTemplate {
    /// The cliques. Their names cannot change later.
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    #[serde(deserialize_with = "wire::or_default")]
    pub cliques: Vec<PodCliqueTemplate>,
    /// In which order pods start. Cannot change later.
    #[schemars(extend("default" = "CliqueStartupTypeAnyOrder"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clique_startup_type: Option<CliqueStartupType>,
    /// Priority class of the gangs. Pods keep the class of their own template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Options of the headless services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
    /// Placement of each copy of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// How long a copy may lack its minimum before it is terminated as a gang. Defaults to four hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<GoDuration>,
    /// Claim templates that `resourceSharing` can refer to. Cannot change later.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_templates: Vec<ResourceClaimTemplate>,
    /// Claims shared by the copies of the set. Cannot change later.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_sharing: Vec<SetResourceSharing>,
    /// Groups of cliques that are scaled together. The groups cannot change later.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_clique_scaling_groups: Vec<ScalingGroupTemplate>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// In which order the pods of a copy start.
    pub enum CliqueStartupType {
        /// All at once.
        AnyOrder = "CliqueStartupTypeAnyOrder",
        /// In the order of the cliques in the template.
        InOrder = "CliqueStartupTypeInOrder",
        /// In the order of `startsAfter` of the cliques.
        Explicit = "CliqueStartupTypeExplicit",
    }
}

/// Options of the headless service of each copy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HeadlessServiceConfig {
    /// Whether pods get their DNS name before they are ready.
    #[schemars(extend("default" = true))]
    pub publish_not_ready_addresses: bool,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Default for HeadlessServiceConfig {
    fn default() -> Self {
        Self { publish_not_ready_addresses: true, unknown: Unknown::default() }
    }
}

/// Template of a PodClique.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PodCliqueTemplate {
    /// Name of the clique; part of the names of its objects.
    pub name: String,
    /// Labels of the PodClique and its pods.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the PodClique and its pods.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Placement of each PodClique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Claims of the PodClique or of each pod. Cannot change later.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_sharing: Vec<CliqueResourceSharing>,
    /// The pods.
    pub spec: PodCliqueSpec,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Template of a PodCliqueScalingGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ScalingGroupTemplate {
    /// Name of the group; part of the names of its objects.
    pub name: String,
    /// Names of the member cliques. Cannot change later.
    #[serde(deserialize_with = "wire::or_default")]
    pub clique_names: Vec<String>,
    /// Annotations of the PodCliqueScalingGroup.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Initial number of copies of the group.
    #[schemars(extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of copies in the base gang. Cannot change later.
    #[schemars(extend("default" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// How the number of copies is scaled automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_config: Option<AutoScalingConfig>,
    /// Claims shared inside the group. Cannot change later.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_sharing: Vec<GroupResourceSharing>,
    /// Placement of each copy of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A named claim template inside the set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceClaimTemplate {
    /// Name to refer to.
    pub name: String,
    /// A resource.k8s.io/v1 `ResourceClaimTemplateSpec`.
    #[schemars(schema_with = "template_spec_schema")]
    pub template_spec: serde_json::Map<String, Value>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn template_spec_schema(_: &mut SchemaGenerator) -> Schema {
    schema::kubernetes("io.k8s.api.resource.v1.ResourceClaimTemplateSpec")
}

open_enum! {
    /// How many claims are created from one entry.
    pub enum ResourceSharingScope {
        /// One claim for all replicas of the owner.
        AllReplicas = "AllReplicas",
        /// One claim for each replica of the owner.
        PerReplica = "PerReplica",
    }
}

/// A claim shared by the copies of the set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SetResourceSharing {
    /// Name of a claim template of the set, or of an existing ResourceClaimTemplate.
    pub name: String,
    /// Namespace of the existing ResourceClaimTemplate. Defaults to that of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all replicas or one for each.
    pub scope: ResourceSharingScope,
    /// Which children get the claim. All when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<SetSharingFilter>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which children of a set get a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SetSharingFilter {
    /// Names of cliques.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub child_clique_names: Vec<String>,
    /// Names of scaling groups.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub child_scaling_group_names: Vec<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A claim shared inside a scaling group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GroupResourceSharing {
    /// Name of a claim template of the set, or of an existing ResourceClaimTemplate.
    pub name: String,
    /// Namespace of the existing ResourceClaimTemplate. Defaults to that of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all replicas or one for each.
    pub scope: ResourceSharingScope,
    /// Which cliques get the claim. All when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<GroupSharingFilter>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which cliques of a group get a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GroupSharingFilter {
    /// Names of cliques.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub child_clique_names: Vec<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A claim of a PodClique or of each of its pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CliqueResourceSharing {
    /// Name of a claim template of the set, or of an existing ResourceClaimTemplate.
    pub name: String,
    /// Namespace of the existing ResourceClaimTemplate. Defaults to that of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One claim for all pods or one for each.
    pub scope: ResourceSharingScope,
    /// Keys that this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

pub(crate) fn definition() -> Definition {
    Definition {
        group: crate::GROUP,
        kind: PodCliqueSet::KIND,
        plural: PodCliqueSet::PLURAL,
        short_name: Some("pcs"),
        scope: Scope::Namespaced,
        description: "PodCliqueSet is a system of cliques that is started, scaled and replaced as a \
                      whole.",
        spec: schema::of::<PodCliqueSetSpec>(),
        status: schema::of::<PodCliqueSetStatus>(),
        scale: Some(Scale { selector_path: ".status.hpaPodSelector" }),
        columns: vec![
            Column::integer("Replicas", ".spec.replicas"),
            Column::integer("Available", ".status.availableReplicas"),
            Column::integer("Updated", ".status.updatedReplicas"),
            Column::integer("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount"),
            Column::integer("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount"),
            Column::integer(
                "PCSGs-Updated",
                ".status.updateProgress.updatedPodCliqueScalingGroupsCount",
            ),
            Column::integer(
                "PCSGs-Total",
                ".status.updateProgress.totalPodCliqueScalingGroupsCount",
            ),
            Column::AGE,
        ],
    }
}
