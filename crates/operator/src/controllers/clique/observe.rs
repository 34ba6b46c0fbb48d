//! Reads one PodClique and its surroundings from the caches.
//!
//! The place of a PodClique is looked up, never guessed: its set has to exist, to own it (directly
//! or through the scaling group) and to have room for it in its layout. A PodClique without a place
//! is left over or foreign, and gets no pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::{PodClique, PodCliqueScalingGroup, PodGang, labels};
use grove_backends::{PodRules, Registry};
use grove_core::children::resource_claims::{self, PodClaims};
use grove_core::gang::{self, GangPods};
use grove_core::layout::{self, Layout};
use grove_core::pods::{self, ObservedPod};
use grove_core::start_order::{self, Parent};
use grove_core::termination;
use grove_core::update::{self, Rollout};
use grove_runtime::resource::ObjectKey;
use jiff::Timestamp;

use crate::caches::views::{Pod, Set};
use crate::caches::{Stores, set_of};
use crate::controllers::claims;
use grove_runtime::object::Object;

/// A PodClique and everything that decides about its pods.
pub(super) struct Observed {
    pub(super) clique: Arc<Object<PodClique>>,
    /// Its pods, by name, terminating ones included.
    pub(super) pods: Vec<ObservedPod>,
    /// The same pods in the cache.
    pub(super) stored: BTreeMap<Arc<str>, Arc<Pod>>,
    /// Absent when the PodClique should have no pods.
    pub(super) place: Option<Place>,
    /// The claims of the PodClique.
    pub(super) claims: claims::ObservedClaims,
    /// Whether the minimum was ready at a moment that the status does not record.
    pub(super) had_minimum: bool,
    /// Present when the scheduler counts the pods of the gang.
    pub(super) counted: Option<Counted>,
}

/// The gang of a PodClique, whose pods the scheduler counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) rules: PodRules,
    pub(super) pods: GangPods,
    /// Minimum of the PodClique.
    pub(super) minimum: Option<u32>,
    /// Until when a recreated gang waits for the deletion of its former pods, if it does.
    pub(super) former_pods: Option<Timestamp>,
}

/// Where in its set a PodClique is.
pub(super) struct Place {
    pub(super) set: Arc<Set>,
    pub(super) set_replica: u32,
    /// What its pods start after, by the current template of the set.
    pub(super) parents: Vec<Parent>,
    /// Hash of its template in the set.
    pub(super) template_hash: String,
    pub(super) gang: Option<Arc<Object<PodGang>>>,
    /// For members of a scaled gang: whether the base gang has its minimum scheduled.
    pub(super) base_scheduled: Option<bool>,
    /// The claims that its pods name.
    pub(super) pod_claims: PodClaims,
    /// For members of a group: the group reports when all of its members have recovered.
    pub(super) group_recovers: bool,
}

impl Observed {
    pub(super) fn new(
        clique: Arc<Object<PodClique>>,
        pods: Vec<Arc<Pod>>,
        place: Option<Place>,
    ) -> Self {
        Self {
            clique,
            pods: pods.iter().map(|pod| pod.observed.clone()).collect(),
            stored: pods.into_iter().map(|pod| (pod.observed.name.clone(), pod)).collect(),
            place,
            claims: claims::ObservedClaims::default(),
            had_minimum: false,
            counted: None,
        }
    }
}

impl Place {
    /// The state of the set's update.
    pub(super) fn rollout(&self) -> Rollout<'_> {
        Rollout::of(&self.set.object, &self.set.hashes().generation)
    }

    /// The PodClique, as the rules of updates read it.
    pub(super) fn update<'a>(&'a self, observed: &'a Observed) -> update::clique::CliqueUpdate<'a> {
        update::clique::CliqueUpdate {
            object: &observed.clique.object,
            set_replica: self.set_replica,
            template_hash: &self.template_hash,
            pods: &observed.pods,
        }
    }

    /// Whether a recreated PodClique reports that it recovered. Of members, their group or the update that
    /// replaces them does so.
    pub(super) fn reports_recovery(&self, clique: &Object<PodClique>) -> bool {
        let is_member = clique.meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP).is_some();
        !is_member || !(self.group_recovers || update::is_under_way(&self.set.object))
    }

    /// The gang, as the gate rule reads it.
    pub(super) fn gang(&self) -> gang::OwnGang<'_> {
        let gang = self.gang.as_ref().map(|gang| &gang.object);
        match self.base_scheduled {
            None => gang::OwnGang::Base(gang),
            Some(base_scheduled) => gang::OwnGang::Scaled { gang, base_scheduled },
        }
    }
}

/// Reads a PodClique and its surroundings; nothing when it does not exist.
pub(super) fn observe(stores: &Stores, backends: &Registry, key: &ObjectKey) -> Option<Observed> {
    let clique = stores.cliques.store.get(key)?;
    let pods = stores.pods_of(&clique.meta.uid);
    let place = place(stores, &clique);
    let claims = claims(stores, &clique, place.as_ref(), &pods);
    let had_minimum = stores.had_minimum.contains(&clique.meta.uid);
    let gang = place.as_ref().and_then(|place| place.gang.as_ref());
    let counted = gang.and_then(|gang| counted(stores, backends, &key.name, gang));
    Some(Observed { claims, had_minimum, counted, ..Observed::new(clique, pods, place) })
}

fn counted(
    stores: &Stores,
    backends: &Registry,
    clique: &str,
    gang: &Object<PodGang>,
) -> Option<Counted> {
    let rules = backends.pod_rules(&gang.object, &stores.scheduler_objects)?;
    let mut members = gang.object.spec.pod_groups.iter();
    let member = members.find(|member| member.name == clique);
    Some(Counted {
        rules,
        pods: stores.gang_pods(gang),
        minimum: member.and_then(|member| u32::try_from(member.min_replicas).ok()),
        former_pods: stores.restarts_after(gang),
    })
}

