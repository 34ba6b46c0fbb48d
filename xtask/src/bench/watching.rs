//! Watches all kinds that a deployment creates and merges their changes.
//!
//! One thread per kind reads lines and records the time. The watches request complete objects, as those of
//! the operator do, so that the API server encodes each change once. A busy server ends watches now and then;
//! they resume.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use xtask::cluster::{Connector, Lines};
use xtask::poll::Stopwatch;

use super::progress::{Change, Kind, Pod};

/// A change and the time of its observation, or why the watch ended.
type Observed = Result<(Duration, Change)>;

/// Watches a namespace; all watches have started on return.
pub(crate) fn start(
    connector: &Connector,
    namespace: &str,
    clock: Stopwatch,
) -> Result<Receiver<Observed>> {
    let (changes, seen) = mpsc::channel();
    let watch = |path: String| Watch { connector: connector.clone(), path, clock };
    watch(format!("/api/v1/namespaces/{namespace}/pods")).start(changes.clone(), pod_change)?;
    for kind in Kind::ALL {
        let decode = move |line: &str| object_change(kind, line);
        watch(kind.path(namespace)).start(changes.clone(), decode)?;
    }
    Ok(seen)
}

/// A change and its resourceVersion.
type Decoded = Result<(Change, String)>;

/// The watch of one kind.
struct Watch {
    connector: Connector,
    path: String,
    clock: Stopwatch,
}

impl Watch {
    /// Starts the watch and sends changes until the receiver is dropped.
    fn start(
        self,
        changes: Sender<Observed>,
        decode: impl Fn(&str) -> Decoded + Send + 'static,
    ) -> Result<()> {
        let mut lines = self.lines("")?;
        thread::spawn(move || {
            let mut version = String::new();
            loop {
                for line in lines {
                    let at = self.clock.elapsed();
                    // The next watch repeats an incomplete line.
                    let Ok(line) = line else { break };
                    let change = decode(&line).map(|(change, now)| {
                        version = now;
                        (at, change)
                    });
                    if changes.send(change).is_err() {
                        return;
                    }
                }
                match self.lines(&version) {
                    Ok(again) => lines = again,
                    Err(error) => {
                        let _ = changes.send(Err(error.context("a watch cannot be resumed")));
                        return;
                    }
                }
            }
        });
        Ok(())
    }

    /// Changes after `version`; without one, all objects first.
    fn lines(&self, version: &str) -> Result<Lines> {
        let path = format!("{}?watch=true&resourceVersion={version}", self.path);
        self.connector.connect()?.lines(&path)
    }
}

#[derive(Debug, Deserialize)]
struct Event<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

#[derive(Debug, Deserialize)]
struct RawObject {
    metadata: RawMeta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    name: String,
    resource_version: String,
    #[serde(default)]
    labels: RawLabels,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct RawLabels {
    #[serde(rename = "grove.io/podgang")]
    gang: Option<String>,
    #[serde(rename = "grove.io/base-podgang")]
    base_gang: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct RawPod {
    metadata: RawMeta,
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default)]
    scheduling_gates: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct RawStatus {
    #[serde(default)]
    conditions: Vec<RawCondition>,
}

#[derive(Debug, Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn decode<'a, T: Deserialize<'a>>(line: &'a str) -> Result<(bool, T)> {
    let event: Event<T> = serde_json::from_str(line)
        .with_context(|| format!("cannot decode a watch event: {line}"))?;
    Ok((event.kind == "DELETED", event.object))
}

fn object_change(kind: Kind, line: &str) -> Decoded {
    let (deleted, RawObject { metadata }) = decode(line)?;
    let change = Change::Object { kind, name: metadata.name, deleted };
    Ok((change, metadata.resource_version))
}

fn pod_change(line: &str) -> Decoded {
    let (deleted, RawPod { metadata, spec, status }) = decode(line)?;
    let ready = status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True");
    let scaled = metadata.labels.base_gang.is_some();
    let state = Pod {
        base_gang: metadata.labels.gang.filter(|_| !scaled),
        gated: !spec.scheduling_gates.is_empty(),
        ready: ready && metadata.deletion_timestamp.is_none(),
    };
    let change = Change::Pod { name: metadata.name, state: (!deleted).then_some(state) };
    Ok((change, metadata.resource_version))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(kind: &str, change: impl Fn(&mut Value)) -> Change {
        let mut pod = json!({
            "metadata": {
                "name": "p",
                "resourceVersion": "7",
                "labels": {"grove.io/podgang": "g", "other": "x"},
                "managedFields": [{"manager": "m"}],
            },
            "spec": {"schedulingGates": [{"name": "gate"}], "containers": []},
        });
        change(&mut pod);
        let (change, version) =
            pod_change(&json!({"type": kind, "object": pod}).to_string()).unwrap();
        assert_eq!(version, "7");
        change
    }

    fn state(change: Change) -> Pod {
        let Change::Pod { name, state: Some(state) } = change else { panic!("{change:?}") };
        assert_eq!(name, "p");
        state
    }

    fn ready(pod: &mut Value) {
        let gated = pod["spec"].as_object_mut().unwrap();
        gated.remove("schedulingGates");
        pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    }

    #[test]
    fn a_pod_is_decoded_in_every_state() {
        let gang = Some("g".to_owned());
        let new = state(pod("ADDED", |_| {}));
        assert_eq!(new, Pod { base_gang: gang.clone(), gated: true, ready: false });
        let up = state(pod("MODIFIED", ready));
        assert_eq!(up, Pod { base_gang: gang, gated: false, ready: true });
        let leaving = state(pod("MODIFIED", |pod| {
            ready(pod);
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }));
        assert!(!leaving.ready, "a pod on its way out does not count");
        assert_eq!(pod("DELETED", ready), Change::Pod { name: "p".to_owned(), state: None });
    }

    #[test]
    fn a_member_of_a_scaled_gang_is_in_no_base_gang() {
        let scaled = state(pod("ADDED", |pod| {
            pod["metadata"]["labels"]["grove.io/base-podgang"] = "b".into();
        }));
        assert_eq!(scaled.base_gang, None);
    }

    #[test]
    fn other_objects_are_counted_by_name() {
        let object = json!({"metadata": {"name": "g", "resourceVersion": "8"}, "spec": {}});
        let line = json!({"type": "DELETED", "object": object});
        let change = Change::Object { kind: Kind::Gang, name: "g".to_owned(), deleted: true };
        let expected = (change, "8".to_owned());
        assert_eq!(object_change(Kind::Gang, &line.to_string()).unwrap(), expected);
        let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
        assert!(object_change(Kind::Gang, &error.to_string()).is_err());
    }
}
