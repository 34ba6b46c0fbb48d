//! Translates the constraints of a set into those of its gangs: words become node label keys.
//!
//! A domain that the topology lacks is dropped. A constraint of the set is not copied to groups or cliques: it
//! applies to the gang, and they are in it. A scaled gang consists of one replica of a group, so the constraint
//! of the group is that of the gang; a group without one is packed like the set.

use std::collections::BTreeMap;

use grove_api::annotations::TOPOLOGY_NAME;
use grove_api::pod_clique_set::ScalingGroupTemplate;
use grove_api::pod_gang::{ConstraintGroup, PackConstraint, PodGangSpec, TranslatedConstraint};
use grove_api::topology_constraint::TopologyConstraint;

use super::{SetTopology, topology_name};
use crate::layout::{self, Layout};

impl SetTopology {
    /// Sets the annotation that names the topology of a gang. Schedulers look up its levels there.
    pub(crate) fn annotate(&self, annotations: &mut Option<BTreeMap<String, String>>) {
        if *self == Self::Unknown {
            return;
        }
        let mut all = annotations.take().unwrap_or_default();
        match self.hierarchy() {
            Some(hierarchy) => all.insert(TOPOLOGY_NAME.to_owned(), hierarchy.name.clone()),
            None => all.remove(TOPOLOGY_NAME),
        };
        *annotations = (!all.is_empty()).then_some(all);
    }

    /// Sets the constraints of a gang. `live` is the stored gang.
    pub(crate) fn constrain(
        &self,
        layout: &Layout<'_>,
        gang: &layout::Gang<'_>,
        live: Option<&PodGangSpec>,
        spec: &mut PodGangSpec,
    ) {
        match self {
            Self::Unknown => keep(live, spec, |constraint| Some(constraint.clone())),
            // Schedulers may go on preferring what a managed topology made them prefer.
            Self::Disabled if topology_name(layout.set()).is_none() => {
                keep(live, spec, preference);
            }
            _ => self.translate(layout, gang, spec),
        }
    }

    fn translate(&self, layout: &Layout<'_>, gang: &layout::Gang<'_>, spec: &mut PodGangSpec) {
        for (group, clique) in spec.pod_groups.iter_mut().zip(&gang.cliques) {
            group.topology_constraint = self.pack(clique.template.topology_constraint.as_ref());
        }
        let own = layout.template().topology_constraint.as_ref();
        let Some(group) = gang.base.is_some().then(|| group_of(gang)).flatten() else {
            spec.topology_constraint = self.pack(own);
            if *self != Self::Disabled {
                spec.topology_constraint_group_configs = self.groups(gang);
            }
            return;
        };
        spec.topology_constraint = self.pack(group.topology_constraint.as_ref().or(own));
    }

    /// One entry for every replica of a group with a constraint.
    fn groups(&self, gang: &layout::Gang<'_>) -> Vec<ConstraintGroup> {
        let mut configs: Vec<ConstraintGroup> = Vec::new();
        for clique in &gang.cliques {
            let Some(member) = &clique.member_of else { continue };
            let Some(constraint) = &member.group.topology_constraint else { continue };
            let name = format!("{}-{}", member.scaling_group, member.replica);
            match configs.last_mut().filter(|last| last.name == name) {
                Some(last) => last.pod_group_names.push(clique.name.clone()),
                None => configs.push(ConstraintGroup {
                    name,
                    pod_group_names: vec![clique.name.clone()],
                    topology_constraint: self.pack(Some(constraint)),
                    ..ConstraintGroup::default()
                }),
            }
        }
        configs
    }

    fn pack(&self, constraint: Option<&TopologyConstraint>) -> Option<TranslatedConstraint> {
        let hierarchy = self.hierarchy()?;
        let key = |domain: Option<&str>| Some(hierarchy.level(domain?)?.key.clone());
        let generated = match self {
            Self::Managed(hierarchy) => hierarchy.narrowest().map(|level| level.key.clone()),
            _ => None,
        };
        translated(
            key(constraint.and_then(TopologyConstraint::required)),
            key(constraint.and_then(TopologyConstraint::preferred)).or(generated),
        )
    }
}

/// The group that a scaled gang is a replica of.
fn group_of<'a>(gang: &layout::Gang<'a>) -> Option<&'a ScalingGroupTemplate> {
    gang.cliques.first()?.member_of.as_ref().map(|member| member.group)
}

fn translated(required: Option<String>, preferred: Option<String>) -> Option<TranslatedConstraint> {
    (required.is_some() || preferred.is_some()).then(|| TranslatedConstraint {
        pack_constraint: Some(PackConstraint { required, preferred, ..PackConstraint::default() }),
        ..TranslatedConstraint::default()
    })
}

/// What is left of a constraint without what is required.
fn preference(constraint: &TranslatedConstraint) -> Option<TranslatedConstraint> {
    translated(None, constraint.pack_constraint.as_ref()?.preferred.clone())
}

/// Keeps a part of the stored constraints. An entry for a group of which nothing is left is dropped.
fn keep(
    live: Option<&PodGangSpec>,
    spec: &mut PodGangSpec,
    part: fn(&TranslatedConstraint) -> Option<TranslatedConstraint>,
) {
    let Some(live) = live else { return };
    spec.topology_constraint = live.topology_constraint.as_ref().and_then(part);
    for group in &mut spec.pod_groups {
        let stored = live.pod_groups.iter().find(|stored| stored.name == group.name);
        group.topology_constraint =
            stored.and_then(|stored| stored.topology_constraint.as_ref()).and_then(part);
    }
    let kept = live.topology_constraint_group_configs.iter().filter_map(|stored| {
        let topology_constraint = stored.topology_constraint.as_ref().and_then(part);
        let kept = || ConstraintGroup {
            topology_constraint: topology_constraint.clone(),
            ..stored.clone()
        };
        topology_constraint.is_some().then(kept)
    });
    spec.topology_constraint_group_configs = kept.collect();
}
