//! The timeout of a webhook handler.

use std::time::Duration;

/// The API server's own default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout that the API server allows.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns nine tenths of the timeout in the query (`?timeout=10s`), so that the user reads our message
/// instead of "context deadline exceeded".
pub(super) fn of_handler(query: Option<&str>) -> Duration {
    let announced = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(go_duration)
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(DEFAULT_TIMEOUT);
    announced.min(MAX_TIMEOUT) * 9 / 10
}

/// Parses a duration as Go prints it: `10s`, `1m30s`, `500ms`, `1.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handler_gets_nine_tenths_of_the_announced_timeout() {
        let cases = [
            (Some("timeout=10s"), 9_000),
            (Some("dryRun=All&timeout=1m30s"), 27_000),
            (Some("timeout=500ms"), 450),
            (Some("timeout=1.5s"), 1_350),
            (Some("timeout=0s"), 9_000),
            (Some("timeout="), 9_000),
            (Some("timeout=soon"), 9_000),
            (Some("timeout=-5s"), 9_000),
            (Some("timeout=1h"), 27_000),
            (Some("timeout=99999999999999999999h"), 9_000),
            (None, 9_000),
        ];
        for (query, millis) in cases {
            assert_eq!(of_handler(query), Duration::from_millis(millis), "{query:?}");
        }
    }
}
