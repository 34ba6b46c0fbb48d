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
use grove_runtime::controller::Due;
use grove_runtime::events::Occurrence;
use grove_runtime::fence::Fence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::Meta;
use grove_runtime::write::Write;
use serde::Serialize;

use crate::converge;
use crate::events;
use crate::objects::Object;
use crate::reconcile::{Context, ReconcileError};

/// How long a change may be missing from a status while few reports are pending.
const DELAY: Duration = Duration::from_millis(400);
/// The same for the first status of an object.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// As many pending reports do not delay each other: a set that comes up alone.
const FEW: u32 = 8;
/// What each further pending report adds. Every status write slows down the writes that gangs wait for.
const DELAY_PER_REPORT: Duration = Duration::from_secs(1);
/// From here on reports add less: a burst costs at most twenty status writes per second.
const BURST_DELAY: Duration = Duration::from_secs(2);
/// The same while nothing is ready: an object that comes up changes all the time.
const FIRST_BURST_DELAY: Duration = Duration::from_secs(8);
/// What each pending report adds in a burst.
const BURST_DELAY_PER_REPORT: Duration = Duration::from_millis(50);
/// The same for reports that nothing follows from.
const IDLE_DELAY_PER_REPORT: Duration = Duration::from_millis(150);
/// However many are pending.
const MAX_DELAY: Duration = Duration::from_secs(120);
/// Time between two computations of the status of a whole set, at least. The first after a while is at once.
const PACE: Duration = Duration::from_millis(500);
/// The same for sets of this many replicas and more: while they come up, something changes all the time.
const LARGE_SET: (u32, Duration) = (25, Duration::from_secs(1));
/// The same, for each replica: the status of a set costs as much as the set is large.
const PACE_PER_REPLICA: Duration = Duration::from_millis(2);

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// At once: another controller or a user waits for it.
    Now,
    /// Soon; nothing was ready when the object last reported.
    ComingUp,
    /// Soon.
    Soon,
    /// Soon, but after everything else: no controller reads it.
    Idle,
}

impl Urgency {
    /// The urgency of a status, given the ready replicas that were reported last.
    pub(crate) fn of(urgent: bool, ready: Option<i32>) -> Self {
        match (urgent, ready.unwrap_or_default() == 0) {
            (true, _) => Self::Now,
            (false, true) => Self::ComingUp,
            (false, false) => Self::Soon,
        }
    }

    /// How long a status waits while `others` wait too: hardly at all when few do, and no longer than a
    /// burst needs when many do.
    fn delay(self, others: u32) -> Duration {
        let (alone, burst, each) = match self {
            Self::Now => return Duration::ZERO,
            Self::ComingUp => (FIRST_DELAY, FIRST_BURST_DELAY, BURST_DELAY_PER_REPORT),
            Self::Soon => (DELAY, BURST_DELAY, BURST_DELAY_PER_REPORT),
            Self::Idle => (DELAY, FIRST_BURST_DELAY, IDLE_DELAY_PER_REPORT),
        };
        let few = DELAY_PER_REPORT.saturating_mul(others.saturating_sub(FEW)).saturating_add(alone);
        let many = each.saturating_mul(others).saturating_add(burst);
        few.min(many).min(MAX_DELAY)
    }
}

/// A status that differs from the stored one.
pub(crate) struct Report<'a, S> {
    pub(crate) resource: Resource,
    pub(crate) meta: &'a Meta,
    pub(crate) stored: Option<&'a S>,
    pub(crate) wanted: S,
    /// How soon it has to be written.
    pub(crate) urgency: Urgency,
    /// Emitted when it is written.
    pub(crate) events: Vec<Occurrence>,
}

