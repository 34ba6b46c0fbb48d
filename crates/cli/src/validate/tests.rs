use grove_api::testkit;
use serde_json::json;

use super::*;

fn lines(text: &str) -> Lines {
    let mut documents = manifest::split(text);
    documents.pop().unwrap().parse().ok().flatten().unwrap().1
}

#[test]
fn texts_are_split_at_document_markers() {
    for (text, documents) in [
        ("", 0),
        ("# only a comment\n---\n# and another\n---\n", 0),
        ("a: 1\n", 1),
        ("---\na: 1\n", 1),
        ("a: 1\n---\nb: 2\n--- # last\nc: 3", 3),
        ("a: |\n  ---\n  no marker\n", 1),
        ("{\"a\": 1}", 1),
    ] {
        let parsed =
            manifest::split(text).iter().filter_map(|one| one.parse().ok().unwrap()).count();
        assert_eq!(parsed, documents, "{text:?}");
    }
}

#[test]
fn what_is_no_yaml_is_named_with_its_line() {
    for (text, line, message) in [
        ("a: 1\n---\nb: 1\nb: 2\n", 4, "`b` occurs twice"),
        ("a: 1\n---\nb: [1\n", 3, "unclosed bracket '['"),
    ] {
        let fault = manifest::split(text).pop().unwrap().parse().err().unwrap();
        assert_eq!((fault.line, fault.message.as_str()), (line, message), "{text:?}");
    }
}

#[test]
fn every_kind_of_value_can_be_read() {
    let text = "a: 99999999999999999999999999\nb: 0.5\nc: 18446744073709551615\nd: ~\ne: 0x10\n\
                f: &x {y: 1}\ng: *x\nh: {<<: *x}\n1: 2\ni: 2026-01-01\nj: -1\nk: true\n";

    let lines = lines(text);

    assert_eq!(
        ["a", "b", "d", "f.y", "g.y", "h.y", "k"].map(|path| lines.of(path)),
        [1, 2, 4, 6, 7, 8, 12]
    );
}

#[test]
fn lines_are_those_of_the_nearest_key() {
    let lines = lines(
        "a: 0\n\
         ---\n\
         spec:\n\
         \x20 list:\n\
         \x20 - name: x\n\
         \x20   example.com/key: 1\n\
         \x20 - name: y\n\
         \x20   example: 2\n",
    );

    for (path, line) in [
        ("", 3),
        ("spec", 3),
        ("spec.list", 4),
        ("spec.list[0]", 5),
        ("spec.list[0].name", 5),
        ("spec.list[0].example.com/key", 6),
        ("spec.list[1].name.deeper[0]", 7),
        ("spec.list[1].example.com/key", 8),
        ("spec.list.name", 4),
        ("spec.list[7].name", 4),
        ("metadata.name", 3),
    ] {
        assert_eq!(lines.of(path), line, "{path}");
    }
    assert_eq!(lines.below("spec.list[1]").of("example"), 8);
}

#[test]
fn schema_accepts_complete_objects_and_knows_all_their_keys() {
    let schema = set_schema();
    let definition =
        crd::all().into_iter().find(|crd| crd.object["spec"]["names"]["kind"] == "PodCliqueSet");
    let complete = testkit::complete_objects(&definition.unwrap());
    let written = testkit::every_field_examples();
    let sets = written.into_iter().filter(|object| object["kind"] == "PodCliqueSet");

    for set in sets.chain(complete) {
        assert_eq!(schema::unknown_keys(&schema, &set), [""; 0]);
        assert_eq!(schema::check(&schema, &set), []);
    }
}

#[test]
fn schema_fills_in_what_the_api_server_would() {
    let mut set = json!({"spec": {
        "updateStrategy": {},
        "template": {
            "cliques": [],
            "headlessServiceConfig": {},
            "podCliqueScalingGroups": [{"replicas": null, "minAvailable": 2}],
        },
    }});

    schema::apply_defaults(&set_schema(), &mut set);

    assert_eq!(
        set["spec"],
        json!({
            "replicas": 0,
            "updateStrategy": {"type": "RollingRecreate"},
            "template": {
                "cliques": [],
                "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                "headlessServiceConfig": {"publishNotReadyAddresses": true},
                "podCliqueScalingGroups": [{"replicas": 1, "minAvailable": 2}],
            },
        })
    );
}

#[test]
fn schema_names_what_does_not_fit() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string"},
        "small": {"type": "integer", "format": "int32"},
        "either": {"x-kubernetes-int-or-string": true},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean", "nullable": true},
        "word": {"type": "string", "enum": ["x", "y"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let texts = |value: Value| -> Vec<String> {
        schema::check(&schema, &value).iter().map(ToString::to_string).collect()
    };

    let good = json!({
        "a": "x", "small": 1, "either": "1", "ratio": 0.5, "flag": null, "word": "x",
        "labels": {"k": "v"}, "names": ["x", "y"], "parts": [{"name": "x"}, {"name": "y"}], "open": {"b": 1},
    });
    assert_eq!(texts(good.clone()), [""; 0]);
    assert_eq!(schema::unknown_keys(&schema, &good), [""; 0]);
    assert_eq!(
        texts(json!({
            "small": 3_000_000_000_i64, "either": 0.5, "ratio": "x", "flag": 1, "word": "z",
            "labels": {"k": 1}, "names": ["x", "x"], "parts": [{"name": "x"}, {"name": "x"}],
        })),
        [
            "a: Required value",
            "either: Invalid value: 0.5: must be of type integer or string",
            "flag: Invalid value: 1: must be of type boolean",
            "labels.k: Invalid value: 1: must be of type string",
            "names[1]: Duplicate value: \"x\"",
            "parts[1]: Duplicate value: {\"name\":\"x\"}",
            "ratio: Invalid value: \"x\": must be of type number",
            "small: Invalid value: 3000000000: must be of type integer",
            "word: Unsupported value: \"z\": supported values: \"x\", \"y\"",
        ]
    );
    let strange = json!({"a": "x", "b": 1, "parts": [{"nmae": "x"}]});
    assert_eq!(schema::unknown_keys(&schema, &strange), ["b", "parts[0].nmae"]);
}
