//! The controller of topologies: keeps the topology objects of schedulers equal to every ClusterTopologyBinding,
//! and to the one ClusterTopology that the operator manages.
//!
//! An object that a binding refers to belongs to another owner and is only compared. Failures are in the status of
//! the topology, and keep nothing else from working.

mod decide;
mod observe;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use grove_api::cluster_topology::MANAGED_NAME;
use grove_api::error_code::ErrorCode;
use grove_api::{ClusterTopology, ClusterTopologyBinding, config};
use grove_backends::{BackendError, BackendFailure, Topology};
use grove_core::status::{Agreement, SchedulerTopology};
use grove_core::topology::managed_topology;
use grove_runtime::class::{Class, Classed as _};
use grove_runtime::clock::Clock;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::report::Report;
use grove_runtime::resource::ObjectKey;
use grove_runtime::write::{WriteError, Writer};
use serde::Serialize;

pub(crate) use self::wake::queue;

use self::decide::{Decision, Next};
use super::context::Context;
use super::error::ReconcileError;
use crate::caches::reference;

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

/// Reconciles one topology.
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
    let binding = context.stores.topologies.bindings.get(&ObjectKey::new("", name));
    let Some(binding) = binding.filter(|binding| !binding.meta.deleting) else { return Ok(None) };
    let topology = Topology::from(&binding.object);
    let referred = |scheduler: &str| reference(&binding.object, scheduler);
    let observed = observe::schedulers(&context.stores, &context.backends, &topology, referred);
    // A cache that is about to be filled wakes the topology.
    let Some(observed) = observed else { return Ok(None) };
    let mut decisions = decide::decide(&topology, &observed);
    decisions.extend(decide::unavailable(&binding.object, &observed));
    let Executed { found, error } = execute(context, attempt, decisions).await;
    let now = context.env.clock.wall();
    let report = found.and_then(|found| decide::report_of_binding(&binding, &found, now));
    write_status(context, attempt, (ClusterTopologyBinding::KIND, &binding.meta.key), report)
        .await?;
    error.map_or(Ok(None), Err)
}

async fn of_managed(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
) -> Result<Due, ReconcileError> {
    let topologies = &context.stores.topologies;
    let store = &topologies.managed;
    // What appears, or is gone, wakes the topology.
    if !store.is_listed() {
        return Ok(None);
    }
    let managed = store.get(&ObjectKey::new("", MANAGED_NAME));
    if managed.as_ref().is_some_and(|managed| managed.meta.deleting) {
        return Ok(None);
    }
    if let Some(write) = decide::managed(topologies.desired.as_deref(), managed.as_deref()) {
        let written = context.writer.execute(&attempt.fence, &write).await;
        let code = ErrorCode::GetClusterTopologyLevels;
        return written.map(|_| None).map_err(|error| ReconcileError::failed(code, &error));
    }
    let Some(managed) = managed else { return Ok(None) };
    let topology = Topology::from(&managed.object);
    let observed = observe::schedulers(&context.stores, &context.backends, &topology, |_| None);
    let Some(observed) = observed else { return Ok(None) };
    let decisions = decide::decide(&topology, &observed);
    let Executed { found, error } = execute(context, attempt, decisions).await;
    let now = context.env.clock.wall();
    let report = found.and_then(|found| decide::report_of_managed(&managed, &found, now));
    write_status(context, attempt, (ClusterTopology::KIND, &managed.meta.key), report).await?;
    error.map_or(Ok(None), Err)
}

/// The API server refuses the topology that the configuration describes.
#[derive(Debug, thiserror::Error)]
#[error("the API server refuses the topology of the configuration: {0}")]
pub struct TopologyRefused(#[source] WriteError);

/// How long a new CRD may take until it is served, and how often to look.
const NEW_CRD: (u32, Duration) = (40, Duration::from_millis(250));

/// Asks the API server, without writing anything, whether it accepts the topology that the configuration
/// describes. What may pass is left to the controller.
pub(crate) async fn check_start(
    writer: &Writer,
    configured: &config::Topology,
    clock: &Clock,
) -> Result<(), TopologyRefused> {
    let desired = managed_topology(configured);
    let Some(create) = decide::managed(desired.as_ref(), None) else { return Ok(()) };
    let writer = writer.without_election();
    let (mut left, pause) = NEW_CRD;
    loop {
        let Err(error) = writer.try_create(&create).await else { return Ok(()) };
        match error.status().map(|status| status.code) {
            Some(404) if left > 0 => left -= 1,
            Some(400..=404 | 422) => return Err(TopologyRefused(error)),
            Some(_) | None => return Ok(()),
        }
        clock.sleep(pause).await;
    }
}

/// The result of executing the decisions.
struct Executed {
    /// The state to report; nothing while it is about to change by itself.
    found: Option<Vec<SchedulerTopology>>,
    error: Option<ReconcileError>,
}

async fn execute(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
    decisions: Vec<Decision>,
) -> Executed {
    let (mut found, mut errors, mut has_written) = (Vec::new(), Vec::new(), false);
    for Decision { scheduler, reference, next } in decisions {
        let done = match next {
            Ok(Next::Report(agreement)) => Ok(agreement),
            Ok(Next::Write(write)) => {
                let written = context.writer.execute(&attempt.fence, &write).await;
                has_written |= written.is_ok();
                let failed = |error| BackendError::new(&scheduler, BackendFailure::Write(error));
                written.map(|_| Agreement::Same { generation: None }).map_err(failed)
            }
            Err(error) => Err(error),
        };
        let agreement = done.unwrap_or_else(|error| {
            let code = ErrorCode::KaiTopologyCreateError;
            errors.push(ReconcileError::of_backend(code, &error, attempt.failures));
            Agreement::Failed { message: error.message() }
        });
        found.push(SchedulerTopology { scheduler, reference, agreement });
    }
    // Writes wake the topology again, and some failures are transient.
    let is_final = !has_written && errors.iter().all(|error| error.lasting().is_some());
    // An error that is retried comes first: the retry covers all schedulers.
    errors.sort_by_key(|error| error.class() == Class::Invalid);
    Executed { found: is_final.then_some(found), error: errors.into_iter().next() }
}

async fn write_status<S: Serialize + PartialEq>(
    context: &Context,
    attempt: &Attempt<TopologyKey>,
    about: (&'static str, &ObjectKey),
    report: Option<Report<'_, S>>,
) -> Result<(), ReconcileError> {
    let reported = context.reporter.report(about, attempt, report).await;
    reported.map(drop).map_err(|error| ReconcileError::failed(ErrorCode::UpdateStatus, &error))
}
