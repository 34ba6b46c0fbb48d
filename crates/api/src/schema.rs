//! OpenAPI schemas as a CRD may carry them ("structural"): no references, one type per node, no nulls.
//!
//! There are two sources. Our own types derive their schema with schemars; [`of`] rewrites the
//! result. Core types that we embed (pod template, claim template, autoscaling metric) come from the
//! OpenAPI documents of a real API server, kept in `schema/kubernetes-1.37.json` in the form that
//! [`trim`] writes; [`kubernetes`] puts one of them together.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

mod expressions;
mod structural;
mod trim;

pub use structural::Structural;
pub use trim::{MissingDefinition, trim};

/// Domain of a topology level: free text, but usable in names.
pub(crate) const DOMAIN_PATTERN: &str = "^[a-z][a-z0-9-]*$";
/// Label key with optional prefix.
pub(crate) const LABEL_KEY_PATTERN: &str =
    "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Reason of a condition.
pub(crate) const CONDITION_REASON_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// Type of a condition: a name with optional prefix.
pub(crate) const CONDITION_TYPE_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// A resource quantity, as the CRD generators of the Kubernetes project write it.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Definitions by name, as [`trim`] wrote them. Parsed on each call: they are needed once, if at all, and
/// would take ten times as much memory as their text.
fn definitions() -> Map<String, Value> {
    serde_json::from_str(include_str!("../schema/kubernetes-1.37.json"))
        .expect("generated data of this crate; a test builds every CRD from it")
}

/// Stands for a timestamp in a schema; the Rust type is k8s-openapi's `Time`.
pub(crate) struct DateTime;

impl JsonSchema for DateTime {
    fn schema_name() -> Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// The structural schema of one of our types.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::default().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.clear();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

/// Optional fields come out of schemars as nullable. In a CRD that would let a client store `null`, which
/// Go components write for nothing but empty lists, so null is taken out everywhere.
fn make_structural(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    schema.remove("title");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = unwrap_lines(text);
    }
    if let Some(kinds) = schema.get_mut("type")
        && let Some(kind) = kinds.as_array().and_then(|a| a.iter().find(|kind| *kind != "null"))
    {
        *kinds = kind.clone();
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(make_structural);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key) {
            make_structural(child);
        }
    }
}

/// Joins the lines of a doc comment; blank lines still separate paragraphs.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

/// The structural schema of a core type.
///
/// # Panics
///
/// When the type is not in the generated data, that is, not reachable from what we embed.
pub(crate) fn kubernetes(name: &str) -> Schema {
    let Value::Object(schema) = definition(&definitions(), name) else {
        unreachable!("every definition is an object")
    };
    schema.into()
}

fn definition(all: &Map<String, Value>, name: &str) -> Value {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => json!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": true,
        }),
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => json!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
        }),
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => embedded_metadata(),
        _ => {
            let definition = all.get(name);
            let definition =
                definition.unwrap_or_else(|| unreachable!("{name} is not in the schema data"));
            inline(all, definition)
        }
    }
}

/// Metadata inside a template. Without properties the API server would prune the labels and annotations
/// that users put there; with all of core metadata it would offer fields that no template honours. So:
/// the five fields that CRD generators write for embedded metadata.
fn embedded_metadata() -> Value {
    let strings = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "annotations": strings,
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "labels": strings,
            "name": { "type": "string" },
            "namespace": { "type": "string" },
        },
    })
}

/// Replaces references by their targets, at every level.
fn inline(all: &Map<String, Value>, schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else {
        return schema.clone();
    };
    let mut result = match reference(schema) {
        Some(name) => definition(all, name),
        None => json!({}),
    };
    for (key, value) in schema {
        result[key] = match key.as_str() {
            "$ref" | "allOf" => continue,
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, child)| (name.clone(), inline(all, child)))
                .collect::<Map<_, _>>()
                .into(),
            "items" | "additionalProperties" => inline(all, value),
            _ => value.clone(),
        };
    }
    result
}

/// The name of the definition that a node refers to. Nodes with siblings wrap it in `allOf`.
fn reference(schema: &Map<String, Value>) -> Option<&str> {
    let holder = match schema.get("allOf") {
        Some(parts) => parts.get(0)?.as_object()?,
        None => schema,
    };
    holder.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
}

#[cfg(test)]
mod tests;
