//! Status of topologies: whether the schedulers' own topologies match them.

use grove_api::cluster_topology::ClusterTopologyStatus;
use grove_api::cluster_topology_binding::{ClusterTopologyBindingStatus, SchedulerTopologyStatus};
use grove_api::condition::{FALSE, TRUE, UNKNOWN};
use grove_api::condition::{cluster_topology as ready, cluster_topology_binding as drift};
use grove_api::error_code::{ErrorCode, LastError};
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Outcome;
use crate::condition::{Observation, observe};

/// One scheduler, and the comparison of its topology with ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerTopology {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of its topology object.
    pub reference: String,
    /// The comparison.
    pub agreement: Agreement,
}

/// How the topology of a scheduler compares with ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same levels.
    Same {
        /// Generation of the scheduler's object, if it has another owner.
        generation: Option<i64>,
    },
    /// It has another owner and differs.
    Differs {
        /// Why.
        message: String,
        /// Generation of the scheduler's object, if it exists.
        generation: Option<i64>,
    },
    /// It could not be created or read.
    Failed {
        /// Why.
        message: String,
    },
    /// The scheduler is not enabled in this operator, or has no topology objects.
    Unavailable,
}

/// The next status of a binding.
pub fn cluster_topology_binding(
    binding: &ClusterTopologyBinding,
    schedulers: &[SchedulerTopology],
    now: Timestamp,
) -> ClusterTopologyBindingStatus {
    let mut status = binding.status.clone().unwrap_or_default();
    let generation = binding.metadata.generation;
    let is = |kind: fn(&Agreement) -> bool| schedulers.iter().any(|one| kind(&one.agreement));
    if !is(|one| matches!(one, Agreement::Failed { .. })) {
        status.observed_generation = generation;
    }
    let mut entries: Vec<_> = schedulers.iter().map(entry).collect();
    entries.sort_by(|one, other| one.scheduler_name.cmp(&other.scheduler_name));
    status.scheduler_topology_statuses = entries;
    if schedulers.is_empty() {
        status.conditions.retain(|one| one.type_ != drift::SCHEDULER_TOPOLOGY_DRIFT);
        return status;
    }
    let (state, reason, message) = if is(|one| *one == Agreement::Unavailable) {
        let message =
            "One or more referenced scheduler backends are unavailable for topology management";
        (UNKNOWN, drift::TOPOLOGY_NOT_FOUND, message)
    } else if is(|one| !matches!(one, Agreement::Same { .. })) {
        (TRUE, drift::DRIFT, "One or more scheduler backend topologies have drifted")
    } else {
        (FALSE, drift::IN_SYNC, "All scheduler backend topologies are in sync")
    };
    let observed = Observation {
        type_: drift::SCHEDULER_TOPOLOGY_DRIFT,
        status: state,
        reason,
        message: message.to_owned(),
        generation,
    };
    observe(&mut status.conditions, observed, now);
    status
}

fn entry(scheduler: &SchedulerTopology) -> SchedulerTopologyStatus {
    let SchedulerTopology { scheduler, reference, agreement } = scheduler;
    let (generation, message) = match agreement {
        Agreement::Same { generation } => (*generation, None),
        Agreement::Differs { message, generation } => (*generation, Some(message.clone())),
        Agreement::Failed { message } => (None, Some(message.clone())),
        Agreement::Unavailable => {
            let why =
                format!("scheduler backend {scheduler:?} is not available for topology management");
            (None, Some(why))
        }
    };
    SchedulerTopologyStatus {
        scheduler_name: scheduler.clone(),
        topology_reference: reference.clone(),
        in_sync: matches!(agreement, Agreement::Same { .. }),
        scheduler_backend_topology_observed_generation: generation,
        message,
        ..SchedulerTopologyStatus::default()
    }
}

