//! Decides which occurrences become new events, which increment an existing one, and which exceed the
//! budget. Pure: time is an argument.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Queued, Severity};
use crate::clock::Instant;
use crate::resource::{ObjectKey, Uid};

/// How long after its last repetition an event is incremented rather than created again.
const REPEAT_WINDOW: Duration = Duration::from_secs(600);
/// Events per object at once, and the time in which the budget grows by one.
const BURST_EVENTS: u32 = 24;
const REFILL_INTERVAL: Duration = Duration::from_secs(30);
/// Limit of remembered events, and of objects.
const MAX_REMEMBERED: usize = 4096;

/// Occurrences with the same identity repeat each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    uid: Uid,
    component: &'static str,
    reason: Cow<'static, str>,
    severity: Severity,
    message: String,
}

impl Identity {
    pub(super) fn of(queued: &Queued) -> Self {
        let occurrence = &queued.occurrence;
        Self {
            uid: occurrence.about.uid.clone(),
            component: queued.component,
            reason: occurrence.reason.clone(),
            severity: occurrence.severity,
            message: occurrence.message.clone(),
        }
    }
}

/// What to do with an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Create an event.
    Create,
    /// Set the count of the event to `count`.
    Repeat { event: StoredEvent, count: u32 },
    /// Drop it: its object's budget is used up.
    Limited,
}

/// An event that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredEvent {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

#[derive(Debug)]
struct Known {
    event: StoredEvent,
    /// Includes repetitions that were not sent.
    count: u32,
    last: Instant,
}

#[derive(Debug)]
struct Budget {
    tokens: u32,
    /// When the last token was added.
    since: Instant,
}

impl Budget {
    fn refill(&mut self, now: Instant) {
        let earned = now.since(self.since).as_secs() / REFILL_INTERVAL.as_secs();
        let earned = u32::try_from(earned).unwrap_or(BURST_EVENTS).min(BURST_EVENTS);
        if self.tokens + earned >= BURST_EVENTS {
            (self.tokens, self.since) = (BURST_EVENTS, now);
        } else {
            self.tokens += earned;
            self.since = self.since + REFILL_INTERVAL * earned;
        }
    }
}

/// Remembers recent events and the budgets of objects.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    known: BTreeMap<Identity, Known>,
    budgets: BTreeMap<Uid, Budget>,
}

impl Correlator {
    /// Decides about one occurrence and charges it to its object's budget.
    pub(super) fn decide(&mut self, identity: &Identity, now: Instant) -> Decision {
        let full = || Budget { tokens: BURST_EVENTS, since: now };
        let budget = self.budgets.entry(identity.uid.clone()).or_insert_with(full);
        budget.refill(now);
        let known =
            self.known.get_mut(identity).filter(|known| now.since(known.last) < REPEAT_WINDOW);
        let Some(known) = known else {
            let affordable = budget.tokens > 0;
            budget.tokens = budget.tokens.saturating_sub(1);
            self.known.remove(identity);
            self.tidy(now);
            return if affordable { Decision::Create } else { Decision::Limited };
        };
        known.last = now;
        known.count = known.count.saturating_add(1);
        if budget.tokens <= BURST_EVENTS / 2 {
            return Decision::Limited;
        }
        budget.tokens -= 1;
        Decision::Repeat { event: known.event.clone(), count: known.count }
    }

    /// Records that a new event was created.
    pub(super) fn created(&mut self, identity: &Identity, key: ObjectKey, uid: Uid, now: Instant) {
        let known = Known { event: StoredEvent { key, uid }, count: 1, last: now };
        self.known.insert(identity.clone(), known);
    }

    /// Forgets an event that no longer exists.
    pub(super) fn forget(&mut self, identity: &Identity) {
        self.known.remove(identity);
    }

    /// Limits memory: drops expired entries first, then the least recent.
    fn tidy(&mut self, now: Instant) {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.retain(|_, known| now.since(known.last) < REPEAT_WINDOW);
            let mut times: Vec<Instant> = self.known.values().map(|known| known.last).collect();
            times.sort_unstable();
            // Drops a quarter at a time, so that a burst does not sort on every insert.
            if let Some(cutoff) =
                times.get(MAX_REMEMBERED / 4).filter(|_| times.len() >= MAX_REMEMBERED)
            {
                self.known.retain(|_, known| known.last > *cutoff);
            }
        }
        if self.budgets.len() >= MAX_REMEMBERED {
            self.budgets.retain(|_, budget| {
                budget.refill(now);
                budget.tokens < BURST_EVENTS
            });
            while self.budgets.len() >= MAX_REMEMBERED {
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

    /// Decides and records success, as the sender does.
    fn send(correlator: &mut Correlator, identity: &Identity, now: Instant) -> String {
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
    fn repetitions_within_the_window_increment_an_event() {
        let other = Identity { message: "other text".to_owned(), ..identity("a", "Created") };
        let cases = [
            ("the first creates", identity("a", "Created"), 0, "create"),
            ("the same again counts up", identity("a", "Created"), 1, "count 2"),
            ("and again", identity("a", "Created"), 599, "count 3"),
            ("the window counts from the last one", identity("a", "Created"), 1100, "count 4"),
            ("another text is another event", other, 1100, "create"),
            ("another reason too", identity("a", "Deleted"), 1100, "create"),
            ("and another object", identity("b", "Created"), 1100, "create"),
            ("after the window it creates again", identity("a", "Created"), 1700, "create"),
        ];
        let mut correlator = Correlator::default();
        for (name, identity, seconds, expected) in cases {
            assert_eq!(send(&mut correlator, &identity, at(seconds)), expected, "{name}");
        }
    }

    #[test]
    fn a_frequent_reason_leaves_budget_for_rare_ones_and_its_count_catches_up() {
        let mut correlator = Correlator::default();
        let frequent = identity("a", "Created");
        let repeat = |c: &mut Correlator| send(c, &frequent, at(0));

        let outcomes: Vec<String> = (0..100).map(|_| repeat(&mut correlator)).collect();

        assert_eq!(outcomes.iter().filter(|o| o.starts_with("count")).count(), 11);
        assert_eq!(outcomes.last().map(String::as_str), Some("limited"));
        assert_eq!(send(&mut correlator, &identity("a", "GangTerminated"), at(0)), "create");
        assert_eq!(send(&mut correlator, &frequent, at(60)), "count 101");
    }

    #[test]
    fn every_object_has_a_budget_of_its_own_that_refills() {
        const REASONS: [&str; 30] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29",
        ];
        let mut correlator = Correlator::default();
        let mut count = |uid: &str, now: Instant| {
            let outcomes = REASONS.map(|reason| send(&mut correlator, &identity(uid, reason), now));
            outcomes.iter().filter(|outcome| *outcome == "create").count()
        };

        assert_eq!(count("a", at(0)), 24);
        assert_eq!(count("b", at(0)), 24);
        assert_eq!(count("a", at(59)), 1);
        // All entries have expired.
        assert_eq!(count("a", at(10_000)), 24);
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for object in 0..10_000_u64 {
            send(&mut correlator, &identity(&object.to_string(), "Created"), at(object / 10));
        }
        assert!(correlator.known.len() <= MAX_REMEMBERED, "{}", correlator.known.len());
        assert!(correlator.budgets.len() <= MAX_REMEMBERED, "{}", correlator.budgets.len());
    }
}
