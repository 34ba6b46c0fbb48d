//! The KAI Topology of a topology of Grove. Its levels are immutable, so a change of the levels recreates the
//! object.

use grove_runtime::converge;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::View as _;
use grove_runtime::write::{Verb, Write};
use serde_json::{Value, json};

use super::NAME;
use crate::error::BackendError;
use crate::objects::SchedulerObject;
use crate::topology::{Drift, Topology, TopologyPart};

const TOPOLOGIES: Resource =
    Resource::cluster("kai.scheduler", "v1alpha1", "topologies", "Topology");

/// The topology part of KAI.
pub(super) struct Topologies;

impl TopologyPart for Topologies {
    fn kind(&self) -> Resource {
        TOPOLOGIES
    }

    fn object_name(&self, topology: &Topology<'_>) -> String {
        topology.name.to_owned()
    }

    fn plan(
        &self,
        topology: &Topology<'_>,
        live: Option<&SchedulerObject>,
    ) -> Result<Option<Write>, BackendError> {
        let Some(live) = live else { return Ok(Some(create(topology))) };
        if !topology.controls(live) {
            return Err(not_ours(topology, live));
        }
        if live.meta().deleting {
            let message = format!("KAI Topology {} is being deleted", topology.name);
            return Err(BackendError::not_yet(NAME, message));
        }
        let reason = "its levels differ and are immutable";
        let outdated = levels(live) != topology.levels;
        Ok(outdated.then(|| converge::delete(TOPOLOGIES, live.meta(), reason)))
    }

    fn drift(
        &self,
        topology: &Topology<'_>,
        reference: &str,
        live: Option<&SchedulerObject>,
    ) -> Drift {
        let Some(live) = live else {
            let message = Some(format!("KAI Topology {reference:?} not found"));
            return Drift { message, observed_generation: None };
        };
        let differs = || "KAI Topology levels differ from ClusterTopologyBinding levels".to_owned();
        Drift {
            message: (levels(live) != topology.levels).then(differs),
            observed_generation: Some(live.meta().generation),
        }
    }
}

/// Node labels of the levels. Aliases belong to KAI's users.
fn levels(live: &SchedulerObject) -> Vec<&str> {
    let levels = live.object["spec"]["levels"].as_array().into_iter().flatten();
    levels.map(|level| level["nodeLabel"].as_str().unwrap_or_default()).collect()
}

/// The garbage collector soon deletes an object of an earlier topology; any other has another owner.
fn not_ours(topology: &Topology<'_>, live: &SchedulerObject) -> BackendError {
    let Topology { kind, name, .. } = topology;
    let message = format!(
        "KAI Topology {name} is not owned by {kind} {name}. It is required that KAI Topology by this \
         name is created by Grove operator and has {kind} set as its owner"
    );
    if live.meta().deleting || topology.is_named_by(live) {
        return BackendError::not_yet(NAME, message);
    }
    BackendError::invalid(NAME, "SchedulerTopologyNotOwned", message)
}

fn create(topology: &Topology<'_>) -> Write {
    let levels = topology.levels.iter().map(|key| json!({ "nodeLabel": key }));
    let body = json!({
        "apiVersion": TOPOLOGIES.api_version(),
        "kind": TOPOLOGIES.kind,
        "metadata": { "name": topology.name, "ownerReferences": [topology.owner()] },
        "spec": { "levels": levels.collect::<Vec<Value>>() },
    });
    Write {
        resource: TOPOLOGIES,
        key: ObjectKey::new("", topology.name),
        verb: Verb::Create { body },
        reason: "the topology has no object",
    }
}

#[cfg(test)]
mod tests {
    use grove_api::ClusterTopologyBinding;
    use grove_runtime::class::{Class, Classed};
    use grove_runtime::write::Precondition;

    use super::*;

    fn binding() -> ClusterTopologyBinding {
        serde_json::from_value(json!({
            "metadata": { "name": "dc", "uid": "binding" },
            "spec": { "levels": [
                { "domain": "zone", "key": "z" }, { "domain": "rack", "key": "r" },
            ] },
        }))
        .unwrap()
    }

    /// The object that a plan creates, as stored after a change.
    fn stored(change: impl FnOnce(&mut Value)) -> SchedulerObject {
        let mut object = created();
        for (key, value) in [("uid", json!("u")), ("generation", json!(3))] {
            object["metadata"][key] = value;
        }
        change(&mut object);
        serde_json::from_value(object).unwrap()
    }