fn claims(
    stores: &Stores,
    clique: &Object<PodClique>,
    place: Option<&Place>,
    pods: &[Arc<Pod>],
) -> claims::ObservedClaims {
    let set = place.map(|place| &place.set.object);
    // Most sets share nothing.
    let set = set.filter(|set| resource_claims::is_used(&set.spec.template));
    let layout = set.map(Layout::of);
    let object_labels = clique.object.metadata.labels.as_ref();
    let found = layout.as_ref().zip(object_labels).and_then(|(layout, object_labels)| {
        Some((layout, layout.find_clique(&clique.meta.key.name, object_labels)?))
    });
    let Some((layout, found)) = found else { return stores.claims.left_of(&clique.meta.uid) };
    let desired = u32::try_from(clique.object.spec.replicas).unwrap_or_default();
    let pods = pods.iter().map(|pod| &pod.observed);
    let indices = pods::claimed_indices(desired, pods);
    let desired = resource_claims::of_clique(layout, &found, indices);
    stores.claims.of_owner(layout, &clique.meta.uid, desired)
}

fn place(stores: &Stores, clique: &Object<PodClique>) -> Option<Place> {
    let namespace = &clique.meta.key.namespace;
    let set = stores.sets.get(&set_of(&clique.meta)?)?;
    let group = clique.meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP);
    let group = group.and_then(|group| stores.groups.get(namespace, group));
    let found = find(&set, group.as_deref(), clique)?;
    let own_gang = |name: &str| {
        stores.gangs.get(namespace, name).filter(|gang| gang.meta.is_controlled_by(&set.meta.uid))
    };
    let is_scheduled = |base: &Object<PodGang>| {
        gang::is_scheduled(&base.object.spec, |name| {
            let member = stores.cliques.get(namespace, name)?;
            let is_ours = set_of(&member.meta).as_ref() == Some(&set.meta.key);
            is_ours.then(|| scheduled_pods(stores, &member))
        })
    };
    let base = found.base_gang.as_deref();
    let layout = Layout::of(&set.object);
    Some(Place {
        set_replica: found.set_replica,
        parents: start_order::parents(&layout, &found),
        pod_claims: PodClaims::of(&layout, &found),
        template_hash: set.hashes().templates.get(&found.template.name)?.clone(),
        gang: own_gang(&found.gang),
        base_scheduled: base.map(|base| own_gang(base).is_some_and(|base| is_scheduled(&base))),
        group_recovers: group.is_some_and(|group| termination::is_in_progress(&group.object)),
        set: set.clone(),
    })
}

/// The place of a PodClique in the layout of its set, unless it is surplus, foreign or being deleted.
fn find<'s>(
    set: &'s Set,
    group: Option<&Object<PodCliqueScalingGroup>>,
    clique: &Object<PodClique>,
) -> Option<layout::Clique<'s>> {
    if set.meta.deleting || clique.meta.deleting {
        return None;
    }
    let layout = Layout::of(&set.object);
    let object_labels = clique.object.metadata.labels.as_ref()?;
    let found = layout.find_clique(&clique.meta.key.name, object_labels)?;
    let desired = found.set_replica < layout.replicas()
        && match &found.member_of {
            None => clique.meta.is_controlled_by(&set.meta.uid),
            Some(membership) => group.is_some_and(|group| {
                !group.meta.deleting
                    && group.meta.is_controlled_by(&set.meta.uid)
                    && clique.meta.is_controlled_by(&group.meta.uid)
                    && i64::from(membership.replica) < i64::from(group.object.spec.replicas)
            }),
        };
    desired.then_some(found)
}

/// Number of scheduled pods of a PodClique. Its status reports the same, later.
fn scheduled_pods(stores: &Stores, clique: &Object<PodClique>) -> i32 {
    let pods = stores.pods_of(&clique.meta.uid);
    let scheduled = pods.iter().filter(|pod| pod.observed.scheduled).count();
    i32::try_from(scheduled).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testkit::{clique, group, member, read, set};
    use super::*;

    #[test]
    fn cliques_are_placed_in_the_set_that_owns_them() {
        let (set, group) = (set(), group());
        let standalone = read(&clique());
        let base = read(&member(0));
        let scaled = read(&member(1));

        assert_eq!(find(&set, None, &standalone).unwrap().gang, "x-0");
        assert_eq!(find(&set, Some(&group), &base).unwrap().gang, "x-0");
        let found = find(&set, Some(&group), &scaled).unwrap();
        assert_eq!((found.gang.as_str(), found.base_gang.as_deref()), ("x-0-g-0", Some("x-0")));
    }

    #[test]
    fn a_clique_that_is_surplus_foreign_or_deleting_has_no_place() {
        let group = group();
        let cases = [
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/metadata/ownerReferences/0/uid", json!("another life of the set")),
            ("/metadata/ownerReferences/0/controller", json!(false)),
            ("/metadata/labels/grove.io~1podcliqueset-replica-index", json!("2")),
            ("/metadata/labels/app.kubernetes.io~1part-of", json!("y")),
            ("/metadata/name", json!("x-0-removed")),
        ];
        for (pointer, value) in cases {
            let mut changed = clique();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
            assert!(find(&set(), None, &read(&changed)).is_none(), "{pointer}");
        }
        assert!(find(&set(), Some(&group), &read(&member(2))).is_none(), "scaled in");
        assert!(find(&set(), None, &read(&member(0))).is_none(), "the group is gone");
    }
}
