//! Sets with all their objects, for tests.

use std::collections::BTreeMap;

use grove_api::pod_gang::NamespacedName;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, finalizers, labels};
use grove_core::children::{self, owner};
use grove_core::gang;
use grove_core::layout::{Gang, Layout};
use grove_core::topology::{NodeLabels, SetTopology};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::live::Objects;

/// When everything was created.
pub(crate) const CREATED: &str = "2026-01-01T00:00:00Z";
/// A router next to a group of leader and workers, which runs twice.
pub(crate) const MINIMAL: &str = grove_api::testkit::MINIMAL_SET;

/// So many seconds after everything was created.
pub(crate) fn after(seconds: i64) -> Timestamp {
    CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A set and its objects, by name.
pub(crate) struct SetObjects {
    pub(crate) set: PodCliqueSet,
    pub(crate) groups: BTreeMap<String, PodCliqueScalingGroup>,
    pub(crate) cliques: BTreeMap<String, PodClique>,
    pub(crate) gangs: BTreeMap<String, PodGang>,
    /// Named after their clique and index.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// Labels of nodes, if they are known.
    pub(crate) nodes: Option<BTreeMap<String, NodeLabels>>,
}

/// The state of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Is {
    Gated,
    Unscheduled,
    Starting,
    Ready,
}

/// Changes an object by a merge patch.
pub(crate) fn patch<K: Serialize + DeserializeOwned>(object: &mut K, patch: &Value) {
    let mut value = json!(object);
    json_patch::merge(&mut value, patch);
    *object = serde_json::from_value(value).unwrap();
}

impl SetObjects {
    /// A stored set that the operator has not reconciled yet.
    pub(crate) fn new(manifest: &str) -> Self {
        let mut set: PodCliqueSet = serde_saphyr::from_str(manifest).unwrap();
        let stored = json!({ "metadata": {
            "namespace": "team-a", "uid": "u", "generation": 1, "creationTimestamp": CREATED,
        }});
        patch(&mut set, &stored);
        Self {
            set,
            groups: BTreeMap::new(),
            cliques: BTreeMap::new(),
            gangs: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: None,
        }
    }

    /// A set whose objects are all ready.
    pub(crate) fn ready(manifest: &str) -> Self {
        Self::ready_with(manifest, &SetTopology::Disabled)
    }

    /// The same with a topology.
    pub(crate) fn ready_with(manifest: &str, topology: &SetTopology) -> Self {
        let mut objects = Self::new(manifest);
        let set = objects.set.clone();
        let layout = Layout::of(&set);
        for replica in 0..layout.replicas() {
            objects.add_gang(&layout, &layout.base_gang(replica), topology);
            for group in layout.groups() {
                let mut live = children::scaling_group(&layout, replica, group, None);
                let number = live.spec.replicas;
                let status = json!({
                    "observedGeneration": 1, "replicas": number, "scheduledReplicas": number,
                    "availableReplicas": number, "updatedReplicas": number,
                    "conditions": [
                        condition("MinAvailableBreached", "False", 0),
                        condition("MinAvailableReached", "True", 2),
                    ],
                });
                let created = json!({ "creationTimestamp": CREATED });
                patch(&mut live, &json!({ "metadata": created, "status": status }));
                objects.groups.insert(live.name_any(), live);
                for gang in layout.scaled_gangs(replica, group, group.initial_replicas()) {
                    objects.add_gang(&layout, &gang, topology);
                }
            }
        }
        let number = set.spec.replicas;
        let status = json!({
            "observedGeneration": 1, "replicas": number, "availableReplicas": number,
            "updatedReplicas": number,
        });
        patch(&mut objects.set, &json!({ "status": status }));
        objects
    }