    fn created() -> Value {
        let written = plan(None).unwrap().unwrap();
        assert_eq!(written.key, ObjectKey::new("", "dc"));
        let Verb::Create { body } = written.verb else { panic!("not created") };
        body
    }

    fn plan(live: Option<&SchedulerObject>) -> Result<Option<Write>, BackendError> {
        Topologies.plan(&Topology::from(&binding()), live)
    }

    #[test]
    fn a_topology_is_created_with_the_levels_in_order_and_nothing_else() {
        let expected = json!({
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": { "name": "dc", "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "name": "dc",
                "uid": "binding", "controller": true, "blockOwnerDeletion": true,
            }] },
            "spec": { "levels": [{ "nodeLabel": "z" }, { "nodeLabel": "r" }] },
        });
        assert_eq!(created(), expected);
        assert!(!Topologies.kind().namespaced);
        assert_eq!(Topologies.object_name(&Topology::from(&binding())), "dc");
    }

    #[test]
    fn an_object_with_the_same_levels_is_up_to_date() {
        type Change = fn(&mut Value);
        let changes: [Change; 3] = [
            |_| {},
            |it| it["spec"]["levels"][0]["alias"] = json!("zone"),
            |it| it["metadata"]["labels"] = json!({ "theirs": "yes" }),
        ];
        for change in changes {
            assert_eq!(plan(Some(&stored(change))).unwrap(), None);
        }
    }

    #[test]
    fn changed_levels_recreate_the_object() {
        let label = |label: &str| json!({ "nodeLabel": label });
        let others = [
            json!([label("r"), label("z")]),
            json!([label("z")]),
            json!([label("z"), label("r"), label("h")]),
        ];
        for levels in others {
            let live = stored(|it| it["spec"]["levels"] = levels.clone());
            let Verb::Delete { only_if, .. } = plan(Some(&live)).unwrap().unwrap().verb else {
                panic!("{levels}: not deleted")
            };
            assert_eq!(only_if, Precondition::uid(&"u".into()), "{levels}");
        }
    }

    #[test]
    fn an_object_of_another_owner_is_never_changed() {
        let not_owned = "KAI Topology dc is not owned by ClusterTopologyBinding dc. It is required \
                         that KAI Topology by this name is created by Grove operator and has \
                         ClusterTopologyBinding set as its owner";
        let going = json!("2026-01-01T00:00:00Z");
        let cases = [
            ("/metadata/ownerReferences", json!([]), Class::Invalid, not_owned),
            ("/metadata/ownerReferences/0/controller", json!(false), Class::Invalid, not_owned),
            ("/metadata/ownerReferences/0/kind", json!("ClusterTopology"), Class::Invalid, ""),
            ("/metadata/ownerReferences/0/uid", json!("earlier life"), Class::Conflict, not_owned),
            ("/metadata/deletionTimestamp", going, Class::Conflict, "is being deleted"),
        ];
        for (pointer, value, class, message) in cases {
            let live = stored(|it| {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                it.pointer_mut(parent).unwrap()[key] = value;
                if pointer.ends_with("kind") {
                    it["metadata"]["ownerReferences"][0]["uid"] = json!("other");
                }
            });
            let error = plan(Some(&live)).unwrap_err();
            assert_eq!(error.class(), class, "{pointer}");
            assert!(error.message().contains(message), "{pointer}: {error}");
        }
    }

    #[test]
    fn topologies_of_other_owners_are_only_compared() {
        let drift = |live: Option<&SchedulerObject>| {
            let drift = Topologies.drift(&Topology::from(&binding()), "theirs", live);
            (drift.message.unwrap_or_default(), drift.observed_generation)
        };
        assert_eq!(drift(None), ("KAI Topology \"theirs\" not found".to_owned(), None));
        let same = stored(|it| it["metadata"]["ownerReferences"] = json!([]));
        assert_eq!(drift(Some(&same)), (String::new(), Some(3)));
        let other = stored(|it| it["spec"]["levels"] = json!([{ "nodeLabel": "r" }]));
        let differs = "KAI Topology levels differ from ClusterTopologyBinding levels".to_owned();
        assert_eq!(drift(Some(&other)), (differs, Some(3)));
    }
}
