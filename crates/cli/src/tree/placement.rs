//! The topology constraints of a set in the words of the user, and the domains that pods are in.
//!
//! Words come from the template, node label keys from the gangs: the operator translates the former into the
//! latter. A part without a constraint of the user shows nothing.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodGang;
use grove_api::topology_constraint::TopologyConstraint;
use grove_core::layout::{GangPlace, Group, Layout};
use grove_core::topology::{self, NodeLabels, Placed, Spread, constraints, topology_name};
use k8s_openapi::api::core::v1::Pod;

use super::meta::name;
use super::node::Placement;
use super::pod::LivePod;
use crate::live::Objects;

/// The names of the nodes whose labels decide about the placement of a set. Empty without a constraint that
/// the operator translated.
pub(super) fn nodes<'a>(objects: &Objects<'a>) -> Vec<&'a str> {
    let is_translated = objects.gangs.iter().any(|gang| is_constrained(gang));
    if !is_translated || constraints(objects.set).next().is_none() {
        return Vec::new();
    }
    let node = |pod: &&'a Pod| pod.spec.as_ref()?.node_name.as_deref();
    let mut nodes: Vec<_> = objects.pods.iter().filter_map(node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn is_constrained(gang: &PodGang) -> bool {
    let spec = &gang.spec;
    let groups = spec.topology_constraint_group_configs.iter();
    let cliques = spec.pod_groups.iter().map(|clique| &clique.topology_constraint);
    let mut all = groups.map(|group| &group.topology_constraint).chain(cliques);
    spec.topology_constraint.is_some() || all.any(Option::is_some)
}

/// Where the parts of a set have to be and where they are.
pub(super) struct Placements<'a> {
    layout: &'a Layout<'a>,
    topology: Option<&'a str>,
    gangs: BTreeMap<&'a str, topology::Placement<'a>>,
    /// Whether the labels of nodes are known.
    is_known: bool,
}

impl<'a> Placements<'a> {
    /// Pods that are leaving or have ended do not count.
    pub(super) fn of(
        objects: &Objects<'a>,
        pods: &'a [LivePod<'a>],
        layout: &'a Layout<'a>,
    ) -> Self {
        let labels = |pod: &LivePod<'a>| -> Option<&'a NodeLabels> {
            let node = pod.pod.spec.as_ref()?.node_name.as_deref()?;
            objects.nodes?.get(node)
        };
        let staying = pods.iter().filter(|pod| !pod.observed.deleting && !pod.has_ended());
        let bound: BTreeMap<_, _> =
            staying.filter_map(|pod| Some((name(&pod.pod.metadata), labels(pod)?))).collect();
        let gang = |gang: &'a PodGang| {
            (name(&gang.metadata), topology::placement(&gang.spec, |pod| bound.get(pod).copied()))
        };
        Self {
            layout,
            topology: topology_name(objects.set),
            gangs: objects.gangs.iter().copied().map(gang).collect(),
            is_known: objects.nodes.is_some(),
        }
    }

    /// The set, which is packed replica by replica.
    pub(super) fn set(&self) -> Option<Placement> {
        self.words(self.layout.template().topology_constraint.as_ref()?)
    }

    /// A group, which is packed replica by replica.
    pub(super) fn group(&self, group: Option<&Group<'_>>) -> Option<Placement> {
        self.words(group?.template.topology_constraint.as_ref()?)
    }

    /// A gang: a replica of the set, or of a group above its minimum.
    pub(super) fn gang(&self, gang: &str) -> Option<Placement> {
        let own = self.layout.template().topology_constraint.as_ref();
        let constraint = match self.layout.find_gang(gang)? {
            GangPlace::Base { .. } => own,
            GangPlace::Scaled { group, .. } => group.template.topology_constraint.as_ref().or(own),
        };
        self.placed(constraint?, self.gangs.get(gang).map(|gang| &gang.gang))
    }

    /// A replica of a group, with the names of its cliques.
    pub(super) fn group_replica(
        &self,
        group: Option<&Group<'_>>,
        name: &str,
        members: &[String],
    ) -> Option<Placement> {
        let constraint = group?.template.topology_constraint.as_ref()?;
        let mut gangs = self.gangs.values();
        let gang = gangs.find(|gang| members.iter().any(|one| gang.cliques.contains_key(&**one)));
        // A scaled gang is one replica of a group.
        let placed = gang.map(|gang| gang.groups.get(name).unwrap_or(&gang.gang));
        self.placed(constraint, placed)
    }

    /// A clique with the constraint of its template.
    pub(super) fn clique(
        &self,
        clique: &str,
        constraint: Option<&TopologyConstraint>,
    ) -> Option<Placement> {
        let placed = self.gangs.values().find_map(|gang| gang.cliques.get(clique));
        self.placed(constraint?, placed)
    }

    fn words(&self, constraint: &TopologyConstraint) -> Option<Placement> {
        let own = |word: Option<&str>| word.map(str::to_owned);
        let (required, preferred) = (own(constraint.required()), own(constraint.preferred()));
        (required.is_some() || preferred.is_some()).then(|| Placement {
            topology: self.topology.map(str::to_owned),
            required,
            preferred,
            ..Placement::default()
        })
    }

    fn placed(
        &self,
        constraint: &TopologyConstraint,
        placed: Option<&Placed<'_>>,
    ) -> Option<Placement> {
        let mut placement = self.words(constraint)?;
        let Some(placed) = placed else { return Some(placement) };
        placement.dropped = placement.required.is_some() && placed.required.is_none();
        if !self.is_known {
            return Some(placement);
        }
        let list = |names: &BTreeSet<&str>| names.iter().map(|name| (*name).to_owned()).collect();
        if let Some(Spread { domains, outside, .. }) =
            placed.required.as_ref().or(placed.preferred.as_ref())
        {
            placement.domains = list(domains);
            placement.pods_without_domain = list(outside);
        }
        placement.violated = placed.violation().is_some();
        Some(placement)
    }
}

#[cfg(test)]
mod tests;
