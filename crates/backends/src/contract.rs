//! What Grove asks of a scheduler.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use grove_api::condition::bounded_text;
use grove_api::{PodCliqueSet, PodGang, finalizers};
use grove_runtime::class::{Class, Classed};
use grove_runtime::fence::Fence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Presence;
use grove_runtime::write::{Write, WriteError, Writer};
use kube::Client;
use serde_json::{Value, json};

use crate::objects::SchedulerObject;
use crate::remote::Remote;
use crate::topology::TopologyPart;

/// One scheduler.
///
/// Calls are idempotent, may come in any order and again after a restart, and answer at once when
/// there is nothing to do: most calls find everything as it should be.
pub trait Backend: Send + Sync {
    /// Name of the backend, which is what its pods have as `spec.schedulerName`.
    fn name(&self) -> &str;

    /// What the scheduler can do for a workload, as things are in the cluster.
    fn capabilities(&self, objects: &dyn Objects) -> Capabilities;

    /// Kinds of the scheduler's objects that the backend makes or reads. The operator keeps them in
    /// memory, for [`Objects`], and looks at a gang again when an object that it owns changes. A kind
    /// that the cluster does not serve has no objects until it does.
    fn kinds(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Whether the scheduler acts on a label or an annotation of a PodGang. A change of such a key
    /// on a PodCliqueSet reaches its gangs at once, other keys follow with the next change.
    fn acts_on(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Once, before anything else. An error keeps the operator from starting, so what may come
    /// later, such as the scheduler's CRDs, is no error.
    fn init<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), BackendError>> {
        let _ = client;
        Box::pin(async { Ok(()) })
    }

    /// The writes, in this order, that make the scheduler's objects say what the gang says. The first
    /// call comes before there are pods: a gang has names, minima, constraints and priority from the
    /// start, references later. What is created here is owned by the gang, and goes with it.
    fn plan(&self, gang: &Gang<'_>) -> Result<Vec<Write>, BackendError> {
        let _ = gang;
        Ok(Vec::new())
    }

    /// Brings the scheduler in line with a gang: carries the plan out, unless a backend has another
    /// way.
    fn sync_pod_gang<'a>(
        &'a self,
        gang: Gang<'a>,
        cluster: Cluster<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            for write in self.plan(&gang)? {
                let written = cluster.writer.execute(cluster.fence, &write).await;
                written.map_err(|error| BackendError::write(self.name(), error))?;
            }
            Ok(())
        })
    }

    /// Whether it matters to [`plan`](Self::plan) and to [`handling`](Self::handling) how far the pods of a
    /// gang are. Without, [`Gang::progress`] says nothing.
    fn follows_pods(&self) -> bool {
        false
    }

    /// How the pods of a gang are made and deleted, where the scheduler counts them. Those that are being
    /// deleted count too, so a gang that is made anew stays gated until they are gone.
    fn handling(&self, gang: &PodGang, objects: &dyn Objects) -> Option<Handling> {
        let _ = (gang, objects);
        None
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

    /// What the scheduler wants to find in pods.
    fn prepare_pods<'a>(
        &'a self,
        pods: Pods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>>;

    /// Whether the scheduler can do what a set asks for; the error, or the warnings, are shown to its
    /// user. `old` is there when an existing set is changed.
    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
        objects: &'a dyn Objects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let _ = (set, old, objects);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// What the scheduler does for a set only in part, as things are in the cluster. Shown in a
    /// condition of the set.
    fn limits(&self, set: &PodCliqueSet, objects: &dyn Objects) -> Vec<Limit> {
        let _ = (set, objects);
        Vec::new()
    }

    /// What the scheduler does for topologies, if it has topology objects of its own.
    fn topology(&self) -> Option<&dyn TopologyPart> {
        None
    }

    /// The program that is asked instead, for a backend that is none of ours.
    fn remote(&self) -> Option<&Remote> {
        None
    }
}

/// What a scheduler can do for a workload, in words for people who compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What it is told about a gang.
    pub objects: Cow<'static, str>,
    /// The minimum of each clique.
    pub minimum: Cow<'static, str>,
    /// Several cliques together.
    pub gang: Cow<'static, str>,
    /// Places in the topology.
    pub topology: Cow<'static, str>,
    /// Queues.
    pub queue: Cow<'static, str>,
    /// Priority of the gang.
    pub priority: Cow<'static, str>,
}

/// Pods that are about to be created.
#[derive(Clone, Copy)]
pub struct Pods<'a> {
    /// One of the pods that a PodClique needs now, with its labels and our gate. The others differ in
    /// their index only, and get the same.
    pub draft: &'a Value,
    /// The gang that they say they are in, if it is there.
    pub gang: Option<&'a PodGang>,
    /// The set that they are of, if it is there.
    pub set: Option<&'a PodCliqueSet>,
    /// The scheduler's objects.
    pub objects: &'a dyn Objects,
}

