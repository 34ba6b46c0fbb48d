//! Status reports, with fewer writes: one after a burst instead of one per pod event.
//!
//! While a workload comes up or is deleted, every pod changes several times within a moment, and each change
//! changes a status. A status that nothing waits for is held back ([`Reporter`]); the status of that later
//! time is written. Delays grow with the number of pending reports, and held reports are looked at again when
//! few are left. A status that is expensive to compute is computed at a steady pace ([`Pace`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::clock::{Clock, Instant};
use crate::controller::{Again, Attempt, Due};
use crate::converge;
use crate::events::{Occurrence, Recorder};
use crate::resource::{ObjectKey, Resource};
use crate::view::Meta;
use crate::write::{Write, WriteError, Writer};

/// Delay of a changed status while few reports are pending.
const DELAY: Duration = Duration::from_millis(400);
/// The same for the first status of an object.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Up to this many pending reports do not delay each other: a single workload that comes up.
const FEW: u32 = 8;
/// Added for each further pending report. Status writes slow down the writes that workloads wait for.
const DELAY_PER_REPORT: Duration = Duration::from_secs(1);
/// From here on reports add less: a burst costs at most twenty status writes per second.
const BURST_DELAY: Duration = Duration::from_secs(2);
/// The same while nothing is ready: an object that comes up changes all the time.
const FIRST_BURST_DELAY: Duration = Duration::from_secs(8);
/// Added for each pending report in a burst.
const BURST_DELAY_PER_REPORT: Duration = Duration::from_millis(50);
/// The same for [`Urgency::Idle`].
const IDLE_DELAY_PER_REPORT: Duration = Duration::from_millis(150);
/// The longest delay, however many reports are pending.
const MAX_DELAY: Duration = Duration::from_secs(120);
/// Shortest time between two computations of the status of an object with many parts.
const PACE: Duration = Duration::from_millis(500);
/// The same for an object with this many parts and more: while they come up, one of them always changes.
const LARGE_PACE: (u32, Duration) = (25, Duration::from_secs(1));
/// Added for each part: the cost of the status grows with the number of parts.
const PACE_PER_PART: Duration = Duration::from_millis(2);

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// At once: another controller or a user waits for it.
    Now,
    /// Soon. Nothing was ready when the object last reported.
    ComingUp,
    /// Soon.
    Soon,
    /// After everything else: no controller reads it.
    Idle,
}

impl Urgency {
    /// The urgency of a status, given the ready replicas that were reported last.
    pub fn of(urgent: bool, ready: Option<i32>) -> Self {
        match (urgent, ready.unwrap_or_default() == 0) {
            (true, _) => Self::Now,
            (false, true) => Self::ComingUp,
            (false, false) => Self::Soon,
        }
    }

    /// The delay of a status while `others` are pending.
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
pub struct Report<'a, S> {
    /// Kind of the object.
    pub resource: Resource,
    /// The object.
    pub meta: &'a Meta,
    /// Its stored status.
    pub stored: Option<&'a S>,
    /// The status to write.
    pub desired: S,
    /// How soon.
    pub urgency: Urgency,
    /// Events to emit when it is written.
    pub events: Vec<Occurrence>,
    /// Source of the events.
    pub component: &'static str,
}

impl<S: Serialize + PartialEq> Report<'_, S> {
    /// The write; computed when it is sent, because most held statuses change before.
    pub fn write(&self) -> Option<Write> {
        converge::status(self.resource.clone(), self.meta, self.stored, &self.desired)
    }
}

/// The object of a report: kind and key.
pub type About<'a> = (&'static str, &'a ObjectKey);

/// Writes the statuses of all controllers of a process. They share the API server, so they delay each other.
pub struct Reporter {
    writer: Writer,
    events: Recorder,
    clock: Clock,
    held: Mutex<Held<Again>>,
}

impl Reporter {
    /// A reporter without pending reports.
    pub fn new(writer: Writer, events: Recorder, clock: Clock) -> Self {
        Self { writer, events, clock, held: Mutex::default() }
    }

