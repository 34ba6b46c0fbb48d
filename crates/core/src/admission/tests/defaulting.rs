//! Which defaults are set, and that the patch changes nothing else.

use grove_api::testkit;
use serde_json::json;

use super::*;
use crate::admission::{DecodeError, default, default_patch};

/// The set after the patch, and the number of operations in the patch.
fn patched(raw: &Value) -> (Value, usize) {
    let patch = default_patch(raw).unwrap();
    let mut object = raw.clone();
    json_patch::patch(&mut object, &patch).unwrap();
    (object, patch.0.len())
}

#[test]
fn every_documented_default_is_filled_in() {
    let raw = json!({
        "metadata": {"name": "demo"},
        "spec": {"template": {
            "cliques": [{
                "name": "a",
                "spec": {
                    "roleName": "a",
                    "replicas": 2,
                    "podSpec": {"containers": []},
                    "autoScalingConfig": {"maxReplicas": 3},
                },
            }],
            "podCliqueScalingGroups": [
                {"name": "g", "cliqueNames": ["a"], "replicas": 4, "scaleConfig": {"maxReplicas": 5}},
            ],
        }},
    });

    let (object, _) = patched(&raw);

    assert_eq!(
        object,
        json!({
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "replicas": 0,
                "template": {
                    "cliques": [{
                        "name": "a",
                        "spec": {
                            "roleName": "a",
                            "replicas": 2,
                            "minAvailable": 2,
                            "podSpec": {
                                "containers": [],
                                "restartPolicy": "Always",
                                "terminationGracePeriodSeconds": 30,
                            },
                            "autoScalingConfig": {"minReplicas": 2, "maxReplicas": 3},
                        },
                    }],
                    "podCliqueScalingGroups": [{
                        "name": "g",
                        "cliqueNames": ["a"],
                        "replicas": 4,
                        "scaleConfig": {"minReplicas": 4, "maxReplicas": 5},
                    }],
                    "terminationDelay": "4h0m0s",
                    "headlessServiceConfig": {"publishNotReadyAddresses": true},
                },
            },
        })
    );
}

#[test]
fn given_values_stay() {
    let raw = good();

    assert_eq!(patched(&raw), (raw, 0));
    for example in testkit::every_field_examples() {
        if example["kind"] == "PodCliqueSet" && example["metadata"]["name"] == "every-field" {
            let (object, _) = patched(&example);
            assert_eq!(
                object["spec"]["template"]["cliques"][0],
                example["spec"]["template"]["cliques"][0]
            );
            assert_eq!(object["status"], example["status"]);
        }
    }
}

#[test]
fn the_minimum_defaults_to_the_submitted_replicas() {
    let mut raw = good();
    remove(&mut router(&mut raw)["spec"], "replicas");
    remove(&mut router(&mut raw)["spec"], "minAvailable");

    let (object, _) = patched(&raw);

    let spec = &object["spec"]["template"]["cliques"][0]["spec"];
    assert_eq!((&spec["replicas"], &spec["minAvailable"]), (&json!(1), &json!(0)));
    assert_eq!(
        texts(&validate_create(&decode(&object).unwrap(), &context(), &SetTopology::Disabled)),
        ["spec.template.cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0"]
    );

    router(&mut raw)["spec"]["minAvailable"] = json!(1);
    let (object, _) = patched(&raw);
    assert_eq!(
        texts(&validate_create(&decode(&object).unwrap(), &context(), &SetTopology::Disabled)),
        [""; 0]
    );
}

#[test]
fn the_patch_keeps_unknown_keys() {
    let mut raw = good();
    raw["metadata"]["keyOfTheFuture"] = json!({"a": null});
    raw["spec"]["keyOfTheFuture"] = json!([1, null]);
    router(&mut raw)["spec"]["podSpec"]["keyOfTheFuture"] = json!(null);
    remove(template(&mut raw), "terminationDelay");

    let patch = serde_json::to_value(default_patch(&raw).unwrap()).unwrap();

    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/spec/template/terminationDelay", "value": "4h0m0s"}])
    );
}

#[test]
fn nulls_count_as_absent() {
    let mut raw = good();
    router(&mut raw)["spec"]["replicas"] = json!(null);
    router(&mut raw)["spec"]["podSpec"]["restartPolicy"] = json!(null);
    template(&mut raw)["terminationDelay"] = json!(null);

    let (object, places) = patched(&raw);

    assert_eq!(places, 3);
    assert_eq!(object["spec"]["template"]["terminationDelay"], "4h0m0s");
    assert_eq!(object["spec"]["template"]["cliques"][0]["spec"]["replicas"], 1);
}

#[test]
fn missing_scalars_get_their_zero_value_and_missing_lists_do_not() {
    let mut raw = good();
    remove(&mut router(&mut raw)["spec"], "roleName");
    remove(group(&mut raw), "cliqueNames");

    let patch = serde_json::to_value(default_patch(&raw).unwrap()).unwrap();

    let role = "/spec/template/cliques/0/spec/roleName";
    assert_eq!(patch, json!([{"op": "add", "path": role, "value": ""}]));
}

#[test]
fn an_object_without_spec_is_refused_with_field_errors() {
    let (object, _) = patched(&json!({"metadata": {"name": "demo"}}));

    assert_eq!(object["spec"]["template"]["cliques"], json!([]));
}

#[test]
fn durations_become_canonical() {
    let mut raw = good();
    template(&mut raw)["terminationDelay"] = json!("90s");

    let (object, places) = patched(&raw);

    assert_eq!(
        (object["spec"]["template"]["terminationDelay"].as_str(), places),
        (Some("1m30s"), 1)
    );
}

#[test]
fn errors_name_the_field_that_cannot_be_decoded() {
    for (pointer, value, text) in [
        (
            "/spec/template/terminationDelay",
            json!("abc"),
            "spec.template.terminationDelay: Invalid value: \"abc\": time: invalid duration \"abc\"",
        ),
        (
            "/spec/template/cliques/0/spec/replicas",
            json!("two"),
            "spec.template.cliques[0].spec.replicas: Invalid value: \"two\": must be of type integer (int32)",
        ),
        ("/kind", json!("Pod"), "kind is \"Pod\", expected \"PodCliqueSet\""),
    ] {
        let mut raw = good();
        *raw.pointer_mut(pointer).unwrap() = value;

        let error: DecodeError = default_patch(&raw).unwrap_err();

        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn typed_and_raw_defaulting_agree() {
    for example in testkit::worked_examples().iter().chain(&testkit::every_field_examples()) {
        if example["kind"] != "PodCliqueSet" {
            continue;
        }
        let mut typed = decode(example).unwrap();
        default(&mut typed);

        assert_eq!(decode(&patched(example).0).unwrap(), typed);
    }
}
