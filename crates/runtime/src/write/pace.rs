//! How many writes may be under way at once.
//!
//! Bounded always, and adapted to what the API server says: each 429 or 503 halves the bound and
//! holds new writes back for as long as the server asked; each success lets it grow again by one
//! place per round of writes. So a server under load is left alone at once and reclaimed gently.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};
use crate::metrics::Metrics;

const MOST: f64 = 64.0;
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
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2..=64")]
        let places = self.bound as usize;
        if self.in_flight >= places {
            return Admission::Later;
        }
        self.in_flight += 1;
        Admission::Now
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
    shared: Arc<(Mutex<Pace>, Notify)>,
    clock: Clock,
    metrics: Metrics,
}

impl Pacer {
    pub(super) fn new(clock: Clock, metrics: Metrics) -> Self {
        Self { shared: Arc::new((Mutex::new(Pace::new()), Notify::new())), clock, metrics }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(super) async fn acquire(&self) -> Permit {
        loop {
            let freed = self.shared.1.notified();
            let now = self.clock.now();
            let admission = self.pace().admit(now);
            match admission {
                Admission::Now => {
                    self.metrics.writes_in_flight(self.pace().in_flight);
                    return Permit { pacer: self.clone(), sent: now };
                }
                Admission::At(time) => self.clock.sleep_until(time).await,
                Admission::Later => freed.await,
            }
        }
    }
}

/// A place; giving it back is dropping it.
pub(super) struct Permit {
    pacer: Pacer,
    sent: Instant,
}

impl Permit {
    pub(super) fn succeeded(&self) {
        self.pacer.pace().succeeded();
    }

    pub(super) fn throttled(&self, pause: Option<Duration>) {
        let now = self.pacer.clock.now();
        self.pacer.pace().throttled(self.sent, now, pause.unwrap_or(DEFAULT_PAUSE));
        self.pacer.metrics.write_paused();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let in_flight = {
            let mut pace = self.pacer.pace();
            pace.ended();
            pace.in_flight
        };
        self.pacer.metrics.writes_in_flight(in_flight);
        self.pacer.shared.1.notify_waiters();
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

        assert_eq!(fill(&mut pace, at(0)), 64);
        assert_eq!(pace.admit(at(0)), Admission::Later);
        pace.ended();
        assert_eq!(pace.admit(at(0)), Admission::Now);
    }

    #[test]
    fn a_burst_of_refusals_halves_the_bound_once_and_waits_as_long_as_asked() {
        let mut pace = Pace::new();
        fill(&mut pace, at(0));

        for _ in 0..64 {
            pace.throttled(at(0), at(10), Duration::from_secs(2));
            pace.ended();
        }

        assert_eq!(pace.admit(at(500)), Admission::At(at(2010)));
        assert_eq!(fill(&mut pace, at(2010)), 32);
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

        assert!((1900..2200).contains(&successes), "{successes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_write_goes_when_the_pause_is_over() {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let pacer = Pacer::new(clock.clone(), Metrics::new());
        pacer.acquire().await.throttled(Some(Duration::from_secs(5)));

        let _permit = pacer.acquire().await;

        assert_eq!(clock.now(), at(5000));
    }
}