    fn add_gang(&mut self, layout: &Layout<'_>, gang: &Gang<'_>, topology: &SetTopology) {
        let mut references = BTreeMap::new();
        for clique in &gang.cliques {
            let owner = owner::of_set(layout.set());
            let mut live = children::pod_clique(layout, clique, "hash", &owner, None);
            let number = live.spec.replicas;
            let status = json!({
                "observedGeneration": 1, "replicas": number, "readyReplicas": number,
                "scheduledReplicas": number, "updatedReplicas": number,
                "conditions": [
                    condition("PodCliqueScheduled", "True", 2),
                    condition("MinAvailableBreached", "False", 2),
                    condition("MinAvailableReached", "True", 2),
                ],
            });
            let created = json!({ "creationTimestamp": CREATED });
            patch(&mut live, &json!({ "metadata": created, "status": status }));
            self.cliques.insert(clique.name.clone(), live);
            let names: Vec<_> = (0..number).map(|n| format!("{}-{n}", clique.name)).collect();
            for name in &names {
                let pod = json!({
                    "metadata": {
                        "name": name, "creationTimestamp": CREATED,
                        "labels": { labels::POD_CLIQUE: clique.name, labels::POD_GANG: gang.name },
                    },
                    "spec": { "nodeName": "node-1", "containers": [] },
                    "status": {
                        "phase": "Running",
                        "conditions": [
                            { "type": "PodScheduled", "status": "True" },
                            { "type": "Ready", "status": "True" },
                        ],
                        "containerStatuses": [container("c", true, &json!({ "running": {} }))],
                    },
                });
                self.pods.insert(name.clone(), serde_json::from_value(pod).unwrap());
            }
            let reference = |name| NamespacedName { name, ..NamespacedName::default() };
            references.insert(clique.name.clone(), names.into_iter().map(reference).collect());
        }
        let surroundings = gang::Surroundings { default_scheduler: "default-scheduler", topology };
        let mut live = gang::pod_gang(layout, gang, &references, surroundings, None);
        let status = json!({
            "phase": "Pending", "conditions": [condition("Initialized", "True", 1)],
        });
        let created = json!({ "creationTimestamp": CREATED });
        patch(&mut live, &json!({ "metadata": created, "status": status }));
        self.gangs.insert(gang.name.clone(), live);
    }

    pub(crate) fn patch_set(&mut self, change: &Value) {
        patch(&mut self.set, change);
    }

    pub(crate) fn patch_group(&mut self, name: &str, change: &Value) {
        patch(self.groups.get_mut(name).unwrap(), change);
    }

    pub(crate) fn patch_clique(&mut self, name: &str, change: &Value) {
        patch(self.cliques.get_mut(name).unwrap(), change);
    }

    pub(crate) fn patch_gang(&mut self, name: &str, change: &Value) {
        patch(self.gangs.get_mut(name).unwrap(), change);
    }

    pub(crate) fn patch_pod(&mut self, name: &str, change: &Value) {
        patch(self.pods.get_mut(name).unwrap(), change);
    }

    /// Gives the first pods of a clique these states, and removes the others.
    pub(crate) fn pods_are(&mut self, clique: &str, states: &[Is]) {
        let wanted = self.cliques[clique].spec.replicas;
        for number in 0..usize::try_from(wanted).unwrap() {
            let name = format!("{clique}-{number}");
            match states.get(number) {
                None => drop(self.pods.remove(&name)),
                Some(state) => self.patch_pod(&name, &pod_is(*state)),
            }
        }
    }

    /// The objects as a command reads them.
    pub(crate) fn objects(&self) -> Objects<'_> {
        Objects {
            set: &self.set,
            groups: self.groups.values().collect(),
            cliques: self.cliques.values().collect(),
            gangs: self.gangs.values().collect(),
            pods: self.pods.values().collect(),
            nodes: self.nodes.as_ref(),
        }
    }
}

fn pod_is(state: Is) -> Value {
    let condition = |type_: &str, is: bool| json!({ "type": type_, "status": if is { "True" } else { "False" } });
    match state {
        Is::Gated => json!({
            "spec": {
                "nodeName": null, "schedulingGates": [{ "name": finalizers::SCHEDULING_GATE }],
            },
            "status": {
                "phase": "Pending", "containerStatuses": null, "conditions": [{
                    "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                }],
            },
        }),
        Is::Unscheduled => json!({
            "spec": { "nodeName": null },
            "status": {
                "phase": "Pending", "containerStatuses": null,
                "conditions": [condition("PodScheduled", false)],
            },
        }),
        Is::Starting => json!({ "status": {
            "containerStatuses": [container("c", false, &json!({ "running": {} }))],
            "conditions": [condition("PodScheduled", true), condition("Ready", false)],
        }}),
        Is::Ready => json!({}),
    }
}

/// A condition that changed so many seconds after the creation.
pub(crate) fn condition(type_: &str, status: &str, since: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Reason", "message": "a message",
        "lastTransitionTime": after(since).to_string(),
    })
}

/// The status of a container.
pub(crate) fn container(name: &str, ready: bool, state: &Value) -> Value {
    json!({
        "name": name, "ready": ready, "started": ready, "restartCount": 0, "image": "busybox",
        "imageID": "", "state": state,
    })
}
