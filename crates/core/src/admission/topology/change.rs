//! Changes of the constraints of a stored set that names a topology: they are immutable, with two exceptions.
//!
//! A set of an older version has `packDomain` and no name: the name may be added, and the set has to be valid then.
//! `packDomain` may be replaced by `pack.required` with the same value.

use grove_api::{PodCliqueSet, field_error::FieldError, topology_constraint::TopologyConstraint};

use super::{Carrier, SetTopology, carriers, constraints, named, own_name, stored, title};

pub(super) fn validate(
    new: &PodCliqueSet,
    old: &PodCliqueSet,
    topology: &SetTopology,
    errors: &mut Vec<FieldError>,
) {
    let lacks_name = lacks_name(old);
    let mut changes = Vec::new();
    for (carrier, constraint) in carriers(new) {
        let stored = stored(old, carrier);
        let is_repair = lacks_name && is_repair(stored, constraint);
        if is_changed(stored, constraint) && !is_repair && !is_migration(stored, constraint) {
            changes.push(refusal(carrier, stored, constraint));
        }
    }
    if lacks_name && changes.is_empty() && *topology != SetTopology::Disabled {
        named::validate(new, topology, errors);
    }
    errors.extend(changes);
}

/// Whether a set of an older version lacks the name of its topology.
fn lacks_name(set: &PodCliqueSet) -> bool {
    let mut older = constraints(set).filter(|(_, one)| one.pack_domain.is_some());
    older.any(|(_, one)| own_name(one).is_empty()) && !named::name_errors(set).is_empty()
}

fn is_changed(old: Option<&TopologyConstraint>, new: Option<&TopologyConstraint>) -> bool {
    let content = |one: &TopologyConstraint| {
        let domains = [one.pack_domain.as_deref(), one.required(), one.preferred()];
        (own_name(one).to_owned(), domains.map(|domain| domain.map(str::to_owned)))
    };
    old.map(content) != new.map(content)
}

fn is_repair(old: Option<&TopologyConstraint>, new: Option<&TopologyConstraint>) -> bool {
    old.zip(new).is_some_and(|(old, new)| {
        own_name(old).is_empty()
            && !own_name(new).is_empty()
            && old.pack_domain.is_some()
            && old.pack_domain == new.pack_domain
    })
}

/// Whether `packDomain` is replaced by `pack.required`.
fn moves_domain(old: &TopologyConstraint, new: &TopologyConstraint) -> bool {
    let has_required = new.pack.as_ref().is_some_and(|pack| pack.required.is_some());
    old.pack_domain.is_some() && new.pack_domain.is_none() && has_required
}

fn is_migration(old: Option<&TopologyConstraint>, new: Option<&TopologyConstraint>) -> bool {
    old.zip(new).is_some_and(|(old, new)| {
        moves_domain(old, new)
            && own_name(old) == own_name(new)
            && old.pack_domain.as_deref() == new.required()
            && old.preferred() == new.preferred()
    })
}

fn refusal(
    carrier: Carrier<'_>,
    old: Option<&TopologyConstraint>,
    new: Option<&TopologyConstraint>,
) -> FieldError {
    let (path, title) = (carrier.path(), title(carrier));
    let name = |one: Option<&TopologyConstraint>| one.map(own_name).unwrap_or_default().to_owned();
    let (old_name, new_name) = (name(old), name(new));
    if carrier == Carrier::Set && old_name != new_name {
        let detail = format!("topologyName cannot be changed from {old_name:?} to {new_name:?}");
        return FieldError::forbidden(format!("{path}.topologyName"), detail);
    }
    let domains = |one: &TopologyConstraint| {
        let [required, preferred] =
            [one.required(), one.preferred()].map(Option::unwrap_or_default);
        format!("required={required:?} preferred={preferred:?}")
    };
    let detail = match (old, new) {
        (None, _) => format!("{title} topology constraint cannot be added after creation"),
        (_, None) => format!("{title} topology constraint cannot be removed after creation"),
        _ if old_name != new_name => format!(
            "{title} topology constraint topologyName cannot be changed from '{old_name}' to '{new_name}'"
        ),
        (Some(old), Some(new)) if moves_domain(old, new) => format!(
            "{title} deprecated packDomain migration can only move packDomain to pack.required without changing \
             the required or preferred topology domain (old {}, new {})",
            domains(old),
            domains(new)
        ),
        (Some(old), Some(new)) => format!(
            "{title} topology constraint cannot be changed from {} to {}",
            domains(old),
            domains(new)
        ),
    };
    FieldError::forbidden(path, detail)
}