/// What a scheduler needs of whoever makes and deletes the pods of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handling {
    /// Pods above the minimum of their member are made when the minima of the whole gang are scheduled,
    /// and not before: they could take the room that a minimum needs.
    pub minimum_first: bool,
    /// Which pods are above the minimum is decided by their index for good, so they are the first to go.
    pub by_index: bool,
    /// A pod with a gate holds up the pods of its gang that wait, and goes on to do so when it was deleted.
    pub gated_pods_block: bool,
}

/// Something that a set asks for and that its scheduler does only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// One word.
    pub reason: &'static str,
    /// What is not done, and what would change that.
    pub message: String,
}

/// A gang and what a backend may look at to serve it.
#[derive(Clone, Copy)]
pub struct Gang<'a> {
    /// The gang.
    pub object: &'a PodGang,
    /// The set that owns it, if it is there.
    pub set: Option<&'a PodCliqueSet>,
    /// How far its pods are.
    pub progress: &'a Progress,
    /// The scheduler's objects.
    pub objects: &'a dyn Objects,
}

/// How far the pods of a gang are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// They were all there once, and none of them has our gate now.
    pub released: bool,
    /// The members of which some pods have ended well.
    pub ended: BTreeMap<String, Ended>,
}

/// Pods of a member that ended well. They are not replaced, and schedulers do not count them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Their indices.
    pub indices: Vec<u32>,
    /// How many pods of the member have not ended.
    pub left: u32,
}

