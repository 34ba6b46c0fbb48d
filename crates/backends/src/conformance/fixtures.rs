//! The objects in the requests: a set of two pods, its gang, and one of the pods.

use grove_api::{annotations, finalizers, labels};
use serde_json::{Value, json};

const NAMESPACE: &str = "conformance";
const SET: &str = "demo";
const GANG: &str = "demo-0";
const CLIQUE: &str = "demo-0-worker";
const TOPOLOGY: &str = "racks";

/// Objects for one scheduler.
pub(super) struct Fixtures {
    pub(super) scheduler: String,
}

impl Fixtures {
    /// The set, as admission sees it.
    pub(super) fn set(&self) -> Value {
        json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": { "name": SET, "namespace": NAMESPACE, "uid": "set-1", "generation": 1 },
            "spec": { "replicas": 1, "template": { "cliques": [{
                "name": "worker",
                "spec": {
                    "roleName": "worker", "replicas": 2, "minAvailable": 2,
                    "podSpec": {
                        "schedulerName": self.scheduler,
                        "containers": [{ "name": "main", "image": "busybox" }],
                    },
                },
            }]}},
        })
    }

    /// A gang with this uid suffix, generation and number of pod references.
    pub(super) fn gang(&self, life: &str, generation: i64, pods: usize) -> Value {
        let pod = |index| json!({ "namespace": NAMESPACE, "name": format!("{CLIQUE}-{index:05}") });
        let references: Vec<Value> = (0..pods).map(pod).collect();
        json!({
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {
                "name": GANG, "namespace": NAMESPACE, "uid": format!("gang-{life}"),
                "generation": generation,
                "labels": {
                    labels::MANAGED_BY: labels::MANAGED_BY_VALUE,
                    labels::PART_OF: SET,
                    labels::SCHEDULER_NAME: self.scheduler,
                },
                "ownerReferences": [{
                    "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": SET,
                    "uid": "set-1", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": { "podgroups": [
                { "name": CLIQUE, "minReplicas": 2, "podReferences": references },
            ]},
        })
    }

    /// The set, each replica of which has to be in one rack.
    pub(super) fn packed_set(&self) -> Value {
        let mut set = self.set();
        set["spec"]["template"]["topologyConstraint"] = json!({ "topologyName": TOPOLOGY, "pack": { "required": "rack", "preferred": "host" } });
        set
    }

    /// A gang of that set.
    pub(super) fn packed_gang(&self) -> Value {
        let mut gang = self.gang("3", 1, 0);
        gang["metadata"]["annotations"] = json!({ annotations::TOPOLOGY_NAME: TOPOLOGY });
        gang["spec"]["topologyConstraint"] = json!({ "packConstraint": {
            "required": "topology.kubernetes.io/rack", "preferred": "kubernetes.io/hostname",
        } });
        gang
    }

    /// A pod that is about to be created.
    pub(super) fn pod(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": format!("{CLIQUE}-"), "namespace": NAMESPACE,
                "labels": {
                    labels::MANAGED_BY: labels::MANAGED_BY_VALUE,
                    labels::PART_OF: SET,
                    labels::POD_CLIQUE: CLIQUE,
                    labels::POD_GANG: GANG,
                },
            },
            "spec": {
                "schedulerName": self.scheduler,
                "schedulingGates": [{ "name": finalizers::SCHEDULING_GATE }],
                "containers": [{ "name": "main", "image": "busybox" }],
            },
        })
    }
}

/// Objects as a cluster would have stored them for a gang.
pub(super) fn stored(objects: &[Value], gang: &Value) -> Vec<Value> {
    let stored = |object: &Value| {
        let mut object = object.clone();
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(NAMESPACE);
        metadata["uid"] = json!("object-1");
        metadata["resourceVersion"] = json!("7");
        metadata["ownerReferences"] = json!([{
            "apiVersion": gang["apiVersion"], "kind": gang["kind"],
            "name": gang["metadata"]["name"], "uid": gang["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        object["status"] = json!({ "phase": "Pending" });
        object
    };
    objects.iter().map(stored).collect()
}

#[cfg(test)]
mod tests {
    use grove_api::{PodCliqueSet, PodGang};

    use super::*;

    #[test]
    fn fixtures_are_objects_of_our_types() {
        let fixtures = Fixtures { scheduler: "crew-scheduler".to_owned() };
        let set: PodCliqueSet = serde_json::from_value(fixtures.set()).unwrap();
        let clique = &set.spec.template.cliques[0];
        assert_eq!(clique.spec.pod_spec.scheduler_name(), Some("crew-scheduler"));
        assert_eq!(clique.spec.unknown, grove_api::unknown::Unknown::default());
        let gang: PodGang = serde_json::from_value(fixtures.gang("1", 2, 3)).unwrap();
        assert_eq!(gang.spec.pod_groups[0].pod_references.len(), 3);
        assert_eq!(serde_json::to_value(&gang).unwrap(), fixtures.gang("1", 2, 3));
        let packed: PodCliqueSet = serde_json::from_value(fixtures.packed_set()).unwrap();
        let constraint = packed.spec.template.topology_constraint.unwrap();
        assert_eq!((constraint.required(), constraint.preferred()), (Some("rack"), Some("host")));
        let packed: PodGang = serde_json::from_value(fixtures.packed_gang()).unwrap();
        assert_eq!(serde_json::to_value(&packed).unwrap(), fixtures.packed_gang());
    }
}
