//! Finds the place of an object in the layout.
//!
//! Labels name the place of an object; it belongs there only if the layout builds the same name for that place.
//! Other objects are foreign or left over, and are ignored.

use std::collections::BTreeMap;

use grove_api::{labels, names};

use super::{Clique, Group, Layout};

/// The place of a PodGang.
#[derive(Clone, Debug, PartialEq)]
pub enum GangPlace<'l, 'a> {
    /// The base gang of a replica of the set.
    Base {
        /// Replica of the set.
        set_replica: u32,
    },
    /// The gang of one group replica above the minimum.
    Scaled {
        /// Replica of the set.
        set_replica: u32,
        /// The group.
        group: &'l Group<'a>,
        /// Replica of the group.
        group_replica: u32,
    },
}

impl<'a> Layout<'a> {
    /// The place of a PodClique, from its name and labels.
    pub fn find_clique(
        &self,
        name: &str,
        object_labels: &BTreeMap<String, String>,
    ) -> Option<Clique<'a>> {
        let set_replica = self.labelled_replica(object_labels)?;
        let Some(scaling_group) = object_labels.get(labels::POD_CLIQUE_SCALING_GROUP) else {
            let mut cliques = self.standalone_cliques(set_replica).into_iter();
            return cliques.find(|clique| clique.name == name);
        };
        let group = self.group_named(set_replica, scaling_group)?;
        let group_replica =
            index(object_labels.get(labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX)?)?;
        let mut members = self.member_cliques(set_replica, group, group_replica).into_iter();
        members.find(|clique| clique.name == name)
    }

    /// The place of a PodCliqueScalingGroup, from its name and labels: set replica and group.
    pub fn find_group(
        &self,
        name: &str,
        object_labels: &BTreeMap<String, String>,
    ) -> Option<(u32, &Group<'a>)> {
        let set_replica = self.labelled_replica(object_labels)?;
        Some((set_replica, self.group_named(set_replica, name)?))
    }

    /// The place of a PodGang. Gangs have no index in their labels. The caller has checked label and owner, so
    /// the text after the name of the set, or of a group, can only be an index. It is only a candidate: the
    /// name built from it decides.
    pub fn find_gang(&self, name: &str) -> Option<GangPlace<'_, 'a>> {
        let rest = after(name, self.set_name())?;
        let set_replica = index(rest.split('-').next()?)?;
        if name == names::base_pod_gang(self.set_name(), set_replica) {
            return Some(GangPlace::Base { set_replica });
        }
        self.groups.iter().find_map(|group| {
            let scaling_group = self.scaling_group_name(set_replica, group);
            let beyond = index(after(name, &scaling_group)?)?;
            let group_replica = beyond.checked_add(group.min_available())?;
            Some(GangPlace::Scaled { set_replica, group, group_replica })
        })
    }

    fn group_named(&self, set_replica: u32, scaling_group: &str) -> Option<&Group<'a>> {
        let mut groups = self.groups.iter();
        groups.find(|group| self.scaling_group_name(set_replica, group) == scaling_group)
    }

    fn labelled_replica(&self, object_labels: &BTreeMap<String, String>) -> Option<u32> {
        let set = object_labels.get(labels::PART_OF)?;
        let replica = index(object_labels.get(labels::POD_CLIQUE_SET_REPLICA_INDEX)?)?;
        (set == self.set_name()).then_some(replica)
    }
}

fn after<'t>(name: &'t str, prefix: &str) -> Option<&'t str> {
    name.strip_prefix(prefix)?.strip_prefix('-')
}

/// Parses an index as Grove writes it: plain decimal, no sign, no padding.
fn index(text: &str) -> Option<u32> {
    let value: u32 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}
