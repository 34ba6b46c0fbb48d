//! Phase and the conditions Scheduled and Ready of a gang, derived from its pods if the scheduler does not
//! report them.

use grove_api::condition::{self, Condition, pod_gang as reasons};
use grove_api::pod_gang::{PodGangPhase, PodGangStatus};
use jiff::Timestamp;

use super::initialized::is_initialized_status;
use super::release::GangPods;
use crate::condition::{Observation, find, get, observe};

/// Reports the state of an initialized gang's pods, unless the scheduler writes phase or conditions.
pub fn report_pods(
    status: &mut PodGangStatus,
    pods: GangPods,
    generation: Option<i64>,
    now: Timestamp,
) {
    if !is_initialized_status(status) || is_reported_by_scheduler(status, pods) {
        return;
    }
    // Before it is first scheduled, the phase is enough.
    if !pods.scheduled && get(&status.conditions, reasons::SCHEDULED).is_none() {
        return;
    }
    let rows = [
        (
            reasons::SCHEDULED,
            pods.scheduled,
            reasons::PODS_SCHEDULED,
            "minReplicas pods of each group are scheduled",
            reasons::PODS_NOT_SCHEDULED,
            "Fewer than minReplicas pods of a group are scheduled",
        ),
        (
            reasons::READY,
            pods.ready,
            reasons::PODS_READY,
            "minReplicas pods of each group are ready",
            reasons::PODS_NOT_READY,
            "Fewer than minReplicas pods of a group are ready",
        ),
    ];
    for (type_, holds, when_true, what_holds, when_false, what_lacks) in rows {
        let (status_text, reason, message) = if holds {
            (condition::TRUE, when_true, what_holds)
        } else {
            (condition::FALSE, when_false, what_lacks)
        };
        let message = message.to_owned();
        let observed = Observation { type_, status: status_text, reason, message, generation };
        observe(&mut status.conditions, observed, now);
    }
    status.phase = phase_of(&status.conditions);
}

fn phase_of(conditions: &[Condition]) -> PodGangPhase {
    let holds = |type_| find(conditions, type_) == Some(condition::TRUE);
    phase(holds(reasons::SCHEDULED), holds(reasons::READY))
}

fn phase(is_scheduled: bool, is_ready: bool) -> PodGangPhase {
    match (is_scheduled, is_ready) {
        (false, _) => PodGangPhase::Pending,
        (true, false) => PodGangPhase::Starting,
        (true, true) => PodGangPhase::Running,
    }
}

/// Whether the scheduler wrote the conditions, or a phase that neither our conditions nor the pods explain.
fn is_reported_by_scheduler(status: &PodGangStatus, pods: GangPods) -> bool {
    let ours = [
        (reasons::SCHEDULED, [reasons::PODS_SCHEDULED, reasons::PODS_NOT_SCHEDULED]),
        (reasons::READY, [reasons::PODS_READY, reasons::PODS_NOT_READY]),
    ];
    let is_foreign = |(type_, reasons): &(&str, [&str; 2])| {
        let stored = get(&status.conditions, type_);
        stored.is_some_and(|stored| !reasons.contains(&stored.reason.as_str()))
    };
    let ours_or_due = [phase_of(&status.conditions), phase(pods.scheduled, pods.ready)];
    ours.iter().any(is_foreign) || !ours_or_due.contains(&status.phase)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PENDING: GangPods =
        GangPods { scheduled: false, ready: false, waiting: false, gated: false };
    const STARTING: GangPods = GangPods { scheduled: true, ..PENDING };
    const RUNNING: GangPods = GangPods { ready: true, ..STARTING };

    fn status(phase: &str, conditions: &[(&str, &str, &str)]) -> PodGangStatus {
        let condition = |(type_, status, reason): &(&str, &str, &str)| json!({ "type": type_, "status": status, "reason": reason, "message": "" });
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        serde_json::from_value(json!({ "phase": phase, "conditions": conditions })).unwrap()
    }

    fn step(status: &mut PodGangStatus, pods: GangPods, second: i64) -> String {
        report_pods(status, pods, Some(1), Timestamp::from_second(second).unwrap());
        let find = |type_| find(&status.conditions, type_).unwrap_or("-").to_owned();
        format!("{} {} {}", status.phase.as_str(), find("Scheduled"), find("Ready"))
    }

    #[test]
    fn phase_and_conditions_follow_the_pods_of_an_initialized_gang() {
        let mut early = status("Pending", &[("Initialized", "False", "PodsPending")]);
        assert_eq!(step(&mut early, RUNNING, 1), "Pending - -");

        let mut gang = status("Pending", &[("Initialized", "True", "Ready")]);
        let rows = [
            (PENDING, "Pending - -"),
            (STARTING, "Starting True False"),
            (RUNNING, "Running True True"),
            (STARTING, "Starting True False"),
            (PENDING, "Pending False False"),
        ];
        for (second, (pods, expected)) in (1..).zip(rows) {
            assert_eq!(step(&mut gang, pods, second), expected);
            let reported = gang.clone();
            step(&mut gang, pods, 100);
            assert_eq!(gang, reported, "the same again changes nothing");
        }
    }

    #[test]
    fn removed_conditions_are_restored() {
        let mut gang = status("Running", &[("Initialized", "True", "Ready")]);
        assert_eq!(step(&mut gang, RUNNING, 1), "Running True True");
    }

    #[test]
    fn reports_of_the_scheduler_take_precedence() {
        let initialized = ("Initialized", "True", "Ready");
        let cases = [
            status("Pending", &[initialized, ("Scheduled", "False", "NoRoom")]),
            status("Starting", &[initialized]),
            status("Starting", &[initialized, ("Ready", "False", "PodsNotReady")]),
            status("Failed", &[initialized, ("Scheduled", "True", "PodsScheduled")]),
        ];
        for stored in cases {
            let mut next = stored.clone();
            step(&mut next, RUNNING, 1);
            assert_eq!(next, stored);
        }
    }
}
