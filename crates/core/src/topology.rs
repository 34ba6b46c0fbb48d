//! Topology constraints of a set: which topology they refer to, what its gangs get, and what the set reports.
//!
//! Constraints come in two styles. Those of a set that names a topology anywhere refer to the
//! ClusterTopologyBinding of that name: its domains are free words, ordered by its list, and gangs get exactly
//! what the set asks for. Those of a set that names none refer to the topology that the operator manages, if it
//! manages one: its domains are a fixed list with a fixed order, and every part of a gang also prefers the
//! narrowest level.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api::cluster_topology::{ClusterTopologyLevel, ClusterTopologySpec, MANAGED_NAME};
use grove_api::topology_constraint::TopologyConstraint;
use grove_api::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet, config};

mod conditions;
mod placed;
mod translate;

pub use conditions::report;
pub use placed::{NodeLabels, Placed, Placement, Spread, placement};

/// One level: the word that constraints use, and the node label that distinguishes its domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The word.
    pub domain: String,
    /// Node label key.
    pub key: String,
}

/// A topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Name of the topology object.
    pub name: String,
    /// From the broadest to the narrowest.
    pub levels: Vec<Level>,
}

impl Hierarchy {
    /// The level of a domain.
    pub fn level(&self, domain: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.domain == domain)
    }

    /// Whether the first domain is strictly narrower than the second. False when one of them is unknown.
    pub fn is_narrower(&self, domain: &str, than: &str) -> bool {
        let position = |domain| self.levels.iter().position(|level| level.domain == domain);
        position(domain).zip(position(than)).is_some_and(|(one, other)| one > other)
    }

    fn narrowest(&self) -> Option<&Level> {
        self.levels.last()
    }
}

/// In the order of its list.
impl From<&ClusterTopologyBinding> for Hierarchy {
    fn from(binding: &ClusterTopologyBinding) -> Self {
        let levels = binding.spec.levels.iter();
        let level = |one: &grove_api::cluster_topology_binding::TopologyLevel| Level {
            domain: one.domain.clone(),
            key: one.key.clone(),
        };
        let name = binding.metadata.name.clone().unwrap_or_default();
        Self { name, levels: levels.map(level).collect() }
    }
}

/// From the broadest to the narrowest domain, whatever the order of its list.
impl From<&ClusterTopology> for Hierarchy {
    fn from(topology: &ClusterTopology) -> Self {
        let mut levels: Vec<_> = topology.spec.levels.iter().collect();
        levels.sort_by(|one, other| one.domain.cmp(&other.domain));
        let level = |one: &ClusterTopologyLevel| Level {
            domain: one.domain.as_str().to_owned(),
            key: one.key.clone(),
        };
        let name = topology.metadata.name.clone().unwrap_or_default();
        Self { name, levels: levels.into_iter().map(level).collect() }
    }
}

/// What an operator does about topology constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: topology-aware scheduling is off.
    Disabled,
    /// It translates constraints that name a ClusterTopologyBinding.
    Bindings,
    /// It also manages a topology, for constraints that name none.
    Managed(Arc<Hierarchy>),
}

impl From<&config::Topology> for Mode {
    fn from(configured: &config::Topology) -> Self {
        match managed_topology(configured) {
            _ if !configured.enabled => Self::Disabled,
            None => Self::Bindings,
            Some(managed) => Self::Managed(Arc::new(Hierarchy::from(&managed))),
        }
    }
}

/// The ClusterTopology that an operator manages, with the levels in their configured order.
pub fn managed_topology(configured: &config::Topology) -> Option<ClusterTopology> {
    let level = |one: &config::TopologyLevel| ClusterTopologyLevel {
        domain: one.domain.clone(),
        key: one.key.clone(),
        ..ClusterTopologyLevel::default()
    };
    let levels: Vec<_> = configured.levels.iter().map(level).collect();
    let spec = ClusterTopologySpec { levels, ..ClusterTopologySpec::default() };
    let is_managed = configured.enabled && !configured.levels.is_empty();
    is_managed.then(|| ClusterTopology::new(MANAGED_NAME, spec))
}

