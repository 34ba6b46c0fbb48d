//! The controller of PodGangs: hands each gang to the backend of its scheduler. Gangs themselves,
//! their references and their state are decided with the replica of the set that they belong to.

use std::sync::Arc;

use grove_api::PodGang;
use grove_api::error_code::ErrorCode;
use grove_backends::{Backend, BackendError, Cluster, Gang, Progress, Registry, SchedulerObject};
use grove_core::pods::Phase;
use grove_runtime::class::{Class, Classed};
use grove_runtime::clock::Clock;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::events::Severity;
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;

use crate::api;
use crate::events;
use crate::objects::{Object, Pod, Set};
use crate::reconcile::{BackendProblem, Context, GangKey, PATIENCE, ReconcileError, ask};
use crate::world::{World, set_of};

/// Gangs that a backend may have to look at: new ones, changed ones, those that go, and those whose
/// objects somebody changed.
pub(crate) fn queue(world: &World, backends: &Registry, env: &Env) -> Queue<ObjectKey> {
    let queue = Queue::new(env.clock.clone());
    let itself = |gang: &Object<PodGang>| vec![gang.meta.key.clone()];
    queue.follow(&world.gangs.store, Priority::UserChange, what_backends_read, itself);
    // Backends look at sets too, for what is not in their gangs.
    let of_set = world.clone();
    queue.follow(&world.sets, Priority::ChildChange, set_facts, move |set| {
        of_set.gangs.of(&set.meta.key).iter().map(|gang| gang.meta.key.clone()).collect()
    });
    // Gates are lifted when a gang is complete, so they are the last to tell that it is released.
    if backends.all().any(Backend::follows_pods) {
        let (gangs, backends) = (world.gangs.store.clone(), backends.clone());
        let follows = move |pod: &Pod| {
            let gang = pod.gang().and_then(|gang| gangs.get(&gang));
            let gang = gang.filter(|gang| backends.for_gang(&gang.object).follows_pods());
            gang.into_iter().map(|gang| gang.meta.key.clone()).collect()
        };
        let facts = |pod: &Pod| {
            let pod = &pod.observed;
            (pod.has_gate, pod.deleting, pod.phase == Phase::Succeeded)
        };
        queue.follow(&world.pods, Priority::ChildChange, facts, follows);
    }
    for store in world.scheduler_objects.stores() {
        let owner = |object: &SchedulerObject| object.gang().into_iter().collect();
        queue.follow(store, Priority::ChildChange, SchedulerObject::without_status, owner);
    }
    queue
}

/// The queues of what depends on the kinds of the schedulers.
#[derive(Clone)]
pub(crate) struct Dependents {
    pub(crate) sets: Queue<ObjectKey>,
    pub(crate) gangs: Queue<ObjectKey>,
    pub(crate) cliques: Queue<ObjectKey>,
}

/// Wakes all sets and gangs, and the cliques whose pods may have been held back, when the presence of a
/// scheduler's kind changes.
pub(crate) fn follow_installations(
    world: &World,
    dependents: &Dependents,
    clock: &Clock,
    stage: &Stage,
) {
    for store in world.scheduler_objects.stores() {
        let (world, dependents) = (world.clone(), dependents.clone());
        let changed = move || {
            let Dependents { sets, gangs, cliques } = &dependents;
            for gang in world.gangs.store.all() {
                gangs.want(gang.meta.key.clone(), Priority::Beginning);
                for clique in world.unfinished_members(&gang) {
                    cliques.want(clique, Priority::Beginning);
                }
            }
            for set in world.sets.all() {
                sets.want(set.meta.key.clone(), Priority::Beginning);
            }
        };
        api::follow(store, clock, stage, Arc::new(changed));
    }
}

