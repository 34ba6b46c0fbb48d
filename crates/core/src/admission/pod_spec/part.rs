//! Reads JSON objects of a pod spec together with their paths.
//!
//! `null` and the empty string count as absent, as they do for the API server. A value of the wrong type
//! counts as absent too: the schema reports it.

use grove_api::field_error::FieldError;
use serde_json::{Map, Value};

/// An object inside a pod spec.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Part<'a> {
    pub(super) fn new(path: &str, fields: &'a Map<String, Value>) -> Self {
        Self { path: path.to_owned(), fields }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Path of a field.
    pub(super) fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn text(&self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_i64)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Value::as_bool)
    }

    /// An object in a field.
    pub(super) fn part(&self, key: &str) -> Option<Self> {
        let fields = self.get(key)?.as_object()?;
        Some(Self { path: self.at(key), fields })
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.fields.iter().filter(|(_, value)| !value.is_null())
    }

    /// The values of a list with their paths.
    pub(super) fn items(&self, key: &str) -> impl Iterator<Item = (String, &'a Value)> {
        let path = self.at(key);
        let items = self.get(key).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(index, item)| (format!("{path}[{index}]"), item))
    }

    /// The objects of a list.
    pub(super) fn parts(&self, key: &str) -> impl Iterator<Item = Self> {
        let items = self.items(key);
        items.filter_map(|(path, item)| Some(Self { path, fields: item.as_object()? }))
    }

    /// The strings of a list with their paths.
    pub(super) fn texts(&self, key: &str) -> impl Iterator<Item = (String, &'a str)> {
        self.items(key).filter_map(|(path, item)| Some((path, item.as_str()?)))
    }

    /// Reports an absent text. Returns whether it is present.
    pub(super) fn require(&self, key: &str, hint: &str, errors: &mut Vec<FieldError>) -> bool {
        let present = !self.text(key).is_empty();
        if !present {
            errors.push(FieldError::required(self.at(key), hint));
        }
        present
    }

    /// Reports an unsupported text.
    pub(super) fn one_of(&self, key: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
        let text = self.text(key);
        if !text.is_empty() && !supported.contains(&text) {
            errors.push(FieldError::not_supported(self.at(key), text, supported));
        }
    }

    /// Reports the faults that `form` finds in a text, if the text is present.
    pub(super) fn form(
        &self,
        key: &str,
        form: fn(&str) -> Vec<String>,
        errors: &mut Vec<FieldError>,
    ) {
        let text = self.text(key);
        if !text.is_empty() {
            faults(&self.at(key), text, form(text), errors);
        }
    }

    /// Reports a number outside of a range.
    pub(super) fn between(
        &self,
        key: &str,
        least: i64,
        most: i64,
        detail: &str,
        errors: &mut Vec<FieldError>,
    ) {
        if let Some(number) = self.number(key).filter(|number| !(least..=most).contains(number)) {
            errors.push(FieldError::invalid(self.at(key), number, detail));
        }
    }

    /// Reports a negative number.
    pub(super) fn not_negative(&self, key: &str, errors: &mut Vec<FieldError>) {
        self.between(key, 0, i64::MAX, "must be greater than or equal to 0", errors);
    }
}

/// Reports each fault of a text.
pub(super) fn faults(path: &str, text: &str, faults: Vec<String>, errors: &mut Vec<FieldError>) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, text, fault)));
}

/// Reports `..` as an element of a path.
pub(super) fn no_backsteps(path: &str, text: &str, errors: &mut Vec<FieldError>) {
    if text.split('/').any(|element| element == "..") {
        errors.push(FieldError::invalid(path, text, "must not contain '..'"));
    }
}

/// Reports a path that leaves the directory it starts in.
pub(super) fn descending(path: &str, text: &str, errors: &mut Vec<FieldError>) {
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must be a relative path"));
    }
    no_backsteps(path, text, errors);
}
