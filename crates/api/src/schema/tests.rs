//! The embedded core schemas and the rewriting of our own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// Visits every schema node with its path.
fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Map<String, Value>)) {
    let Some(node) = schema.as_object() else {
        return;
    };
    see(path, node);
    for (name, child) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        visit(child, &format!("{path}.{name}"), see);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = node.get(key) {
            visit(child, &format!("{path}{suffix}"), see);
        }
    }
}

#[test]
fn embedded_schemas_have_exactly_the_documented_defaults() {
    let mut defaults = BTreeSet::new();
    for (name, definition) in &definitions() {
        let name = name.rsplit('.').next().unwrap();
        visit(definition, name, &mut |path, node| {
            if let Some(default) = node.get("default") {
                defaults.insert(format!("{path} = {default}"));
            }
        });
    }

    let expected = [
        r#"AzureDiskVolumeSource.fsType = "ext4""#,
        "AzureDiskVolumeSource.readOnly = false",
        r#"ConfigMapEnvSource.name = """#,
        r#"ConfigMapKeySelector.name = """#,
        r#"ConfigMapProjection.name = """#,
        r#"ConfigMapVolumeSource.name = """#,
        r#"ContainerPort.protocol = "TCP""#,
        // Not in a pod template but in a claim template.
        r#"DeviceToleration.operator = "Equal""#,
        "FileKeySelector.optional = false",
        r#"GRPCAction.service = """#,
        r#"ISCSIVolumeSource.iscsiInterface = "default""#,
        r#"LocalObjectReference.name = """#,
        r#"RBDVolumeSource.keyring = "/etc/ceph/keyring""#,
        r#"RBDVolumeSource.pool = "rbd""#,
        r#"RBDVolumeSource.user = "admin""#,
        r#"ScaleIOVolumeSource.fsType = "xfs""#,
        r#"ScaleIOVolumeSource.storageMode = "ThinProvisioned""#,
        r#"SecretEnvSource.name = """#,
        r#"SecretKeySelector.name = """#,
        r#"SecretProjection.name = """#,
    ];
    assert_eq!(defaults, expected.map(str::to_owned).into());
}

#[test]
fn defaults_reach_their_places_in_the_pod_template() {
    let pod = kubernetes("io.k8s.api.core.v1.PodSpec").to_value();
    let mut paths = BTreeSet::new();
    visit(&pod, "", &mut |path, node| {
        if node.contains_key("default") {
            paths.insert(path.to_owned());
        }
    });

    for path in [
        ".containers[].ports[].protocol",
        ".initContainers[].ports[].protocol",
        ".containers[].env[].valueFrom.configMapKeyRef.name",
        ".containers[].env[].valueFrom.secretKeyRef.name",
        ".containers[].env[].valueFrom.fileKeyRef.optional",
        ".containers[].envFrom[].secretRef.name",
        ".containers[].livenessProbe.grpc.service",
        ".imagePullSecrets[].name",
        ".volumes[].azureDisk.fsType",
        ".volumes[].iscsi.iscsiInterface",
        ".volumes[].rbd.keyring",
        ".volumes[].scaleIO.storageMode",
        ".volumes[].projected.sources[].configMap.name",
    ] {
        assert!(paths.contains(path), "{path} has no default; have {paths:#?}");
    }
}