    /// Writes a status with its events, or returns when to reconcile again because it is held back.
    pub async fn report<K, S: Serialize + PartialEq>(
        &self,
        about: About<'_>,
        attempt: &Attempt<K>,
        report: Option<Report<'_, S>>,
    ) -> Result<Due, WriteError> {
        let urgency = report.as_ref().map(|report| report.urgency);
        let (until, early) =
            lock(&self.held).hold(about, urgency, &attempt.again, self.clock.now());
        early.iter().for_each(Again::queue);
        if let Some(report) = report.filter(|_| until.is_none())
            && let Some(write) = report.write()
        {
            self.writer.execute(&attempt.fence, &write).await?;
            let events = self.events.component(report.component);
            report.events.into_iter().for_each(|event| events.record(event));
        }
        Ok(until)
    }

    /// Drops a pending report, of an object that is deleted or has nothing to report any more.
    pub fn forget(&self, about: About<'_>) {
        let early = lock(&self.held).forget(about);
        early.iter().for_each(Again::queue);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pending reports. Kept in memory: a restart only loses the delay.
///
/// `W` reconciles an object again.
#[derive(Debug)]
struct Held<W> {
    reports: Lane<W>,
    /// Reports of [`Urgency::Idle`], which the others delay, and which delay nothing.
    idle: Lane<W>,
}

/// Since when each report is held back, and what to wake when it need not wait any longer.
type Lane<W> = BTreeMap<(&'static str, ObjectKey), (Instant, W)>;

impl<W> Default for Held<W> {
    fn default() -> Self {
        Self { reports: Lane::new(), idle: Lane::new() }
    }
}

impl<W: Clone> Held<W> {
    /// Until when to hold a report back, and what to wake because few reports are left. `None` for the urgency:
    /// there is nothing to report.
    fn hold(
        &mut self,
        (kind, key): About<'_>,
        urgency: Option<Urgency>,
        again: &W,
        now: Instant,
    ) -> (Due, Vec<W>) {
        let Some(urgency) = urgency.filter(|urgency| *urgency != Urgency::Now) else {
            return (None, self.forget((kind, key)));
        };
        let is_idle = urgency == Urgency::Idle;
        let lane = if is_idle { &mut self.idle } else { &mut self.reports };
        let (since, _) = *lane.entry((kind, key.clone())).or_insert_with(|| (now, again.clone()));
        let others = self.reports.len() - usize::from(!is_idle);
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let until = Some(since + urgency.delay(others)).filter(|until| *until > now);
        let early = if until.is_none() { self.forget((kind, key)) } else { Vec::new() };
        (until, early)
    }

    /// Drops a report. Returns what to wake: a delay from a burst ends with the burst.
    fn forget(&mut self, (kind, key): About<'_>) -> Vec<W> {
        let is_few = |lane: &Lane<W>| lane.len() <= FEW as usize;
        let were_many = !is_few(&self.reports);
        let key = (kind, key.clone());
        self.reports.remove(&key);
        self.idle.remove(&key);
        if !(were_many && is_few(&self.reports)) {
            return Vec::new();
        }
        let held = self.reports.values().chain(self.idle.values());
        held.map(|(_, again)| again.clone()).collect()
    }
}

/// Limits how often something is computed, by key.
#[derive(Default)]
pub struct Pace {
    next: Mutex<BTreeMap<ObjectKey, Instant>>,
}

impl Pace {
    /// When to compute next. `None` means now, and starts the next interval.
    pub fn wait(&self, key: &ObjectKey, parts: u32, now: Instant) -> Due {
        let mut all = lock(&self.next);
        if let Some(next) = all.get(key).filter(|next| **next > now) {
            return Some(*next);
        }
        let pace = if parts < LARGE_PACE.0 { PACE } else { LARGE_PACE.1 };
        all.insert(key.clone(), now + pace.max(PACE_PER_PART * parts));
        None
    }

    /// Forgets an object that is deleted.
    pub fn forget(&self, key: &ObjectKey) {
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
    fn few_pending_first_reports_wait_below_300_ms_and_changes_below_1_s() {
        for others in 0..=FEW {
            assert!(ComingUp.delay(others) <= Duration::from_millis(300));
            assert!(Soon.delay(others) + PACE <= Duration::from_secs(1), "set included");
        }
    }

    #[test]
    fn changes_of_one_object_share_the_delay_of_the_first() {
        let mut pending = Held::default();
        let mut hold = |name: &str, urgency: Option<Urgency>, milliseconds| {
            let key = ObjectKey::new("n", name);
            pending.hold(("PodClique", &key), urgency, &(), at(milliseconds)).0
        };

        assert_eq!(hold("a", Some(Soon), 0), Some(at(400)));
        assert_eq!(hold("a", Some(Soon), 100), Some(at(400)));
        assert_eq!(hold("b", Some(Soon), 100), Some(at(500)), "each object has its own delay");
        assert_eq!(hold("b", None, 100), None);
        assert_eq!(hold("a", Some(Soon), 400), None);
        assert_eq!(hold("a", Some(Soon), 400), Some(at(800)), "a new burst");
        assert_eq!(hold("a", Some(Now), 500), None);
        assert_eq!(hold("a", Some(Soon), 500), Some(at(900)));
        assert_eq!(hold("a", None, 600), None, "nothing to report any more");
        assert_eq!(hold("a", Some(Soon), 700), Some(at(1_100)));
    }

    #[test]
    fn reports_of_all_kinds_delay_each_other_and_forgotten_ones_do_not_count() {
        let mut pending = Held::default();
        let key = |number: u32| ObjectKey::new("n", &number.to_string());
        let kind = |number: u32| if number.is_multiple_of(2) { "Clique" } else { "Group" };
        let hold = |pending: &mut Held<()>, number: u32, now| {
            pending.hold((kind(number), &key(number)), Some(ComingUp), &(), at(now)).0
        };
        assert_eq!(hold(&mut pending, 0, 0), Some(at(200)));
        for number in 1..=200 {
            hold(&mut pending, number, 0);
        }
        assert_eq!(hold(&mut pending, 0, 200), Some(at(18_000)), "two hundred others are pending");
        let idle = |held: &mut Held<()>| held.hold(("Gang", &key(0)), Some(Idle), &(), at(0)).0;
        assert_eq!(idle(&mut Held::default()), Some(at(400)), "nothing else is pending");
        assert_eq!(idle(&mut pending), Some(at(38_150)), "all others come first");
        let other = pending.hold(("Gang", &key(1)), Some(Idle), &(), at(0)).0;
        assert_eq!(other, Some(at(38_150)), "idle reports do not delay each other");
        for number in 1..=192 {
            pending.forget((kind(number), &key(number)));
        }
        assert_eq!(hold(&mut pending, 0, 100), Some(at(200)), "eight others are pending");
        assert_eq!(hold(&mut pending, 0, 200), None);
    }

    #[test]
    fn held_reports_are_woken_when_few_are_left() {
        let mut pending = Held::default();
        let name = |number: u32| ObjectKey::new("n", &number.to_string());
        for number in 0..20 {
            pending.hold(("Clique", &name(number)), Some(Soon), &number, at(0));
        }
        for number in 100..120 {
            pending.hold(("Gang", &name(number)), Some(Idle), &number, at(0));
        }
        let mut drop = |kind, number| pending.forget((kind, &name(number)));
        for number in 0..11 {
            assert!(drop("Clique", number).is_empty(), "{number}");
        }
        assert_eq!(drop("Clique", 11), (12..20).chain(100..120).collect::<Vec<u32>>());
        assert!(drop("Clique", 12).is_empty(), "they know");
        assert!(drop("Gang", 100).is_empty());
    }

    #[test]
    fn the_first_computation_is_immediate_and_later_ones_are_paced() {
        let (pace, key) = (Pace::default(), ObjectKey::new("n", "a"));
        assert_eq!(pace.wait(&key, 1, at(0)), None);
        assert_eq!(pace.wait(&key, 1, at(0)), Some(at(500)));
        assert_eq!(pace.wait(&key, 1, at(500)), None);
        pace.forget(&key);
        assert_eq!(pace.wait(&key, 2000, at(500)), None);
        assert_eq!(
            pace.wait(&key, 2000, at(1_500)),
            Some(at(4_500)),
            "many parts are computed less often"
        );
    }
}
