use super::*;
use crate::{PodCliqueSet, crd, testkit};

fn set() -> Structural {
    let all = crd::all();
    let set = all.iter().find(|crd| crd.object["spec"]["names"]["kind"] == PodCliqueSet::KIND);
    Structural::of(set.unwrap())
}

/// Visits every node of a schema.
fn visit(schema: &Value, see: &mut impl FnMut(&Value)) {
    see(schema);
    properties(schema).for_each(|(_, child)| visit(child, see));
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(key) {
            visit(child, see);
        }
    }
}

fn texts(schema: &Structural, value: &Value) -> Vec<String> {
    schema.check(value).iter().map(ToString::to_string).collect()
}

#[test]
fn complete_objects_fit_and_all_their_fields_are_known() {
    for crd in crd::all() {
        let schema = Structural::of(&crd);
        let kind = &crd.object["spec"]["names"]["kind"];
        let written = testkit::every_field_examples();
        let written = written.into_iter().filter(|object| object["kind"] == *kind);
        for object in written.chain(testkit::complete_objects(&crd)) {
            assert_eq!(schema.unknown_fields(&object), [""; 0], "{kind}");
            assert_eq!(schema.check(&object), [], "{kind}");
        }
    }
}

/// Otherwise validate would accept what the cluster refuses.
#[test]
fn everything_that_our_crds_demand_is_checked() {
    let known = [
        "additionalProperties",
        "anyOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    for crd in crd::all() {
        let schema = &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        visit(schema, &mut |node| {
            for key in node.as_object().unwrap().keys() {
                assert!(known.contains(&key.as_str()), "{}: {key}", crd.file_name);
            }
            // Numbers and strings: int-or-string covers both.
            assert!(node.get("anyOf").is_none() || node["x-kubernetes-int-or-string"] == true);
            if let Some(format) = node.get("format") {
                assert!(
                    ["date-time", "double", "int32", "int64"].contains(&format.as_str().unwrap())
                );
            }
            if let Some(pattern) = node.get("pattern") {
                assert!(Regex::new(pattern.as_str().unwrap()).is_ok(), "{pattern}");
            }
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let rule = rule["rule"].as_str().unwrap();
                assert!(expressions::holds(rule).is_some(), "{}: {rule}", crd.file_name);
            }
        });
    }
}

#[test]
fn defaults_are_those_of_the_api_server_and_null_is_absent() {
    let mut object = json!({
        "metadata": {"creationTimestamp": null, "labels": {"a": null}},
        "spec": {
            "updateStrategy": {},
            "template": {
                "cliques": [{"name": "a", "spec": {"minAvailable": null}}],
                "headlessServiceConfig": {},
                "podCliqueScalingGroups": [{"replicas": null, "minAvailable": 2}],
            },
        },
    });

    set().complete(&mut object);

    assert_eq!(
        object,
        json!({
            "metadata": {"labels": {}},
            "spec": {
                "replicas": 0,
                "updateStrategy": {"type": "RollingRecreate"},
                "template": {
                    "cliques": [{"name": "a", "spec": {}}],
                    "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                    "headlessServiceConfig": {"publishNotReadyAddresses": true},
                    "podCliqueScalingGroups": [{"replicas": 1, "minAvailable": 2}],
                },
            },
        })
    );
}

#[test]
fn values_that_do_not_fit_are_named() {
    let schema = Structural::from_schema(json!({
        "type": "object", "required": ["a"], "properties": {
            "a": {"type": "string"},
            "small": {"type": "integer", "format": "int32"},
            "either": {"x-kubernetes-int-or-string": true},
            "amount": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+Gi$"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean", "nullable": true},
            "word": {"type": "string", "enum": ["x", "y"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "some": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
            "short": {"type": "string", "minLength": 2, "maxLength": 3},
            "few": {"type": "integer", "minimum": 0, "maximum": 5},
            "when": {"type": "string", "format": "date-time"},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "pack": {"type": "object", "x-kubernetes-validations": [
                {"rule": "has(self.required) || has(self.preferred)", "message": "say one"},
            ]},
        },
    }));
    let good = json!({
        "a": "x", "small": 1, "either": "1", "amount": 5, "ratio": 0.5, "flag": null, "word": "x",
        "labels": {"k": "v"}, "names": ["x", "y"], "some": [1], "short": "äö", "few": 5,
        "when": "2026-01-31T12:00:00Z", "parts": [{"name": "x"}, {"name": "y"}], "open": {"b": 1},
        "pack": {"required": "r"}, "status": "anything",
    });
    assert_eq!(texts(&schema, &good), [""; 0]);
    assert_eq!(
        texts(
            &schema,
            &json!({
                "small": 3_000_000_000_i64, "either": 0.5, "amount": "5G", "ratio": "x", "flag": 1,
                "word": "z", "labels": {"k": 1}, "names": ["x", "x"], "some": [1, 2, 3], "short": "x",
                "few": -1, "when": "today", "parts": [{"name": "x"}, {"name": "x"}], "pack": {},
            })
        ),
        [
            "a: Required value: set this field",
            "amount: Invalid value: \"5G\": should match '^[0-9]+Gi$'",
            "either: Invalid value: 0.5: must be of type integer or string",
            "few: Invalid value: -1: should be greater than or equal to 0",
            "flag: Invalid value: 1: must be of type boolean",
            "labels.k: Invalid value: 1: must be of type string",
            "names[1]: Duplicate value: \"x\"",
            "pack: Invalid value: {}: say one",
            "parts[1]: Duplicate value: {\"name\":\"x\"}",
            "ratio: Invalid value: \"x\": must be of type number",
            "short: Invalid value: \"x\": should be at least 2 chars long",
            "small: Invalid value: 3000000000: must be of type integer (int32)",
            "some: Invalid value: [1,2,3]: must have at most 2 items",
            "when: Invalid value: \"today\": must be of type date-time, for example 2026-01-31T12:00:00Z",
            "word: Unsupported value: \"z\": supported values: \"x\", \"y\"",
        ]
    );
}

#[test]
fn fields_that_nobody_knows_are_found_everywhere() {
    let object = json!({
        "apiVersion": "v", "kind": "k", "extra": 1,
        "metadata": {"lables": {}, "labels": {"any": "key"}},
        "spec": {"template": {"cliques": [{"name": "a", "spec": {"podSpec": {"contianers": []}}}]}},
    });

    assert_eq!(
        set().unknown_fields(&object),
        ["extra", "metadata.lables", "spec.template.cliques[0].spec.podSpec.contianers"]
    );
    let known = set();
    let known = known.known_fields("spec.template.cliques[0].spec.podSpec.contianers");
    assert!(known.contains(&"containers"), "{known:?}");
}