/// The part of a set that has a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// The set itself.
    Set,
    /// A clique, by index and name.
    Clique(usize, &'a str),
    /// A scaling group, by index and name.
    Group(usize, &'a str),
}

impl Carrier<'_> {
    /// Path of its constraint.
    pub fn path(self) -> String {
        match self {
            Self::Set => "spec.template.topologyConstraint".to_owned(),
            Self::Clique(index, _) => format!("spec.template.cliques[{index}].topologyConstraint"),
            Self::Group(index, _) => {
                format!("spec.template.podCliqueScalingGroups[{index}].topologyConstraint")
            }
        }
    }
}

/// The parts of a set that can have a constraint: the set itself, cliques, groups.
pub fn carriers(
    set: &PodCliqueSet,
) -> impl Iterator<Item = (Carrier<'_>, Option<&TopologyConstraint>)> + Clone {
    let template = &set.spec.template;
    let own = std::iter::once((Carrier::Set, template.topology_constraint.as_ref()));
    let cliques = template.cliques.iter().enumerate().map(|(index, clique)| {
        (Carrier::Clique(index, &clique.name), clique.topology_constraint.as_ref())
    });
    let groups = template.pod_clique_scaling_groups.iter().enumerate().map(|(index, group)| {
        (Carrier::Group(index, &group.name), group.topology_constraint.as_ref())
    });
    own.chain(cliques).chain(groups)
}

/// The constraints of a set: its own, those of cliques, those of groups.
pub fn constraints(
    set: &PodCliqueSet,
) -> impl Iterator<Item = (Carrier<'_>, &TopologyConstraint)> + Clone {
    carriers(set).filter_map(|(carrier, constraint)| Some((carrier, constraint?)))
}

/// The topology that a set names. Admission allows one name per set.
pub fn topology_name(set: &PodCliqueSet) -> Option<&str> {
    let mut names = constraints(set).filter_map(|(_, one)| one.topology_name.as_deref());
    names.find(|name| !name.is_empty())
}

/// The topology that applies to a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetTopology {
    /// Topology-aware scheduling is off.
    Disabled,
    /// The set has no constraint, and the operator manages no topology.
    Unconstrained,
    /// The set has constraints and names no topology, and the operator manages none.
    Unnamed,
    /// The binding that the set names does not exist.
    NotFound,
    /// The binding that the set names cannot be read: gangs keep what they have, and none is created.
    Unknown,
    /// The binding that the set names.
    Binding(Arc<Hierarchy>),
    /// The topology that the operator manages.
    Managed(Arc<Hierarchy>),
}

/// What is known about a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It exists.
    Found(Hierarchy),
    /// It does not exist.
    NotFound,
    /// It cannot be read.
    Unknown,
}

impl SetTopology {
    /// The topology of a set. `binding` looks up the one that it names.
    pub fn of(set: &PodCliqueSet, mode: &Mode, binding: impl FnOnce(&str) -> Lookup) -> Self {
        match (mode, topology_name(set)) {
            (Mode::Disabled, _) => Self::Disabled,
            (_, Some(name)) => match binding(name) {
                Lookup::Found(hierarchy) => Self::Binding(Arc::new(hierarchy)),
                Lookup::NotFound => Self::NotFound,
                Lookup::Unknown => Self::Unknown,
            },
            (Mode::Managed(hierarchy), None) => Self::Managed(hierarchy.clone()),
            (Mode::Bindings, None) if constraints(set).next().is_some() => Self::Unnamed,
            (Mode::Bindings, None) => Self::Unconstrained,
        }
    }

    /// The topology, if it is known.
    pub fn hierarchy(&self) -> Option<&Hierarchy> {
        match self {
            Self::Binding(hierarchy) | Self::Managed(hierarchy) => Some(hierarchy),
            Self::Disabled
            | Self::Unconstrained
            | Self::Unnamed
            | Self::NotFound
            | Self::Unknown => None,
        }
    }
}

/// The domains of these constraints that a topology lacks, each once.
fn missing<'a>(hierarchy: &Hierarchy, domains: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    domains.filter(|domain| hierarchy.level(domain).is_none()).collect()
}

#[cfg(test)]
mod tests;
