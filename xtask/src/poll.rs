//! The one place that looks at the clock and waits.
//!
//! Processes announce readiness only to those who ask, so starting them means asking again and
//! again until a deadline. Everything else in this crate waits for an event.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const INTERVAL: Duration = Duration::from_millis(25);

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring now.
    #[allow(clippy::disallowed_methods, reason = "the only clock of this crate")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Asks until `probe` answers with a value, fails, or `limit` has passed.
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
    std::thread::sleep(INTERVAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_repeated_until_it_answers() {
        let mut asked = 0;
        let found = until(Duration::from_mins(1), "three questions were asked", || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
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
