//! ComputeDomains: nodes that share a high-speed network (MNNVL), one per MNNVL group and replica of a set.
//!
//! An annotation puts cliques into an MNNVL group; that of the clique takes precedence over that of its scaling
//! group and of the set. Only cliques that request GPUs take part. Their containers with GPUs reference a claim
//! that the driver of the network creates for every pod. It is added to the spec of the PodClique, not to the
//! template, so it is part of no hash.

use std::collections::BTreeMap;

use grove_api::{
    annotations, finalizers,
    foreign::compute_domain::{
        Channel, ComputeDomain, ComputeDomainSpec, ResourceClaimTemplateReference,
    },
    labels::{self, Component},
    names,
    pod_clique_set::PodCliqueTemplate,
    pod_spec::PodSpec,
};
use serde_json::{Map, Value, json};

use super::{claim_reference, metadata_of_replica};
use crate::layout::{Clique, Layout};

/// Name of the claim in pod specs.
pub const CLAIM: &str = "mnnvl-claim";

const GPU: &str = "nvidia.com/gpu";

/// An MNNVL group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MnnvlGroup<'a> {
    /// The group of cliques that opt in without naming one.
    Default,
    Named(&'a str),
}

/// The MNNVL group in the annotations of an object.
enum Choice<'a> {
    OptedOut,
    Group(MnnvlGroup<'a>),
}

impl MnnvlGroup<'_> {
    fn domain(self, set: &str, set_replica: u32) -> String {
        match self {
            Self::Default => names::legacy_compute_domain(set, set_replica),
            Self::Named(group) => names::compute_domain(set, set_replica, group),
        }
    }
}

/// The ComputeDomains of one replica of a set, by name.
pub fn compute_domains(layout: &Layout<'_>, set_replica: u32) -> Vec<ComputeDomain> {
    let cliques = layout.template().cliques.iter();
    let groups = cliques.filter_map(|clique| group_of(layout, clique));
    let by_name: BTreeMap<String, MnnvlGroup<'_>> =
        groups.map(|group| (group.domain(layout.set_name(), set_replica), group)).collect();
    let domain = |(name, group)| compute_domain(layout, set_replica, name, group);
    by_name.into_iter().map(domain).collect()
}

/// Whether a set needs ComputeDomains.
pub fn is_used(layout: &Layout<'_>) -> bool {
    layout.template().cliques.iter().any(|clique| group_of(layout, clique).is_some())
}

/// Adds the claim of the domain to the containers with GPUs of a PodClique.
pub fn join(layout: &Layout<'_>, clique: &Clique<'_>, pod_spec: &mut PodSpec) {
    let Some(group) = group_of(layout, clique.template) else { return };
    if claim_reference::has(pod_spec, CLAIM) {
        return;
    }
    let template = group.domain(layout.set_name(), clique.set_replica);
    let claim = json!({ "name": CLAIM, "resourceClaimTemplateName": template });
    claim_reference::add(pod_spec, claim, has_gpu);
}

fn compute_domain(
    layout: &Layout<'_>,
    set_replica: u32,
    name: String,
    group: MnnvlGroup<'_>,
) -> ComputeDomain {
    let template = ResourceClaimTemplateReference { name: name.clone(), ..Default::default() };
    let channel = Channel { resource_claim_template: template, ..Channel::default() };
    let spec = ComputeDomainSpec { channel: Some(channel), ..ComputeDomainSpec::default() };
    let mut object = ComputeDomain::new(&name, spec);
    object.metadata = metadata_of_replica(layout, Component::ComputeDomain, name, set_replica);
    if let MnnvlGroup::Named(group) = group {
        let all = object.metadata.labels.get_or_insert_default();
        all.insert(labels::MNNVL_GROUP.to_owned(), group.to_owned());
    }
    object.metadata.finalizers = Some(vec![finalizers::COMPUTE_DOMAIN.to_owned()]);
    object
}

/// The MNNVL group of a clique with GPUs, if any.
fn group_of<'a>(layout: &Layout<'a>, clique: &'a PodCliqueTemplate) -> Option<MnnvlGroup<'a>> {
    let of_group = layout.group_of(&clique.name).map(|group| &group.template.annotations);
    let of_set = layout.set().metadata.annotations.as_ref();
    let levels = [Some(&clique.annotations), of_group, of_set];
    match levels.into_iter().flatten().find_map(choice)? {
        Choice::OptedOut => None,
        Choice::Group(group) => containers(&clique.spec.pod_spec).any(has_gpu).then_some(group),
    }
}

/// Reads the MNNVL group from annotations; nothing if they do not contain it.
fn choice(annotations: &BTreeMap<String, String>) -> Option<Choice<'_>> {
    let group = annotations.get(annotations::MNNVL_GROUP).map(String::as_str);
    let switch = annotations.get(annotations::AUTO_MNNVL).map(String::as_str);
    match (group, switch) {
        (None, None) => None,
        (Some(annotations::MNNVL_GROUP_NONE), _) => Some(Choice::OptedOut),
        (Some(group), _) => Some(Choice::Group(MnnvlGroup::Named(group))),
        (None, Some(annotations::AUTO_MNNVL_ENABLED)) => Some(Choice::Group(MnnvlGroup::Default)),
        (None, Some(_)) => Some(Choice::OptedOut),
    }
}

fn containers(pod_spec: &PodSpec) -> impl Iterator<Item = &Map<String, Value>> {
    let lists = ["initContainers", "containers"].into_iter();
    let lists = lists.filter_map(|list| pod_spec.get(list)?.as_array());
    lists.flatten().filter_map(Value::as_object)
}

fn has_gpu(container: &Map<String, Value>) -> bool {
    let resources = container.get("resources");
    ["limits", "requests"].into_iter().any(|list| {
        let quantity = resources.and_then(|resources| resources.get(list)?.get(GPU));
        quantity.is_some_and(is_positive)
    })
}

/// Whether a quantity is positive. It may be a number or text with a suffix.
fn is_positive(quantity: &Value) -> bool {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let mut number = text.chars().take_while(|char| !char.is_alphabetic());
    !text.starts_with('-') && number.any(|char| matches!(char, '1'..='9'))
}

#[cfg(test)]
mod tests;
