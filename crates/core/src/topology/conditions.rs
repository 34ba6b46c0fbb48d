//! The conditions of a set about its constraints.
//!
//! `TopologyConstraints` is about what is required, `TopologyLevelsUnavailable` about preferred domains as well.

use std::collections::BTreeSet;

use grove_api::PodCliqueSet;
use grove_api::condition::{FALSE, TRUE, UNKNOWN, pod_clique_set as condition};
use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_api::topology_constraint::TopologyConstraint;
use jiff::Timestamp;

use super::{Hierarchy, SetTopology, constraints, missing};
use crate::condition::{Observation, observe};

/// Status, reason and message of a condition.
type State = (&'static str, &'static str, String);

/// Reports whether the constraints of a set can be honoured.
pub fn report(
    status: &mut PodCliqueSetStatus,
    set: &PodCliqueSet,
    topology: &SetTopology,
    now: Timestamp,
) {
    let rows = [
        (condition::TOPOLOGY_CONSTRAINTS, required(set, topology)),
        (condition::TOPOLOGY_LEVELS_UNAVAILABLE, unavailable(set, topology)),
    ];
    for (type_, state) in rows {
        let Some((state, reason, message)) = state else {
            status.conditions.retain(|one| one.type_ != type_);
            continue;
        };
        let generation = set.metadata.generation;
        let observed = Observation { type_, status: state, reason, message, generation };
        observe(&mut status.conditions, observed, now);
    }
}

/// Whether every required level exists. Sets without constraints do not report it.
fn required(set: &PodCliqueSet, topology: &SetTopology) -> Option<State> {
    constraints(set).next()?;
    let Some(hierarchy) = topology.hierarchy() else {
        return Some(match topology {
            SetTopology::Disabled => {
                let message = "Topology support disabled in operator configuration. Required \
                               constraints removed.";
                (FALSE, condition::TOPOLOGY_DISABLED, message.to_owned())
            }
            _ => undetermined(topology),
        });
    };
    let domains = constraints(set).filter_map(|(_, one)| one.required());
    let missing = Vec::from_iter(missing(hierarchy, domains));
    let is_managed = matches!(topology, SetTopology::Managed(_));
    Some(match &*missing {
        [] => {
            let message = "All topology constraints satisfied".to_owned();
            (TRUE, condition::TOPOLOGY_LEVELS_AVAILABLE, message)
        }
        [domain] => {
            (FALSE, condition::TOPOLOGY_LEVEL_NOT_FOUND, not_found(domain, hierarchy, is_managed))
        }
        domains => {
            let message = format!(
                "Topology levels removed from {}: [{}]. {}",
                kind(is_managed),
                domains.join(", "),
                if is_managed { "Update packDomain constraints." } else { "Add them to it." }
            );
            (FALSE, condition::TOPOLOGY_LEVELS_REMOVED, message)
        }
    })
}

fn kind(is_managed: bool) -> &'static str {
    if is_managed { "ClusterTopology" } else { "ClusterTopologyBinding" }
}

fn not_found(domain: &str, hierarchy: &Hierarchy, is_managed: bool) -> String {
    let (kind, name) = (kind(is_managed), &hierarchy.name);
    let next = if is_managed {
        "Remove packDomain or update ClusterTopology."
    } else {
        "Add the level to it."
    };
    format!("Topology level '{domain}' not found in {kind} '{name}'. {next}")
}

/// Whether a level is missing. With topology-aware scheduling off, sets without constraints do not report it.
fn unavailable(set: &PodCliqueSet, topology: &SetTopology) -> Option<State> {
    let is_constrained = constraints(set).next().is_some();
    if *topology == SetTopology::Disabled {
        let message = "Topology constraints are defined but Topology Aware Scheduling is disabled";
        let reason = condition::TOPOLOGY_AWARE_SCHEDULING_DISABLED;
        return is_constrained.then(|| (UNKNOWN, reason, message.to_owned()));
    }
    let reason = condition::ALL_LEVELS_AVAILABLE;
    if !is_constrained {
        return Some((FALSE, reason, "No topology constraints defined".to_owned()));
    }
    let Some(hierarchy) = topology.hierarchy() else { return Some(undetermined(topology)) };
    let domains = constraints(set).flat_map(|(_, one)| domains(one));
    let missing: BTreeSet<_> = missing(hierarchy, domains);
    if missing.is_empty() {
        return Some((FALSE, reason, "All topology levels are available".to_owned()));
    }
    let missing = Vec::from_iter(missing).join(" ");
    let message = format!("Unavailable topology domains: [{missing}]");
    Some((TRUE, condition::LEVELS_UNAVAILABLE, message))
}

fn domains(constraint: &TopologyConstraint) -> impl Iterator<Item = &str> {
    constraint.required().into_iter().chain(constraint.preferred())
}

/// The state without a topology to compare with.
fn undetermined(topology: &SetTopology) -> State {
    let (reason, message) = match topology {
        SetTopology::Unnamed => (
            condition::TOPOLOGY_NAME_MISSING,
            "PodCliqueSet topology constraints must include topologyName",
        ),
        SetTopology::Unknown => (
            condition::TOPOLOGY_UNKNOWN,
            "ClusterTopologyBindings cannot be read; gangs keep their constraints",
        ),
        _ => (condition::CLUSTER_TOPOLOGY_NOT_FOUND, "ClusterTopologyBinding resource not found"),
    };
    (UNKNOWN, reason, message.to_owned())
}
