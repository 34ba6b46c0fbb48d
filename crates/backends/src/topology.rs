//! Topology objects of schedulers, and the topology constraints of sets.

use grove_api::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use grove_runtime::resource::{Resource, Uid};
use grove_runtime::view::View as _;
use grove_runtime::write::Write;
use serde_json::{Value, json};

use crate::error::BackendError;
use crate::objects::SchedulerObject;

/// How topologies of Grove become topology objects of a scheduler: an optional part of the contract. Its functions are pure, as [`Backend::plan`](crate::Backend::plan) is.
pub trait TopologyPart: Send + Sync {
    /// Kind of the scheduler's topology objects, which is cluster-scoped. The operator caches them, and
    /// reconciles a topology when an object of it changes. While the cluster does not serve the kind, the
    /// operator does not call the functions below.
    fn kind(&self) -> Resource;

    /// Name of the scheduler's object for a topology.
    fn object_name(&self, topology: &Topology<'_>) -> String;

    /// The next write that brings the scheduler's object in line with the topology, if it is outdated. The
    /// topology controls the objects that are created here, so that they are deleted with it; objects of
    /// other owners are never changed.
    fn plan(
        &self,
        topology: &Topology<'_>,
        live: Option<&SchedulerObject>,
    ) -> Result<Option<Write>, BackendError>;

    /// Compares the object `reference`, which another owner manages, with a topology.
    fn drift(
        &self,
        topology: &Topology<'_>,
        reference: &str,
        live: Option<&SchedulerObject>,
    ) -> Drift;
}

/// A topology of Grove, of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology<'a> {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: Uid,
    /// Node label keys, broadest level first.
    pub levels: Vec<&'a str>,
}

impl<'a> From<&'a ClusterTopologyBinding> for Topology<'a> {
    fn from(binding: &'a ClusterTopologyBinding) -> Self {
        Self {
            kind: ClusterTopologyBinding::KIND,
            name: binding.metadata.name.as_deref().unwrap_or_default(),
            uid: binding.metadata.uid.as_deref().unwrap_or_default().into(),
            levels: binding.spec.levels.iter().map(|level| level.key.as_str()).collect(),
        }
    }
}

/// The levels of this kind have no order of their own, so they are sorted by domain.
impl<'a> From<&'a ClusterTopology> for Topology<'a> {
    fn from(topology: &'a ClusterTopology) -> Self {
        let mut levels: Vec<_> = topology.spec.levels.iter().collect();
        levels.sort_by(|one, other| one.domain.cmp(&other.domain));
        Self {
            kind: ClusterTopology::KIND,
            name: topology.metadata.name.as_deref().unwrap_or_default(),
            uid: topology.metadata.uid.as_deref().unwrap_or_default().into(),
            levels: levels.into_iter().map(|level| level.key.as_str()).collect(),
        }
    }
}

impl Topology<'_> {
    /// A reference to the topology, for an object that it controls.
    pub fn owner(&self) -> Value {
        json!({
            // Both kinds have the same one.
            "apiVersion": ClusterTopologyBinding::API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// Whether this topology controls an object.
    pub fn controls(&self, object: &SchedulerObject) -> bool {
        object.meta().is_controlled_by(&self.uid)
    }

    /// Whether a topology of this kind and name controls an object, this one or an earlier one.
    pub fn is_named_by(&self, object: &SchedulerObject) -> bool {
        object.meta().controller.as_ref().is_some_and(|owner| {
            *owner.api_version == *ClusterTopologyBinding::API_VERSION
                && *owner.kind == *self.kind
                && *owner.name == *self.name
        })
    }
}

/// How a scheduler's topology object of another owner differs from a topology of Grove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The difference, if there is one.
    pub message: Option<String>,
    /// The generation of the object, if it exists.
    pub observed_generation: Option<i64>,
}

/// The parts of a set that have a topology constraint, in words for messages.
pub(crate) fn constrained(set: &PodCliqueSet) -> Vec<String> {
    let template = &set.spec.template;
    let whole = template.topology_constraint.as_ref().map(|_| "PodCliqueSet".to_owned());
    let cliques = template.cliques.iter().filter(|clique| clique.topology_constraint.is_some());
    let groups = template.pod_clique_scaling_groups.iter();
    let groups = groups.filter(|group| group.topology_constraint.is_some());
    whole
        .into_iter()
        .chain(cliques.map(|clique| format!("PodClique {:?}", clique.name)))
        .chain(groups.map(|group| format!("PodCliqueScalingGroup {:?}", group.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_from_the_broadest_to_the_narrowest() {
        let level = |domain: &str, key: &str| json!({ "domain": domain, "key": key });
        let levels = [level("host", "h"), level("zone", "z"), level("rack", "r")];
        let object = json!({
            "metadata": { "name": "dc", "uid": "u" }, "spec": { "levels": levels },
        });
        let binding: ClusterTopologyBinding = serde_json::from_value(object.clone()).unwrap();
        let managed: ClusterTopology = serde_json::from_value(object).unwrap();

        let binding = Topology::from(&binding);
        assert_eq!((binding.kind, binding.name), ("ClusterTopologyBinding", "dc"));
        assert_eq!(binding.levels, ["h", "z", "r"], "as its user says");
        let managed = Topology::from(&managed);
        assert_eq!((managed.kind, managed.name), ("ClusterTopology", "dc"));
        assert_eq!(managed.levels, ["z", "r", "h"], "by the meaning of the names");
    }
}
