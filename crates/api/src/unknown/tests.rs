//! Decoding and encoding every kind keeps everything, at every level.

use std::{collections::BTreeSet, fmt::Debug};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
    PodGang, crd, foreign::compute_domain, testkit,
};

const KEY: &str = "keyOfTheFuture";

/// The debug text of a decoded object, and the object encoded again.
fn through<T: Debug + DeserializeOwned + Serialize>(object: &Value) -> (String, Value) {
    let typed: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|e| panic!("{} {}: {e}", object["kind"], object["metadata"]["name"]));
    (format!("{typed:?}"), serde_json::to_value(typed).unwrap())
}

fn round_trip(object: &Value) -> Value {
    typed(object).1
}

/// The keys that the type of an object does not know: of each level, the first.
fn unknown_keys(object: &Value) -> BTreeSet<String> {
    let (debug, _) = typed(object);
    let tails = debug.split("Unknown({\"").skip(1);
    tails.filter_map(|tail| tail.split('"').next().map(str::to_owned)).collect()
}

/// Decodes into the type of the object's kind and encodes again.
fn typed(object: &Value) -> (String, Value) {
    let kind = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let function = match kind {
        ("grove.io/v1alpha1", "PodCliqueSet") => through::<PodCliqueSet>,
        ("grove.io/v1alpha1", "PodClique") => through::<PodClique>,
        ("grove.io/v1alpha1", "PodCliqueScalingGroup") => through::<PodCliqueScalingGroup>,
        ("grove.io/v1alpha1", "ClusterTopology") => through::<ClusterTopology>,
        ("grove.io/v1alpha1", "ClusterTopologyBinding") => through::<ClusterTopologyBinding>,
        ("scheduler.grove.io/v1alpha1", "PodGang") => through::<PodGang>,
        ("resource.nvidia.com/v1beta1", "ComputeDomain") => {
            through::<compute_domain::ComputeDomain>
        }
        other => panic!("no type for {other:?}"),
    };
    function(object)
}

fn examples() -> Vec<Value> {
    let mut examples = testkit::worked_examples();
    examples.extend(testkit::every_field_examples());
    examples.extend(testkit::foreign_examples());
    examples.extend(crd::all().iter().flat_map(testkit::complete_objects));
    examples
}

/// JSON pointers of all objects below `value`, except those in the metadata of the root.
fn object_pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.push(pointer.to_owned());
            for (key, child) in map {
                if pointer.is_empty() && key == "metadata" {
                    continue;
                }
                let key = key.replace('~', "~0").replace('/', "~1");
                object_pointers(child, &format!("{pointer}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                object_pointers(child, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_example_survives_decoding_and_encoding() {
    for example in examples() {
        assert_eq!(round_trip(&example), example);
    }
}

#[test]
fn our_types_know_every_field_of_the_documentation_and_the_schemas() {
    let complete = crd::all();
    let complete = complete.iter().flat_map(testkit::complete_objects);
    for object in complete.chain(testkit::every_field_examples()) {
        assert_eq!(unknown_keys(&object), BTreeSet::new(), "{}", object["kind"]);
    }
}

#[test]
fn foreign_types_know_every_field_but_those_we_leave_alone() {
    let keys: BTreeSet<_> = testkit::foreign_examples().iter().flat_map(unknown_keys).collect();

    assert_eq!(keys, ["allocationMode", "status"].map(str::to_owned).into());
}

#[test]
fn unknown_keys_survive_at_every_level_of_every_kind() {
    let mut places = 0;
    for example in examples() {
        let mut pointers = Vec::new();
        object_pointers(&example, "", &mut pointers);
        let mut extended = example.clone();
        for pointer in &pointers {
            // Text, because it also fits into maps of labels and the like.
            extended.pointer_mut(pointer).unwrap()[KEY] = json!("kept");
        }

        assert_eq!(round_trip(&extended), extended);
        places += pointers.len();
    }
    assert!(places > 1000, "only {places} places looked at");
}

#[test]
fn unknown_enum_values_survive() {
    let set = json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {},
        "spec": {
            "replicas": 1,
            "updateStrategy": {"type": "Quantum"},
            "template": {
                "cliques": [],
                "cliqueStartupType": "Sideways",
                "resourceSharing": [{"name": "a", "scope": "PerFullMoon"}],
            },
        },
    });

    assert_eq!(round_trip(&set), set);
}

#[test]
fn object_without_its_required_keys_can_be_read() {
    for kind in ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "ClusterTopologyBinding"] {
        let empty = json!({"apiVersion": "grove.io/v1alpha1", "kind": kind});
        let nulls = json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": kind,
            "spec": {"levels": null, "cliqueNames": null, "startsAfter": null},
        });

        assert_eq!(round_trip(&empty)["kind"], kind);
        assert_eq!(round_trip(&nulls)["kind"], kind);
    }
}
