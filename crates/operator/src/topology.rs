//! The controller of topologies: schedulers with topology objects of their own know the levels of every
//! ClusterTopologyBinding, and of the one ClusterTopology that the operator manages.
//!
//! An object that a binding refers to is somebody else's and only compared. What cannot be done is in the
//! status of the topology, and keeps nothing else from working.

mod decide;
mod observe;

use std::sync::Arc;

use grove_api::cluster_topology::MANAGED_NAME;
use grove_api::error_code::ErrorCode;
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_backends::{Backend, BackendError, Registry, SchedulerObject, Topology, TopologyPart};
use grove_core::status::{Agreement, SchedulerTopology};
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::clock::Clock;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::{Env, Stage};
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::View as _;
use grove_runtime::write::Write;

use self::decide::{Next, Verdict};
use crate::api;
use crate::events;
use crate::objects::Object;
use crate::reconcile::{Context, ReconcileError};
use crate::world::World;

/// Name of the controller, and source of its events.
pub(crate) const NAME: &str = "clustertopology-controller";

/// A topology of Grove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopologyKey {
    /// A ClusterTopologyBinding.
    Binding(Arc<str>),
    /// The ClusterTopology that the operator manages.
    Managed,
}

/// The topologies that have something to do, woken by changes of themselves and of the schedulers' objects
/// that they own, want to have or refer to.
pub(crate) fn queue(world: &World, backends: &Registry, env: &Env) -> Queue<TopologyKey> {
    let queue = Queue::new(env.clock.clone());
    let user = Priority::UserChange;
    queue.follow(&world.bindings, user, wish_of_binding, |one| vec![key_of(one)]);
    queue.follow(&world.topologies, user, wish_of_topology, |one| managed(one).collect());
    for backend in backends.all() {
        let Some(kind) = backend.topology().map(TopologyPart::kind) else { continue };
        let Some(store) = world.scheduler_objects.store(&kind) else { continue };
        let (world, backends, name) = (world.clone(), backends.clone(), backend.name().to_owned());
        let concerned = move |object: &SchedulerObject| concerned(&world, &backends, &name, object);
        queue.follow(store, Priority::ChildChange, SchedulerObject::without_status, concerned);
    }
    queue
}

/// Looks at all topologies again when the topology objects of a scheduler can be had, or no longer.
pub(crate) fn follow_installations(
    world: &World,
    backends: &Registry,
    queue: &Queue<TopologyKey>,
    clock: &Clock,
    stage: &Stage,
) {
    for part in backends.all().filter_map(Backend::topology) {
        let Some(store) = world.scheduler_objects.store(&part.kind()) else { continue };
        let (world, queue) = (world.clone(), queue.clone());
        let changed = move || {
            let bindings = world.bindings.all();
            let topologies = world.topologies.all();
            let keys = bindings.iter().map(|one| key_of(one));
            for key in keys.chain(topologies.iter().flat_map(|one| managed(one))) {
                queue.want(key, Priority::Beginning);
            }
        };
        api::follow(store, clock, stage, Arc::new(changed));
    }
}

fn key_of(binding: &Object<ClusterTopologyBinding>) -> TopologyKey {
    TopologyKey::Binding(binding.meta.key.name.clone())
}

fn managed(topology: &Object<ClusterTopology>) -> impl Iterator<Item = TopologyKey> + use<> {
    let is_managed = *topology.meta.key.name == *MANAGED_NAME;
    is_managed.then_some(TopologyKey::Managed).into_iter()
}

/// The status is part of it because somebody else may have changed it.
fn wish_of_binding(binding: &Object<ClusterTopologyBinding>) -> impl PartialEq + use<> {
    let Object { meta, object } = binding;
    (meta.uid.clone(), meta.generation, meta.deleting, object.status.clone())
}

fn wish_of_topology(topology: &Object<ClusterTopology>) -> impl PartialEq + use<> {
    let Object { meta, object } = topology;
    (meta.uid.clone(), meta.generation, meta.deleting, object.status.clone())
}

/// The topologies that an object of a scheduler concerns.
fn concerned(
    world: &World,
    backends: &Registry,
    scheduler: &str,
    object: &SchedulerObject,
) -> Vec<TopologyKey> {
    let Some(part) = backends.get(scheduler).and_then(Backend::topology) else {
        return Vec::new();
    };
    let name = &*object.meta().key.name;
    let is_about = |topology: &Topology<'_>, reference: Option<&str>| {
        topology.is_named_by(object)
            || match reference {
                Some(reference) => reference == name,
                None => part.object_name(topology) == name,
            }
    };
    let bindings = world.bindings.all();
    let bindings = bindings.iter().filter(|binding| {
        let reference = observe::reference(&binding.object, scheduler);
        is_about(&Topology::from(&binding.object), reference)
    });
    let topologies = world.topologies.all();
    let topologies =
        topologies.iter().filter(|topology| is_about(&Topology::from(&topology.object), None));
    bindings.map(|one| key_of(one)).chain(topologies.flat_map(|one| managed(one))).collect()
}

