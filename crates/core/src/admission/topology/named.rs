//! Constraints that refer to a ClusterTopologyBinding by its name.
//!
//! Names come first, then domains, then the order of the levels: errors of one step hide those of the next.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::{PodCliqueSet, field_error::FieldError, topology_constraint::TopologyConstraint};

use super::{
    Carrier, Hierarchy, PREFERRED, SetTopology, constraints, domains, families, own_name, title,
    topology_name,
};

const TEMPLATE: &str = "spec.template";
const DIFFERENT: &str = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current \
                         implementation";

/// Refuses the older spelling of `pack.required`, with one error for the set, its cliques and its groups each.
pub(super) fn refuse_pack_domain(set: &PodCliqueSet, errors: &mut Vec<FieldError>) {
    let older = constraints(set).filter(|(_, one)| one.pack_domain.is_some());
    let mut paths: Vec<String> = older
        .map(|(carrier, _)| match carrier {
            Carrier::Set => format!("{TEMPLATE}.topologyConstraint.packDomain"),
            Carrier::Clique(..) => format!("{TEMPLATE}.cliques"),
            Carrier::Group(..) => format!("{TEMPLATE}.podCliqueScalingGroups"),
        })
        .collect();
    paths.dedup();
    let detail = "packDomain is deprecated and cannot be used on new workloads; use pack.required";
    errors.extend(paths.into_iter().map(|path| FieldError::forbidden(path, detail)));
}

pub(super) fn validate(set: &PodCliqueSet, topology: &SetTopology, errors: &mut Vec<FieldError>) {
    let wrong_names = name_errors(set);
    if !wrong_names.is_empty() {
        errors.extend(wrong_names);
        return;
    }
    if *topology == SetTopology::NotFound {
        let name = topology_name(set).unwrap_or_default();
        let path = format!("{TEMPLATE}.topologyConstraint.topologyName");
        let detail = format!("ClusterTopologyBinding {name:?} not found");
        errors.push(FieldError::invalid(path, name, detail));
    }
    let Some(hierarchy) = topology.hierarchy() else { return };
    let unknown = unknown_domains(set, hierarchy);
    if unknown.is_empty() {
        validate_order(set, hierarchy, errors);
    }
    errors.extend(unknown);
}

/// The errors about the names of topologies. A clique inherits the name of its group, and both that of the set.
pub(super) fn name_errors(set: &PodCliqueSet) -> Vec<FieldError> {
    let mut errors = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut resolve = |carrier: Carrier<'_>,
                       one: &TopologyConstraint,
                       inherited: Option<String>| {
        let path = format!("{}.topologyName", carrier.path());
        let name = match (own_name(one), inherited) {
            ("", None) => {
                let detail = "topologyName is required when topologyConstraint is set and cannot be inherited";
                errors.insert(position(carrier), FieldError::required(path, detail));
                return None;
            }
            ("", Some(inherited)) => inherited,
            (own, Some(inherited)) if own != inherited => {
                let different = FieldError::invalid(path, own, DIFFERENT);
                errors.insert(position(carrier), different);
                return None;
            }
            (own, _) => own.to_owned(),
        };
        names.insert(name.clone());
        Some(name)
    };
    let template = &set.spec.template;
    let own = template.topology_constraint.as_ref();
    let own = own.and_then(|one| resolve(Carrier::Set, one, None));
    let mut by_group: BTreeMap<&str, String> = BTreeMap::new();
    for (index, group) in template.pod_clique_scaling_groups.iter().enumerate() {
        let Some(constraint) = &group.topology_constraint else { continue };
        let name = resolve(Carrier::Group(index, &group.name), constraint, own.clone());
        let Some(name) = name else { continue };
        for clique in &group.clique_names {
            by_group.entry(clique).or_insert_with(|| name.clone());
        }
    }
    for (index, clique) in template.cliques.iter().enumerate() {
        let Some(constraint) = &clique.topology_constraint else { continue };
        let inherited = by_group.get(&*clique.name).or(own.as_ref()).cloned();
        resolve(Carrier::Clique(index, &clique.name), constraint, inherited);
    }
    if names.len() > 1 {
        // Unrelated parts differ, and none of them is more right than the others.
        let own = constraints(set).filter(|(_, one)| !own_name(one).is_empty());
        errors.extend(own.map(|(carrier, one)| {
            let path = format!("{}.topologyName", carrier.path());
            (position(carrier), FieldError::invalid(path, own_name(one), DIFFERENT))
        }));
    }
    errors.into_values().collect()
}

/// Orders errors: the set, cliques, groups.
fn position(carrier: Carrier<'_>) -> (u8, usize) {
    match carrier {
        Carrier::Set => (0, 0),
        Carrier::Clique(index, _) => (1, index),
        Carrier::Group(index, _) => (2, index),
    }
}

fn unknown_domains(set: &PodCliqueSet, hierarchy: &Hierarchy) -> Vec<FieldError> {
    let known: Vec<_> = hierarchy.levels.iter().map(|level| level.domain.as_str()).collect();
    let mut errors = Vec::new();
    for (carrier, constraint) in constraints(set) {
        let unknown = domains(constraint).filter(|(_, domain)| !known.contains(domain));
        errors.extend(unknown.map(|(field, domain)| {
            let detail = format!(
                "topology domain '{domain}' does not exist in cluster topology [{}]",
                known.join(" ")
            );
            FieldError::invalid(format!("{}.{field}", carrier.path()), domain, detail)
        }));
    }
    errors
}

/// A parent must not be narrower than a child.
fn validate_order(set: &PodCliqueSet, hierarchy: &Hierarchy, errors: &mut Vec<FieldError>) {
    for ((parent, outer), (child, inner)) in families(set) {
        let path = parent.path();
        let required = (path.clone(), outer.required(), inner.required());
        let preferred = (format!("{path}.{PREFERRED}"), outer.preferred(), inner.preferred());
        for (path, outer, inner) in [required, preferred] {
            let (Some(outer), Some(inner)) = (outer, inner) else { continue };
            if hierarchy.is_narrower(outer, inner) {
                let detail = format!(
                    "{} topology constraint domain '{outer}' is narrower than {} topology constraint domain \
                     '{inner}'",
                    title(parent),
                    title(child)
                );
                errors.push(FieldError::invalid(path, outer, detail));
            }
        }
    }
}
