//! How many writes may be under way at once.
//!
//! Bounded always, and adapted to what the API server says: each 429 or 503 halves the bound and
//! holds new writes back for as long as the server asked; each success lets it grow again by one
//! place per round of writes. So a server under load is left alone at once and reclaimed gently.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::metrics::Metrics;

/// Each has a connection of its own, and more of them do not make the API server faster.
const MOST: f64 = 24.0;
const FEWEST: f64 = 2.0;
/// Without a Retry-After.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// The rule, without IO.
#[derive(Debug)]
struct Pace {
    /// Writes allowed at once; fractional so that it can grow slowly.
    bound: f64,
    in_flight: usize,
    resume_at: Instant,
    /// The bound was halved at this time: writes sent before it do not halve it again.
    slowed_at: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Admission {
    Now,
    /// Not before this time.
    At(Instant),
    /// When another write has ended.
    Later,
}

impl Pace {
    fn new() -> Self {
        Self { bound: MOST, in_flight: 0, resume_at: Instant::START, slowed_at: None }
    }

    fn admit(&mut self, now: Instant) -> Admission {
        if now < self.resume_at {
            return Admission::At(self.resume_at);
        }
        if !self.has_room() {
            return Admission::Later;
        }
        self.in_flight += 1;
        Admission::Now
    }

    fn has_room(&self) -> bool {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2..=24")]
        let places = self.bound as usize;
        self.in_flight < places
    }

    fn ended(&mut self) {
        self.in_flight -= 1;
    }

    fn succeeded(&mut self) {
        self.bound = (self.bound + 1.0 / self.bound).min(MOST);
    }

    /// A write sent at `sent` was refused at `now`.
    fn throttled(&mut self, sent: Instant, now: Instant, pause: Duration) {
        self.resume_at = self.resume_at.max(now + pause);
        if self.slowed_at.is_none_or(|slowed| sent > slowed) {
            self.bound = (self.bound / 2.0).max(FEWEST);
            self.slowed_at = Some(now);
        }
    }
}

/// Hands out places for writes; clones share the bound.
#[derive(Clone)]
pub(super) struct Pacer {
    shared: Arc<Mutex<Shared>>,
    clock: Clock,
    metrics: Metrics,
}

struct Shared {
    pace: Pace,
    /// Who waits for a place, in the order of their tickets.
    line: BTreeMap<u64, Waker>,
    next_ticket: u64,
}

impl Shared {
    /// Wakes the first in line if there is a place. It wakes the next when it has taken one: waking all
    /// for each place would make the work grow with the square of the writes.
    fn call(&self) {
        if self.pace.has_room()
            && let Some((_, first)) = self.line.first_key_value()
        {
            first.wake_by_ref();
        }
    }
}

impl Pacer {
    pub(super) fn new(clock: Clock, metrics: Metrics) -> Self {
        let shared = Shared { pace: Pace::new(), line: BTreeMap::new(), next_ticket: 0 };
        Self { shared: Arc::new(Mutex::new(shared)), clock, metrics }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(super) async fn acquire(&self) -> Permit {
        let turn = Turn::new(self);
        loop {
            match turn.come().await {
                Ok(now) => return Permit { pacer: self.clone(), sent: now },
                Err(pause_ends) => self.clock.sleep_until(pause_ends).await,
            }
        }
    }
}

/// A turn to take a place, which is somebody else's when it is dropped.
struct Turn<'a> {
    pacer: &'a Pacer,
    ticket: u64,
}

impl<'a> Turn<'a> {
    fn new(pacer: &'a Pacer) -> Self {
        let mut shared = pacer.shared();
        shared.next_ticket += 1;
        Self { pacer, ticket: shared.next_ticket }
    }

