//! Limits how often a problem is logged: at once, then at doubling intervals.
//!
//! Each kind of problem is logged when it first occurs and again after 30 s, 1 min, 2 min and so on while it
//! lasts. A recurring problem does not restart the intervals, so that a flapping API server does not fill the
//! log.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use grove_runtime::clock::Instant;
use grove_runtime::store::Trouble;

const FIRST_REPEAT_INTERVAL: Duration = Duration::from_secs(30);

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Token or certificates of the pod cannot be read.
    Credentials,
    /// The API server does not answer.
    Unreachable,
    /// The API server does not accept the token.
    Unauthorized,
    /// The token has no permission.
    Forbidden,
    /// The API server does not serve pods.
    NotFound,
    /// Any other error status.
    Refused(u16),
}

impl Kind {
    pub(crate) fn of(trouble: &Trouble) -> Self {
        match trouble.code {
            None => Self::Unreachable,
            Some(401) => Self::Unauthorized,
            Some(403) => Self::Forbidden,
            Some(404) => Self::NotFound,
            Some(code) => Self::Refused(code),
        }
    }
}

/// The message for the user.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "the credentials of this pod cannot be used yet",
            Self::Unreachable => "the API server cannot be reached",
            Self::Unauthorized => "the API server does not accept the token, it may have expired",
            Self::Forbidden => "not allowed to watch pods, the RoleBinding may be missing",
            Self::NotFound => "the API server does not serve pods, its address may be wrong",
            Self::Refused(_) => "the API server answers with an error",
        })
    }
}

/// The kinds of problems that were logged, and when to log each again.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    logged: BTreeMap<Kind, Repeat>,
    /// Whether the last logged line is a problem.
    last_is_problem: bool,
}

#[derive(Debug)]
struct Repeat {
    due: Instant,
    /// From the next repetition to the one after it.
    interval: Duration,
}

impl Problems {
    /// Whether to log a problem of this kind that exists `now`.
    pub(crate) fn should_log(&mut self, kind: Kind, now: Instant) -> bool {
        let first = || Repeat { due: now, interval: FIRST_REPEAT_INTERVAL };
        let repeat = self.logged.entry(kind).or_insert_with(first);
        if now < repeat.due {
            return false;
        }
        repeat.due = now + repeat.interval;
        repeat.interval = repeat.interval.saturating_mul(2);
        self.last_is_problem = true;
        true
    }

    /// When to log this kind again if it lasts.
    pub(crate) fn due(&self, kind: Kind) -> Option<Instant> {
        self.logged.get(&kind).map(|repeat| repeat.due)
    }

    /// Whether to log the end of the problem.
    pub(crate) fn should_log_end(&mut self) -> bool {
        std::mem::take(&mut self.last_is_problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn each_kind_is_logged_once_and_then_at_doubling_intervals() {
        let mut problems = Problems::default();
        let logged: Vec<u64> =
            (0..1000).filter(|s| problems.should_log(Kind::Forbidden, at(*s))).collect();
        assert_eq!(logged, [0, 30, 90, 210, 450, 930]);

        assert!(problems.should_log(Kind::Unreachable, at(931)), "kinds are independent");
        assert_eq!(problems.due(Kind::Unreachable), Some(at(961)));
        assert_eq!(problems.due(Kind::Unauthorized), None);
    }

    #[test]
    fn a_recurring_problem_is_not_logged_more_often() {
        let mut problems = Problems::default();
        let mut lines = Vec::new();
        for second in 0..100 {
            if problems.should_log(Kind::Unreachable, at(second)) {
                lines.push(("bad", second));
            }
            if problems.should_log_end() {
                lines.push(("good", second));
            }
        }
        let expected =
            [0, 30, 90].into_iter().flat_map(|second| [("bad", second), ("good", second)]);
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }

    #[test]
    fn kinds_follow_the_status_code() {
        let cases = [
            (None, Kind::Unreachable),
            (Some(401), Kind::Unauthorized),
            (Some(403), Kind::Forbidden),
            (Some(404), Kind::NotFound),
            (Some(500), Kind::Refused(500)),
        ];
        for (code, kind) in cases {
            assert_eq!(Kind::of(&Trouble { code, message: String::new() }), kind);
        }
    }
}
