//! Durations as Go writes them: `4h0m0s`, `1m30s`, `250ms`.
//!
//! Kubernetes carries durations as such strings, and reads them with the same parser. Printing is
//! canonical, so a value written by us compares equal to one written by a Go component. The range is Go's:
//! signed 64-bit nanoseconds.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A signed duration with nanosecond precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanoseconds: i64,
}

/// Text that is no duration. The wording is Go's, because clients search for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No number, a stray character, or out of range.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit found.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl GoDuration {
    /// A duration of whole seconds. Saturates beyond Go's range.
    pub const fn from_secs(seconds: i64) -> Self {
        Self { nanoseconds: seconds.saturating_mul(1_000_000_000) }
    }

    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanoseconds
    }

    /// The same as an unsigned duration, or nothing when negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let invalid = || ParseError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let (nanoseconds, after) = parse_part(rest, text)?;
            total += nanoseconds;
            if total > u128::from(i64::MIN.unsigned_abs()) {
                return Err(invalid());
            }
            rest = after;
        }
        let magnitude = i128::try_from(total).map_err(|_| invalid())?;
        let signed = if negative { -magnitude } else { magnitude };
        i64::try_from(signed).map(|nanoseconds| Self { nanoseconds }).map_err(|_| invalid())
    }
}

/// Reads one `<number><unit>`; returns its nanoseconds and what follows.
fn parse_part<'a>(rest: &'a str, text: &str) -> Result<(u128, &'a str), ParseError> {
    let invalid = || ParseError::Invalid(text.to_owned());
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(tail) => split_digits(tail),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    let scale = match unit {
        "" => return Err(ParseError::MissingUnit(text.to_owned())),
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => u128::from(NANOS_PER_SECOND),
        "m" => 60 * u128::from(NANOS_PER_SECOND),
        "h" => 3600 * u128::from(NANOS_PER_SECOND),
        _ => {
            return Err(ParseError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
        }
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    // Digits below a nanosecond of the largest unit cannot matter.
    let digits = &fraction[..fraction.len().min(18)];
    let power = digits.chars().fold(1u128, |power, _| power * 10);
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| invalid())? };
    Ok((u128::from(whole) * scale + part * scale / power, after))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.nanoseconds.unsigned_abs();
        if self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        if total == 0 {
            return f.write_str("0s");
        }
        if total < NANOS_PER_SECOND {
            let (scale, unit) = match total {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                _ => (1_000_000, "ms"),
            };
            return write!(f, "{}{unit}", decimal(total, scale));
        }
        let minutes = total / (60 * NANOS_PER_SECOND);
        let seconds = decimal(total % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND);
        match (minutes / 60, minutes % 60) {
            (0, 0) => write!(f, "{seconds}s"),
            (0, minutes) => write!(f, "{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// `value / scale` with as many decimals as needed. `scale` is a power of ten.
fn decimal(value: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    if value.is_multiple_of(scale) {
        return (value / scale).to_string();
    }
    let fraction = format!("{:0digits$}", value % scale);
    format!("{}.{}", value / scale, fraction.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Cow<'de, str> = Cow::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests;