/// Everything but the status. Labels and annotations count: backends copy them.
fn what_backends_read(gang: &Object<PodGang>) -> impl PartialEq + use<> {
    let Object { meta, object } = gang;
    let annotations = object.metadata.annotations.clone();
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

fn set_facts(set: &Set) -> impl PartialEq + use<> {
    let annotations = set.object.metadata.annotations.clone();
    (set.meta.uid.clone(), set.meta.generation, set.meta.labels.clone(), annotations)
}

/// Has the backend bring the scheduler's objects in line with one gang.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(gang) = context.world.gangs.store.get(&attempt.key) else {
        context.held_phases.forget((PodGang::KIND, &attempt.key));
        context.problems.forget_gang(&attempt.key);
        let remotes = context.backends.all().filter_map(Backend::remote);
        for remote in remotes {
            let told = attempt.outside(remote.pod_gang_gone(&attempt.key)).await;
            told.map_err(|error| ReconcileError::failed(ErrorCode::DeletePodGangs, &error))?;
        }
        return Ok(None);
    };
    let backend = context.backends.for_gang(&gang.object);
    let cluster = Cluster { writer: &context.writer, fence: &attempt.fence };
    let set = set_of(&gang.meta).and_then(|set| context.world.sets.get(&set));
    let owner = gang.meta.controller.as_ref().map(|owner| &owner.uid);
    let set = set.filter(|set| Some(&set.meta.uid) == owner);
    let progress =
        if backend.follows_pods() { context.world.progress(&gang) } else { Progress::default() };
    let done = if gang.meta.deleting {
        backend.pod_gang_deleted(&gang.object, cluster)
    } else {
        let handed = Gang {
            object: &gang.object,
            set: set.as_ref().map(|set| &set.object),
            progress: &progress,
            objects: &context.world.scheduler_objects,
        };
        backend.sync_pod_gang(handed, cluster)
    };
    let done = ask(&attempt, backend, done).await;
    if let Some(set) = &set {
        let key = GangKey { set: set.meta.key.clone(), name: gang.meta.key.name.to_string() };
        context.problems.note_gang(&key, problem(&done, attempt.failures));
    }
    if let Err(error) = &done {
        tell(context, &gang, error);
    }
    done.map_err(|error| ReconcileError::failed(ErrorCode::CreateOrPatchPodGang, &error))?;
    Ok(None)
}

/// What a user has to know: a failure that does not pass by itself, or has not.
fn problem(done: &Result<(), BackendError>, failures: u32) -> Option<BackendProblem> {
    let error = done.as_ref().err()?;
    let lasting = matches!(error.class(), Class::Invalid | Class::Denied) || failures >= PATIENCE;
    let problem =
        || BackendProblem { reason: error.reason().to_owned(), message: error.to_string() };
    lasting.then(problem)
}

/// Tells about what somebody has to change, at the gang.
fn tell(context: &Context, gang: &Object<PodGang>, error: &BackendError) {
    if error.class() != Class::Invalid {
        return;
    }
    let (reason, message) = (error.reason().to_owned(), error.to_string());
    let told = events::occurrence(gang, Severity::Warning, reason, "SyncPodGang", message);
    events::tell(&context.events.component("scheduler-backend"), [told]);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_changed_reconcile_trigger_wakes_the_gangs_of_a_set() {
        let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
        assert!(set_facts(&before) == set_facts(&same));
        assert!(set_facts(&before) != set_facts(&after));
    }

    #[test]
    fn backends_see_new_specs_labels_and_annotations_but_no_status() {
        type Change = fn(&mut Value);
        let gang = |change: fn(&mut Value)| -> Object<PodGang> {
            let mut object = json!({
                "metadata": { "name": "a", "namespace": "n", "generation": 1,
                    "resourceVersion": "1" },
                "spec": { "podgroups": [] },
            });
            change(&mut object);
            serde_json::from_value(object).unwrap()
        };
        let cases: [(&str, Change, bool); 5] = [
            ("status", |it| it["status"] = json!({ "phase": "Running" }), false),
            ("version", |it| it["metadata"]["resourceVersion"] = json!("2"), false),
            ("spec", |it| it["metadata"]["generation"] = json!(2), true),
            ("label", |it| it["metadata"]["labels"] = json!({ "a": "b" }), true),
            ("annotation", |it| it["metadata"]["annotations"] = json!({ "a": "b" }), true),
        ];
        let before = gang(|_| {});
        for (what, change, seen) in cases {
            let after = gang(change);
            assert_eq!(what_backends_read(&before) != what_backends_read(&after), seen, "{what}");
        }
    }
}