/// Brings the schedulers one step closer to what one topology says, or reports how they are.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<TopologyKey>,
) -> Result<Due, ReconcileError> {
    match &attempt.key {
        TopologyKey::Binding(name) => of_binding(context, &attempt, name).await,
        TopologyKey::Managed => of_managed(context, &attempt).await,
    }
}

async fn of_binding(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
    name: &str,
) -> Result<Due, ReconcileError> {
    let binding = context.world.bindings.get(&ObjectKey::new("", name));
    let Some(binding) = binding.filter(|binding| !binding.meta.deleting) else { return Ok(None) };
    let topology = Topology::from(&binding.object);
    let reference = |scheduler: &str| observe::reference(&binding.object, scheduler);
    let seen = observe::schedulers(&context.world, &context.backends, &topology, reference);
    // A cache that is about to be filled wakes the topology.
    let Some(seen) = seen else { return Ok(None) };
    let mut verdicts = decide::decide(&topology, &seen);
    verdicts.extend(decide::unavailable(&binding.object, &seen));
    let Acted { found, error } = act(context, attempt, verdicts).await;
    let now = context.env.clock.wall();
    let report = found.and_then(|found| decide::report_of_binding(&binding, &found, now));
    if let Some((write, told)) = report {
        report_state(context, attempt, &write).await?;
        events::tell(&context.events.component(NAME), told);
    }
    error.map_or(Ok(None), Err)
}

async fn of_managed(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
) -> Result<Due, ReconcileError> {
    let managed = context.world.topologies.get(&ObjectKey::new("", MANAGED_NAME));
    let Some(managed) = managed.filter(|managed| !managed.meta.deleting) else { return Ok(None) };
    let topology = Topology::from(&managed.object);
    let seen = observe::schedulers(&context.world, &context.backends, &topology, |_| None);
    let Some(seen) = seen else { return Ok(None) };
    let Acted { found, error } = act(context, attempt, decide::decide(&topology, &seen)).await;
    let now = context.env.clock.wall();
    let report = found.and_then(|found| decide::report_of_managed(&managed, &found, now));
    if let Some(write) = report {
        report_state(context, attempt, &write).await?;
    }
    error.map_or(Ok(None), Err)
}

/// What came of the verdicts.
struct Acted {
    /// What there is to report; nothing while it is about to change by itself.
    found: Option<Vec<SchedulerTopology>>,
    error: Option<ReconcileError>,
}

async fn act(context: &Context, attempt: &Attempt<TopologyKey>, verdicts: Vec<Verdict>) -> Acted {
    let (mut found, mut errors, mut has_written) = (Vec::new(), Vec::new(), false);
    for Verdict { scheduler, reference, next } in verdicts {
        let done = match next {
            Ok(Next::Report(agreement)) => Ok(agreement),
            Ok(Next::Write(write)) => {
                let written = context.writer.execute(&attempt.fence, &write).await;
                has_written |= written.is_ok();
                let failed = |error| BackendError::write(&scheduler, error);
                written.map(|_| Agreement::Same { generation: None }).map_err(failed)
            }
            Err(error) => Err(error),
        };
        let agreement = done.unwrap_or_else(|error| {
            let code = ErrorCode::KaiTopologyCreateError;
            errors.push(ReconcileError::of_backend(code, &error, attempt.failures));
            Agreement::Failed { message: error.message().to_owned() }
        });
        found.push(SchedulerTopology { scheduler, reference, agreement });
    }
    // What was written wakes the topology again, and some failures pass by themselves.
    let is_final = !has_written && errors.iter().all(|error| error.lasting().is_some());
    // One that is tried again first: trying again is for all.
    errors.sort_by_key(|error| error.class() == Class::Invalid);
    Acted { found: is_final.then_some(found), error: errors.into_iter().next() }
}

async fn report_state(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
    write: &Write,
) -> Result<(), ReconcileError> {
    let written = context.writer.execute(&attempt.fence, write).await;
    let failed = |error| ReconcileError::failed(ErrorCode::UpdateStatus, &error);
    written.map(drop).map_err(failed)
}
