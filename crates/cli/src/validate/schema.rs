//! What the API server does with the schema of a CRD: defaults, pruning, and the checks that matter for
//! manifests written by hand. Patterns and expressions of the schema are left to the API server.

use grove_api::field_error::FieldError;
use serde_json::{Map, Value};

/// Fills in the defaults of the schema.
pub(super) fn apply_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, schema) in properties(schema) {
                let absent = map.get(key).is_none_or(Value::is_null);
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

/// Paths of all keys that the API server would drop.
pub(super) fn unknown_keys(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_unknown(schema, value, "", &mut found);
    found
}

fn collect_unknown(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if schema["x-kubernetes-preserve-unknown-fields"] != true => {
            // Metadata has no properties here; it is checked by its own rules.
            let closed = schema.get("properties").is_some();
            for (key, child) in map {
                let path = join(path, key);
                match child_schema(schema, key) {
                    Some(schema) => collect_unknown(schema, child, &path, found),
                    None if closed => found.push(path),
                    None => {}
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

/// What the API server would refuse.
pub(super) fn check(schema: &Value, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    collect_faults(schema, value, "", &mut errors);
    errors
}

fn collect_faults(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(expected) = mismatch(schema, value) {
        let detail = format!("must be of type {expected}");
        errors.push(FieldError::invalid(path, value.clone(), detail));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<_> = allowed.iter().filter_map(Value::as_str).collect();
        errors.push(FieldError::not_supported(path, value.clone(), &allowed));
    }
    match value {
        Value::Object(map) => {
            let required = schema["required"].as_array().into_iter().flatten();
            for key in required.filter_map(Value::as_str).filter(|&key| !map.contains_key(key)) {
                errors.push(FieldError::required(join(path, key), ""));
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
}

/// The type that a value should have, when it has another.
fn mismatch<'a>(schema: &'a Value, value: &Value) -> Option<&'a str> {
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
    let allowed_null = value.is_null() && schema["nullable"] == true;
    (!fits && !allowed_null).then_some(expected)
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
