//! What Grove asks of a scheduler.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use grove_api::{PodCliqueSet, PodGang, finalizers};
use grove_runtime::controller::Outside;
use grove_runtime::fence::Fence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Presence;
use grove_runtime::write::{Write, Writer};
use kube::Client;
use serde_json::{Value, json};

use crate::error::{BackendError, BackendFailure};
use crate::objects::SchedulerObject;
use crate::topology::TopologyPart;

/// One scheduler.
///
/// Calls are idempotent, come in any order and again after a restart, and return at once when there is
/// nothing to do: most calls find everything up to date.
///
/// A backend deals with three things:
/// - **gangs**: [`plan`](Self::plan) is a pure function from a gang to the writes that bring the
///   scheduler's objects in line with it; [`sync_pod_gang`](Self::sync_pod_gang) executes them.
/// - **pods**: [`prepare_pods`](Self::prepare_pods) says what new pods contain. It is the only part that
///   every backend needs, and asynchronous because a backend may have to ask another program.
///   [`pods`](Self::pods) is for schedulers that count the pods of a gang: when the operator creates,
///   deletes and releases pods then depends on the gang.
/// - **sets**: [`validate`](Self::validate) in admission, [`limitations`](Self::limitations) in the status.
pub trait Backend: Send + Sync {
    /// Name of the backend, which its pods have as `spec.schedulerName`.
    fn name(&self) -> &str;

    /// What the scheduler can do for a workload on this cluster.
    fn capabilities(&self, objects: &dyn SchedulerObjects) -> Capabilities;

    /// Kinds of the scheduler's objects that the backend creates or reads. The operator caches them, for
    /// [`SchedulerObjects`], and reconciles a gang when an object that the gang owns changes. A kind that
    /// the cluster does not serve has no objects until it does.
    fn kinds(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Whether the scheduler acts on a label or an annotation of a PodGang. A change of such a key
    /// on a PodCliqueSet reaches its gangs at once, other keys follow with the next change.
    fn acts_on(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Called once, before anything else. An error keeps the operator from starting, so what may be
    /// installed later, such as the scheduler's CRDs, is no error.
    fn init<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), BackendError>> {
        let _ = client;
        Box::pin(async { Ok(()) })
    }

    /// URL of the program behind the backend, if it is a program of its own.
    fn url(&self) -> Option<String> {
        None
    }

    /// Checks whether the backend can be called now.
    fn check(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }

    /// Completes when calls that failed because the backend could not be reached may succeed. The operator
    /// then retries them.
    fn recovered(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// The writes, in this order, that bring the scheduler's objects in line with a gang. The first call
    /// precedes the pods: a gang has names, minima, constraints and priority from the start, references
    /// later. Objects that are created here are owned by the gang, so that they are deleted with it.
    fn plan(&self, gang: &GangInput<'_>) -> Result<Vec<Write>, BackendError> {
        let _ = gang;
        Ok(Vec::new())
    }

    /// Brings the scheduler in line with a gang: executes the plan, unless a backend does it differently.
    fn sync_pod_gang<'a>(
        &'a self,
        gang: GangInput<'a>,
        call: CallContext<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move { call.execute(self.name(), self.plan(&gang)?).await })
    }

    /// Cleans up what owner references do not, for a gang that is being deleted or no longer exists: then
    /// there is no `object`, and all backends are called.
    fn pod_gang_deleted<'a>(
        &'a self,
        gang: &'a ObjectKey,
        object: Option<&'a PodGang>,
        call: CallContext<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        let _ = (gang, object, call);
        Box::pin(async { Ok(()) })
    }

    /// What new pods have to contain for the scheduler.
    fn prepare_pods<'a>(
        &'a self,
        pods: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>>;

    /// The rules for pods, if the scheduler counts the pods of gangs. With it the operator
    /// reports the progress of pods in [`GangInput::progress`].
    fn pods(&self) -> Option<&dyn PodPart> {
        None
    }

    /// Whether the scheduler can do what a set asks for; the user sees the error, or the warnings. `old` is
    /// present when an existing set is updated.
    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
        objects: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let _ = (set, old, objects);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// What a set asks for and the scheduler does not fully support on this cluster. A condition of the
    /// set reports it.
    fn limitations(&self, set: &PodCliqueSet, objects: &dyn SchedulerObjects) -> Vec<Limitation> {
        let _ = (set, objects);
        Vec::new()
    }

    /// What the scheduler does for topologies, if it has topology objects of its own.
    fn topology(&self) -> Option<&dyn TopologyPart> {
        None
    }
}

/// The rules for pods of a scheduler that counts the pods of a gang: an optional part of the
/// contract.
pub trait PodPart: Send + Sync {
    /// How the pods of a gang are created and deleted; nothing for a gang whose pods the scheduler does not
    /// count. Terminating pods count too, so a gang that is recreated keeps its gates until they are gone.
    fn rules(&self, gang: &PodGang, objects: &dyn SchedulerObjects) -> Option<PodRules>;
}

/// What a scheduler can do for a workload, as a row of a table that users compare schedulers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The objects that a gang becomes.
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