impl<S: Serialize + PartialEq> Report<'_, S> {
    /// Whether it is about this object.
    pub(crate) fn is_of<K>(&self, object: &Object<K>) -> bool {
        self.meta.uid == object.meta.uid
    }

    /// Worked out only when it is sent: most that are held back become another one before.
    pub(crate) fn write(&self) -> Option<Write> {
        converge::status(self.resource.clone(), self.meta, self.stored, &self.wanted)
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
        told: Told<'_>,
        fence: &Fence,
        report: Option<Report<'_, S>>,
        code: ErrorCode,
    ) -> Result<Due, ReconcileError> {
        let urgency = report.as_ref().map(|report| report.urgency);
        let until = self.hold(told, urgency, context.env.clock.now());
        if let Some(report) = report.filter(|_| until.is_none())
            && let Some(write) = report.write()
        {
            let written = context.writer.execute(fence, &write).await;
            written.map_err(|error| ReconcileError::failed(code, &error))?;
            events::tell(&context.events, report.events);
        }
        Ok(until)
    }

    /// Until when to hold a status back; without one, nothing is held back any more.
    fn hold(&self, told: Told<'_>, urgency: Option<Urgency>, now: Instant) -> Option<Instant> {
        let mut all = lock(&self.held);
        let key = (told.0, told.1.clone());
        let until = urgency.filter(|urgency| *urgency != Urgency::Now).map(|urgency| {
            let since = *all.entry(key.clone()).or_insert(now);
            let others = u32::try_from(all.len()).unwrap_or(u32::MAX).saturating_sub(1);
            since + urgency.delay(others)
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
        let pace = if replicas < LARGE_SET.0 { PACE } else { LARGE_SET.1 };
        all.insert(key.clone(), now + pace.max(PACE_PER_REPLICA * replicas));
        None
    }

    /// There is nothing to look at any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        lock(&self.next).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::Urgency::{ComingUp, Idle, Now, Soon};
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    #[test]
    fn delays_grow_with_the_number_of_pending_reports() {
        let rows = [
            (Now, [0, 0, 0, 0, 0]),
            (ComingUp, [200, 200, 9_000, 18_000, 120_000]),
            (Soon, [400, 400, 3_000, 12_000, 120_000]),
            (Idle, [400, 400, 11_000, 38_000, 120_000]),
        ];
        for (urgency, delays) in rows {
            let of = |others| u64::try_from(urgency.delay(others).as_millis()).unwrap();
            assert_eq!([0, 8, 20, 200, 10_000].map(of), delays, "{urgency:?}");
        }
    }

    #[test]
    fn a_first_status_is_written_within_a_third_of_a_second_and_a_change_within_one() {
        for others in 0..=FEW {
            assert!(ComingUp.delay(others) <= Duration::from_millis(300));
            assert!(Soon.delay(others) + PACE <= Duration::from_secs(1), "set included");
        }
    }

    #[test]
    fn changes_wait_together_and_do_not_push_each_other_back() {
        let coalesce = Coalesce::default();
        let hold = |name: &str, urgency: Option<Urgency>, milliseconds| {
            let key = ObjectKey::new("n", name);
            coalesce.hold(("PodClique", &key), urgency, at(milliseconds))
        };

        assert_eq!(hold("a", Some(Soon), 0), Some(at(400)));
        assert_eq!(hold("a", Some(Soon), 100), Some(at(400)));
        assert_eq!(hold("b", Some(Soon), 100), Some(at(500)), "objects wait apart");
        assert_eq!(hold("b", None, 100), None);
        assert_eq!(hold("a", Some(Soon), 400), None);
        assert_eq!(hold("a", Some(Soon), 400), Some(at(800)), "a new burst");
        assert_eq!(hold("a", Some(Now), 500), None);
        assert_eq!(hold("a", Some(Soon), 500), Some(at(900)));
        assert_eq!(hold("a", None, 600), None, "it is as stored again");
        assert_eq!(hold("a", Some(Soon), 700), Some(at(1_100)));
    }

    #[test]
    fn objects_of_all_kinds_wait_together_and_those_that_are_gone_do_not_count() {
        let coalesce = Coalesce::default();
        let hold = |number: u32, now| {
            let key = ObjectKey::new("n", &number.to_string());
            let kind = if number.is_multiple_of(2) { "PodClique" } else { "PodCliqueScalingGroup" };
            coalesce.hold((kind, &key), Some(ComingUp), at(now))
        };
        assert_eq!(hold(0, 0), Some(at(200)));
        for number in 1..=200 {
            hold(number, 0);
        }
        assert_eq!(hold(0, 200), Some(at(18_000)), "two hundred others wait");
        for number in 1..=192 {
            let key = ObjectKey::new("n", &number.to_string());
            coalesce.forget(("PodClique", &key));
            coalesce.forget(("PodCliqueScalingGroup", &key));
        }
        assert_eq!(hold(0, 100), Some(at(200)), "eight others do");
        assert_eq!(hold(0, 200), None);
    }

    #[test]
    fn the_first_look_is_at_once_and_the_last_change_is_not_missed() {
        let (pace, key) = (Pace::default(), ObjectKey::new("n", "a"));
        assert_eq!(pace.wait(&key, 1, at(0)), None);
        assert_eq!(pace.wait(&key, 1, at(0)), Some(at(500)));
        assert_eq!(pace.wait(&key, 1, at(500)), None);
        pace.forget(&key);
        assert_eq!(pace.wait(&key, 2000, at(500)), None);
        assert_eq!(
            pace.wait(&key, 2000, at(1_500)),
            Some(at(4_500)),
            "a large set is looked at less often"
        );
    }
}
