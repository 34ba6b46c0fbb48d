//! Test data: the examples of the documentation, and for every kind objects with every field set.
//!
//! Compiled for tests only. The complete objects are created from the schemas themselves, so that new
//! fields are covered automatically.

pub mod foreign_crds;
pub mod sets;

use serde_json::{Map, Value, json};

use crate::crd::Crd;

/// The set that users start from, as they submit it.
pub const MINIMAL_SET: &str = include_str!("../../../examples/minimal.yaml");
const WORKED_EXAMPLES: &str = include_str!("../testdata/worked_examples.yaml");
const EVERY_FIELD: &str = include_str!("../testdata/every_field.yaml");
const FOREIGN_EXAMPLES: &str = include_str!("../testdata/foreign_examples.yaml");

/// Our own kinds as the documentation shows them.
pub fn worked_examples() -> Vec<Value> {
    let mut examples = documents(MINIMAL_SET);
    for set in &mut examples {
        // Users apply it to whatever namespace they work in; the worked examples share one.
        set["metadata"]["namespace"] = json!("team-a");
    }
    examples.extend(documents(WORKED_EXAMPLES));
    examples
}

/// Objects that together name every field of our own kinds, written by hand.
pub fn every_field_examples() -> Vec<Value> {
    documents(EVERY_FIELD)
}

/// Kinds of other projects as the documentation shows them.
pub fn foreign_examples() -> Vec<Value> {
    documents(FOREIGN_EXAMPLES)
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("examples are YAML")
}

/// Two objects of a kind that together set every property of its schema. Two, because `packDomain` and
/// `pack.required` exclude each other.
pub fn complete_objects(crd: &Crd) -> [Value; 2] {
    let spec = &crd.object["spec"];
    let version = &spec["versions"][0];
    [true, false].map(|with_pack| {
        let mut object = sample(&version["schema"]["openAPIV3Schema"], with_pack);
        let api_version =
            [&spec["group"], &version["name"]].map(|part| part.as_str().unwrap_or_default());
        object["apiVersion"] = api_version.join("/").into();
        object["kind"] = spec["names"]["kind"].clone();
        object["metadata"] = json!({ "name": if with_pack { "complete-a" } else { "complete-b" } });
        if spec["scope"] == "Namespaced" {
            object["metadata"]["namespace"] = json!("default");
        }
        object
    })
}

/// A value that satisfies a schema and has all of its properties.
fn sample(schema: &Value, with_pack: bool) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        // Not the first: that one often is the default.
        return values.last().cloned().unwrap_or_default();
    }
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return json!("7");
    }
    match schema["type"].as_str() {
        Some("object") => sample_object(schema, with_pack),
        Some("array") => json!([sample(&schema["items"], with_pack)]),
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("boolean") => json!(schema["default"] != json!(true)),
        Some("string") if schema["format"] == "date-time" => json!("2026-08-01T10:00:00Z"),
        Some("string") if schema["format"] == "byte" => json!("AAAA"),
        Some("string") => json!("rack"),
        other => unreachable!("no sample for type {other:?}"),
    }
}

fn sample_object(schema: &Value, with_pack: bool) -> Value {
    if let Some(values) = schema.get("additionalProperties") {
        return json!({ "some.key/name": sample(values, with_pack) });
    }
    let Some(properties) = schema["properties"].as_object() else {
        return json!({ "anything": { "goes": 1 } });
    };
    let absent = if with_pack { "packDomain" } else { "pack" };
    let skip = |name: &str| properties.contains_key("packDomain") && name == absent;
    let chosen = properties.iter().filter(|(name, _)| !skip(name));
    chosen
        .map(|(name, child)| match name.as_str() {
            // The one string that has to be parsed by more than the schema.
            "terminationDelay" => (name.clone(), json!("1m30s")),
            _ => (name.clone(), sample(child, with_pack)),
        })
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests;
