//! The facts about a pod of the API.

use grove_api::{finalizers, labels};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::{ObservedPod, Phase, index_of};

impl From<&Pod> for ObservedPod {
    fn from(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let nothing = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&nothing);
        let condition = |type_: &str| {
            status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
        };
        let is_true = |type_| condition(type_).is_some_and(|one| one.status == "True");
        let label = |key: &str| meta.labels.as_ref()?.get(key).map(String::as_str);
        let owner = meta.owner_references.iter().flatten().find(|one| one.controller == Some(true));
        let clique = owner.map(|owner| owner.name.as_str()).or_else(|| label(labels::POD_CLIQUE));
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
        let containers = || status.container_statuses.iter().flatten();
        let failed = |container: &ContainerStatus| {
            let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
            last.is_some_and(|last| last.exit_code != 0)
        };
        let is_failing =
            |container: &ContainerStatus| container.started == Some(true) && !container.ready;
        let hostname = spec.and_then(|spec| spec.hostname.as_deref());
        Self {
            name: meta.name.as_deref().unwrap_or_default().into(),
            deleting: meta.deletion_timestamp.is_some(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            on_node: spec.and_then(|spec| spec.node_name.as_ref()).is_some_and(|n| !n.is_empty()),
            phase: Phase::from(status.phase.as_deref().unwrap_or_default()),
            ready: is_true("Ready"),
            scheduled: is_true("PodScheduled"),
            schedule_gated: condition("PodScheduled").is_some_and(|one| {
                one.status == "False" && one.reason.as_deref() == Some("SchedulingGated")
            }),
            has_gate: gates.iter().any(|gate| gate.name == finalizers::SCHEDULING_GATE),
            erroneous: containers()
                .chain(status.init_container_statuses.iter().flatten())
                .any(failed),
            started_not_ready: containers().any(is_failing),
            index: index_of(clique.unwrap_or_default(), hostname.unwrap_or_default()),
            template_hash: label(labels::POD_TEMPLATE_HASH).map(Into::into),
            gang: label(labels::POD_GANG).map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fact_about_a_pod_is_read_from_the_wire() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "x-0-a-abcde", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-01T00:00:09Z",
                "labels": { labels::POD_TEMPLATE_HASH: "hash", labels::POD_GANG: "x-0" },
                "ownerReferences": [{
                    "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "x-0-a",
                    "uid": "u", "controller": true,
                }],
            },
            "spec": {
                "containers": [], "hostname": "x-0-a-2", "nodeName": "node",
                "schedulingGates": [{ "name": finalizers::SCHEDULING_GATE }],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    { "type": "Ready", "status": "True" },
                    { "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" },
                ],
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "", "restartCount": 1, "ready": false,
                    "started": true, "lastState": { "terminated": { "exitCode": 1 } },
                }],
            },
        }))
        .unwrap();

        let expected = ObservedPod {
            name: "x-0-a-abcde".into(),
            deleting: true,
            created: "2026-01-01T00:00:00Z".parse().ok(),
            on_node: true,
            phase: Phase::Running,
            ready: true,
            scheduled: false,
            schedule_gated: true,
            has_gate: true,
            erroneous: true,
            started_not_ready: true,
            index: Some(2),
            template_hash: Some("hash".into()),
            gang: Some("x-0".into()),
        };
        assert_eq!(ObservedPod::from(&pod), expected);
        assert_eq!(ObservedPod::from(&Pod::default()), ObservedPod::default());
    }
}
