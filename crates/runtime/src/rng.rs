//! Randomness, passed in.
//!
//! A small seeded generator (`SplitMix64`), implemented here so that seeds give the same numbers after
//! upgrades of dependencies. Not for secrets: keys and certificates use the random numbers of ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A shared sequence of pseudo-random numbers; clones continue the same sequence.
#[derive(Clone, Debug)]
pub struct Rng(Arc<AtomicU64>);

impl Rng {
    /// Returns the sequence of `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// Returns an independent sequence for the consumer `name`, so that a new consumer changes no other
    /// consumer's numbers.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let seed = name
            .bytes()
            .fold(self.0.load(Ordering::Relaxed), |seed, byte| mix(seed ^ u64::from(byte)));
        Self::seeded(seed)
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// Returns a duration evenly distributed between half of `duration` and `duration`, so that retries of
    /// many clients spread out.
    pub fn jitter(&self, duration: Duration) -> Duration {
        let half = duration / 2;
        let span = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        if span == 0 {
            return duration;
        }
        half + Duration::from_nanos(self.next_u64() % (span + 1))
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let rng = Rng::seeded(42);

        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();

        // Reference values of SplitMix64 for seed 42.
        assert_eq!(
            first,
            [13_679_457_532_755_275_413, 2_949_826_092_126_892_291, 5_139_283_748_462_763_858]
        );
    }

    #[test]
    fn forks_differ_by_name_and_leave_the_parent_alone() {
        let rng = Rng::seeded(7);

        let (a, b) = (rng.fork("watch"), rng.fork("queue"));

        assert_ne!(a.next_u64(), b.next_u64());
        assert_eq!(rng.next_u64(), Rng::seeded(7).next_u64());
    }

    #[test]
    fn jitter_stays_between_half_and_full() {
        let rng = Rng::seeded(1);
        let full = Duration::from_millis(100);
        for _ in 0..1000 {
            let jittered = rng.jitter(full);
            assert!(jittered >= full / 2 && jittered <= full, "{jittered:?}");
        }
        assert_eq!(rng.jitter(Duration::ZERO), Duration::ZERO);
    }
}
