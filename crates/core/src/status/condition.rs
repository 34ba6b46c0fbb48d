//! Writing a condition so that its time says when the status last flipped.

use grove_api::condition::{Condition, FALSE, TRUE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What was found out about one condition.
pub(crate) struct Observation<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: String,
    pub(crate) generation: Option<i64>,
    /// When it is said for the first time: since when it has been so. Not known means now.
    pub(crate) since: Option<Timestamp>,
}

/// Puts an observation into a list of conditions, in place when the type is there. Reason and message
/// follow every observation; the time moves only with the status, because waiting periods are counted
/// from it. The time has whole seconds, as everywhere in Kubernetes.
pub(crate) fn observe(conditions: &mut Vec<Condition>, seen: Observation<'_>, now: Timestamp) {
    let stored = conditions.iter_mut().find(|condition| condition.type_ == seen.type_);
    let condition = match stored {
        Some(stored) => stored,
        None => {
            conditions.push_mut(Condition { type_: seen.type_.to_owned(), ..Condition::default() })
        }
    };
    if condition.status != seen.status || condition.last_transition_time.is_none() {
        let since = seen.since.filter(|_| condition.status.is_empty()).unwrap_or(now);
        seen.status.clone_into(&mut condition.status);
        condition.last_transition_time = Some(whole_seconds(since));
    }
    seen.reason.clone_into(&mut condition.reason);
    condition.message = seen.message;
    condition.observed_generation = seen.generation;
}

/// A condition that objects have only once there was something to say: a reason and a message each.
pub(crate) struct Trouble<'a> {
    pub(crate) type_: &'a str,
    /// What is wrong at the moment.
    pub(crate) bad: Option<(&'a str, &'a str)>,
    /// The status while something is.
    pub(crate) when_bad: &'a str,
    /// What is said when nothing is any more.
    pub(crate) good: (&'a str, &'a str),
}

/// Says what is wrong, or that nothing is any more.
pub(crate) fn observe_trouble(
    conditions: &mut Vec<Condition>,
    trouble: &Trouble<'_>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let type_ = trouble.type_;
    let when_good = if trouble.when_bad == TRUE { FALSE } else { TRUE };
    let (status, (reason, message)) = match trouble.bad {
        Some(bad) => (trouble.when_bad, bad),
        None if find(conditions, type_).is_some() => (when_good, trouble.good),
        None => return,
    };
    let message = message.to_owned();
    observe(
        conditions,
        Observation { type_, status, reason, message, generation, since: None },
        now,
    );
}

fn whole_seconds(now: Timestamp) -> Time {
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

    fn seen<'a>(status: &'a str, reason: &'a str) -> Observation<'a> {
        let (message, generation) = (reason.to_lowercase(), Some(1));
        Observation { type_: "A", status, reason, message, generation, since: None }
    }

    #[test]
    fn what_was_so_before_anybody_said_it_keeps_its_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        let mut step = |second, status| {
            let seen = Observation { since: Some(at(1)), ..seen(status, "X") };
            observe(&mut conditions, seen, at(second));
            conditions[0].last_transition_time.clone().unwrap().0.as_second()
        };

        assert_eq!(step(9, FALSE), 1);
        assert_eq!(step(10, FALSE), 1);
        assert_eq!(step(11, TRUE), 11);
        assert_eq!(step(12, FALSE), 12);
    }

    #[test]
    fn time_moves_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let foreign = Condition { type_: "B".to_owned(), ..Condition::default() };
        let mut conditions = vec![foreign.clone()];
        let mut step = |second, status, reason| {
            observe(&mut conditions, seen(status, reason), at(second));
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