#[test]
fn pod_template_has_list_keys_and_typed_quantities() {
    let pod = kubernetes("io.k8s.api.core.v1.PodSpec").to_value();
    let container = &pod["properties"]["containers"]["items"]["properties"];

    assert_eq!(pod["required"], json!(["containers"]));
    assert_eq!(pod["properties"]["containers"]["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(
        container["ports"]["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    assert_eq!(container["ports"]["x-kubernetes-list-type"], "map");
    assert_eq!(container["env"]["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(container["command"]["x-kubernetes-list-type"], "atomic");
    let limit = &container["resources"]["properties"]["limits"]["additionalProperties"];
    assert_eq!(limit["x-kubernetes-int-or-string"], true);
    assert_eq!(limit["pattern"], QUANTITY_PATTERN);
    let port = &container["livenessProbe"]["properties"]["httpGet"]["properties"]["port"];
    assert_eq!(port["x-kubernetes-int-or-string"], true);
    assert_eq!(port.get("pattern"), None);
}

#[test]
fn metadata_of_embedded_templates_keeps_labels_and_annotations() {
    let claim = kubernetes("io.k8s.api.resource.v1.ResourceClaimTemplateSpec").to_value();
    let metadata = &claim["properties"]["metadata"]["properties"];

    assert_eq!(metadata["labels"]["additionalProperties"]["type"], "string");
    assert_eq!(metadata["annotations"]["additionalProperties"]["type"], "string");
    assert_eq!(metadata.get("resourceVersion"), None);
}

#[test]
fn opaque_device_parameters_are_kept_whatever_they_are() {
    let claim = kubernetes("io.k8s.api.resource.v1.ResourceClaimTemplateSpec").to_value();
    let config = &claim["properties"]["spec"]["properties"]["devices"]["properties"]["config"];
    let opaque = &config["items"]["properties"]["opaque"]["properties"]["parameters"];

    assert_eq!(opaque["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn every_schema_is_structural() {
    for crd in crate::crd::all() {
        let root = &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        visit(root, &crd.file_name, &mut |path, node| {
            for forbidden in ["$ref", "allOf", "oneOf", "nullable", "title", "$schema"] {
                assert!(!node.contains_key(forbidden), "{path} has {forbidden}");
            }
            let is_typed = node.get("type").is_some_and(Value::is_string);
            assert!(
                is_typed || node.contains_key("x-kubernetes-int-or-string"),
                "{path}: {node:?}"
            );
            if node.get("type") == Some(&json!("array")) {
                assert!(node.contains_key("items"), "{path} has no items");
            }
        });
    }
}

#[test]
fn only_our_own_fields_are_described() {
    for crd in crate::crd::all() {
        let root = &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        visit(root, "", &mut |path, node| {
            let embedded = ["podSpec", "templateSpec", "metrics"].iter().any(|name| {
                path.contains(&format!(".{name}.")) || path.contains(&format!(".{name}["))
            });
            // List elements, map values and the bare root metadata have nothing to add.
            let bare = path.ends_with("[]") || path.ends_with("{}") || path == ".metadata";
            let described = node.contains_key("description");
            assert!(described || embedded || bare, "{path} has no description");
            assert!(!(described && embedded), "{path} has a description");
        });
    }
}

#[test]
fn trimming_keeps_what_is_declared_and_reachable() {
    let document = |definitions: Value| json!({"components": {"schemas": definitions}});
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let documents = [
        document(json!({
            "io.k8s.api.core.v1.PodSpec": {
                "type": "object",
                "description": "gone",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "default": ""},
                    "policy": {"type": "string", "default": "A", "enum": ["A", "B"]},
                    "part": {"default": {}, "allOf": [reference("Part")]},
                    "map": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
                },
                "x-kubernetes-unions": [],
            },
            "Part": {"type": "object", "properties": {"deep": reference("Deep")}},
            "Deep": {"type": "string", "x-kubernetes-patch-strategy": "merge"},
            "Unreachable": {"type": "string"},
        })),
        document(json!({
            "io.k8s.api.resource.v1.ResourceClaimTemplateSpec": {"type": "object"},
            "io.k8s.api.autoscaling.v2.MetricSpec": {"type": "object"},
        })),
    ];

    assert_eq!(
        trim(&documents).unwrap(),
        json!({
            "io.k8s.api.core.v1.PodSpec": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "policy": {"type": "string", "default": "A"},
                    "part": {"allOf": [reference("Part")]},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "Part": {"type": "object", "properties": {"deep": reference("Deep")}},
            "Deep": {"type": "string"},
            "io.k8s.api.resource.v1.ResourceClaimTemplateSpec": {"type": "object"},
            "io.k8s.api.autoscaling.v2.MetricSpec": {"type": "object"},
        })
    );
    assert_eq!(
        trim(&documents[..1]).unwrap_err(),
        MissingDefinition("io.k8s.api.autoscaling.v2.MetricSpec".to_owned()),
        "a missing document is named by what is missing"
    );
}

#[test]
fn lines_of_a_doc_comment_are_joined() {
    assert_eq!(unwrap_lines("one\ntwo\n\nthree\nfour"), "one two\n\nthree four");
}
