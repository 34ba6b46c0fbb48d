//! What the API server does with an object of a custom resource: pruning, defaults and checks by the schema.
//!
//! The verdict is that of a request with `fieldValidation=Strict`. Rules that a CRD states as CEL
//! expressions are in [`super::expressions`].

use regex::Regex;
use serde_json::{Map, Value, json};

use super::expressions;
use crate::{crd::Crd, field_error::FieldError};

/// The schema of one kind, with that of the metadata.
#[derive(Clone, Debug)]
pub struct Structural {
    schema: Value,
}

impl Structural {
    /// The schema of a CRD.
    pub fn of(crd: &Crd) -> Self {
        let version = &crd.object["spec"]["versions"][0];
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        schema["properties"]["metadata"] = object_meta();
        Self { schema }
    }

    /// Any schema, for tests.
    #[cfg(test)]
    pub(crate) fn from_schema(schema: Value) -> Self {
        Self { schema }
    }

    /// Paths of the fields that the schema does not have.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut found = Vec::new();
        collect_unknown(&self.schema, object, "", &mut found);
        found
    }

    /// The names that an object may have where it has an unknown field.
    pub fn known_fields(&self, path: &str) -> Vec<&str> {
        let mut schema = &self.schema;
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        for step in parent.split('.').filter(|step| !step.is_empty()) {
            let (key, indexes) = step.split_once('[').unwrap_or((step, ""));
            schema = child_schema(schema, key).unwrap_or(&Value::Null);
            if !indexes.is_empty() {
                schema = &schema["items"];
            }
        }
        properties(schema).map(|(key, _)| key.as_str()).collect()
    }

    /// Removes `null` where it stands for nothing, and fills in the defaults.
    pub fn complete(&self, object: &mut Value) {
        remove_nulls(&self.schema, object);
        apply_defaults(&self.schema, object);
    }

    /// What the API server refuses in a new object. Its status counts for nothing.
    pub fn check(&self, object: &Value) -> Vec<FieldError> {
        let mut object = object.clone();
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        let mut errors = Vec::new();
        collect_faults(&self.schema, &object, "", &mut errors);
        errors
    }
}

