//! The only place that reads the clock and waits.
//!
//! Programs report readiness only on request, so starting them means polling until a deadline. All other code
//! in this crate waits for events.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Measures a duration.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[allow(clippy::disallowed_methods, reason = "the only clock of this crate")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Polls until `probe` returns a value, fails, or `limit` has passed.
pub fn until<T>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let watch = Stopwatch::start();
    loop {
        if let Some(found) = probe()? {
            return Ok(found);
        }
        if watch.elapsed() > limit {
            bail!("gave up after {} s waiting until {what}", limit.as_secs());
        }
        pause();
    }
}

#[allow(clippy::disallowed_methods, reason = "a program that starts up sends no event to wait for")]
fn pause() {
    std::thread::sleep(POLL_INTERVAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_repeated_until_it_returns_a_value() {
        let mut calls = 0;
        let found = until(Duration::from_mins(1), "the probe was called three times", || {
            calls += 1;
            Ok((calls == 3).then_some(calls))
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn a_deadline_names_what_was_awaited() {
        let result = until::<()>(Duration::ZERO, "pigs fly", || Ok(None));
        assert_eq!(result.unwrap_err().to_string(), "gave up after 0 s waiting until pigs fly");
    }

    #[test]
    fn a_failing_probe_ends_the_wait() {
        let result = until::<()>(Duration::from_mins(1), "never", || bail!("it broke"));
        assert_eq!(result.unwrap_err().to_string(), "it broke");
    }
}
