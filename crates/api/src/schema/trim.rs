//! From the OpenAPI documents of an API server to the definitions that we embed.
//!
//! Keeps what is reachable from the embedded types and, of each node, what a CRD should carry. Left out:
//!
//! * descriptions, because they would make up nine tenths of every CRD;
//! * patch strategies, unions and kinds, which have no meaning in a CRD;
//! * enums: a newer cluster may know more values, and a pod with a wrong one is refused by it anyway;
//! * defaults that are not declared on the field itself. The documents also contain Go zero values for
//!   required fields and empty objects, which would be stored into every template.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The core types that our CRDs embed.
const ROOTS: [&str; 3] = [
    "io.k8s.api.core.v1.PodSpec",
    "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
    "io.k8s.api.autoscaling.v2.MetricSpec",
];

/// Types whose structural form is written by hand.
const HAND_WRITTEN: [&str; 4] = [
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
];

/// Keys of a node that are kept.
const KEPT: [&str; 14] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "default",
    "format",
    "items",
    "maximum",
    "minimum",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Defaults that core declares by reference to a constant. CRD generators cannot follow those, so the
/// installed base of CRDs has never had them; storing them now would change templates on upgrade.
const UNDECLARED_DEFAULTS: [(&str, &str); 2] = [
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "cachingMode"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "kind"),
];

/// A definition that none of the documents has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no document defines {0}: give those of core/v1, resource.k8s.io/v1 and autoscaling/v2")]
pub struct MissingDefinition(pub String);

/// The definitions that our CRDs need, by name. `documents` are the OpenAPI v3 documents of core/v1,
/// resource.k8s.io/v1 and autoscaling/v2 in any order.
///
/// # Errors
///
/// When none of the documents has a definition that is needed.
pub fn trim(documents: &[Value]) -> Result<Value, MissingDefinition> {
    let mut kept = Map::new();
    let mut wanted: BTreeSet<String> = ROOTS.map(str::to_owned).into();
    while let Some(name) = wanted.pop_first() {
        if kept.contains_key(&name) || HAND_WRITTEN.contains(&name.as_str()) {
            continue;
        }
        let definition = documents
            .iter()
            .find_map(|document| document["components"]["schemas"].get(&name))
            .ok_or_else(|| MissingDefinition(name.clone()))?;
        collect_references(definition, &mut wanted);
        kept.insert(name.clone(), trim_definition(&name, definition));
    }
    Ok(kept.into())
}

fn collect_references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match child.as_str().and_then(|text| text.strip_prefix("#/components/schemas/")) {
                    Some(name) if key == "$ref" => {
                        names.insert(name.to_owned());
                    }
                    _ => collect_references(child, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        _ => {}
    }
}

fn trim_definition(name: &str, definition: &Value) -> Value {
    let mut trimmed = trim_node(definition);
    let required: Vec<String> = trimmed["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|field| field.as_str().map(str::to_owned))
        .collect();
    if let Some(Value::Object(properties)) = trimmed.get_mut("properties") {
        for (field, node) in properties {
            let declared =
                !required.contains(field) && !UNDECLARED_DEFAULTS.contains(&(name, field.as_str()));
            if let Some(node) = node.as_object_mut()
                && (!declared || node.get("default") == Some(&Value::Object(Map::new())))
            {
                node.remove("default");
            }
        }
    }
    trimmed
}

fn trim_node(node: &Value) -> Value {
    let Some(node) = node.as_object() else {
        return node.clone();
    };
    let kept = node.iter().filter(|(key, _)| KEPT.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), trim_value(key, value))).collect::<Map<_, _>>().into()
}

fn trim_value(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("properties", Value::Object(properties)) => properties
            .iter()
            .map(|(name, node)| (name.clone(), trim_node(node)))
            .collect::<Map<_, _>>()
            .into(),
        ("items" | "additionalProperties", node) => trim_element(node),
        _ => value.clone(),
    }
}

/// An element of a list or map. Its default can only be a Go zero value.
fn trim_element(node: &Value) -> Value {
    let mut node = trim_node(node);
    if let Some(node) = node.as_object_mut() {
        node.remove("default");
    }
    node
}