/// The next status of the managed topology; `failure` is why a scheduler does not have it.
pub fn cluster_topology(
    topology: &ClusterTopology,
    failure: Option<&str>,
    now: Timestamp,
) -> ClusterTopologyStatus {
    let mut status = topology.status.clone().unwrap_or_default();
    let generation = topology.metadata.generation;
    let errors = failure.map(|failure| LastError {
        code: ErrorCode::KaiTopologyCreateError,
        description: format!("Failed to create KAI Topology resource: {failure}"),
        observed_at: Some(Time(now)),
        ..LastError::default()
    });
    let errors: Vec<_> = errors.into_iter().collect();
    let (state, reason, message, outcome) = if let Some(failure) = failure {
        let message = format!("Failed to create KAI Topology CR: {failure}");
        let reason = ready::KAI_TOPOLOGY_CREATION_OR_UPDATE_FAILED;
        (
            FALSE,
            reason,
            message,
            Outcome::Failed { generation: status.observed_generation, errors: &errors },
        )
    } else {
        let message = "The topologies of all schedulers have the levels of this one".to_owned();
        (TRUE, ready::TOPOLOGY_READY, message, Outcome::Complete { generation })
    };
    outcome.record(&mut status.observed_generation, &mut status.last_errors);
    let observed = Observation { type_: ready::READY, status: state, reason, message, generation };
    observe(&mut status.conditions, observed, now);
    status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn binding(status: &Value) -> ClusterTopologyBinding {
        serde_json::from_value(json!({
            "metadata": { "name": "dc", "generation": 4 },
            "spec": { "levels": [] },
            "status": status,
        }))
        .unwrap()
    }

    fn of(scheduler: &str, agreement: Agreement) -> SchedulerTopology {
        let (scheduler, reference) = (scheduler.to_owned(), "x".to_owned());
        SchedulerTopology { scheduler, reference, agreement }
    }

    fn differs() -> Agreement {
        Agreement::Differs { message: "m".to_owned(), generation: Some(2) }
    }

    fn failed() -> Agreement {
        Agreement::Failed { message: "m".to_owned() }
    }

    const SAME: Agreement = Agreement::Same { generation: None };

    #[test]
    fn the_condition_of_a_binding_covers_all_schedulers() {
        let cases: [(&[Agreement], &str, bool); 7] = [
            (&[], "", true),
            (&[SAME], "False InSync All scheduler backend topologies are in sync", true),
            (
                &[SAME, differs()],
                "True Drift One or more scheduler backend topologies have drifted",
                true,
            ),
            (
                &[failed()],
                "True Drift One or more scheduler backend topologies have drifted",
                false,
            ),
            (
                &[SAME, Agreement::Unavailable],
                "Unknown TopologyNotFound One or more referenced scheduler backends are \
                 unavailable for topology management",
                true,
            ),
            (
                &[differs(), Agreement::Unavailable],
                "Unknown TopologyNotFound One or more referenced scheduler backends are \
                 unavailable for topology management",
                true,
            ),
            (
                &[failed(), Agreement::Unavailable],
                "Unknown TopologyNotFound One or more referenced scheduler backends are \
                 unavailable for topology management",
                false,
            ),
        ];
        let theirs = json!({ "type": "Theirs", "status": "True", "reason": "R", "message": "" });
        let old = json!({ "type": "SchedulerTopologyDrift", "status": "True", "reason": "Drift",
            "message": "", "lastTransitionTime": "1970-01-01T00:00:01Z" });
        let stored = json!({ "observedGeneration": 3, "conditions": [theirs, old] });
        for (agreements, expected, is_observed) in cases {
            let schedulers: Vec<_> = agreements.iter().map(|one| of("s", one.clone())).collect();
            let status = cluster_topology_binding(&binding(&stored), &schedulers, at(9));
            let said = status.conditions.get(1);
            let text = said.map(|one| format!("{} {} {}", one.status, one.reason, one.message));
            assert_eq!(text.unwrap_or_default(), expected);
            assert_eq!(status.conditions[0].type_, "Theirs", "{expected}");
            assert!(said.is_none_or(|one| one.observed_generation == Some(4)), "{expected}");
            let since = said.map(|one| one.last_transition_time.as_ref().unwrap().0.as_second());
            let flipped = said.is_some_and(|one| one.status != TRUE);
            assert!(since.is_none_or(|since| since == if flipped { 9 } else { 1 }), "{expected}");
            let observed = if is_observed { 4 } else { 3 };
            assert_eq!(status.observed_generation, Some(observed), "{expected}");
            let again =
                ClusterTopologyBinding { status: Some(status.clone()), ..binding(&json!({})) };
            assert_eq!(cluster_topology_binding(&again, &schedulers, at(10)), status, "{expected}");
        }
    }

    #[test]
    fn every_scheduler_has_an_entry_in_the_order_of_names() {
        let schedulers = [
            of("d", Agreement::Unavailable),
            of("c", failed()),
            of("b", differs()),
            of("a", Agreement::Same { generation: Some(7) }),
        ];
        let status = cluster_topology_binding(&binding(&json!({})), &schedulers, at(1));
        let observed = "schedulerBackendTopologyObservedGeneration";
        let expected = json!([
            { "schedulerName": "a", "topologyReference": "x", "inSync": true, observed: 7 },
            { "schedulerName": "b", "topologyReference": "x", "inSync": false, observed: 2,
                "message": "m" },
            { "schedulerName": "c", "topologyReference": "x", "inSync": false, "message": "m" },
            { "schedulerName": "d", "topologyReference": "x", "inSync": false, "message":
                "scheduler backend \"d\" is not available for topology management" },
        ]);
        assert_eq!(json!(status.scheduler_topology_statuses), expected);
        assert_eq!(status.observed_generation, None, "a failure is not the end");
    }

    #[test]
    fn the_managed_topology_is_ready_without_failures() {
        let mut topology: ClusterTopology = serde_json::from_value(json!({
            "metadata": { "name": "grove-topology", "generation": 2 }, "spec": { "levels": [] },
        }))
        .unwrap();
        let mut step = |failure, second| {
            let status = cluster_topology(&topology, failure, at(second));
            topology.status = Some(status.clone());
            json!(status)
        };

        let status = step(Some("no"), 5);
        assert_eq!(status["observedGeneration"], Value::Null);
        let said = &status["conditions"][0];
        assert_eq!((&said["type"], &said["status"]), (&json!("Ready"), &json!("False")));
        assert_eq!(said["reason"], "KAITopologyCreationOrUpdateFailed");
        assert_eq!(said["message"], "Failed to create KAI Topology CR: no");
        let error = &status["lastErrors"][0];
        assert_eq!(error["code"], "KAI_TOPOLOGY_CREATE_ERROR");
        assert_eq!(error["description"], "Failed to create KAI Topology resource: no");
        assert_eq!(step(Some("no"), 6), status, "the same failure is no news");

        let status = step(None, 7);
        assert_eq!(status["observedGeneration"], 2);
        assert_eq!(status["conditions"][0]["status"], "True");
        assert_eq!(status["conditions"][0]["reason"], "TopologyReady");
        assert_eq!(status["lastErrors"], Value::Null);
    }
}