/// Metadata of an object. Every field may be `null`.
fn object_meta() -> Value {
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer", "format": "int64" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let time = json!({ "type": "string", "format": "date-time" });
    let flag = json!({ "type": "boolean" });
    json!({
        "type": "object",
        "properties": {
            "annotations": texts, "labels": texts,
            "creationTimestamp": time, "deletionTimestamp": time,
            "deletionGracePeriodSeconds": number, "generation": number,
            "finalizers": { "type": "array", "items": text },
            "generateName": text, "name": text, "namespace": text,
            "resourceVersion": text, "selfLink": text, "uid": text,
            "managedFields": { "type": "array", "items": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
            "ownerReferences": { "type": "array", "items": { "type": "object", "properties": {
                "apiVersion": text, "kind": text, "name": text, "uid": text,
                "controller": flag, "blockOwnerDeletion": flag,
            }}},
        },
    })
}

fn collect_unknown(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if schema["x-kubernetes-preserve-unknown-fields"] != true => {
            for (key, child) in map {
                let path = join(path, key);
                match child_schema(schema, key) {
                    Some(schema) => collect_unknown(schema, child, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_unknown(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// A field that is `null` is absent, unless it may be `null` or has a default, which replaces it. Elements of
/// lists stay.
fn remove_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, child| {
                let absent =
                    |schema: &Value| schema["nullable"] != true && schema.get("default").is_none();
                !(child.is_null() && child_schema(schema, key).is_some_and(absent))
            });
            for (key, child) in map {
                if let Some(schema) = child_schema(schema, key) {
                    remove_nulls(schema, child);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                remove_nulls(&schema["items"], item);
            }
        }
        _ => {}
    }
}

fn apply_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, schema) in properties(schema) {
                let absent = match map.get(key) {
                    None => true,
                    Some(child) => child.is_null() && schema["nullable"] != true,
                };
                if let Some(default) = schema.get("default").filter(|_| absent) {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(schema) = child_schema(schema, key) {
                    apply_defaults(schema, child);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                apply_defaults(&schema["items"], item);
            }
        }
        _ => {}
    }
}

fn collect_faults(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(expected) = mismatch(schema, value) {
        let detail = format!("must be of type {expected}");
        errors.push(FieldError::invalid(path, value.clone(), detail));
        return;
    }
    if value.is_null() {
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<_> = allowed.iter().filter_map(Value::as_str).collect();
        errors.push(FieldError::not_supported(path, value.clone(), &allowed));
    }
    for detail in breaches(schema, value) {
        errors.push(FieldError::invalid(path, value.clone(), detail));
    }
    let first = errors.len();
    match value {
        Value::Object(map) => {
            let required = schema["required"].as_array().into_iter().flatten();
            for key in required.filter_map(Value::as_str).filter(|&key| !map.contains_key(key)) {
                errors.push(FieldError::required(join(path, key), "set this field"));
            }
            for (key, child) in map {
                if let Some(schema) = child_schema(schema, key) {
                    collect_faults(schema, child, &join(path, key), errors);
                }
            }
        }
        Value::Array(items) => {
            collect_duplicates(schema, items, path, errors);
            for (index, item) in items.iter().enumerate() {
                collect_faults(&schema["items"], item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
    // Expressions rely on the types of the fields that they read.
    if errors.len() == first {
        errors.extend(expressions::broken(schema, value, path));
    }
}

/// The type that a value should have, when it has another.
fn mismatch<'a>(schema: &'a Value, value: &Value) -> Option<&'a str> {
    if value.is_null() && schema["nullable"] == true {
        return None;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_i64() && !value.is_string()).then_some("integer or string");
    }
    let expected = schema["type"].as_str()?;
    let fits = match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value
            .as_i64()
            .is_some_and(|number| schema["format"] != "int32" || i32::try_from(number).is_ok()),
        "number" => value.is_number(),
        _ => true,
    };
    match schema["format"].as_str() {
        _ if fits => None,
        Some("int32") if value.is_number() => Some("integer (int32)"),
        _ => Some(expected),
    }
}

/// Limits of a schema that a value breaks, in words.
fn breaches(schema: &Value, value: &Value) -> Vec<String> {
    let limit = |key: &str| schema[key].as_u64();
    let mut found = Vec::new();
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if let Some(least) = limit("minLength").filter(|least| length < *least) {
            found.push(format!("should be at least {least} chars long"));
        }
        if let Some(most) = limit("maxLength").filter(|most| length > *most) {
            found.push(format!("may not be more than {most} chars long"));
        }
        if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !matches(pattern, text))
        {
            found.push(format!("should match '{pattern}'"));
        }
        if schema["format"] == "date-time" && !is_timestamp(text) {
            found.push("must be of type date-time, for example 2026-01-31T12:00:00Z".to_owned());
        }
    }
    if let Some(items) = value.as_array() {
        let length = items.len() as u64;
        if let Some(least) = limit("minItems").filter(|least| length < *least) {
            found.push(format!("should have at least {least} items"));
        }
        if let Some(most) = limit("maxItems").filter(|most| length > *most) {
            found.push(format!("must have at most {most} items"));
        }
    }
    if let Some(number) = value.as_f64() {
        if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
            found.push(format!("should be greater than or equal to {least}"));
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
            found.push(format!("should be less than or equal to {most}"));
        }
    }
    found
}

/// Patterns come from our own definitions; a test compiles every one of them.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn is_timestamp(text: &str) -> bool {
    serde_json::from_value::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>(json!(text))
        .is_ok()
}

/// Elements of a list that has to be a set, or a map by some keys of its elements.
fn collect_duplicates(schema: &Value, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let identities: Vec<Value> = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => items.to_vec(),
        Some("map") => items.iter().map(|item| identity(schema, item)).collect(),
        _ => return,
    };
    for (index, identity) in identities.iter().enumerate() {
        if identities[..index].contains(identity) {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), identity.clone()));
        }
    }
}

fn identity(schema: &Value, item: &Value) -> Value {
    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
    let keys = keys.filter_map(Value::as_str);
    keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn child_schema<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let property = schema.get("properties").and_then(|properties| properties.get(key));
    property.or_else(|| schema.get("additionalProperties"))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests;
