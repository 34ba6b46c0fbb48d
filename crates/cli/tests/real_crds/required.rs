//! Every required field of our own kinds is really required.

use grove_api::{crd, testkit};
use serde_json::{Value, json};

use crate::plane::{collection, on_every_version};

/// Parts of the schema that belong to Kubernetes. A few rows below look into them.
const EMBEDDED: [&str; 3] = ["podSpec", "templateSpec", "metrics"];

/// JSON pointers of all required fields without a default, as they occur in a complete object.
fn required(schema: &Value, pointer: &str, found: &mut Vec<String>) {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if schema["properties"][name].get("default").is_none() {
            found.push(format!("{pointer}/{name}"));
        }
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        if !EMBEDDED.contains(&name.as_str()) {
            required(child, &format!("{pointer}/{name}"), found);
        }
    }
    if let Some(items) = schema.get("items") {
        required(items, &format!("{pointer}/0"), found);
    }
}

/// A pointer as the API server writes it: `/spec/levels/0/key` is `spec.levels[0].key`.
fn field_path(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).map(|part| match part.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{part}"),
    });
    parts.collect::<String>().trim_start_matches('.').to_owned()
}

fn remove(object: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
    assert!(parent.unwrap().remove(key).is_some(), "{pointer} is not in the complete object");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn objects_without_a_required_field_are_refused() {
    on_every_version(|plane| {
        plane.namespace("required");
        for crd in crd::all() {
            let [mut object, _] = testkit::complete_objects(&crd);
            if object["metadata"].get("namespace").is_some() {
                object["metadata"]["namespace"] = json!("required");
            } else {
                object["metadata"]["name"] = json!("required");
            }
            let path = collection(&object);
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let mut stored = plane.create(&path, &object).unwrap();
            stored["status"] = object["status"].clone();
            let schema = &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut pointers = Vec::new();
            required(schema, "", &mut pointers);

            for pointer in pointers {
                // A spec that lacks something is sent to the object, a status to the subresource.
                let subresource = if pointer.starts_with("/status/") { "/status" } else { "" };
                let target = format!("{path}/{name}{subresource}?dryRun=All");
                let mut lacking = stored.clone();
                remove(&mut lacking, &pointer);

                let error = plane.replace(&target, &lacking).expect_err(&pointer);

                let expected = format!("{}: Required value", field_path(&pointer));
                assert!(error.contains(&expected), "expected {expected:?} in {error}");
            }
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn pod_templates_without_a_required_field_are_refused() {
    on_every_version(|plane| {
        let crd = crd::all().into_iter().find(|crd| crd.file_name.contains("podcliques.")).unwrap();
        let [mut object, _] = testkit::complete_objects(&crd);
        object["metadata"]["name"] = json!("pod-template");
        let path = format!("{}?dryRun=All", collection(&object));
        plane.create(&path, &object).unwrap();
        for pointer in [
            "/spec/podSpec/containers",
            "/spec/podSpec/containers/0/name",
            "/spec/podSpec/containers/0/env/0/name",
            "/spec/podSpec/containers/0/ports/0/containerPort",
            "/spec/podSpec/volumes/0/name",
            "/spec/autoScalingConfig/metrics/0/type",
        ] {
            let mut lacking = object.clone();
            remove(&mut lacking, pointer);

            let error = plane.create(&path, &lacking).expect_err(pointer);

            let expected = format!("{}: Required value", field_path(pointer));
            assert!(error.contains(&expected), "expected {expected:?} in {error}");
        }
    });
}