impl Gang<'_> {
    /// Namespace and name of the gang.
    pub fn key(&self) -> ObjectKey {
        let metadata = &self.object.metadata;
        ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

/// The objects of the kinds that backends named.
pub trait Objects: Send + Sync {
    /// One object.
    fn get(&self, resource: &Resource, key: &ObjectKey) -> Option<Arc<SchedulerObject>>;

    /// The objects that a gang owns, this life of it or an earlier one.
    fn of_gang(&self, resource: &Resource, gang: &ObjectKey) -> Vec<Arc<SchedulerObject>>;

    /// Whether the cluster serves a kind.
    fn presence(&self, resource: &Resource) -> Presence;

    /// Fails unless the cluster serves a kind that `backend` writes.
    fn require(&self, backend: &str, resource: &Resource) -> Result<(), BackendError> {
        match self.presence(resource) {
            Presence::Served => Ok(()),
            Presence::Absent => Err(BackendError::not_served(backend, resource)),
            Presence::Unknown => Err(BackendError::presence_unknown(backend, resource)),
        }
    }

    /// Fails while it is unknown whether the cluster serves a kind. What goes into a pod cannot be
    /// changed later, so pods that depend on the kind wait until it is known.
    fn known(&self, backend: &str, resource: &Resource) -> Result<(), BackendError> {
        match self.presence(resource) {
            Presence::Served | Presence::Absent => Ok(()),
            Presence::Unknown => Err(BackendError::presence_unknown(backend, resource)),
        }
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
    /// For pods from this index on.
    above: Option<(u32, Value)>,
}

impl Preparation {
    /// A JSON merge patch for the pod.
    pub fn merge(patch: Value) -> Self {
        Self { patch, above: None }
    }

    /// The same with another patch for pods from an index on.
    #[must_use]
    pub fn and_from(self, index: u32, patch: Value) -> Self {
        Self { above: Some((index, patch)), ..self }
    }

    /// Changes the pod with an index. Whatever the patch says, our gate stays: backends may add gates of
    /// their own.
    pub fn apply(&self, index: u32, pod: &mut Value) {
        let above = self.above.as_ref().filter(|(from, _)| *from <= index);
        json_patch::merge(pod, above.map_or(&self.patch, |(_, patch)| patch));
        let ours = json!({ "name": finalizers::SCHEDULING_GATE });
        let gates = &mut pod["spec"]["schedulingGates"];
        match gates.as_array_mut() {
            Some(gates) if gates.contains(&ours) => {}
            Some(gates) => gates.push(ours),
            None => *gates = json!([ours]),
        }
    }
}

/// Longest message of a backend, in bytes. Backends may be programs of others, and their texts end up in
/// statuses and events.
pub(crate) const MESSAGE_MAX: usize = 4096;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("scheduler backend {backend:?}: {message}")]
pub struct BackendError {
    backend: String,
    reason: Cow<'static, str>,
    message: String,
    class: Class,
    retry_after: Option<Duration>,
    #[source]
    source: Option<Box<WriteError>>,
}

impl BackendError {
    /// The workload asks for something that somebody has to change. The reason is that of the event
    /// and the condition that tell it.
    pub fn invalid(
        backend: &str,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            backend: backend.to_owned(),
            reason: reason.into(),
            message: bounded_text(&message.into(), MESSAGE_MAX).into_owned(),
            class: Class::Invalid,
            retry_after: None,
            source: None,
        }
    }

    /// The cluster does not serve a kind of the scheduler. Work goes on when it does.
    pub fn not_served(backend: &str, resource: &Resource) -> Self {
        let (group, version) = (&resource.group, &resource.version);
        let message = format!(
            "the cluster does not serve {}.{group}/{version}, or not to the operator: install the \
             scheduler and the operator's role for it",
            resource.plural
        );
        Self::invalid(backend, "SchedulerNotInstalled", message)
    }

    /// The API server refuses a kind of the scheduler that may still exist. Work goes on when the
    /// operator can watch the kind again, or when discovery confirms that it is gone.
    pub fn presence_unknown(backend: &str, resource: &Resource) -> Self {
        let (group, version) = (&resource.group, &resource.version);
        let message = format!(
            "the API server refuses {plural}.{group}/{version}, and discovery does not confirm that \
             the kind is gone: new pods and objects that need it are held back until that is known. \
             Give the operator its role for {plural} (list and watch), or check the API server",
            plural = resource.plural
        );
        Self::invalid(backend, "SchedulerApiUnknown", message)
    }

    /// Something has to be there first that is on its way; its arrival is noticed.
    pub fn not_yet(backend: &str, message: impl Into<String>) -> Self {
        let reason = "SchedulerObjectMissing";
        Self { class: Class::Conflict, ..Self::invalid(backend, reason, message) }
    }

    /// A write failed.
    pub fn write(backend: &str, error: WriteError) -> Self {
        Self {
            backend: backend.to_owned(),
            reason: "SchedulerObjectRefused".into(),
            message: bounded_text(&error.to_string(), MESSAGE_MAX).into_owned(),
            class: error.class(),
            retry_after: error.retry_after(),
            source: Some(Box::new(error)),
        }
    }

    /// The same failure of another class.
    pub(crate) fn with_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// What is wrong, without the name of the backend.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// One word, for conditions and events.
    pub fn reason(&self) -> &str {
        &self.reason
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
    use grove_api::foreign::{kai, volcano};
    use grove_runtime::clock::Clock;

    use super::*;
    use crate::kai_scheduler::KaiScheduler;
    use crate::objects::testkit::Given;
    use crate::volcano::Volcano;

    #[test]
    fn messages_of_backends_are_bounded() {
        let error = BackendError::invalid("b", "Reason", "x".repeat(1 << 20));
        assert_eq!(error.message().len(), MESSAGE_MAX);
        assert!(error.message().ends_with("(cut, 1048576 bytes in all)"), "{}", error.message());
    }

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
            Preparation::merge(patch.clone()).apply(0, &mut pod);
            assert_eq!(pod["spec"]["schedulingGates"], gates, "{patch}");
            assert_eq!(pod["spec"]["hostname"], "a", "{patch}");
        }
    }

    #[tokio::test]
    async fn pods_of_schedulers_with_groups_wait_while_the_kind_of_the_group_is_unknown() {
        let kai = KaiScheduler { default_queue: None, creates_pod_groups: true };
        let grouped_by_kai = KaiScheduler { default_queue: None, creates_pod_groups: false };
        let labels = json!({ "grove.io/podgang": "x-0", "grove.io/podclique": "x-0-a" });
        let draft = json!({ "metadata": { "labels": labels } });
        let volcano = Volcano { clock: Clock::system() };
        let cases: [(&dyn Backend, bool); 3] =
            [(&kai, true), (&volcano, true), (&grouped_by_kai, false)];
        for (backend, waits) in cases {
            let kinds = [Resource::of::<kai::PodGroup>(), Resource::of::<volcano::PodGroup>()];
            let unknown = Given { unknown: kinds.to_vec(), ..Given::default() };
            let absent = Given { absent: kinds.to_vec(), ..Given::default() };
            let prepare = async |objects: &Given| {
                let pods = Pods { draft: &draft, gang: None, set: None, objects };
                backend.prepare_pods(pods).await.map_err(|error| error.reason().to_owned())
            };
            let expected = if waits { Err("SchedulerApiUnknown".to_owned()) } else { Ok(()) };
            assert_eq!(prepare(&unknown).await.map(drop), expected, "{}", backend.name());
            assert!(prepare(&absent).await.is_ok(), "{}", backend.name());
        }
    }

    #[test]
    fn pods_from_an_index_on_may_get_something_else() {
        let named = |name: &str| json!({ "spec": { "a": name } });
        let preparation = Preparation::merge(named("first")).and_from(2, named("further"));
        let of = |index| {
            let mut pod = json!({});
            preparation.apply(index, &mut pod);
            pod["spec"]["a"].clone()
        };
        assert_eq!([0, 1, 2, 3].map(of), ["first", "first", "further", "further"]);
    }
}
