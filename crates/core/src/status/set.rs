//! Status of a PodCliqueSet, from the cliques and groups of its replicas.

use grove_api::{
    PodCliqueSet,
    condition::{FALSE, TRUE, pod_clique_set as condition},
    labels,
    pod_clique_set::PodCliqueSetStatus,
};
use jiff::Timestamp;

use super::{Outcome, wire_count};
use crate::condition::{Observation, ProblemCondition, observe, observe_problem};
use crate::replicas::SetReplica;
use crate::update;

/// Problems and limitations of the scheduler for a set, with reason and message.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulerState<'a> {
    /// Why its objects do not match the gangs.
    pub problem: Option<(&'a str, &'a str)>,
    /// What it does not support.
    pub limit: Option<(&'a str, &'a str)>,
}

/// Reports problems and limitations of the scheduler. Sets without any never have these conditions.
pub fn scheduler(
    status: &mut PodCliqueSetStatus,
    generation: Option<i64>,
    state: SchedulerState<'_>,
    now: Timestamp,
) {
    let in_sync =
        (condition::SCHEDULER_OBJECTS_IN_SYNC, "The scheduler knows all gangs of the set");
    let unlimited =
        (condition::NO_SCHEDULER_LIMITS, "The scheduler does all that the set asks for");
    let rows = [
        (condition::SCHEDULER_BACKEND_READY, state.problem, FALSE, in_sync),
        (condition::SCHEDULER_LIMITS, state.limit, TRUE, unlimited),
    ];
    for (type_, problem, problem_status, resolved) in rows {
        let condition = ProblemCondition { type_, problem, problem_status, resolved };
        observe_problem(&mut status.conditions, &condition, generation, now);
    }
}

/// The status of a set. `replicas` are the states of its replicas `0..spec.replicas`. `generation_hash` is that
/// of its current template.
pub fn pod_clique_set(
    set: &PodCliqueSet,
    generation_hash: &str,
    replicas: &[SetReplica],
    outcome: Outcome<'_>,
    now: Timestamp,
) -> PodCliqueSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    outcome.record(&mut status.observed_generation, &mut status.last_errors);
    let number = |is: fn(&SetReplica) -> bool| {
        wire_count(replicas.iter().filter(|replica| is(replica)).count())
    };
    status.replicas = set.spec.replicas;
    status.available_replicas = number(|replica| replica.available);
    status.updated_replicas = number(|replica| replica.updated);
    let name = set.metadata.name.as_deref().unwrap_or_default();
    status.hpa_pod_selector = Some(labels::set_pod_selector(name));
    observe_ready(&mut status, set.metadata.generation, now);
    update::set::record(set, generation_hash, replicas, &mut status, now);
    status
}

/// Reports whether the set is available, or the reason if it is not.
fn observe_ready(status: &mut PodCliqueSetStatus, generation: Option<i64>, now: Timestamp) {
    let (available, all) = (status.available_replicas, status.replicas);
    let available_text = format!("{available} of {all} replicas are available");
    let message = match &*status.last_errors {
        [] => available_text,
        [one] => format!("{available_text}; {}", one.description),
        [first, more @ ..] => {
            let more = more.len();
            let first = &first.description;
            format!("{available_text}; {first} (and {more} more errors, see status.lastErrors)")
        }
    };
    let (holds, reason) = match (available >= all, !status.last_errors.is_empty()) {
        (true, false) => (TRUE, condition::ALL_REPLICAS_AVAILABLE),
        (true, true) => (TRUE, condition::AVAILABLE_WITH_ERRORS),
        (false, false) => (FALSE, condition::REPLICAS_UNAVAILABLE),
        (false, true) => (FALSE, condition::RECONCILE_ERROR),
    };
    let type_ = condition::READY;
    observe(
        &mut status.conditions,
        Observation { type_, status: holds, reason, message, generation },
        now,
    );
}
