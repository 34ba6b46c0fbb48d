//! The cliques, groups and gangs of a set, by exact name.
//!
//! A [`Layout`] borrows the set and builds only the requested names: of one replica, one group replica, one
//! gang. The lookup from an object to its place reads labels and compares with names built here. Names are
//! never split: with cliques `b` and `a-b`, or sets `x` and `x-0`, text alone is ambiguous.
//!
//! The number of replicas of a group is in its PodCliqueScalingGroup once that exists, so functions that depend
//! on it take it as an argument.

use std::collections::BTreeMap;

use grove_api::{
    PodCliqueSet, labels, names,
    pod_clique_set::{PodCliqueSetTemplate, PodCliqueTemplate, ScalingGroupTemplate},
};

mod lookup;

pub use lookup::GangPlace;

/// The expansion of one set.
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    set: &'a PodCliqueSet,
    groups: Vec<Group<'a>>,
}

/// A scaling group of the template together with the templates of its members.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'a> {
    /// The group in the template.
    pub template: &'a ScalingGroupTemplate,
    /// The members, in the order of `cliqueNames`.
    pub cliques: Vec<&'a PodCliqueTemplate>,
}

/// One PodClique of the layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Clique<'a> {
    /// Name of the PodClique.
    pub name: String,
    /// The clique in the template.
    pub template: &'a PodCliqueTemplate,
    /// Replica of the set.
    pub set_replica: u32,
    /// The group it is in, if any.
    pub member_of: Option<Membership<'a>>,
    /// Name of the PodGang that its pods belong to.
    pub gang: String,
    /// For members of a scaled gang: name of the base gang.
    pub base_gang: Option<String>,
}

/// Where in a scaling group a PodClique is.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership<'a> {
    /// The group in the template.
    pub group: &'a ScalingGroupTemplate,
    /// Name of the PodCliqueScalingGroup.
    pub scaling_group: String,
    /// Replica of the group.
    pub replica: u32,
}

/// One PodGang of the layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang<'a> {
    /// Name of the PodGang.
    pub name: String,
    /// Its members, in the order of `podgroups`.
    pub cliques: Vec<Clique<'a>>,
    /// For scaled gangs: name of the base gang.
    pub base: Option<String>,
}

