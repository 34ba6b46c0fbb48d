//! How long ago something was, as `kubectl` writes it: two units at most, and coarser the longer it is.

use jiff::Timestamp;

/// The time from one moment to another; `0s` when it did not pass yet.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.as_second().saturating_sub(from.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |number: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{number}{unit}") } else { format!("{number}{unit}{rest}{small}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_coarser_the_longer_they_are() {
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (301, "5m1s"),
            (601, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (14_460, "4h1m"),
            (40_000, "11h"),
            (180_000, "2d2h"),
            (172_800, "2d"),
            (900_000, "10d"),
        ] {
            let to = Timestamp::from_second(seconds).unwrap();
            assert_eq!(between(Timestamp::UNIX_EPOCH, to), expected, "{seconds}");
        }
    }
}
