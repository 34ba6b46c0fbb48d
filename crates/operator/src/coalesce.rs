//! Fewer status writes: one after a burst instead of one per pod event.
//!
//! While a gang comes up or goes, every pod changes several times within a moment, and each change is
//! another status. A status that nobody waits for is held back for a while ([`Coalesce`]); whatever
//! it has become by then is written at once. A status that is costly to compute is computed at a
//! steady pace ([`Pace`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grove_api::error_code::ErrorCode;
use grove_runtime::clock::Instant;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::events::Occurrence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::Meta;
use grove_runtime::write::Write;
use serde::Serialize;

use crate::converge;
use crate::events;
use crate::reconcile::{Context, ReconcileError};

/// How long a change may be missing from a status.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same while nothing is ready: an object that comes up changes all the time.
const FIRST_PATIENCE: Duration = Duration::from_secs(8);
/// What each status that waits adds to that: every write makes what gangs wait for slower, so that of
/// hundreds that come up at once most are told when they are up, and of many that do not, twenty a second.
const PATIENCE_PER_WAITING: Duration = Duration::from_millis(50);
/// However many wait.
const MOST_PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks at a whole set, at least.
const PACE: Duration = Duration::from_secs(1);
/// The same, for each of its replicas: large sets take a look as costly as they are large.
const PACE_PER_REPLICA: Duration = Duration::from_millis(2);

/// A status that differs from the stored one.
pub(crate) struct Report<'a, S> {
    pub(crate) resource: Resource,
    pub(crate) meta: &'a Meta,
    pub(crate) stored: Option<&'a S>,
    pub(crate) wanted: S,
    /// How long it can wait.
    pub(crate) patience: Duration,
    /// What is told when it is written.
    pub(crate) events: Vec<Occurrence>,
}

impl<S: Serialize + PartialEq> Report<'_, S> {
    /// Worked out only when it is sent: most that are held back become another one before.
    pub(crate) fn write(&self) -> Option<Write> {
        converge::status(self.resource.clone(), self.meta, self.stored, &self.wanted)
    }
}

/// How long a status can wait: not at all when somebody waits for it, longest while none of the `ready`
/// replicas that were reported last is there.
pub(crate) fn patience(urgent: bool, ready: Option<i32>) -> Duration {
    match (urgent, ready.unwrap_or_default() == 0) {
        (true, _) => Duration::ZERO,
        (false, true) => FIRST_PATIENCE,
        (false, false) => PATIENCE,
    }
}

/// Times by object. Kept in memory: after a restart they are not missed.
type Times<K> = Mutex<BTreeMap<K, Instant>>;

fn lock<K>(times: &Times<K>) -> MutexGuard<'_, BTreeMap<K, Instant>> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose status it is: an object of a kind.
pub(crate) type Told<'a> = (&'static str, &'a ObjectKey);

/// Holds back what nobody waits for. Objects of all kinds wait together: they share the API server.
#[derive(Default)]
pub(crate) struct Coalesce {
    /// Since when.
    held: Times<(&'static str, ObjectKey)>,
}

impl Coalesce {
    /// Writes a status, or says when it will be time for it.
    pub(crate) async fn report<S: Serialize + PartialEq>(
        &self,
        context: &Context,
        kind: &'static str,
        attempt: &Attempt<ObjectKey>,
        report: Option<Report<'_, S>>,
        code: ErrorCode,
    ) -> Result<Due, ReconcileError> {
        let patience = report.as_ref().map(|report| report.patience);
        let until = self.hold((kind, &attempt.key), patience, context.env.clock.now());
        if let Some(report) = report.filter(|_| until.is_none())
            && let Some(write) = report.write()
        {
            let written = context.writer.execute(&attempt.fence, &write).await;
            written.map_err(|error| ReconcileError::failed(code, &error))?;
            events::tell(&context.events, report.events);
        }
        Ok(until)
    }

    /// Until when to hold a status back; without one, nothing is held back any more.
    fn hold(&self, told: Told<'_>, patience: Option<Duration>, now: Instant) -> Option<Instant> {
        let mut all = lock(&self.held);
        let key = (told.0, told.1.clone());
        let until = patience.filter(|patience| !patience.is_zero()).map(|patience| {
            let since = *all.entry(key.clone()).or_insert(now);
            let waiting = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let others = PATIENCE_PER_WAITING.saturating_mul(waiting.saturating_sub(1));
            since + patience.saturating_add(others).min(MOST_PATIENCE)
        });
        let until = until.filter(|until| *until > now);
        if until.is_none() {
            all.remove(&key);
        }
        until
    }

