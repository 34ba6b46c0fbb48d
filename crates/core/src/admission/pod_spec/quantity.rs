//! Resource quantities, parsed as by the API server.

use serde_json::Value;

/// A quantity in units of 10⁻⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

/// Why a value cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The API server refuses it.
    Malformed,
    /// The API server rounds it in its own way; it is not checked here.
    OutOfRange,
}

const NANO_DIGITS: i32 = 9;

impl Quantity {
    pub(super) fn read(value: &Value) -> Result<Self, Unusable> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(Unusable::Malformed),
        }
    }

    fn parse(text: &str) -> Result<Self, Unusable> {
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

    pub(super) fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub(super) fn is_whole(self) -> bool {
        self.0 % 1_000_000_000 == 0
    }

    /// Whether it is a multiple of another one, which is greater than zero.
    pub(super) fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 > 0 && self.0 % unit.0 == 0
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
    fn texts_that_are_no_quantity_are_malformed() {
        for text in ["", "a", "1K", "1 Gi", "1.2.3", "1e", "1e1.5", "--1", "Gi", "1gi", "1Mii"] {
            assert_eq!(Quantity::read(&json!(text)), Err(Unusable::Malformed), "{text}");
        }
        for text in ["1e60", "99999999999999999999999999999999999999999"] {
            assert_eq!(Quantity::read(&json!(text)), Err(Unusable::OutOfRange), "{text}");
        }
    }
}