impl<'a> Layout<'a> {
    /// The expansion of a set.
    pub fn of(set: &'a PodCliqueSet) -> Self {
        let template = &set.spec.template;
        let by_name: BTreeMap<_, _> =
            template.cliques.iter().map(|clique| (clique.name.as_str(), clique)).collect();
        let members = |group: &'a ScalingGroupTemplate| {
            group.clique_names.iter().filter_map(|name| by_name.get(name.as_str()).copied())
        };
        let groups = template
            .pod_clique_scaling_groups
            .iter()
            .map(|group| Group { template: group, cliques: members(group).collect() })
            .collect();
        Self { set, groups }
    }

    /// The set itself.
    pub fn set(&self) -> &'a PodCliqueSet {
        self.set
    }

    /// Name of the set.
    pub fn set_name(&self) -> &'a str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the set and of its children.
    pub fn namespace(&self) -> &'a str {
        self.set.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The template of the set.
    pub fn template(&self) -> &'a PodCliqueSetTemplate {
        &self.set.spec.template
    }

    /// Number of replicas of the set.
    pub fn replicas(&self) -> u32 {
        count(self.set.spec.replicas)
    }

    /// The scaling groups, in template order.
    pub fn groups(&self) -> &[Group<'a>] {
        &self.groups
    }

    /// The group that a clique of the template is in.
    pub fn group_of(&self, clique: &str) -> Option<&Group<'a>> {
        self.groups.iter().find(|group| group.has(clique))
    }

    /// The templates of the cliques outside any group, in template order.
    pub fn standalone_templates(&self) -> impl Iterator<Item = &'a PodCliqueTemplate> {
        let cliques = self.template().cliques.iter();
        cliques.filter(|clique| self.group_of(&clique.name).is_none())
    }

    /// Name of a group's PodCliqueScalingGroup.
    pub fn scaling_group_name(&self, set_replica: u32, group: &Group<'_>) -> String {
        names::scaling_group(self.set_name(), set_replica, &group.template.name)
    }

    /// The PodCliques of one replica of the set that are in no group.
    pub fn standalone_cliques(&self, set_replica: u32) -> Vec<Clique<'a>> {
        let clique = |template| self.standalone_clique(set_replica, template);
        self.standalone_templates().map(clique).collect()
    }

    /// The PodCliques of one replica of a group.
    pub fn member_cliques(
        &self,
        set_replica: u32,
        group: &Group<'a>,
        group_replica: u32,
    ) -> Vec<Clique<'a>> {
        let scaling_group = self.scaling_group_name(set_replica, group);
        let member = |&template: &&'a PodCliqueTemplate| {
            self.member_clique(set_replica, group, &scaling_group, group_replica, template)
        };
        group.cliques.iter().map(member).collect()
    }

    /// The base gang of one replica of the set.
    pub fn base_gang(&self, set_replica: u32) -> Gang<'a> {
        let mut cliques = self.standalone_cliques(set_replica);
        for group in &self.groups {
            for group_replica in 0..group.min_available() {
                cliques.extend(self.member_cliques(set_replica, group, group_replica));
            }
        }
        Gang { name: self.base_gang_name(set_replica), cliques, base: None }
    }

    /// The gang of one replica of a group, or nothing when that replica is in the base gang.
    pub fn scaled_gang(
        &self,
        set_replica: u32,
        group: &Group<'a>,
        group_replica: u32,
    ) -> Option<Gang<'a>> {
        let scaling_group = self.scaling_group_name(set_replica, group);
        let name = names::scaled_pod_gang(&scaling_group, group_replica, group.min_available())?;
        let cliques = self.member_cliques(set_replica, group, group_replica);
        Some(Gang { name, cliques, base: Some(self.base_gang_name(set_replica)) })
    }

    /// The scaled gangs of a group that has this many replicas.
    pub fn scaled_gangs(
        &self,
        set_replica: u32,
        group: &Group<'a>,
        group_replicas: u32,
    ) -> Vec<Gang<'a>> {
        let scaled = group.min_available()..group_replicas;
        scaled.filter_map(|replica| self.scaled_gang(set_replica, group, replica)).collect()
    }

    /// Name of the base gang of a replica.
    pub fn base_gang_name(&self, set_replica: u32) -> String {
        names::base_pod_gang(self.set_name(), set_replica)
    }

    fn standalone_clique(&self, set_replica: u32, template: &'a PodCliqueTemplate) -> Clique<'a> {
        Clique {
            name: names::standalone_pod_clique(self.set_name(), set_replica, &template.name),
            template,
            set_replica,
            member_of: None,
            gang: self.base_gang_name(set_replica),
            base_gang: None,
        }
    }

    fn member_clique(
        &self,
        set_replica: u32,
        group: &Group<'a>,
        scaling_group: &str,
        replica: u32,
        template: &'a PodCliqueTemplate,
    ) -> Clique<'a> {
        let base = self.base_gang_name(set_replica);
        let scaled = names::scaled_pod_gang(scaling_group, replica, group.min_available());
        let (gang, base_gang) = match scaled {
            Some(scaled) => (scaled, Some(base)),
            None => (base, None),
        };
        let name = names::member_pod_clique(scaling_group, replica, &template.name);
        let scaling_group = scaling_group.to_owned();
        let member_of = Some(Membership { group: group.template, scaling_group, replica });
        Clique { name, template, set_replica, member_of, gang, base_gang }
    }
}

impl Group<'_> {
    /// Whether a clique of the template is a member.
    pub fn has(&self, clique: &str) -> bool {
        self.template.clique_names.iter().any(|name| name == clique)
    }

    /// Number of group replicas in the base gang.
    pub fn min_available(&self) -> u32 {
        count(self.template.min_available.unwrap_or(1))
    }

    /// Number of group replicas at creation.
    pub fn initial_replicas(&self) -> u32 {
        count(self.template.replicas.unwrap_or(1))
    }
}

impl Clique<'_> {
    /// Number of pods that have to be placed together, and below which the clique does not work.
    pub fn min_available(&self) -> i32 {
        min_available(self.template)
    }

    /// The component label, which distinguishes standalone PodCliques from members of groups.
    pub fn component(&self) -> labels::Component {
        match self.member_of {
            None => labels::Component::StandalonePodClique,
            Some(_) => labels::Component::MemberPodClique,
        }
    }
}

/// The minimum of a clique template; by default all of its pods.
pub fn min_available(template: &PodCliqueTemplate) -> i32 {
    template.spec.min_available.unwrap_or(template.spec.replicas)
}

/// Converts a number of replicas to a count. The schema refuses negative numbers.
pub(crate) fn count(wire: i32) -> u32 {
    u32::try_from(wire).unwrap_or(0)
}

#[cfg(test)]
mod tests;
