//! The test data is as complete as it claims to be.

use serde_json::Value;

use super::*;
use crate::crd;

/// Parts of the schemas that belong to Kubernetes.
const EMBEDDED: [&str; 3] = ["podSpec", "templateSpec", "metrics"];

/// Every property of the schema occurs in at least one of the values. Below a property in `opaque` the
/// values are not checked.
fn assert_covered(schema: &Value, values: &[&Value], path: &str, opaque: &[&str]) {
    assert!(!values.is_empty(), "no value for {path}");
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let inner: Vec<_> = values.iter().filter_map(|value| value.get(name)).collect();
        if opaque.contains(&name.as_str()) {
            assert!(!inner.is_empty(), "no value for {path}");
        } else {
            assert_covered(child, &inner, &path, opaque);
        }
    }
    if let Some(items) = schema.get("items") {
        let elements: Vec<_> = values.iter().filter_map(|v| v.as_array()).flatten().collect();
        assert_covered(items, &elements, &format!("{path}[]"), opaque);
    }
    if let Some(child) = schema.get("additionalProperties") {
        let maps = values.iter().filter_map(|value| value.as_object());
        let elements: Vec<_> = maps.flat_map(Map::values).collect();
        assert_covered(child, &elements, &format!("{path}{{}}"), opaque);
    }
}

fn schema(crd: &Crd) -> &Value {
    &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn hand_written_examples_name_every_field_of_our_own() {
    let examples = every_field_examples();
    for crd in crd::all() {
        let kind = &crd.object["spec"]["names"]["kind"];
        let of_kind: Vec<_> = examples.iter().filter(|e| &e["kind"] == kind).collect();
        assert_covered(schema(&crd), &of_kind, kind.as_str().unwrap(), &EMBEDDED);
    }
}

#[test]
fn complete_objects_have_every_property_there_is() {
    for crd in crd::all() {
        let objects = complete_objects(&crd);
        assert_covered(schema(&crd), &objects.iter().collect::<Vec<_>>(), &crd.file_name, &[]);
    }
}
