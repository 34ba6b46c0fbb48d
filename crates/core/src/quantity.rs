//! Resource quantities, parsed as by the API server.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A quantity in units of 10⁻⁹.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// Why a value cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The API server refuses it.
    Malformed,
    /// The API server rounds it in its own way; it is not checked here.
    OutOfRange,
}

const NANO_DIGITS: i32 = 9;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One unit.
    pub const ONE: Self = Self(1_000_000_000);

    /// The quantity in a JSON value, which may be text or a number.
    pub fn read(value: &Value) -> Result<Self, Unusable> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(Unusable::Malformed),
        }
    }

    /// The quantity in a text.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(Unusable::Malformed);
        }
        let (factor, exponent) = scale(suffix).ok_or(Unusable::Malformed)?;
        let digits = format!("{whole}{fraction}");
        let digits: i128 = digits.parse().map_err(|_| Unusable::OutOfRange)?;
        let fraction = i32::try_from(fraction.len()).map_err(|_| Unusable::OutOfRange)?;
        let nanos = digits.checked_mul(factor).ok_or(Unusable::OutOfRange)?;
        let shift = exponent.saturating_add(NANO_DIGITS).saturating_sub(fraction);
        shifted(nanos, shift).map(|nanos| Self(sign * nanos)).ok_or(Unusable::OutOfRange)
    }

    /// Whether it is less than zero.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.0 % Self::ONE.0 == 0
    }

    /// Whether it is a multiple of another one, which is greater than zero.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 > 0 && self.0 % unit.0 == 0
    }

    /// How many times another one, which is greater than zero, is contained in it.
    pub fn contains(self, unit: Self) -> u64 {
        let times = self.0.checked_div(unit.0).unwrap_or_default().max(0);
        u64::try_from(times).unwrap_or(u64::MAX)
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Exact, with the largest decimal suffix below one that leaves no fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(Self::ONE.0, ""), (1_000_000, "m"), (1_000, "u")];
        let unit = units.into_iter().find(|(unit, _)| self.0 % unit == 0);
        let (unit, suffix) = unit.unwrap_or((1, "n"));
        write!(f, "{}{suffix}", self.0 / unit)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Factor and decimal exponent of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|one| *one == suffix);
    if let Some(position) = binary {
        return Some((1 << (10 * (position + 1)), 0));
    }
    let decimal = [
        ("", 0),
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some((_, exponent)) = decimal.iter().find(|(one, _)| *one == suffix) {
        return Some((1, *exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?))
}

/// A number times a power of ten; digits after the last one are rounded away from zero.
fn shifted(number: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        return number.checked_mul(power?);
    }
    let power = power?;
    Some(number / power + i128::from(number % power != 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_of_the_same_amount_are_equal() {
        for (one, other) in [
            (json!("1"), json!(1)),
            (json!("1000m"), json!("1")),
            (json!("0.5"), json!("500m")),
            (json!(".5"), json!("5e-1")),
            (json!("1."), json!("+1")),
            (json!("1Ki"), json!("1024")),
            (json!("1.5Gi"), json!("1536Mi")),
            (json!("1k"), json!("1e3")),
            (json!("2E"), json!("2000P")),
            (json!("-1"), json!("-1000m")),
        ] {
            assert!(Quantity::read(&one).is_ok(), "{one}");
            assert_eq!(Quantity::read(&one), Quantity::read(&other), "{one} {other}");
        }
        assert!(Quantity::read(&json!("1Gi")).unwrap() > Quantity::read(&json!("1G")).unwrap());
        assert!(Quantity::read(&json!("-1")).is_ok_and(Quantity::is_negative));
        assert!(Quantity::read(&json!("1500m")).is_ok_and(|quantity| !quantity.is_whole()));
    }

    #[test]
    fn quantities_are_written_exactly() {
        for (text, written) in [
            ("0", "0"),
            ("2", "2"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1Gi", "1073741824"),
            ("-0.5", "-500m"),
            ("1500u", "1500u"),
            ("1n", "1n"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), written);
        }
    }

    #[test]
    fn quantities_are_added_subtracted_and_divided() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(of("1") + of("500m"), of("1.5"));
        assert_eq!(of("1") - of("1500m"), of("-500m"));
        for (whole, part, times) in [
            ("8", "3", 2),
            ("8", "8", 1),
            ("1", "300m", 3),
            ("-1", "1", 0),
            ("1", "2", 0),
            ("1", "0", 0),
        ] {
            assert_eq!(of(whole).contains(of(part)), times, "{whole} {part}");
        }
    }

    #[test]
    fn texts_that_are_no_quantity_are_malformed() {
        for text in ["", "a", "1K", "1 Gi", "1.2.3", "1e", "1e1.5", "--1", "Gi", "1gi", "1Mii"] {
            assert_eq!(Quantity::read(&json!(text)), Err(Unusable::Malformed), "{text}");
        }
        for text in ["1e60", "99999999999999999999999999999999999999999"] {
            assert_eq!(Quantity::read(&json!(text)), Err(Unusable::OutOfRange), "{text}");
        }
    }
}
