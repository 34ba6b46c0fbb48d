//! Constraints that refer to the topology that the operator manages.
//!
//! Its domains are a fixed list with a fixed order, whether or not they are configured. A level may disappear from
//! the configuration, so a change of a set is not judged by constraints that it keeps.

use grove_api::{
    PodCliqueSet, cluster_topology::TopologyDomain, field_error::FieldError,
    topology_constraint::TopologyConstraint,
};

use super::{
    Constrained, Hierarchy, PREFERRED, constraints, domains, families, required_field, stored,
};

pub(super) fn validate(
    new: &PodCliqueSet,
    old: Option<&PodCliqueSet>,
    hierarchy: &Hierarchy,
    errors: &mut Vec<FieldError>,
) {
    let is_kept = |(carrier, constraint): Constrained<'_>| {
        old.and_then(|old| stored(old, carrier)) == Some(constraint)
    };
    for (carrier, constraint) in constraints(new).filter(|one| !is_kept(*one)) {
        for (field, domain) in domains(constraint) {
            let path = format!("{}.{field}", carrier.path());
            if !TopologyDomain::KNOWN.contains(&domain) {
                errors.push(FieldError::not_supported(path, domain, TopologyDomain::KNOWN));
            } else if hierarchy.level(domain).is_none() {
                let detail = format!(
                    "topology level '{domain}' not defined in ClusterTopology '{}'",
                    hierarchy.name
                );
                errors.push(FieldError::invalid(path, domain, detail));
            }
        }
    }
    for (parent, child) in families(new) {
        if is_kept(parent) && is_kept(child) {
            continue;
        }
        let required = (required_field(child.1), TopologyConstraint::required as Domain);
        let preferred = (PREFERRED, TopologyConstraint::preferred as Domain);
        for (field, domain) in [required, preferred] {
            let (Some(outer), Some(inner)) = (domain(parent.1), domain(child.1)) else { continue };
            if is_broader(inner, outer) {
                let detail = format!(
                    "child topology constraint '{inner}' must be equal to or stricter than parent constraint \
                     '{outer}'"
                );
                let path = format!("{}.{field}", child.0.path());
                errors.push(FieldError::invalid(path, inner, detail));
            }
        }
    }
}

/// Which domain of a constraint is compared.
type Domain = fn(&TopologyConstraint) -> Option<&str>;

/// Whether the first domain is strictly broader than the second. False for unknown words.
fn is_broader(domain: &str, than: &str) -> bool {
    let known = |domain: &str| {
        TopologyDomain::KNOWN.contains(&domain).then(|| TopologyDomain::from(domain))
    };
    known(domain).zip(known(than)).is_some_and(|(one, other)| one < other)
}
