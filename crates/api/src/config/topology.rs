//! The topology block, under both of its names.
//!
//! `topologyAwareScheduling` without a `levels` key means that users manage topologies themselves. With the
//! key, and always under the older name `topology`, the operator manages one topology and needs
//! levels once the feature is on.

use std::collections::BTreeSet;

use super::{
    Topology, TopologyLevel,
    file::{self, File},
};
use crate::{cluster_topology::TopologyDomain, field_error::FieldError, labels};

const CURRENT: &str = "topologyAwareScheduling";
const OLDER: &str = "topology";

pub(super) fn resolve(file: &File, errors: &mut Vec<FieldError>) -> Topology {
    let current = file.topology_aware_scheduling.as_ref();
    let older = file.topology.as_ref();
    if let (Some(current), Some(older)) = (current, older) {
        check_agreement(current, older, errors);
    }
    let enabled =
        current.and_then(|t| t.enabled).or_else(|| older.and_then(|t| t.enabled)).unwrap_or(false);
    let (name, levels) = match (current.and_then(|t| t.levels.as_ref()), older) {
        (Some(levels), _) => (CURRENT, Some(levels)),
        (None, Some(older)) => (OLDER, older.levels.as_ref()),
        (None, None) => (CURRENT, None),
    };
    if enabled {
        let needs_levels = levels.is_some() || older.is_some();
        validate_levels(name, levels.map_or(&[], Vec::as_slice), needs_levels, errors);
    }
    let levels = levels.into_iter().flatten();
    Topology {
        enabled,
        levels: levels
            .map(|level| TopologyLevel {
                domain: TopologyDomain::from(level.domain.as_str()),
                key: level.key.clone(),
            })
            .collect(),
    }
}

/// Both names may be in one file if they have the same value.
fn check_agreement(current: &file::Topology, older: &file::Topology, errors: &mut Vec<FieldError>) {
    if let (Some(a), Some(b)) = (current.enabled, older.enabled)
        && a != b
    {
        let detail = format!("contradicts {CURRENT}.enabled");
        errors.push(FieldError::invalid(format!("{OLDER}.enabled"), b, detail));
    }
    if let (Some(a), Some(b)) = (&current.levels, &older.levels)
        && a != b
    {
        let domains: Vec<_> = b.iter().map(|level| level.domain.clone()).collect();
        let detail = format!("contradicts {CURRENT}.levels");
        errors.push(FieldError::invalid(format!("{OLDER}.levels"), domains, detail));
    }
}

fn validate_levels(
    name: &str,
    levels: &[file::TopologyLevel],
    needed: bool,
    errors: &mut Vec<FieldError>,
) {
    if levels.is_empty() && needed {
        errors.push(FieldError::required(
            format!("{name}.levels"),
            "levels are required when topology is enabled",
        ));
    }
    let mut domains = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for (index, file::TopologyLevel { domain, key }) in levels.iter().enumerate() {
        let domain_path = format!("{name}.levels[{index}].domain");
        let key_path = format!("{name}.levels[{index}].key");
        if !TopologyDomain::KNOWN.contains(&domain.as_str()) {
            let detail = format!("must be one of {}", TopologyDomain::KNOWN.join(", "));
            errors.push(FieldError::invalid(domain_path, domain.clone(), detail));
        } else if !domains.insert(domain) {
            errors.push(FieldError::duplicate(domain_path, domain.clone()));
        }
        if let Some(detail) = labels::key_problem(key) {
            errors.push(FieldError::invalid(key_path, key.clone(), detail));
        } else if !keys.insert(key) {
            errors.push(FieldError::duplicate(key_path, key.clone()));
        }
    }
}
