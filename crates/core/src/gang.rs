//! PodGangs, from composition to release.
//!
//! A gang is created before its pods, with members but without references. References follow the pods; the
//! condition Initialized reports to schedulers and to the gate rule that they are complete for the first time. It
//! is never withdrawn: later scaling and replacement only change references. Gates of initialized gangs are lifted.

use std::collections::BTreeMap;

use grove_api::{
    PodGang,
    labels::{self, Component},
    pod_gang::{NamespacedName, PodGangSpec, PodGroup},
};

use crate::{
    children::owner,
    layout::{self, Layout},
    pods::ObservedPod,
    topology::SetTopology,
};

mod initialized;
mod minimum_first;
mod mirror;
mod progress;
mod release;

pub use initialized::{Initialization, Member, initialization, is_initialized, status};
pub use minimum_first::{creates_minimum_first, initial_pods};
pub use progress::report_pods;
pub use release::{GangPods, GateDecision, Hold, OwnGang, gates, is_scheduled, restarts_after};

/// What all gangs of a set depend on besides the set.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Scheduler of pods that name none.
    pub default_scheduler: &'a str,
    /// The topology that applies to the set.
    pub topology: &'a SetTopology,
}

/// The desired gang. `references` has the pods of each member by PodClique name, see [`references`]; a member
/// without an entry has none yet. `live` is the stored gang, whose foreign metadata is kept.
pub fn pod_gang(
    layout: &Layout<'_>,
    gang: &layout::Gang<'_>,
    references: &BTreeMap<String, Vec<NamespacedName>>,
    surroundings: Surroundings<'_>,
    live: Option<&PodGang>,
) -> PodGang {
    let Surroundings { default_scheduler, topology } = surroundings;
    let pod_group = |clique: &layout::Clique<'_>| PodGroup {
        name: clique.name.clone(),
        pod_references: references.get(&clique.name).cloned().unwrap_or_default(),
        min_replicas: clique.min_available(),
        ..PodGroup::default()
    };
    let priority = layout.template().priority_class_name.clone();
    let mut spec = PodGangSpec {
        pod_groups: gang.cliques.iter().map(pod_group).collect(),
        priority_class_name: priority.filter(|name| !name.is_empty()),
        ..PodGangSpec::default()
    };
    topology.constrain(layout, gang, live.map(|live| &live.spec), &mut spec);
    let mut object = PodGang::new(&gang.name, spec);
    let metadata = &mut object.metadata;
    metadata.namespace = Some(layout.namespace().to_owned());
    metadata.owner_references = Some(vec![owner::of_set(layout.set())]);
    let live = live.map(|live| &live.metadata);
    let mut managed = labels::managed(layout.set_name(), Component::PodGang, &gang.name);
    let scheduler = scheduler_name(layout, default_scheduler);
    managed.insert(labels::SCHEDULER_NAME.to_owned(), scheduler.to_owned());
    let mirrored = mirror::apply(&layout.set().metadata, live, managed);
    metadata.labels = Some(mirrored.labels);
    metadata.annotations = mirrored.annotations;
    topology.annotate(&mut metadata.annotations);
    object
}

/// Whether the update of a gang can wait for another reason to write it: it lacks only metadata of the set that
/// its scheduler does not act on.
pub fn can_wait(live: &PodGang, desired: &PodGang, acted_on: impl Fn(&str) -> bool) -> bool {
    live.spec == desired.spec
        && live.metadata.owner_references == desired.metadata.owner_references
        && mirror::can_wait(&live.metadata, &desired.metadata, acted_on)
}

/// The scheduler of the first clique that names one, else the default.
pub fn scheduler_name<'a>(layout: &Layout<'a>, default_scheduler: &'a str) -> &'a str {
    let mut cliques = layout.template().cliques.iter();
    cliques.find_map(|clique| clique.spec.pod_spec.scheduler_name()).unwrap_or(default_scheduler)
}

/// References to the pods of one PodClique that have the label of this gang and are not terminating. All of
/// them, not just the minimum, sorted by name.
pub fn references(namespace: &str, gang: &str, pods: &[ObservedPod]) -> Vec<NamespacedName> {
    let mut names: Vec<_> =
        pods.iter().filter(|pod| is_member(pod, gang)).map(|pod| &*pod.name).collect();
    names.sort_unstable();
    let reference = |name: &str| NamespacedName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..NamespacedName::default()
    };
    names.into_iter().map(reference).collect()
}

fn is_member(pod: &ObservedPod, gang: &str) -> bool {
    !pod.deleting && pod.gang.as_deref() == Some(gang)
}

#[cfg(test)]
mod tests;
