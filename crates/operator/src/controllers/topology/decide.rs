//! Decides about one topology: writes and status.

use grove_api::cluster_topology::ClusterTopologyStatus;
use grove_api::cluster_topology_binding::ClusterTopologyBindingStatus;
use grove_api::condition::cluster_topology_binding::SCHEDULER_TOPOLOGY_DRIFT;
use grove_api::condition::{Condition, FALSE};
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_backends::{BackendError, Drift, Topology};
use grove_core::status::{self, Agreement, SchedulerTopology};
use grove_runtime::converge;
use grove_runtime::events::{Occurrence, Severity};
use grove_runtime::report::{Report, Urgency};
use grove_runtime::resource::Resource;
use grove_runtime::write::Write;
use jiff::Timestamp;

use super::NAME;
use super::observe::TopologyScheduler;
use crate::controllers::events;
use grove_runtime::object::Object;

/// What to do about the topology object of one scheduler.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) scheduler: String,
    /// Name of its topology object.
    pub(super) reference: String,
    pub(super) next: Result<Next, BackendError>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Write(Write),
    Report(Agreement),
}

/// Keeps the ClusterTopology that the operator manages as the configuration says, or deletes it when the
/// configuration has none.
pub(super) fn managed(
    desired: Option<&ClusterTopology>,
    live: Option<&Object<ClusterTopology>>,
) -> Option<Write> {
    match (desired, live) {
        (Some(desired), live) => converge::whole(desired, live, "what the configuration says"),
        (None, Some(live)) => {
            let resource = Resource::of::<ClusterTopology>();
            Some(converge::delete(resource, &live.meta, "the configuration has no topology"))
        }
        (None, None) => None,
    }
}

/// Decides about every scheduler.
pub(super) fn decide(
    topology: &Topology<'_>,
    schedulers: &[TopologyScheduler<'_>],
) -> Vec<Decision> {
    schedulers.iter().map(|scheduler| decision(topology, scheduler)).collect()
}

fn decision(topology: &Topology<'_>, observed: &TopologyScheduler<'_>) -> Decision {
    let TopologyScheduler { name, part, reference, live, presence } = observed;
    let live = live.as_deref();
    let served = BackendError::unless_served(name, &part.kind(), *presence);
    let next = served.and_then(|()| match reference {
        Some(reference) => Ok(Next::Report(compared(part.drift(topology, reference, live)))),
        None => part.plan(topology, live).map(|write| {
            write.map_or(Next::Report(Agreement::Same { generation: None }), Next::Write)
        }),
    });
    Decision {
        scheduler: (*name).to_owned(),
        reference: reference.map_or_else(|| part.object_name(topology), str::to_owned),
        next,
    }
}

fn compared(drift: Drift) -> Agreement {
    let generation = drift.observed_generation;
    match drift.message {
        Some(message) => Agreement::Differs { message, generation },
        None => Agreement::Same { generation },
    }
}

/// Decisions about schedulers that a binding names and that have no topology backend here.
pub(super) fn unavailable(
    binding: &ClusterTopologyBinding,
    schedulers: &[TopologyScheduler<'_>],
) -> impl Iterator<Item = Decision> {
    let listed = binding.spec.scheduler_topology_bindings.iter();
    let is_known = |name: &str| schedulers.iter().any(|scheduler| scheduler.name == name);
    listed.filter(move |one| !is_known(&one.scheduler_name)).map(|one| Decision {
        scheduler: one.scheduler_name.clone(),
        reference: one.topology_reference.clone(),
        next: Ok(Next::Report(Agreement::Unavailable)),
    })
}

/// The status of a binding, if it differs from the stored one, with an event when drift starts or ends.
pub(super) fn report_of_binding<'o>(
    binding: &'o Object<ClusterTopologyBinding>,
    found: &[SchedulerTopology],
    now: Timestamp,
) -> Option<Report<'o, ClusterTopologyBindingStatus>> {
    let stored = binding.object.status.as_ref();
    let desired = status::cluster_topology_binding(&binding.object, found, now);
    let before = stored.and_then(|stored| drift(&stored.conditions));
    let after = drift(&desired.conditions);
    let is_news = before.map(|before| &before.status) != after.map(|after| &after.status);
    let events = after.filter(|_| is_news).map(|after| drift_event(binding, after));
    let events = events.into_iter().collect();
    let resource = Resource::of::<ClusterTopologyBinding>();
    let (meta, urgency) = (&binding.meta, Urgency::Now);
    let report = || Report {
        resource,
        meta,
        stored,
        desired: desired.clone(),
        urgency,
        events,
        component: NAME,
    };
    (stored != Some(&desired)).then(report)
}

fn drift(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == SCHEDULER_TOPOLOGY_DRIFT)
}

fn drift_event(binding: &Object<ClusterTopologyBinding>, condition: &Condition) -> Occurrence {
    let (severity, reason) = if condition.status == FALSE {
        (Severity::Normal, "TopologyInSync")
    } else {
        (Severity::Warning, "TopologyDriftDetected")
    };
    events::occurrence(binding, severity, reason, "SyncTopology", condition.message.clone())
}

/// The status of the topology that the operator manages, if it differs from the stored one.
pub(super) fn report_of_managed<'o>(
    managed: &'o Object<ClusterTopology>,
    found: &[SchedulerTopology],
    now: Timestamp,
) -> Option<Report<'o, ClusterTopologyStatus>> {
    let failure = found.iter().find_map(|one| match &one.agreement {
        Agreement::Failed { message } => Some(message.as_str()),
        _ => None,
    });
    let desired = status::cluster_topology(&managed.object, failure, now);
    let (stored, resource) = (managed.object.status.as_ref(), Resource::of::<ClusterTopology>());
    let (meta, urgency, events) = (&managed.meta, Urgency::Now, Vec::new());
    let differs = stored != Some(&desired);
    differs.then_some(Report { resource, meta, stored, desired, urgency, events, component: NAME })
}

#[cfg(test)]
mod tests;