    /// Waits in line while there is no place. Returns when it took one, or before when it may not.
    async fn come(&self) -> Result<Instant, Instant> {
        poll_fn(|context| {
            let now = self.pacer.clock.now();
            let mut shared = self.pacer.shared();
            let turn = match shared.pace.admit(now) {
                Admission::Later => {
                    shared.line.insert(self.ticket, context.waker().clone());
                    return Poll::Pending;
                }
                Admission::Now => Ok(now),
                Admission::At(time) => Err(time),
            };
            shared.line.remove(&self.ticket);
            self.pacer.metrics.writes_in_flight(shared.pace.in_flight);
            Poll::Ready(turn)
        })
        .await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut shared = self.pacer.shared();
        shared.line.remove(&self.ticket);
        shared.call();
    }
}

/// A place; giving it back is dropping it.
pub(super) struct Permit {
    pacer: Pacer,
    sent: Instant,
}

impl Permit {
    pub(super) fn succeeded(&self) {
        self.pacer.shared().pace.succeeded();
    }

    pub(super) fn throttled(&self, pause: Option<Duration>) {
        let now = self.pacer.clock.now();
        self.pacer.shared().pace.throttled(self.sent, now, pause.unwrap_or(DEFAULT_PAUSE));
        self.pacer.metrics.write_paused();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut shared = self.pacer.shared();
        shared.pace.ended();
        self.pacer.metrics.writes_in_flight(shared.pace.in_flight);
        shared.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn fill(pace: &mut Pace, now: Instant) -> usize {
        std::iter::from_fn(|| (pace.admit(now) == Admission::Now).then_some(())).count()
    }

    #[test]
    fn writes_are_bounded_and_wait_for_each_other() {
        let mut pace = Pace::new();

        assert_eq!(fill(&mut pace, at(0)), 24);
        assert_eq!(pace.admit(at(0)), Admission::Later);
        pace.ended();
        assert_eq!(pace.admit(at(0)), Admission::Now);
    }

    #[test]
    fn a_burst_of_refusals_halves_the_bound_once_and_waits_as_long_as_asked() {
        let mut pace = Pace::new();
        fill(&mut pace, at(0));

        for _ in 0..24 {
            pace.throttled(at(0), at(10), Duration::from_secs(2));
            pace.ended();
        }

        assert_eq!(pace.admit(at(500)), Admission::At(at(2010)));
        assert_eq!(fill(&mut pace, at(2010)), 12);
    }

    #[test]
    fn refusals_go_down_to_two_and_successes_come_back_slowly() {
        let mut pace = Pace::new();
        for round in 1..20_u64 {
            pace.throttled(at(round * 10), at(round * 10 + 1), Duration::ZERO);
        }
        assert_eq!(fill(&mut pace, at(1000)), 2);
        (0..2).for_each(|_| pace.ended());

        let mut successes = 0;
        while pace.bound < MOST {
            pace.succeeded();
            successes += 1;
        }

        assert!((250..350).contains(&successes), "{successes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_write_goes_when_the_pause_is_over() {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let pacer = Pacer::new(clock.clone(), Metrics::new());
        pacer.acquire().await.throttled(Some(Duration::from_secs(5)));

        let _permit = pacer.acquire().await;

        assert_eq!(clock.now(), at(5000));
    }
    #[tokio::test(start_paused = true)]
    async fn every_waiting_write_goes_in_turn_also_when_there_is_more_room_than_before() {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let pacer = Pacer::new(clock.clone(), Metrics::new());
        pacer.shared().pace.bound = FEWEST;
        let went = Mutex::new(Vec::new());
        let write = async |number: u64| {
            let permit = pacer.acquire().await;
            went.lock().unwrap().push(number);
            clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
            permit.succeeded();
        };

        futures::future::join_all((0..200).map(write)).await;

        assert_eq!(went.into_inner().unwrap(), (0..200).collect::<Vec<_>>());
        assert!(clock.now() < at(30), "the bound grew, and the room was used: {:?}", clock.now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_given_up_while_it_waits_does_not_keep_its_turn() {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let pacer = Pacer::new(clock, Metrics::new());
        pacer.shared().pace.bound = FEWEST;
        let permits = [pacer.acquire().await, pacer.acquire().await];
        let (mut given_up, mut waiting) = (Box::pin(pacer.acquire()), Box::pin(pacer.acquire()));
        assert!(futures::poll!(&mut given_up).is_pending());
        assert!(futures::poll!(&mut waiting).is_pending());

        drop(permits);
        drop(given_up);

        assert!(futures::poll!(&mut waiting).is_ready());
    }
}
