//! Rules about topology constraints, and about topologies.
//!
//! A set that names a topology follows the rules of [`named`]: its constraints are immutable. The constraints of a
//! set that names none follow those of [`managed`] if the operator manages a topology: they may change. With
//! topology-aware scheduling off, new sets have no constraints, and stored sets keep theirs.

use grove_api::{PodCliqueSet, field_error::FieldError, topology_constraint::TopologyConstraint};

use crate::topology::{Carrier, Hierarchy, SetTopology, carriers, constraints, topology_name};

mod change;
mod managed;
mod named;
mod objects;

pub use objects::{
    TopologyRequest, authorize_topology, validate_cluster_topology, validate_topology_binding,
};

const DISABLED: &str = "topology constraints are not allowed when Topology Aware Scheduling is disabled: topology \
                        support is not enabled in the operator; set topology.enabled in its configuration";

pub(super) fn validate_create(
    set: &PodCliqueSet,
    topology: &SetTopology,
    errors: &mut Vec<FieldError>,
) {
    let is_named = topology_name(set).is_some();
    match topology {
        SetTopology::Unconstrained => {}
        SetTopology::Unknown if !is_named => {}
        SetTopology::Managed(hierarchy) => managed::validate(set, None, hierarchy, errors),
        SetTopology::Disabled => {
            if is_named {
                named::refuse_pack_domain(set, errors);
            }
            for (carrier, constraint) in constraints(set) {
                let domains: Vec<_> = domains(constraint).map(|(_, domain)| domain).collect();
                errors.push(FieldError::invalid(carrier.path(), domains, DISABLED));
            }
        }
        SetTopology::Unnamed
        | SetTopology::NotFound
        | SetTopology::Unknown
        | SetTopology::Binding(_) => {
            named::refuse_pack_domain(set, errors);
            named::validate(set, topology, errors);
        }
    }
}

pub(super) fn validate_update(
    new: &PodCliqueSet,
    old: &PodCliqueSet,
    topology: &SetTopology,
    errors: &mut Vec<FieldError>,
) {
    let is_named = topology_name(new).is_some() || topology_name(old).is_some();
    match topology {
        SetTopology::Disabled if !is_named => {}
        SetTopology::Managed(hierarchy) if !is_named => {
            managed::validate(new, Some(old), hierarchy, errors);
        }
        _ => change::validate(new, old, topology, errors),
    }
}

pub(super) fn create_warnings(set: &PodCliqueSet, topology: &SetTopology) -> Vec<String> {
    let Some(hierarchy) = topology.hierarchy() else { return Vec::new() };
    let is_redundant = |(_, one): &(Carrier<'_>, &TopologyConstraint)| {
        let both = one.required().zip(one.preferred());
        both.is_some_and(|(required, preferred)| hierarchy.is_narrower(required, preferred))
    };
    let redundant = constraints(set).filter(is_redundant);
    let warning = |(carrier, _): (Carrier<'_>, _)| {
        let path = carrier.path();
        format!("{path}.pack.preferred is coarser than {path}.pack.required and is redundant")
    };
    redundant.map(warning).collect()
}

/// `packDomain` is the usual spelling for the managed topology, and an older one where a name is needed.
pub(super) fn update_warnings(set: &PodCliqueSet, topology: &SetTopology) -> Vec<String> {
    if topology_name(set).is_none() && *topology != SetTopology::Unnamed {
        return Vec::new();
    }
    let older = constraints(set).filter(|(_, one)| one.pack_domain.is_some());
    let warning = |(carrier, _): (Carrier<'_>, _)| {
        let path = carrier.path();
        format!("{path}.packDomain is deprecated; use {path}.pack.required instead")
    };
    older.map(warning).collect()
}

/// The domains of a constraint, with the fields that name them.
fn domains(constraint: &TopologyConstraint) -> impl Iterator<Item = (&'static str, &str)> {
    let pack = constraint.pack.as_ref();
    [
        (PACK_DOMAIN, constraint.pack_domain.as_deref()),
        (REQUIRED, pack.and_then(|pack| pack.required.as_deref())),
        (PREFERRED, pack.and_then(|pack| pack.preferred.as_deref())),
    ]
    .into_iter()
    .filter_map(|(field, domain)| Some((field, domain?)))
}

const PACK_DOMAIN: &str = "packDomain";
const REQUIRED: &str = "pack.required";
const PREFERRED: &str = "pack.preferred";

/// The field that names the required domain.
fn required_field(constraint: &TopologyConstraint) -> &'static str {
    let has_pack = constraint.pack.as_ref().is_some_and(|pack| pack.required.is_some());
    if has_pack { REQUIRED } else { PACK_DOMAIN }
}

/// The topology that a constraint names itself.
fn own_name(constraint: &TopologyConstraint) -> &str {
    constraint.topology_name.as_deref().unwrap_or_default()
}

/// A part of a set with its constraint.
type Constrained<'a> = (Carrier<'a>, &'a TopologyConstraint);

/// Parents and children that both have a constraint: the set and its cliques and groups, a group and its cliques.
fn families(set: &PodCliqueSet) -> Vec<(Constrained<'_>, Constrained<'_>)> {
    let template = &set.spec.template;
    let mut families = Vec::new();
    for parent in constraints(set) {
        let is_child = |child: Carrier<'_>| match (parent.0, child) {
            (Carrier::Set, Carrier::Clique(..) | Carrier::Group(..)) => true,
            (Carrier::Group(index, _), Carrier::Clique(_, clique)) => {
                let members = &template.pod_clique_scaling_groups[index].clique_names;
                members.iter().any(|member| member == clique)
            }
            _ => false,
        };
        let children = constraints(set).filter(|(child, _)| is_child(*child));
        families.extend(children.map(|child| (parent, child)));
    }
    families
}

/// The constraint that a part has in another form of its set.
fn stored<'a>(old: &'a PodCliqueSet, carrier: Carrier<'_>) -> Option<&'a TopologyConstraint> {
    let is_same = |other: Carrier<'_>| match (carrier, other) {
        (Carrier::Set, Carrier::Set) => true,
        (Carrier::Clique(_, one), Carrier::Clique(_, other))
        | (Carrier::Group(_, one), Carrier::Group(_, other)) => one == other,
        _ => false,
    };
    carriers(old).find(|(other, _)| is_same(*other)).and_then(|(_, constraint)| constraint)
}

/// Kind and name of a part, for messages.
fn title(carrier: Carrier<'_>) -> String {
    match carrier {
        Carrier::Set => "PodCliqueSet".to_owned(),
        Carrier::Clique(_, name) => format!("PodClique '{name}'"),
        Carrier::Group(_, name) => format!("PodCliqueScalingGroup '{name}'"),
    }
}
