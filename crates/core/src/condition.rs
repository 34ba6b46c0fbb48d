//! Updates conditions so that `lastTransitionTime` changes only with the status.

use std::borrow::Cow;

use grove_api::condition::{Condition, FALSE, MESSAGE_MAX, TRUE, bounded_text};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new value of a condition.
pub(crate) struct Observation<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: String,
    pub(crate) generation: Option<i64>,
}

/// Updates a condition in the list, or adds it. Reason and message always change; the time changes only with
/// the status, because delays count from it. The time has whole seconds, as everywhere in Kubernetes.
pub(crate) fn observe(conditions: &mut Vec<Condition>, observed: Observation<'_>, now: Timestamp) {
    let stored = conditions.iter_mut().find(|condition| condition.type_ == observed.type_);
    let condition = match stored {
        Some(stored) => stored,
        None => conditions
            .push_mut(Condition { type_: observed.type_.to_owned(), ..Condition::default() }),
    };
    if condition.status != observed.status || condition.last_transition_time.is_none() {
        observed.status.clone_into(&mut condition.status);
        condition.last_transition_time = Some(whole_seconds(now));
    }
    observed.reason.clone_into(&mut condition.reason);
    // A longer message makes the whole status invalid.
    let cut = match bounded_text(&observed.message, MESSAGE_MAX) {
        Cow::Owned(cut) => Some(cut),
        Cow::Borrowed(_) => None,
    };
    condition.message = cut.unwrap_or(observed.message);
    condition.observed_generation = observed.generation;
}

/// A condition that an object has only after a first problem, with a reason and a message for each state.
pub(crate) struct ProblemCondition<'a> {
    pub(crate) type_: &'a str,
    /// The current problem.
    pub(crate) problem: Option<(&'a str, &'a str)>,
    /// The status during a problem.
    pub(crate) problem_status: &'a str,
    /// Reason and message without a problem.
    pub(crate) resolved: (&'a str, &'a str),
}

/// Sets the condition of a problem, or that there is no problem any more.
pub(crate) fn observe_problem(
    conditions: &mut Vec<Condition>,
    condition: &ProblemCondition<'_>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let type_ = condition.type_;
    let resolved_status = if condition.problem_status == TRUE { FALSE } else { TRUE };
    let (status, (reason, message)) = match condition.problem {
        Some(problem) => (condition.problem_status, problem),
        None if find(conditions, type_).is_some() => (resolved_status, condition.resolved),
        None => return,
    };
    let message = message.to_owned();
    observe(conditions, Observation { type_, status, reason, message, generation }, now);
}

pub(crate) fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The status of a condition, if it is there.
pub(crate) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a str> {
    get(conditions, type_).map(|condition| condition.status.as_str())
}

/// A condition, if it is there.
pub(crate) fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed<'a>(status: &'a str, reason: &'a str) -> Observation<'a> {
        let (message, generation) = (reason.to_lowercase(), Some(1));
        Observation { type_: "A", status, reason, message, generation }
    }

    #[test]
    fn a_message_is_never_longer_than_the_schema_allows() {
        let mut conditions = Vec::new();
        let message = "ä".repeat(MESSAGE_MAX);
        let observed = Observation { message, ..observed(TRUE, "R") };
        observe(&mut conditions, observed, Timestamp::UNIX_EPOCH);
        assert!(conditions[0].message.len() <= MESSAGE_MAX);
        assert!(conditions[0].message.ends_with("bytes in all)"));
    }

    #[test]
    fn the_time_changes_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let foreign = Condition { type_: "B".to_owned(), ..Condition::default() };
        let mut conditions = vec![foreign.clone()];
        let mut step = |second, status, reason| {
            observe(&mut conditions, observed(status, reason), at(second));
            assert_eq!((conditions.len(), &conditions[0]), (2, &foreign));
            let own = &conditions[1];
            assert_eq!((own.reason.as_str(), own.status.as_str()), (reason, status));
            own.last_transition_time.clone().unwrap().0.as_second()
        };

        assert_eq!(step(1, TRUE, "X"), 1);
        assert_eq!(step(2, TRUE, "Y"), 1);
        assert_eq!(step(3, FALSE, "Y"), 3);
        assert_eq!(step(4, FALSE, "Y"), 3);
        assert_eq!(step(5, TRUE, "X"), 5);
    }
}