    /// There is nothing to report any more: what is gone does not make others wait.
    pub(crate) fn forget(&self, (kind, key): Told<'_>) {
        lock(&self.held).remove(&(kind, key.clone()));
    }
}

/// Looks at something once in a while.
#[derive(Default)]
pub(crate) struct Pace {
    next: Times<ObjectKey>,
}

impl Pace {
    /// When to look; nothing when it is time, and then this is a look.
    pub(crate) fn wait(&self, key: &ObjectKey, replicas: u32, now: Instant) -> Option<Instant> {
        let mut all = lock(&self.next);
        if let Some(next) = all.get(key).filter(|next| **next > now) {
            return Some(*next);
        }
        all.insert(key.clone(), now + PACE.max(PACE_PER_REPLICA * replicas));
        None
    }

    /// There is nothing to look at any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        lock(&self.next).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn changes_wait_together_and_do_not_push_each_other_back() {
        let coalesce = Coalesce::default();
        let hold = |name: &str, patience: Option<u64>, second| {
            let patience = patience.map(Duration::from_secs);
            coalesce.hold(("PodClique", &ObjectKey::new("n", name)), patience, at(second))
        };

        assert_eq!(hold("a", Some(2), 0), Some(at(2)));
        assert_eq!(hold("a", Some(2), 1), Some(at(2)));
        assert_eq!(hold("b", Some(2), 1), Some(at(3) + PATIENCE_PER_WAITING), "objects wait apart");
        assert_eq!(hold("b", None, 1), None);
        assert_eq!(hold("a", Some(2), 2), None);
        assert_eq!(hold("a", Some(2), 2), Some(at(4)), "a new burst");
        assert_eq!(hold("a", Some(0), 3), None, "somebody waits");
        assert_eq!(hold("a", Some(2), 3), Some(at(5)));
        assert_eq!(hold("a", None, 4), None, "it is as stored again");
        assert_eq!(hold("a", Some(2), 5), Some(at(7)));
        let group = ("PodCliqueScalingGroup", &ObjectKey::new("n", "a"));
        let other = coalesce.hold(group, Some(Duration::from_secs(2)), at(6));
        assert_eq!(other, Some(at(8) + PATIENCE_PER_WAITING), "kinds have names of their own");
    }

    #[test]
    fn the_first_look_is_at_once_and_the_last_change_is_not_missed() {
        let (pace, key) = (Pace::default(), ObjectKey::new("n", "a"));
        assert_eq!(pace.wait(&key, 1, at(0)), None);
        assert_eq!(pace.wait(&key, 1, at(0)), Some(at(1)));
        assert_eq!(pace.wait(&key, 1, at(1)), None);
        pace.forget(&key);
        assert_eq!(pace.wait(&key, 2000, at(1)), None);
        assert_eq!(
            pace.wait(&key, 2000, at(2)),
            Some(at(5)),
            "a large set is looked at less often"
        );
    }

    #[test]
    fn the_more_wait_the_longer_each_does_but_not_for_ever() {
        let coalesce = Coalesce::default();
        let hold = |number: u32, seconds, now| {
            let key = ObjectKey::new("n", &number.to_string());
            let kind = if number.is_multiple_of(2) { "PodClique" } else { "PodCliqueScalingGroup" };
            coalesce.hold((kind, &key), Some(Duration::from_secs(seconds)), at(now))
        };
        assert_eq!(hold(0, 8, 0), Some(at(8)));
        for number in 1..=200 {
            hold(number, 8, 0);
        }
        assert_eq!(hold(0, 8, 8), Some(at(18)), "two hundred others wait");
        for number in 1..=120 {
            assert_eq!(hold(number, 0, 9), None, "somebody waits for it");
        }
        assert_eq!(hold(0, 8, 9), Some(at(12)), "eighty others do");
        for number in 121..=180 {
            let key = ObjectKey::new("n", &number.to_string());
            coalesce.forget(("PodClique", &key));
            coalesce.forget(("PodCliqueScalingGroup", &key));
        }
        assert_eq!(hold(0, 8, 8), Some(at(9)), "twenty others do, the rest are gone");
        assert_eq!(hold(0, 8, 9), None);
        for number in 1..=5000 {
            hold(number, 2, 20);
        }
        assert_eq!(hold(0, 2, 20), Some(at(140)), "two minutes are enough");
    }
}
