//! When to say that something does not work: at once, and then less and less often.
//!
//! Each kind of trouble is told when it first comes up and again after 30 s, 1 min, 2 min and so on
//! for as long as it is there. Trouble that comes and goes does not start over, or a flapping API
//! server would fill the log.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use grove_runtime::clock::Instant;
use grove_runtime::store::Trouble;

const FIRST_REPEAT: Duration = Duration::from_secs(30);

/// What does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Token or certificates of the pod cannot be read.
    Credentials,
    /// No answer.
    Unreachable,
    /// Not known to the server.
    Unauthorized,
    /// Known, but not allowed.
    Forbidden,
    /// The server does not know pods at all.
    NotFound,
    /// Any other answer.
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

/// What a person should make of it.
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

/// What was told, and when the next telling is due.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    told: BTreeMap<Kind, Telling>,
    /// Whether a complaint is the last that was heard.
    complaining: bool,
}

#[derive(Debug)]
struct Telling {
    due: Instant,
    /// From the next telling to the one after it.
    interval: Duration,
}

impl Complaints {
    /// Whether trouble of this kind, which is there `now`, is to be told.
    pub(crate) fn tell(&mut self, kind: Kind, now: Instant) -> bool {
        let first = || Telling { due: now, interval: FIRST_REPEAT };
        let telling = self.told.entry(kind).or_insert_with(first);
        if now < telling.due {
            return false;
        }
        telling.due = now + telling.interval;
        telling.interval = telling.interval.saturating_mul(2);
        self.complaining = true;
        true
    }

    /// When trouble of this kind is to be told again, if it lasts.
    pub(crate) fn due(&self, kind: Kind) -> Option<Instant> {
        self.told.get(&kind).map(|telling| telling.due)
    }

    /// Whether the end of the trouble is to be told.
    pub(crate) fn over(&mut self) -> bool {
        std::mem::take(&mut self.complaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn each_kind_is_told_once_and_then_at_doubling_intervals() {
        let mut complaints = Complaints::default();
        let told: Vec<u64> =
            (0..1000).filter(|s| complaints.tell(Kind::Forbidden, at(*s))).collect();
        assert_eq!(told, [0, 30, 90, 210, 450, 930]);

        assert!(complaints.tell(Kind::Unreachable, at(931)), "another kind has its own beginning");
        assert_eq!(complaints.due(Kind::Unreachable), Some(at(961)));
        assert_eq!(complaints.due(Kind::Unauthorized), None);
    }

    #[test]
    fn trouble_that_comes_and_goes_is_not_told_more_often() {
        let mut complaints = Complaints::default();
        let mut lines = Vec::new();
        for second in 0..100 {
            if complaints.tell(Kind::Unreachable, at(second)) {
                lines.push(("bad", second));
            }
            if complaints.over() {
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
