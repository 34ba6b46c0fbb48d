//! What is stored: everything that is known, the documented defaults, and nothing else.

use grove_api::{crd, testkit};
use serde_json::{Value, json};

use crate::plane::{Plane, on_every_version};

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    if object["metadata"].get("namespace").is_some() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn assert_stored(plane: &Plane, submitted: &Value, expected: &Value) {
    let stored = plane.store(submitted).unwrap();
    assert_eq!(&stored, expected, "{:?}", plane.kube);
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn worked_examples_survive_apart_from_documented_defaults() {
    on_every_version(|plane| {
        plane.namespace("worked");
        for example in testkit::worked_examples() {
            let example = in_namespace(example, "worked");
            let mut expected = example.clone();
            if example["kind"] == "PodCliqueSet" {
                expected["spec"]["template"]["cliqueStartupType"] =
                    json!("CliqueStartupTypeAnyOrder");
            }
            assert_stored(plane, &example, &expected);
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn every_field_of_every_kind_survives() {
    on_every_version(|plane| {
        for example in testkit::every_field_examples() {
            assert_stored(plane, &example, &example);
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn every_property_of_every_schema_survives() {
    on_every_version(|plane| {
        for object in crd::all().iter().flat_map(testkit::complete_objects) {
            assert_stored(plane, &object, &object);
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn documented_defaults_are_stored_and_no_others() {
    let pod = json!({"containers": [{"name": "c"}]});
    let set = |name: &str, spec: Value| {
        json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": name, "namespace": "defaults"},
            "spec": spec,
        })
    };
    on_every_version(|plane| {
        plane.namespace("defaults");
        let clique = json!({
            "name": "a",
            "spec": {
                "roleName": "r",
                "replicas": 1,
                "podSpec": pod,
                "autoScalingConfig": {"maxReplicas": 2},
            },
        });
        assert_stored(
            plane,
            &set(
                "set",
                json!({
                    "updateStrategy": {},
                    "template": {
                        "cliques": [clique],
                        "headlessServiceConfig": {},
                        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"]}],
                    },
                }),
            ),
            &set(
                "set",
                json!({
                    "replicas": 0,
                    "updateStrategy": {"type": "RollingRecreate"},
                    "template": {
                        "cliques": [clique],
                        "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                        "headlessServiceConfig": {"publishNotReadyAddresses": true},
                        "podCliqueScalingGroups": [
                            {"name": "g", "cliqueNames": ["a"], "replicas": 1, "minAvailable": 1},
                        ],
                    },
                }),
            ),
        );
        let group = |spec: Value| {
            json!({
                "apiVersion": "grove.io/v1alpha1",
                "kind": "PodCliqueScalingGroup",
                "metadata": {"name": "group", "namespace": "defaults"},
                "spec": spec,
            })
        };
        assert_stored(
            plane,
            &group(json!({"cliqueNames": ["a"]})),
            &group(json!({"cliqueNames": ["a"], "replicas": 1, "minAvailable": 1})),
        );
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn counters_in_a_status_default_to_zero() {
    let object = |kind: &str, status: Value| {
        json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": "counters", "namespace": "counters"},
            "spec": match kind {
                "PodCliqueSet" => json!({
                    "replicas": 1,
                    "template": {"cliques": [], "cliqueStartupType": "CliqueStartupTypeInOrder"},
                }),
                "PodClique" => json!({
                    "replicas": 1, "roleName": "r", "podSpec": {"containers": []},
                }),
                _ => json!({"replicas": 1, "minAvailable": 1, "cliqueNames": []}),
            },
            "status": status,
        })
    };
    let hash = json!("h");
    let time = json!("2026-08-01T10:00:00Z");
    on_every_version(|plane| {
        plane.namespace("counters");
        for (kind, submitted, expected) in [
            (
                "PodCliqueSet",
                json!({"updateProgress": {}}),
                json!({
                    "updatedReplicas": 0,
                    "availableReplicas": 0,
                    "updateProgress": {
                        "updatedPodCliquesCount": 0,
                        "totalPodCliquesCount": 0,
                        "updatedPodCliqueScalingGroupsCount": 0,
                        "totalPodCliqueScalingGroupsCount": 0,
                    },
                }),
            ),
            (
                "PodClique",
                json!({}),
                json!({
                    "readyReplicas": 0,
                    "updatedReplicas": 0,
                    "scheduleGatedReplicas": 0,
                    "scheduledReplicas": 0,
                }),
            ),
            (
                "PodCliqueScalingGroup",
                json!({"updateProgress": {"updateStartedAt": time, "podCliqueSetGenerationHash": hash}}),
                json!({
                    "scheduledReplicas": 0,
                    "availableReplicas": 0,
                    "updatedReplicas": 0,
                    "updateProgress": {
                        "updateStartedAt": time,
                        "podCliqueSetGenerationHash": hash,
                        "updatedPodCliquesCount": 0,
                        "totalPodCliquesCount": 0,
                    },
                }),
            ),
        ] {
            assert_stored(plane, &object(kind, submitted), &object(kind, expected));
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn core_defaults_in_a_pod_template_are_stored_and_no_others() {
    let clique = |pod: Value| {
        json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {"name": "clique", "namespace": "pod-defaults"},
            "spec": {"roleName": "r", "replicas": 1, "podSpec": pod},
        })
    };
    // One template; `Some` values are those that the server has to add.
    let pod = |port: Value, name: Value, grpc: Value, file: Value, volumes: Value| {
        let key = |mut reference: Value| {
            reference["key"] = json!("k");
            reference
        };
        json!({
            "containers": [{
                "name": "c",
                "ports": [port],
                "livenessProbe": {"grpc": grpc},
                "startupProbe": {"httpGet": {"port": "http"}},
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "envFrom": [{"configMapRef": name}, {"secretRef": name}],
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": key(name.clone())}},
                    {"name": "B", "valueFrom": {"secretKeyRef": key(name.clone())}},
                    {"name": "C", "valueFrom": {"fileKeyRef": file}},
                    {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
            }],
            "imagePullSecrets": [name],
            "volumes": volumes,
        })
    };
    let volumes = |azure: Value, iscsi: Value, rbd: Value, scale_io: Value, name: Value| {
        json!([
            {"name": "azure", "azureDisk": azure},
            {"name": "iscsi", "iscsi": iscsi},
            {"name": "rbd", "rbd": rbd},
            {"name": "scale", "scaleIO": scale_io},
            {"name": "map", "configMap": name},
            {"name": "empty", "emptyDir": {}},
            {"name": "projected", "projected": {"sources": [{"configMap": name}, {"secret": name}]}},
        ])
    };
    let submitted = pod(
        json!({"containerPort": 1}),
        json!({}),
        json!({"port": 1}),
        json!({"key": "k", "path": "p", "volumeName": "v"}),
        volumes(
            json!({"diskName": "d", "diskURI": "u"}),
            json!({"targetPortal": "t", "iqn": "i", "lun": 0}),
            json!({"monitors": ["m"], "image": "i"}),
            json!({"gateway": "g", "system": "s", "secretRef": {"name": "x"}}),
            json!({}),
        ),
    );
    let expected = pod(
        json!({"containerPort": 1, "protocol": "TCP"}),
        json!({"name": ""}),
        json!({"port": 1, "service": ""}),
        json!({"key": "k", "path": "p", "volumeName": "v", "optional": false}),
        volumes(
            json!({"diskName": "d", "diskURI": "u", "fsType": "ext4", "readOnly": false}),
            json!({"targetPortal": "t", "iqn": "i", "lun": 0, "iscsiInterface": "default"}),
            json!({
                "monitors": ["m"], "image": "i", "keyring": "/etc/ceph/keyring", "pool": "rbd",
                "user": "admin",
            }),
            json!({
                "gateway": "g", "system": "s", "secretRef": {"name": "x"}, "fsType": "xfs",
                "storageMode": "ThinProvisioned",
            }),
            json!({"name": ""}),
        ),
    );
    on_every_version(|plane| {
        plane.namespace("pod-defaults");
        assert_stored(plane, &clique(submitted.clone()), &clique(expected.clone()));
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn unknown_fields_are_pruned_at_every_level() {
    on_every_version(|plane| {
        plane.namespace("pruning");
        for crd in crd::all() {
            let [object, _] = testkit::complete_objects(&crd);
            let mut object = in_namespace(object, "pruning");
            object["metadata"]["name"] = json!("pruned");
            let schema = &crd.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut extended = object.clone();
            let places = add_unknown(schema, &mut extended);
            assert!(places > 5, "{} has only {places} levels", crd.file_name);

            assert_stored(plane, &extended, &object);
        }
    });
}

/// Adds a key that does not exist to every object with properties; returns their number.
fn add_unknown(schema: &Value, value: &mut Value) -> usize {
    let mut places = 0;
    if let Some(properties) = schema["properties"].as_object() {
        for (name, child) in properties {
            if let Some(value) = value.get_mut(name) {
                places += add_unknown(child, value);
            }
        }
        value["noSuchField"] = json!({"a": 1});
        places += 1;
    }
    for element in value.as_array_mut().into_iter().flatten() {
        places += add_unknown(&schema["items"], element);
    }
    places
}
