//! Validation errors that name a field, in the words of the Kubernetes API server.
//!
//! Used for the operator configuration and for admission, so users meet one style of message.

use std::fmt;

use serde_json::Value;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A value is missing.
    Required,
    /// The value breaks a rule.
    Invalid(Value),
    /// The value is not one of a fixed list.
    NotSupported {
        /// The value found.
        value: Value,
        /// The values that would do.
        supported: Vec<String>,
    },
    /// The value occurs twice.
    Duplicate(Value),
    /// The field may not be set here.
    Forbidden,
    /// The value names something that does not exist.
    NotFound(Value),
    /// The value is too long. It is not repeated.
    TooLong,
}

/// One thing wrong with one field. Displays as `path: Invalid value: "x": reason`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where, for example `scheduler.profiles[0].name`.
    pub path: String,
    /// What kind of problem.
    pub kind: Kind,
    /// Why and what to do. May be empty for duplicates and unsupported values.
    pub detail: String,
}

impl FieldError {
    /// A value is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Required, detail: detail.into() }
    }

    /// The value breaks a rule.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind: Kind::Invalid(value.into()), detail: detail.into() }
    }

    /// The value is not in the list.
    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let supported = supported.iter().map(|&text| text.to_owned()).collect();
        let kind = Kind::NotSupported { value: value.into(), supported };
        Self { path: path.into(), kind, detail: String::new() }
    }

    /// The value occurs twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { path: path.into(), kind: Kind::Duplicate(value.into()), detail: String::new() }
    }

    /// The field may not be set here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Forbidden, detail: detail.into() }
    }

    /// The value names something that does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { path: path.into(), kind: Kind::NotFound(value.into()), detail: String::new() }
    }

    /// The value has more bytes than allowed.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        let detail = format!("may not be more than {limit} bytes");
        Self { path: path.into(), kind: Kind::TooLong, detail }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match &self.kind {
            Kind::Required => f.write_str("Required value")?,
            Kind::Invalid(value) => write!(f, "Invalid value: {value}")?,
            Kind::Duplicate(value) => write!(f, "Duplicate value: {value}")?,
            Kind::Forbidden => f.write_str("Forbidden")?,
            Kind::NotFound(value) => write!(f, "Not found: {value}")?,
            Kind::TooLong => f.write_str("Too long")?,
            Kind::NotSupported { value, supported } => {
                write!(f, "Unsupported value: {value}: supported values: ")?;
                for (index, text) in supported.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{text:?}")?;
                }
            }
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for FieldError {}

/// Several errors as the one message of a refusal: a single error as it is, more as `[a, b]`. A sentence that
/// occurs twice is reported once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldError, aggregate};

    #[test]
    fn errors_read_like_those_of_the_api_server() {
        for (error, text) in [
            (FieldError::required("a.b", "say which"), "a.b: Required value: say which"),
            (FieldError::invalid("a[0]", -1, "too small"), "a[0]: Invalid value: -1: too small"),
            (FieldError::invalid("a", "x", "bad"), "a: Invalid value: \"x\": bad"),
            (
                FieldError::not_supported("a", "x", &["y", "z"]),
                "a: Unsupported value: \"x\": supported values: \"y\", \"z\"",
            ),
            (FieldError::duplicate("a[1].name", "x"), "a[1].name: Duplicate value: \"x\""),
            (FieldError::forbidden("a", "not here"), "a: Forbidden: not here"),
            (FieldError::not_found("a[0]", "x"), "a[0]: Not found: \"x\""),
            (FieldError::too_long("a", 7), "a: Too long: may not be more than 7 bytes"),
            (
                FieldError::invalid("a", vec!["x", "y"], "bad"),
                "a: Invalid value: [\"x\",\"y\"]: bad",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn several_errors_become_one_list_without_repetitions() {
        let [a, b] = ["a", "b"].map(|path| FieldError::forbidden(path, "no"));

        assert_eq!(aggregate(std::slice::from_ref(&a)), "a: Forbidden: no");
        assert_eq!(aggregate(&[a.clone(), a.clone()]), "a: Forbidden: no");
        assert_eq!(aggregate(&[a.clone(), b, a]), "[a: Forbidden: no, b: Forbidden: no]");
    }
}
