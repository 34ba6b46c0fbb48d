//! The domains of a topology. Serialised, this is the document of `grove topology --output json`: its keys are
//! an interface.
//!
//! A domain is identified by the label values from the broadest level down to its own: racks of the same name
//! in two zones are two domains. A node counts for the levels above the first one whose label it lacks.

use std::collections::{BTreeMap, BTreeSet};

use grove_core::quantity::Quantity;
use grove_core::topology::{Hierarchy, Level};
use serde::Serialize;

use super::fits::{self, Fit, Shape};
use super::nodes::{Amounts, Capacity, PODS, add};
use super::observe::{Declared, Reported};

/// A topology with its domains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Topology {
    pub(super) kind: &'static str,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) condition: Option<Reported>,
    /// From the broadest to the narrowest.
    pub(super) levels: Vec<LevelKey>,
    /// Of all domains together.
    #[serde(flatten)]
    pub(super) room: Room,
    pub(super) domains: Vec<Domain>,
    pub(super) unavailable_nodes: Vec<UnavailableNode>,
    pub(super) unlabelled_nodes: Vec<UnlabelledNode>,
    /// For every level the one with room for the most pods of the given shape.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) best_domains: Vec<Fit>,
}

/// A level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LevelKey {
    pub(super) domain: String,
    pub(super) key: String,
}

/// A domain with those of the next level in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Domain {
    pub(super) level: String,
    /// Value of the node label.
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) room: Room,
    pub(super) domains: Vec<Self>,
}

/// What some nodes have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Room {
    pub(super) nodes: usize,
    /// How many of them take no pods.
    pub(super) unavailable: usize,
    pub(super) allocatable: Amounts,
    pub(super) free: Amounts,
    /// How many pods of the given shape fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fits: Option<u64>,
}

/// A node that takes no pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnavailableNode {
    pub(super) name: String,
    pub(super) reason: &'static str,
}

/// A node without some of the labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UnlabelledNode {
    pub(super) name: String,
    /// Keys of the labels.
    pub(super) missing: Vec<String>,
}

impl Topology {
    pub(super) fn of(declared: Declared, nodes: &[Capacity], shape: Option<&Shape>) -> Self {
        let Declared { kind, hierarchy: Hierarchy { name, levels }, condition } = declared;
        let counted = Counted { resources: resources(nodes, shape), shape };
        let top = |node: &&Capacity| {
            levels.first().is_some_and(|level| node.observed.labels.contains_key(&level.key))
        };
        let labelled: Vec<&Capacity> = nodes.iter().filter(top).collect();
        let domains = counted.domains(&levels, &labelled);
        let words = levels.iter().map(|level| level.domain.as_str());
        Self {
            kind,
            name,
            condition,
            room: counted.room(&labelled),
            best_domains: shape.map(|_| fits::best(words, &domains)).unwrap_or_default(),
            domains,
            unavailable_nodes: labelled.iter().filter_map(|node| unavailable(node)).collect(),
            unlabelled_nodes: nodes.iter().filter_map(|node| unlabelled(node, &levels)).collect(),
            levels: levels.into_iter().map(LevelKey::from).collect(),
        }
    }

    /// The resources that are counted, in the order in which they are shown.
    pub(super) fn resources(&self) -> Vec<&str> {
        let all = self.room.allocatable.keys().map(String::as_str);
        let (usual, others): (Vec<_>, Vec<_>) = all.partition(|name| USUAL.contains(name));
        usual.into_iter().chain(others).collect()
    }
}

impl From<Level> for LevelKey {
    fn from(Level { domain, key }: Level) -> Self {
        Self { domain, key }
    }
}

/// Resources that are always shown.
const USUAL: [&str; 3] = ["cpu", "memory", PODS];

/// Resources to show: the usual ones, every extended resource that a node has, and those of the shape.
fn resources(nodes: &[Capacity], shape: Option<&Shape>) -> BTreeSet<String> {
    let all = nodes.iter().flat_map(|node| &node.observed.allocatable);
    let extended = all
        .filter(|(name, amount)| is_extended(name) && **amount > Quantity::ZERO)
        .map(|(name, _)| name.clone());
    let asked = shape.into_iter().flat_map(Shape::resources).cloned();
    USUAL.into_iter().map(str::to_owned).chain(extended).chain(asked).collect()
}

/// Whether a resource has a domain other than that of Kubernetes.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn unavailable(node: &Capacity) -> Option<UnavailableNode> {
    let reason = node.observed.unavailable?;
    Some(UnavailableNode { name: node.observed.name.clone(), reason })
}

fn unlabelled(node: &Capacity, levels: &[Level]) -> Option<UnlabelledNode> {
    let keys = levels.iter().map(|level| &level.key);
    let missing: Vec<_> =
        keys.filter(|key| !node.observed.labels.contains_key(*key)).cloned().collect();
    let name = || node.observed.name.clone();
    (!missing.is_empty()).then(|| UnlabelledNode { name: name(), missing })
}

/// What is counted of nodes.
struct Counted<'s> {
    resources: BTreeSet<String>,
    shape: Option<&'s Shape>,
}

impl Counted<'_> {
    fn domains(&self, levels: &[Level], nodes: &[&Capacity]) -> Vec<Domain> {
        let Some((level, narrower)) = levels.split_first() else { return Vec::new() };
        let mut by_value = BTreeMap::<&str, Vec<&Capacity>>::new();
        for node in nodes {
            if let Some(value) = node.observed.labels.get(&level.key) {
                by_value.entry(value).or_default().push(node);
            }
        }
        let domain = |(value, nodes): (&str, Vec<&Capacity>)| Domain {
            level: level.domain.clone(),
            name: value.to_owned(),
            room: self.room(&nodes),
            domains: self.domains(narrower, &nodes),
        };
        by_value.into_iter().map(domain).collect()
    }

    fn room(&self, nodes: &[&Capacity]) -> Room {
        let sum = |of: fn(&Capacity) -> &Amounts| {
            let mut sum = Amounts::new();
            for node in nodes {
                add(&mut sum, of(node));
            }
            let amount = |name: &String| sum.get(name).copied().unwrap_or_default();
            self.resources.iter().map(|name| (name.clone(), amount(name))).collect()
        };
        Room {
            nodes: nodes.len(),
            unavailable: nodes.iter().filter(|node| node.observed.unavailable.is_some()).count(),
            allocatable: sum(|node| &node.observed.allocatable),
            free: sum(|node| &node.free),
            fits: self.shape.map(|shape| shape.on_all(nodes)),
        }
    }
}
