//! Where the objects of a set belong, by their labels. Sets may be large, so each object is read once.
//! The operator restores removed labels; until then a missing index counts as 0.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::labels;
use grove_core::layout::{GangPlace, Layout};

use super::meta::{index, label, name};
use super::pod::{LivePod, Tally};
use crate::live::Objects;

/// The names of the existing objects, by place.
#[derive(Debug, Default)]
pub(super) struct Places<'a> {
    /// By replica of the set.
    replicas: BTreeMap<u32, Replica<'a>>,
    /// Cliques, by name of their group and replica of the group.
    members: BTreeMap<&'a str, BTreeMap<u32, Vec<&'a str>>>,
    /// By name of their clique.
    pods: BTreeMap<&'a str, Vec<&'a LivePod<'a>>>,
}

/// The objects of a replica of the set.
#[derive(Debug, Default)]
pub(super) struct Replica<'a> {
    pub(super) gangs: BTreeSet<&'a str>,
    /// Standalone cliques.
    pub(super) cliques: Vec<&'a str>,
    /// Existing groups, and those that existing cliques name.
    pub(super) groups: BTreeSet<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(objects: &Objects<'a>, pods: &'a [LivePod<'a>], layout: &Layout<'_>) -> Self {
        let mut places = Self::default();
        for clique in &objects.cliques {
            let (meta, clique) = (&clique.metadata, name(&clique.metadata));
            let replica = index(meta, labels::POD_CLIQUE_SET_REPLICA_INDEX).unwrap_or_default();
            let here = places.replicas.entry(replica).or_default();
            if let Some(group) = label(meta, labels::POD_CLIQUE_SCALING_GROUP) {
                here.groups.insert(group);
                let replica = index(meta, labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX);
                let members = places.members.entry(group).or_default();
                members.entry(replica.unwrap_or_default()).or_default().push(clique);
            } else {
                here.cliques.push(clique);
            }
        }
        for group in &objects.groups {
            let meta = &group.metadata;
            if let Some(replica) = index(meta, labels::POD_CLIQUE_SET_REPLICA_INDEX) {
                places.replicas.entry(replica).or_default().groups.insert(name(meta));
            }
        }
        for gang in &objects.gangs {
            let gang = name(&gang.metadata);
            if let Some(GangPlace::Base { set_replica } | GangPlace::Scaled { set_replica, .. }) =
                layout.find_gang(gang)
            {
                places.replicas.entry(set_replica).or_default().gangs.insert(gang);
            }
        }
        for pod in pods {
            let clique = label(&pod.pod.metadata, labels::POD_CLIQUE).unwrap_or_default();
            places.pods.entry(clique).or_default().push(pod);
        }
        places
    }

    /// The replicas of the set with at least one object.
    pub(super) fn replicas(&self) -> impl Iterator<Item = u32> {
        self.replicas.keys().copied()
    }

    pub(super) fn replica(&self, replica: u32) -> Option<&Replica<'a>> {
        self.replicas.get(&replica)
    }

    /// The members of a group, by replica of the group.
    pub(super) fn members(&self, group: &str) -> Option<&BTreeMap<u32, Vec<&'a str>>> {
        self.members.get(group)
    }

    pub(super) fn pods(&self, clique: &str) -> &[&'a LivePod<'a>] {
        self.pods.get(clique).map_or(&[], Vec::as_slice)
    }

    pub(super) fn tally(&self, clique: &str) -> Tally {
        Tally::of(self.pods(clique))
    }

    /// Pods of cliques that are not there.
    pub(super) fn stray_pods(
        &self,
        exists: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &'a LivePod<'a>> {
        let stray = self.pods.iter().filter(move |(clique, _)| !exists(clique));
        stray.flat_map(|(_, pods)| pods.iter().copied())
    }
}
