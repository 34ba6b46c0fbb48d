//! The desired child objects of a set.
//!
//! Each function builds one object from the layout, complete with labels, annotations, owner reference and
//! finalizer, and compares nothing with the cluster. The only live inputs are the numbers of replicas, which
//! users and autoscalers own once an object exists.
//!
//! Our own kinds are typed. Core kinds are JSON, because we set only a few of their fields. Pods and gangs have
//! their own modules.

use std::collections::BTreeMap;

use grove_api::{
    PodClique, PodCliqueScalingGroup, annotations, finalizers,
    labels::{self, Component},
    pod_clique::PodCliqueSpec,
    pod_clique_scaling_group::PodCliqueScalingGroupSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::{
    layout::{Clique, Group, Layout, count},
    start_order,
};

mod access;
mod autoscaler;
mod claim_reference;
pub mod compute_domains;
pub(crate) mod environment;
pub mod owner;
pub mod resource_claims;
mod service;

pub use access::{
    binding_grants_role, role, role_binding, role_grants_pods, service_account, token_secret,
};
pub use autoscaler::autoscalers;
pub use service::headless_service;

/// Labels that locate a PodClique in a group or name its base gang.
const PLACE_LABELS: [&str; 3] = [
    labels::POD_CLIQUE_SCALING_GROUP,
    labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX,
    labels::BASE_POD_GANG,
];

/// A PodClique, standalone or member of a group; `owner` is the set or the scaling group. A live object keeps
/// its number of pods.
pub fn pod_clique(
    layout: &Layout<'_>,
    clique: &Clique<'_>,
    template_hash: &str,
    owner: &OwnerReference,
    live: Option<&PodClique>,
) -> PodClique {
    let spec = pod_clique_spec(layout, clique, live);
    let mut object = PodClique::new(&clique.name, spec);
    object.metadata.namespace = Some(layout.namespace().to_owned());
    object.metadata.labels = Some(pod_clique_labels(layout, clique, template_hash));
    object.metadata.annotations = pod_clique_annotations(clique, live);
    object.metadata.owner_references = Some(vec![owner.clone()]);
    object.metadata.finalizers = Some(vec![finalizers::POD_CLIQUE.to_owned()]);
    object
}

fn pod_clique_spec(
    layout: &Layout<'_>,
    clique: &Clique<'_>,
    live: Option<&PodClique>,
) -> PodCliqueSpec {
    let mut spec = clique.template.spec.clone();
    if let Some(live) = live {
        spec.replicas = live.spec.replicas;
    }
    let parents = start_order::parents(layout, clique);
    spec.starts_after = parents.into_iter().map(|parent| parent.pod_clique).collect();
    if clique.member_of.is_some() {
        let group = layout.group_of(&clique.template.name);
        let pods = group.map_or(0, |group| {
            group.cliques.iter().map(|member| count(member.spec.replicas)).sum()
        });
        environment::prepend(&mut spec.pod_spec, &environment::of_group_member(pods));
    }
    spec
}

fn pod_clique_labels(
    layout: &Layout<'_>,
    clique: &Clique<'_>,
    template_hash: &str,
) -> BTreeMap<String, String> {
    let mut all = clique.template.labels.clone();
    // Not every PodClique has these labels; its template must not set them either.
    for key in PLACE_LABELS {
        all.remove(key);
    }
    all.extend(labels::managed(layout.set_name(), clique.component(), &clique.name));
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value);
    put(labels::POD_CLIQUE_SET_REPLICA_INDEX, clique.set_replica.to_string());
    put(labels::POD_GANG, clique.gang.clone());
    put(labels::POD_TEMPLATE_HASH, template_hash.to_owned());
    if let Some(member_of) = &clique.member_of {
        put(labels::POD_CLIQUE_SCALING_GROUP, member_of.scaling_group.clone());
        put(labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX, member_of.replica.to_string());
    }
    if let Some(base_gang) = &clique.base_gang {
        put(labels::BASE_POD_GANG, base_gang.clone());
    }
    all
}

fn pod_clique_annotations(
    clique: &Clique<'_>,
    live: Option<&PodClique>,
) -> Option<BTreeMap<String, String>> {
    let mut all = clique.template.annotations.clone();
    all.remove(annotations::TOPOLOGY_NAME);
    all.remove(annotations::RECREATED);
    let live = live.and_then(|live| live.metadata.annotations.as_ref());
    if let Some(mark) = live.and_then(|live| live.get(annotations::RECREATED)) {
        all.insert(annotations::RECREATED.to_owned(), mark.clone());
    }
    non_empty(all)
}

/// A PodCliqueScalingGroup. A live object keeps its number of replicas.
pub fn scaling_group(
    layout: &Layout<'_>,
    set_replica: u32,
    group: &Group<'_>,
    live: Option<&PodCliqueScalingGroup>,
) -> PodCliqueScalingGroup {
    let name = layout.scaling_group_name(set_replica, group);
    let initial = || group.template.replicas.unwrap_or(1);
    let spec = PodCliqueScalingGroupSpec {
        replicas: live.map_or_else(initial, |live| live.spec.replicas),
        min_available: Some(group.template.min_available.unwrap_or(1)),
        clique_names: group.template.clique_names.clone(),
        ..PodCliqueScalingGroupSpec::default()
    };
    let mut object = PodCliqueScalingGroup::new(&name, spec);
    object.metadata = metadata_of_replica(layout, Component::ScalingGroup, name, set_replica);
    object.metadata.annotations = scaling_group_annotations(layout, group);
    object.metadata.finalizers = Some(vec![finalizers::POD_CLIQUE_SCALING_GROUP.to_owned()]);
    object
}

/// The annotations of the group, and the MNNVL group of the set unless the group has its own.
fn scaling_group_annotations(
    layout: &Layout<'_>,
    group: &Group<'_>,
) -> Option<BTreeMap<String, String>> {
    let mut all = group.template.annotations.clone();
    let of_set = layout.set().metadata.annotations.as_ref();
    if let Some(inherited) = of_set.and_then(|of_set| of_set.get(annotations::MNNVL_GROUP)) {
        all.entry(annotations::MNNVL_GROUP.to_owned()).or_insert_with(|| inherited.clone());
    }
    non_empty(all)
}

/// Metadata of an object that the set owns.
pub(crate) fn metadata_of_set(
    layout: &Layout<'_>,
    component: Component,
    name: String,
) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(layout.namespace().to_owned()),
        labels: Some(labels::managed(layout.set_name(), component, &name)),
        owner_references: Some(vec![owner::of_set(layout.set())]),
        name: Some(name),
        ..ObjectMeta::default()
    }
}

/// Metadata of an object of one set replica that the set owns.
fn metadata_of_replica(
    layout: &Layout<'_>,
    component: Component,
    name: String,
    set_replica: u32,
) -> ObjectMeta {
    let mut metadata = metadata_of_set(layout, component, name);
    let all = metadata.labels.get_or_insert_default();
    all.insert(labels::POD_CLIQUE_SET_REPLICA_INDEX.to_owned(), set_replica.to_string());
    metadata
}

fn non_empty(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then_some(map)
}

#[cfg(test)]
mod tests;
