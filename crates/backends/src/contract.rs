//! What Grove asks of a scheduler.

use std::time::Duration;

use futures::future::BoxFuture;
use grove_api::{PodCliqueSet, PodGang, finalizers};
use grove_runtime::class::{Class, Classed};
use grove_runtime::fence::Fence;
use grove_runtime::write::{WriteError, Writer};
use serde_json::{Value, json};

/// One scheduler.
///
/// Calls are idempotent, may come in any order and again after a restart, and answer at once when
/// there is nothing to do: most calls find everything as it should be.
pub trait Backend: Send + Sync {
    /// Name of the backend, which is what its pods have as `spec.schedulerName`.
    fn name(&self) -> &str;

    /// Whether the scheduler acts on a label or an annotation of a PodGang. A change of such a key
    /// on a PodCliqueSet reaches its gangs at once, other keys follow with the next change.
    fn acts_on(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Once, before anything else. An error keeps the operator from starting, so what may come
    /// later, such as the scheduler's CRDs, is no error.
    fn init(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }

    /// Makes the scheduler's objects say what the gang says. The first call comes before there are
    /// pods: a gang has names, minima, constraints and priority from the start, references later.
    /// What is created here is owned by the gang.
    fn sync_pod_gang<'a>(
        &'a self,
        gang: &'a PodGang,
        cluster: Cluster<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        let _ = (gang, cluster);
        Box::pin(async { Ok(()) })
    }

    /// Cleans up what the garbage collector does not find, for a gang that is being deleted.
    fn pod_gang_deleted<'a>(
        &'a self,
        gang: &'a PodGang,
        cluster: Cluster<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        let _ = (gang, cluster);
        Box::pin(async { Ok(()) })
    }

    /// What the scheduler wants to find in pods. `draft` is one of the pods that a PodClique needs
    /// now, with its labels and our gate; the others differ in their index only, and get the same.
    fn prepare_pods<'a>(
        &'a self,
        draft: &'a Value,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>>;

    /// Whether the scheduler can do what a set asks for; the error is shown to its user. `old` is
    /// there when an existing set is changed.
    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
    ) -> BoxFuture<'a, Result<(), String>> {
        let _ = (set, old);
        Box::pin(async { Ok(()) })
    }
}

/// How a backend writes: with the leadership, the pace and the fence of the reconcile that calls it.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The only way to write.
    pub writer: &'a Writer,
    /// Writes of this reconcile.
    pub fence: &'a Fence,
}

/// What a backend changes in pods before they are created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preparation {
    patch: Value,
}

impl Preparation {
    /// A JSON merge patch for the pod.
    pub fn merge(patch: Value) -> Self {
        Self { patch }
    }

    /// Changes a pod. Whatever the patch says, our gate stays: backends may add gates of their own.
    pub fn apply(&self, pod: &mut Value) {
        json_patch::merge(pod, &self.patch);
        let ours = json!({ "name": finalizers::SCHEDULING_GATE });
        let gates = &mut pod["spec"]["schedulingGates"];
        match gates.as_array_mut() {
            Some(gates) if gates.contains(&ours) => {}
            Some(gates) => gates.push(ours),
            None => *gates = json!([ours]),
        }
    }
}

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("scheduler backend {backend:?}: {message}")]
pub struct BackendError {
    backend: String,
    message: String,
    class: Class,
    retry_after: Option<Duration>,
    #[source]
    source: Option<Box<WriteError>>,
}

impl BackendError {
    /// The workload asks for something that somebody has to change.
    pub fn invalid(backend: &dyn Backend, message: impl Into<String>) -> Self {
        Self {
            backend: backend.name().to_owned(),
            message: message.into(),
            class: Class::Invalid,
            retry_after: None,
            source: None,
        }
    }

    /// A write failed.
    pub fn write(backend: &dyn Backend, error: WriteError) -> Self {
        Self {
            backend: backend.name().to_owned(),
            message: error.to_string(),
            class: error.class(),
            retry_after: error.retry_after(),
            source: Some(Box::new(error)),
        }
    }
}

impl Classed for BackendError {
    fn class(&self) -> Class {
        self.class
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparation_changes_pods_but_never_removes_the_gate() {
        let ours = json!({ "name": finalizers::SCHEDULING_GATE });
        let theirs = json!({ "name": "other" });
        let cases = [
            (json!({}), json!([ours])),
            (json!({ "spec": { "schedulingGates": [theirs] } }), json!([theirs, ours])),
            (json!({ "spec": { "schedulingGates": [ours, theirs] } }), json!([ours, theirs])),
            (json!({ "spec": { "schedulingGates": null } }), json!([ours])),
        ];
        for (patch, gates) in cases {
            let mut pod = json!({ "spec": { "schedulingGates": [ours], "hostname": "a" } });
            Preparation::merge(patch.clone()).apply(&mut pod);
            assert_eq!(pod["spec"]["schedulingGates"], gates, "{patch}");
            assert_eq!(pod["spec"]["hostname"], "a", "{patch}");
        }
    }
}
