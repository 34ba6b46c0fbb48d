//! Time, passed in.
//!
//! Only [`Clock::system`] reads the machine's clocks. A [`Clock`] has a monotonic [`Instant`] (for
//! deadlines, leases, ages) and the wall-clock time (for messages and objects). The two are never compared.
//!
//! Both follow tokio's timer: a test that pauses tokio's time pauses every [`Clock::at`], and a simulation
//! can give each process a clock with an offset.

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// A point on one process's monotonic clock. Points of different clocks do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The moment the clock started.
    pub const START: Self = Self(Duration::ZERO);

    /// Time passed since `earlier`, zero when `earlier` lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs))
    }
}

/// The source of a [`Clock`]: real time, virtual time, or a simulation that skews or drifts it.
pub trait TimeSource: Send + Sync + 'static {
    /// Monotonic time.
    fn now(&self) -> Instant;
    /// Wall-clock time.
    fn wall(&self) -> Timestamp;
    /// Completes when [`TimeSource::now`] has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A process's clock; cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn TimeSource>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Clock {
    /// The machine's own clocks.
    pub fn system() -> Self {
        Self::new(TokioTime::starting_now(Wall::System))
    }

    /// A clock whose wall time starts at `start` and moves with tokio's (possibly paused) time.
    pub fn at(start: Timestamp) -> Self {
        Self::new(TokioTime::starting_now(Wall::From(start)))
    }

    /// A clock over any source of time.
    pub fn new(source: impl TimeSource) -> Self {
        Self(Arc::new(source))
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Wall-clock time.
    pub fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    /// Waits for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now() + duration).await;
    }

    /// Waits until `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        self.0.sleep_until(deadline).await;
    }

    /// Runs `future` for at most `duration`.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep(duration) => None,
        }
    }
}

enum Wall {
    System,
    From(Timestamp),
}

struct TokioTime {
    start: tokio::time::Instant,
    wall: Wall,
}

impl TokioTime {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn starting_now(wall: Wall) -> Self {
        Self { start: tokio::time::Instant::now(), wall }
    }
}

impl TimeSource for TokioTime {
    fn now(&self) -> Instant {
        Instant(self.start.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn wall(&self) -> Timestamp {
        match self.wall {
            Wall::System => Timestamp::now(),
            Wall::From(start) => start + self.start.elapsed(),
        }
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(self.start + deadline.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_day_takes_no_real_time_and_moves_both_clocks() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::at(start);

        clock.sleep(Duration::from_secs(24 * 3600)).await;

        assert_eq!(clock.now().since(Instant::START), Duration::from_secs(24 * 3600));
        assert_eq!(clock.wall().to_string(), "2026-01-02T00:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_gives_up_exactly_at_its_deadline() {
        let clock = Clock::at(Timestamp::UNIX_EPOCH);

        let outcome = clock.timeout(Duration::from_secs(3), std::future::pending::<()>()).await;

        assert_eq!(outcome, None);
        assert_eq!(clock.now(), Instant::START + Duration::from_secs(3));
    }
}
