//! The view of a pod: its clique and whether it counts.

use grove_api::condition::TRUE;
use grove_api::labels;
use grove_runtime::resource::Resource;
use grove_runtime::view::{Meta, View};
use serde::Deserialize;

pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// The kubelet sets this condition to True when all containers are ready.
const READY: &str = "Ready";

/// A pod of the gang.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PodView {
    metadata: Meta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawStatus")]
struct PodStatus {
    ready: bool,
}

#[derive(Deserialize)]
struct RawStatus {
    #[serde(default)]
    conditions: Vec<RawCondition>,
}

#[derive(Deserialize)]
struct RawCondition {
    r#type: String,
    status: String,
}

impl From<RawStatus> for PodStatus {
    fn from(raw: RawStatus) -> Self {
        let ready = |c: &RawCondition| c.r#type == READY && c.status == TRUE;
        Self { ready: raw.conditions.iter().any(ready) }
    }
}

impl View for PodView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl PodView {
    /// The PodClique that this pod currently counts for. The label decides, not the name: one name can be a
    /// prefix of another.
    pub(crate) fn counts_for(&self) -> Option<&str> {
        let counts = self.status.ready && !self.metadata.deleting;
        self.metadata.labels.get(labels::POD_CLIQUE).filter(|_| counts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn counts_for(
        labels: &serde_json::Value,
        deleted_at: Option<&str>,
        status: &serde_json::Value,
    ) -> Option<String> {
        let mut pod = json!({
            "metadata": {"name": "x-0-a-zx81q", "uid": "u", "resourceVersion": "1", "labels": labels},
            "status": status,
        });
        if let Some(time) = deleted_at {
            pod["metadata"]["deletionTimestamp"] = json!(time);
        }
        let view: PodView = serde_json::from_value(pod).unwrap();
        view.counts_for().map(str::to_owned)
    }

    #[test]
    fn only_a_ready_pod_that_is_not_terminating_counts_for_its_label() {
        let own = json!({"grove.io/podclique": "x-0-a", "grove.io/podgang": "x-0"});
        let ready = json!({"conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True"},
        ]});
        let condition =
            |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        let deleted = Some("2026-01-01T00:00:00Z");
        let cases = [
            (&own, None, ready.clone(), Some("x-0-a")),
            (&own, deleted, ready.clone(), None),
            (&own, None, condition("Ready", "False"), None),
            (&own, None, condition("Ready", "Unknown"), None),
            (&own, None, condition("ContainersReady", "True"), None),
            (&own, None, json!({"phase": "Pending"}), None),
            (&own, None, json!({}), None),
            (&json!({"grove.io/podgang": "x-0"}), None, ready, None),
        ];
        for (labels, deleted_at, status, expected) in cases {
            let found = counts_for(labels, deleted_at, &status);
            assert_eq!(found.as_deref(), expected, "{labels} {deleted_at:?} {status}");
        }
    }

    #[test]
    fn a_pod_without_status_is_not_ready() {
        let pod = json!({"metadata": {"name": "a", "labels": {"grove.io/podclique": "x-0-a"}}});
        let view: PodView = serde_json::from_value(pod).unwrap();
        assert_eq!(view.counts_for(), None);
    }
}