/// Pods of a PodClique that are about to be created.
#[derive(Clone, Copy)]
pub struct NewPods<'a> {
    /// One of the pods, with its labels and our gate. The others differ in their index only, and get the
    /// same preparation.
    pub draft: &'a Value,
    /// The gang that the pods belong to by their label, if it exists.
    pub gang: Option<&'a PodGang>,
    /// The set that the pods belong to, if it exists.
    pub set: Option<&'a PodCliqueSet>,
    /// The scheduler's objects.
    pub objects: &'a dyn SchedulerObjects,
    /// For backends that wait for another program.
    pub outside: &'a Outside,
}

/// How the operator creates and deletes the pods of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodRules {
    /// Pods above the minimum of their member are created after the minima of the whole gang are
    /// scheduled: they could take the room that a minimum needs.
    pub minimum_first: bool,
    /// The index of a pod decides for good whether it is above the minimum, so pods above are deleted
    /// first.
    pub by_index: bool,
    /// A gated pod blocks the pods of its gang that wait, and still does while it terminates.
    pub gated_pods_block: bool,
}

/// Something that a set asks for and its scheduler does not fully support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limitation {
    /// One word.
    pub reason: &'static str,
    /// What is not supported, and what would change that.
    pub message: String,
}

/// A gang, and what a backend may read to serve it.
#[derive(Clone, Copy)]
pub struct GangInput<'a> {
    /// The gang.
    pub object: &'a PodGang,
    /// The set that owns it, if it exists.
    pub set: Option<&'a PodCliqueSet>,
    /// Progress of its pods; empty for backends without [`Backend::pods`].
    pub progress: &'a PodProgress,
    /// Name of the scheduler's own topology object, if the topology of the gang refers to one that another
    /// owner manages.
    pub topology: Option<&'a str>,
    /// The scheduler's objects.
    pub objects: &'a dyn SchedulerObjects,
}

/// Progress of the pods of a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodProgress {
    /// All pods have existed, and none of them has our gate now.
    pub released: bool,
    /// The members with succeeded pods.
    pub succeeded: BTreeMap<String, SucceededPods>,
}

/// Pods of a member that succeeded. They are not replaced, and schedulers do not count them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SucceededPods {
    /// Their indices.
    pub indices: Vec<u32>,
    /// How many pods of the member have not succeeded.
    pub remaining: u32,
}

impl GangInput<'_> {
    /// Namespace and name of the gang.
    pub fn key(&self) -> ObjectKey {
        let metadata = &self.object.metadata;
        ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

/// The objects of [`Backend::kinds`].
pub trait SchedulerObjects: Send + Sync {
    /// One object.
    fn get(&self, resource: &Resource, key: &ObjectKey) -> Option<Arc<SchedulerObject>>;

    /// The objects that a gang owns, or that an earlier gang of the same name owned.
    fn of_gang(&self, resource: &Resource, gang: &ObjectKey) -> Vec<Arc<SchedulerObject>>;

    /// Whether the cluster serves a kind.
    fn presence(&self, resource: &Resource) -> Presence;

    /// Fails unless the cluster serves a kind that `backend` writes.
    fn require(&self, backend: &str, resource: &Resource) -> Result<(), BackendError> {
        BackendError::unless_served(backend, resource, self.presence(resource))
    }

    /// Fails while it is unknown whether the cluster serves a kind. What a pod says about the kind cannot
    /// be changed later, so pods that depend on it wait until it is known.
    fn known(&self, backend: &str, resource: &Resource) -> Result<(), BackendError> {
        match self.presence(resource) {
            Presence::Absent => Ok(()),
            presence => BackendError::unless_served(backend, resource, presence),
        }
    }
}

/// What a backend writes and waits with: the leadership, pace, fence and place of the reconcile that
/// calls it.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// The only way to write.
    pub writer: &'a Writer,
    /// Writes of this reconcile.
    pub fence: &'a Fence,
    /// For backends that wait for another program.
    pub outside: &'a Outside,
}

impl CallContext<'_> {
    /// Executes the writes of a backend in their order, up to the first that fails.
    pub(crate) async fn execute(
        self,
        backend: &str,
        writes: Vec<Write>,
    ) -> Result<(), BackendError> {
        for write in writes {
            let written = self.writer.execute(self.fence, &write).await;
            written.map_err(|error| BackendError::new(backend, BackendFailure::Write(error)))?;
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use grove_runtime::clock::Clock;

    use super::*;
    use crate::kai_scheduler::{self, KaiScheduler};
    use crate::objects::testkit::Given;
    use crate::volcano::{self, Volcano};

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
            let kinds = [kai_scheduler::POD_GROUPS, volcano::POD_GROUPS];
            let unknown = Given { unknown: kinds.to_vec(), ..Given::default() };
            let absent = Given { absent: kinds.to_vec(), ..Given::default() };
            let prepare = async |objects: &Given| {
                let outside = &Outside::default();
                let pods = NewPods { draft: &draft, gang: None, set: None, objects, outside };
                backend.prepare_pods(pods).await.map_err(|error| error.reason().to_owned())
            };
            let expected = if waits { Err("SchedulerApiUnknown".to_owned()) } else { Ok(()) };
            assert_eq!(prepare(&unknown).await.map(drop), expected, "{}", backend.name());
            assert!(prepare(&absent).await.is_ok(), "{}", backend.name());
        }
    }

    #[test]
    fn pods_from_an_index_on_may_get_another_patch() {
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
