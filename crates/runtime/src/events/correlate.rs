//! Which occurrences become new events, which count up an old one, and which are too many.
//! Pure: time comes in, decisions go out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Noted, Severity};
use crate::clock::Instant;
use crate::resource::{ObjectKey, Uid};

/// How long after its last repetition an event is counted up rather than told anew.
const WINDOW: Duration = Duration::from_secs(600);
/// Events per object at once, and the time in which one more is earned.
const BURST: u32 = 24;
const REFILL: Duration = Duration::from_secs(30);
/// Events and objects that are remembered.
const MOST: usize = 4096;

/// What makes two occurrences the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    uid: Uid,
    component: &'static str,
    reason: Cow<'static, str>,
    severity: Severity,
    message: String,
}

impl Identity {
    pub(super) fn of(noted: &Noted) -> Self {
        let occurrence = &noted.occurrence;
        Self {
            uid: occurrence.about.uid.clone(),
            component: noted.component,
            reason: occurrence.reason.clone(),
            severity: occurrence.severity,
            message: occurrence.message.clone(),
        }
    }
}

/// What to do about an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Tell it as a new event.
    Create,
    /// Count the event up to `count`.
    Repeat { event: Told, count: u32 },
    /// Its object's budget is used up.
    Limited,
}

/// An event that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

#[derive(Debug)]
struct Known {
    told: Told,
    /// Including what has not been sent.
    count: u32,
    last: Instant,
}

#[derive(Debug)]
struct Budget {
    tokens: u32,
    /// When the last token was earned.
    since: Instant,
}

impl Budget {
    fn refill(&mut self, now: Instant) {
        let earned = now.since(self.since).as_secs() / REFILL.as_secs();
        let earned = u32::try_from(earned).unwrap_or(BURST).min(BURST);
        if self.tokens + earned >= BURST {
            (self.tokens, self.since) = (BURST, now);
        } else {
            self.tokens += earned;
            self.since = self.since + REFILL * earned;
        }
    }
}

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    known: BTreeMap<Identity, Known>,
    budgets: BTreeMap<Uid, Budget>,
}

impl Correlator {
    /// Decides about one occurrence and takes it from its object's budget.
    pub(super) fn decide(&mut self, identity: &Identity, now: Instant) -> Decision {
        let full = || Budget { tokens: BURST, since: now };
        let budget = self.budgets.entry(identity.uid.clone()).or_insert_with(full);
        budget.refill(now);
        let known = self.known.get_mut(identity).filter(|known| now.since(known.last) < WINDOW);
        let Some(known) = known else {
            let affordable = budget.tokens > 0;
            budget.tokens = budget.tokens.saturating_sub(1);
            self.known.remove(identity);
            self.tidy(now);
            return if affordable { Decision::Create } else { Decision::Limited };
        };
        known.last = now;
        known.count = known.count.saturating_add(1);
        if budget.tokens <= BURST / 2 {
            return Decision::Limited;
        }
        budget.tokens -= 1;
        Decision::Repeat { event: known.told.clone(), count: known.count }
    }

    /// The occurrence was told as a new event.
    pub(super) fn created(&mut self, identity: &Identity, key: ObjectKey, uid: Uid, now: Instant) {
        let known = Known { told: Told { key, uid }, count: 1, last: now };
        self.known.insert(identity.clone(), known);
    }

    /// The event is not there any more.
    pub(super) fn forget(&mut self, identity: &Identity) {
        self.known.remove(identity);
    }

    /// Keeps memory bounded: first what no longer matters, then the least recent.
    fn tidy(&mut self, now: Instant) {
        if self.known.len() >= MOST {
            self.known.retain(|_, known| now.since(known.last) < WINDOW);
            let mut times: Vec<Instant> = self.known.values().map(|known| known.last).collect();
            times.sort_unstable();
            // A quarter at a time, so that a flood does not search for its oldest every time.
            if let Some(cutoff) = times.get(MOST / 4).filter(|_| times.len() >= MOST) {
                self.known.retain(|_, known| known.last > *cutoff);
            }
        }
        if self.budgets.len() >= MOST {
            self.budgets.retain(|_, budget| {
                budget.refill(now);
                budget.tokens < BURST
            });
            while self.budgets.len() >= MOST {
                self.budgets.pop_first();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn identity(uid: &str, reason: &'static str) -> Identity {
        Identity {
            uid: uid.into(),
            component: "test",
            reason: reason.into(),
            severity: Severity::Normal,
            message: String::new(),
        }
    }

    /// Decides and reports success, as the sender does.
    fn tell(correlator: &mut Correlator, identity: &Identity, now: Instant) -> String {
        let decision = correlator.decide(identity, now);
        match decision {
            Decision::Create => {
                let key = ObjectKey::new("ns", &identity.reason);
                correlator.created(identity, key, "e".into(), now);
                "create".to_owned()
            }
            Decision::Repeat { count, .. } => format!("count {count}"),
            Decision::Limited => "limited".to_owned(),
        }
    }

    #[test]
    fn occurrences_in_a_table() {
        let other = Identity { message: "other text".to_owned(), ..identity("a", "Created") };
        let cases = [
            ("the first is told", identity("a", "Created"), 0, "create"),
            ("the same again counts up", identity("a", "Created"), 1, "count 2"),
            ("and again", identity("a", "Created"), 599, "count 3"),
            ("the window counts from the last one", identity("a", "Created"), 1100, "count 4"),
            ("another text is another event", other, 1100, "create"),
            ("another reason too", identity("a", "Deleted"), 1100, "create"),
            ("and another object", identity("b", "Created"), 1100, "create"),
            ("after the window it is told anew", identity("a", "Created"), 1700, "create"),
        ];
        let mut correlator = Correlator::default();
        for (name, identity, seconds, expected) in cases {
            assert_eq!(tell(&mut correlator, &identity, at(seconds)), expected, "{name}");
        }
    }

    #[test]
    fn a_chatty_reason_cannot_silence_a_rare_one_and_its_count_catches_up() {
        let mut correlator = Correlator::default();
        let chatty = identity("a", "Created");
        let told = |c: &mut Correlator| tell(c, &chatty, at(0));

        let outcomes: Vec<String> = (0..100).map(|_| told(&mut correlator)).collect();

        assert_eq!(outcomes.iter().filter(|o| o.starts_with("count")).count(), 11);
        assert_eq!(outcomes.last().map(String::as_str), Some("limited"));
        assert_eq!(tell(&mut correlator, &identity("a", "GangTerminated"), at(0)), "create");
        assert_eq!(tell(&mut correlator, &chatty, at(60)), "count 101");
    }

    #[test]
    fn every_object_has_a_budget_of_its_own_that_refills() {
        const REASONS: [&str; 30] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29",
        ];
        let mut correlator = Correlator::default();
        let mut count = |uid: &str, now: Instant| {
            let outcomes = REASONS.map(|reason| tell(&mut correlator, &identity(uid, reason), now));
            outcomes.iter().filter(|outcome| *outcome == "create").count()
        };

        assert_eq!(count("a", at(0)), 24);
        assert_eq!(count("b", at(0)), 24);
        assert_eq!(count("a", at(59)), 1);
        // Far beyond the window everything is new again.
        assert_eq!(count("a", at(10_000)), 24);
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for object in 0..10_000_u64 {
            tell(&mut correlator, &identity(&object.to_string(), "Created"), at(object / 10));
        }
        assert!(correlator.known.len() <= MOST, "{}", correlator.known.len());
        assert!(correlator.budgets.len() <= MOST, "{}", correlator.budgets.len());
    }
}
