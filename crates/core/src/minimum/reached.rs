//! The condition MinAvailableReached: a durable record that a PodClique or a group had its minimum.

use std::time::Duration;

use grove_api::condition::{
    Condition, FALSE, TRUE,
    min_available::{BREACHED, INFERRED, MINIMUM_WAS_READY, NOT_READY_YET, REACHED},
};
use jiff::Timestamp;

use crate::condition::{Observation, find, get, observe, whole_seconds};

/// Versions without the record treated a condition as its first value if it changed this soon after the
/// creation of the object.
const FIRST_VALUE: Duration = Duration::from_secs(5);

/// The current state of a minimum.
pub(crate) struct Minimum {
    /// Whether the minimum is ready, or was since the last record.
    pub(crate) is_ready: bool,
    /// Whether the conditions of an object without a record show that it had its minimum.
    pub(crate) is_inferred: bool,
    /// What is counted, and the minimum.
    pub(crate) of: (&'static str, i32),
}

/// Whether the record is set.
pub(crate) fn is_reached(conditions: &[Condition]) -> bool {
    find(conditions, REACHED) == Some(TRUE)
}

impl Minimum {
    /// Whether the minimum was reached, according to the stored conditions or the current state.
    pub(crate) fn is_reached(&self, stored: &[Condition]) -> bool {
        is_reached(stored) || self.is_ready || self.is_inferred_for(stored)
    }

    /// Every version with the record writes it together with the other conditions.
    fn is_inferred_for(&self, stored: &[Condition]) -> bool {
        let is_legacy = find(stored, REACHED).is_none() && find(stored, BREACHED).is_some();
        is_legacy && self.is_inferred
    }
}

/// Adds the record to the next conditions of an object with these stored ones. A breach that was reported
/// before the minimum was reached restarts now, because only now there was a minimum to lose.
pub(crate) fn record(
    conditions: &mut Vec<Condition>,
    stored: &[Condition],
    minimum: &Minimum,
    generation: Option<i64>,
    now: Timestamp,
) {
    if is_reached(stored) {
        if let Some(record) = conditions.iter_mut().find(|condition| condition.type_ == REACHED) {
            record.observed_generation = generation;
        }
        return;
    }
    let (what, min) = minimum.of;
    let (status, reason, message) = if minimum.is_ready {
        restart_breach(conditions, now);
        (TRUE, MINIMUM_WAS_READY, format!("Ready {what} reached MinAvailable ({min})"))
    } else if minimum.is_inferred_for(stored) {
        let message = "Other conditions show that the minimum was available before".to_owned();
        (TRUE, INFERRED, message)
    } else {
        (FALSE, NOT_READY_YET, format!("Ready {what} have not reached MinAvailable ({min}) yet"))
    };
    observe(conditions, Observation { type_: REACHED, status, reason, message, generation }, now);
}

fn restart_breach(conditions: &mut [Condition], now: Timestamp) {
    let breached = conditions.iter_mut().find(|condition| condition.type_ == BREACHED);
    if let Some(breached) = breached.filter(|breached| breached.status == TRUE) {
        breached.last_transition_time = Some(whole_seconds(now));
    }
}

/// Clears the record of an object whose parts are deleted and recreated.
pub(crate) fn reset(conditions: &mut Vec<Condition>, generation: Option<i64>, now: Timestamp) {
    let message = "The gang was terminated, and MinAvailable has not been reached since".to_owned();
    let (type_, status, reason) = (REACHED, FALSE, NOT_READY_YET);
    observe(conditions, Observation { type_, status, reason, message, generation }, now);
}

/// Whether a condition had another value before, by the rule of versions without the record.
pub(crate) fn is_later_value(
    conditions: &[Condition],
    type_: &str,
    created: Option<Timestamp>,
) -> bool {
    let changed = get(conditions, type_).and_then(|one| one.last_transition_time.as_ref());
    let (Some(changed), Some(created)) = (changed, created) else { return false };
    created.checked_add(FIRST_VALUE).is_ok_and(|first| changed.0 > first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conditions of an object over time.
    #[derive(Default)]
    struct Object(Vec<Condition>);

    impl Object {
        /// Reports a breach and, unless an older version does it, the record. Returns the start of the breach.
        fn report(&mut self, now: i64, breached: &'static str, minimum: Option<&Minimum>) -> i64 {
            let now = Timestamp::from_second(now).unwrap();
            let stored = self.0.clone();
            let (type_, status, reason, message) = (BREACHED, breached, "R", String::new());
            let breach = Observation { type_, status, reason, message, generation: None };
            observe(&mut self.0, breach, now);
            if let Some(minimum) = minimum {
                record(&mut self.0, &stored, minimum, None, now);
                assert_eq!(is_reached(&self.0), minimum.is_reached(&stored));
            }
            let since = get(&self.0, BREACHED).and_then(|one| one.last_transition_time.clone());
            since.unwrap().0.as_second()
        }
    }

    const fn minimum(is_ready: bool, is_inferred: bool) -> Minimum {
        Minimum { is_ready, is_inferred, of: ("pods", 2) }
    }

    const MISSING: Minimum = minimum(false, false);
    const READY: Minimum = minimum(true, false);
    const SEEMS_LOST: Minimum = minimum(false, true);

    #[test]
    fn the_record_is_set_once_and_stays() {
        let mut object = Object::default();
        object.report(1, TRUE, Some(&MISSING));
        assert_eq!(find(&object.0, REACHED), Some(FALSE));
        object.report(2, FALSE, Some(&READY));
        assert!(is_reached(&object.0));
        let recorded = get(&object.0, REACHED).cloned();
        object.report(3, TRUE, Some(&MISSING));
        assert_eq!(get(&object.0, REACHED).cloned(), recorded);
        reset(&mut object.0, Some(2), Timestamp::UNIX_EPOCH);
        assert_eq!(find(&object.0, REACHED), Some(FALSE));
    }

    #[test]
    fn a_breach_counts_from_when_the_minimum_was_reached() {
        let mut object = Object::default();
        assert_eq!(object.report(1, TRUE, Some(&MISSING)), 1);
        assert_eq!(object.report(50, TRUE, Some(&MISSING)), 1);
        assert_eq!(object.report(60, TRUE, Some(&READY)), 60, "it was ready between two reports");
        assert_eq!(object.report(70, TRUE, Some(&READY)), 60);
    }

    #[test]
    fn the_record_is_inferred_once_from_other_conditions() {
        let mut object = Object::default();
        object.report(1, TRUE, Some(&SEEMS_LOST));
        assert!(!is_reached(&object.0), "a new object");

        let mut object = Object::default();
        object.report(1, TRUE, None);
        assert_eq!(object.report(2, TRUE, Some(&SEEMS_LOST)), 1, "its breach continues");
        assert_eq!(get(&object.0, REACHED).unwrap().reason, INFERRED);

        let mut object = Object::default();
        object.report(1, TRUE, None);
        object.report(2, TRUE, Some(&MISSING));
        object.report(3, TRUE, Some(&SEEMS_LOST));
        assert!(!is_reached(&object.0), "inferred once");
    }
}
