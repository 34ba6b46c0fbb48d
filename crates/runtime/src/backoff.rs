//! The delay after the n-th failure in a row: doubling, capped, with jitter.

use std::time::Duration;

use crate::rng::Rng;

/// Exponential backoff between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Longest delay.
    pub max: Duration,
}

impl Backoff {
    /// For reconciles: the first retry is almost immediate, later ones at most a minute apart.
    pub const RECONCILE: Self =
        Self { first: Duration::from_millis(5), max: Duration::from_secs(60) };

    /// For lists and watches: without them a process works on stale data, so it finds a returning API
    /// server within seconds.
    pub const WATCH: Self = Self { first: Duration::from_millis(100), max: Duration::from_secs(3) };

    /// For kinds that the API server does not serve and perhaps never will.
    pub const ABSENT: Self = Self { first: Duration::from_secs(1), max: Duration::from_secs(10) };

    /// Returns the delay after `failures` failures in a row; none after 0.
    pub fn after(&self, failures: u32, rng: &Rng) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let doubled = 2_u32.saturating_pow(failures - 1);
        rng.jitter(self.first.saturating_mul(doubled).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let rng = Rng::seeded(3);
        let backoff = Backoff::RECONCILE;

        assert_eq!(backoff.after(0, &rng), Duration::ZERO);
        for failures in 1..200 {
            let full = backoff.first.saturating_mul(2_u32.saturating_pow(failures - 1));
            let wait = backoff.after(failures, &rng);
            assert!(wait <= full.min(backoff.max), "{failures}: {wait:?}");
            assert!(wait >= full.min(backoff.max) / 2, "{failures}: {wait:?}");
        }
    }
}
