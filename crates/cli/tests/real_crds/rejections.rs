//! What the API server refuses, and that it says where.

use serde_json::{Value, json};

use crate::plane::{Plane, collection, on_every_version};

fn set() -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"template": {
            "cliques": [clique_template("a")],
            "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"]}],
            "resourceClaimTemplates": [{"name": "t", "templateSpec": {"spec": {"devices": {}}}}],
        }},
    })
}

fn clique_template(name: &str) -> Value {
    let pod = json!({"containers": [{"name": "c", "env": [], "ports": []}]});
    json!({"name": name, "spec": {"roleName": "r", "replicas": 1, "podSpec": pod}})
}

fn clique() -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": clique_template("a")["spec"],
    })
}

fn group() -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueScalingGroup",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"cliqueNames": ["a"]},
    })
}

fn topology(kind: &str) -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "bad"},
        "spec": {"levels": [{"domain": "rack", "key": "topo/rack"}]},
    })
}

fn gang() -> Value {
    json!({
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"podgroups": [{"name": "a", "minReplicas": 1, "podReferences": []}]},
    })
}

/// Each row: a valid object, where to put which value, and what the answer has to contain.
type Row = (Value, &'static str, Value, &'static [&'static str]);

fn assert_refused(plane: &Plane, rows: Vec<Row>) {
    for (mut object, pointer, value, expected) in rows {
        let path = format!("{}?dryRun=All", collection(&object));
        plane.create(&path, &object).unwrap_or_else(|e| panic!("base of {pointer} is bad: {e}"));
        put(&mut object, pointer, value);

        let error = plane.create(&path, &object).expect_err(pointer);

        for part in expected {
            assert!(error.contains(part), "{pointer}: expected {part:?} in {error}");
        }
    }
}

/// Sets the value at a JSON pointer; its last part may be new.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => other[key] = value,
    }
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn values_outside_an_enum() {
    let sharing = json!([{"name": "t", "scope": "Sometimes"}]);
    let scopes = &[
        r#"Unsupported value: "Sometimes": supported values: "AllReplicas", "PerReplica""#,
        "resourceSharing[0].scope",
    ];
    on_every_version(|plane| {
        assert_refused(
            plane,
            vec![
                (
                    set(),
                    "/spec/updateStrategy",
                    json!({"type": "Never"}),
                    &[
                        r#"spec.updateStrategy.type: Unsupported value: "Never": supported values: "RollingRecreate", "OnDelete""#,
                    ],
                ),
                (
                    set(),
                    "/spec/template/cliqueStartupType",
                    json!("Sideways"),
                    &[
                        r#"spec.template.cliqueStartupType: Unsupported value: "Sideways""#,
                        "CliqueStartupTypeAnyOrder",
                    ],
                ),
                (set(), "/spec/template/resourceSharing", sharing.clone(), scopes),
                (set(), "/spec/template/cliques/0/resourceSharing", sharing.clone(), scopes),
                (
                    set(),
                    "/spec/template/podCliqueScalingGroups/0/resourceSharing",
                    sharing.clone(),
                    scopes,
                ),
                (
                    topology("ClusterTopology"),
                    "/spec/levels/0/domain",
                    json!("cage"),
                    &[
                        r#"spec.levels[0].domain: Unsupported value: "cage""#,
                        r#""region", "zone", "datacenter", "block", "rack", "host", "numa""#,
                    ],
                ),
            ],
        );
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn topology_constraints_that_say_nothing_or_too_much() {
    on_every_version(|plane| {
        for (pointer, field) in [
            ("/spec/template/topologyConstraint", "spec.template.topologyConstraint"),
            (
                "/spec/template/cliques/0/topologyConstraint",
                "spec.template.cliques[0].topologyConstraint",
            ),
            (
                "/spec/template/podCliqueScalingGroups/0/topologyConstraint",
                "spec.template.podCliqueScalingGroups[0].topologyConstraint",
            ),
        ] {
            for (value, expected) in [
                (
                    json!({}),
                    format!(
                        "{field}.pack: Required value: topologyConstraint must specify pack or deprecated packDomain"
                    ),
                ),
                (
                    json!({"topologyName": "t"}),
                    format!(
                        "{field}.pack: Required value: topologyConstraint must specify pack or deprecated packDomain"
                    ),
                ),
                (
                    json!({"pack": {}}),
                    format!(
                        "{field}.pack: Required value: pack must specify at least one of required or preferred"
                    ),
                ),
                (
                    json!({"pack": {"required": "rack"}, "packDomain": "rack"}),
                    format!("{field}.pack.required: Invalid value"),
                ),
                (
                    json!({"packDomain": "Rack"}),
                    format!(
                        r#"{field}.packDomain: Invalid value: "Rack": {field}.packDomain in body should match '^[a-z][a-z0-9-]*$'"#
                    ),
                ),
                (json!({"packDomain": ""}), format!("{field}.packDomain")),
                (
                    json!({"pack": {"required": "9lives"}}),
                    format!("{field}.pack.required: Invalid value: \"9lives\""),
                ),
                (
                    json!({"pack": {"required": "r".repeat(64)}}),
                    format!("{field}.pack.required: Too long: may not be more than 63"),
                ),
                (
                    json!({"pack": {"preferred": "a_b"}}),
                    format!("{field}.pack.preferred: Invalid value: \"a_b\""),
                ),
                (json!({"pack": {"preferred": ""}}), format!("{field}.pack.preferred")),
            ] {
                let mut object = set();
                put(&mut object, pointer, value.clone());
                let path = format!("{}?dryRun=All", collection(&object));
                let error = plane.create(&path, &object).expect_err(&value.to_string());
                assert!(error.contains(&expected), "{value}: expected {expected:?} in {error}");
            }
            // Everything that is allowed, both spellings.
            for value in [
                json!({"packDomain": "rack"}),
                json!({"packDomain": "rack", "pack": {"preferred": "host"}}),
                json!({"topologyName": "t", "pack": {"required": "r".repeat(63)}}),
                json!({"pack": {"preferred": "a-1"}}),
            ] {
                let mut object = set();
                put(&mut object, pointer, value);
                let path = format!("{}?dryRun=All", collection(&object));
                plane.create(&path, &object).unwrap();
            }
        }
        let mut object = set();
        put(
            &mut object,
            "/spec/template/topologyConstraint",
            json!({"pack": {"required": "rack"}, "packDomain": "rack"}),
        );
        let path = format!("{}?dryRun=All", collection(&object));
        let error = plane.create(&path, &object).unwrap_err();
        let message = "must not set both pack.required and deprecated packDomain";
        assert!(error.contains(message), "{error}");
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn topologies_with_bad_levels() {
    let levels = |n: usize| -> Value {
        (0..n).map(|i| json!({"domain": "rack", "key": format!("k{i}")})).collect()
    };
    let old = || topology("ClusterTopology");
    let new = || topology("ClusterTopologyBinding");
    on_every_version(|plane| {
        assert_refused(
            plane,
            vec![
                (
                    old(),
                    "/spec/levels",
                    json!([]),
                    &[
                        "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items",
                    ],
                ),
                (
                    old(),
                    "/spec/levels",
                    levels(9),
                    &["spec.levels: Too many: 9: must have at most 8 items"],
                ),
                (
                    old(),
                    "/spec/levels",
                    json!([{"domain": "rack", "key": "a"}, {"domain": "rack", "key": "b"}]),
                    &["spec.levels: Invalid value", "domain must be unique across all levels"],
                ),
                (
                    old(),
                    "/spec/levels",
                    json!([{"domain": "rack", "key": "a"}, {"domain": "host", "key": "a"}]),
                    &["spec.levels: Invalid value", "key must be unique across all levels"],
                ),
                (
                    old(),
                    "/spec/levels/0/key",
                    json!("no spaces"),
                    &["spec.levels[0].key: Invalid value: \"no spaces\""],
                ),
                (old(), "/spec/levels/0/key", json!(""), &["spec.levels[0].key"]),
                (
                    old(),
                    "/spec/levels/0/key",
                    json!("k".repeat(65)),
                    &["spec.levels[0].key: Too long: may not be more than 64"],
                ),
                (
                    new(),
                    "/spec/levels",
                    json!([]),
                    &[
                        "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items",
                    ],
                ),
                (
                    new(),
                    "/spec/levels/0/domain",
                    json!("Rack"),
                    &["spec.levels[0].domain: Invalid value: \"Rack\""],
                ),
                (new(), "/spec/levels/0/domain", json!(""), &["spec.levels[0].domain"]),
                (
                    new(),
                    "/spec/levels/0/domain",
                    json!("d".repeat(64)),
                    &["spec.levels[0].domain: Too long: may not be more than 63"],
                ),
                (
                    new(),
                    "/spec/levels/0/key",
                    json!("/rack"),
                    &["spec.levels[0].key: Invalid value: \"/rack\""],
                ),
                (new(), "/spec/levels/0/key", json!(""), &["spec.levels[0].key"]),
                (
                    new(),
                    "/spec/levels/0/key",
                    json!("k".repeat(64)),
                    &["spec.levels[0].key: Too long: may not be more than 63"],
                ),
            ],
        );
        let mut many = new();
        many["spec"]["levels"] = levels(20);
        plane.create(&format!("{}?dryRun=All", collection(&many)), &many).unwrap();
        let mut long = old();
        long["spec"]["levels"][0]["key"] = json!("k".repeat(64));
        plane.create(&format!("{}?dryRun=All", collection(&long)), &long).unwrap();
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn entries_with_the_same_key() {
    let container = "/spec/template/cliques/0/spec/podSpec/containers";
    let env = "/spec/template/cliques/0/spec/podSpec/containers/0/env";
    let ports = "/spec/template/cliques/0/spec/podSpec/containers/0/ports";
    on_every_version(|plane| {
        assert_refused(
            plane,
            vec![
                (
                    set(),
                    "/spec/template/cliques",
                    json!([clique_template("a"), clique_template("a")]),
                    &[r#"spec.template.cliques[1]: Duplicate value: {"name":"a"}"#],
                ),
                (
                    set(),
                    container,
                    json!([{"name": "c"}, {"name": "c"}]),
                    &[r#"podSpec.containers[1]: Duplicate value: {"name":"c"}"#],
                ),
                (
                    set(),
                    env,
                    json!([{"name": "A"}, {"name": "A", "value": "x"}]),
                    &[r#"podSpec.containers[0].env[1]: Duplicate value: {"name":"A"}"#],
                ),
                // The default of the protocol counts.
                (
                    set(),
                    ports,
                    json!([{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]),
                    &["podSpec.containers[0].ports[1]: Duplicate value", r#""containerPort":1"#],
                ),
            ],
        );
        let mut object = set();
        put(
            &mut object,
            ports,
            json!([{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]),
        );
        plane.create(&format!("{}?dryRun=All", collection(&object)), &object).unwrap();
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn values_of_the_wrong_type() {
    let container = "/spec/podSpec/containers/0";
    let with = |key: &str, value: Value| {
        let mut container = json!({"name": "c"});
        container[key] = value;
        container
    };
    on_every_version(|plane| {
        assert_refused(
            plane,
            vec![
                (
                    set(),
                    "/spec/replicas",
                    json!("two"),
                    &["spec.replicas", "must be of type integer"],
                ),
                (
                    set(),
                    "/spec/template/cliques",
                    Value::Null,
                    &["spec.template.cliques: Required value"],
                ),
                (
                    clique(),
                    "/spec/podSpec/containers",
                    Value::Null,
                    &["spec.podSpec.containers: Required value"],
                ),
                (group(), "/spec/cliqueNames", Value::Null, &["spec.cliqueNames: Required value"]),
                (
                    clique(),
                    "/spec/roleName",
                    json!(7),
                    &["spec.roleName", "must be of type string"],
                ),
                (
                    clique(),
                    container,
                    with("resources", json!({"limits": {"cpu": "much"}})),
                    &["spec.podSpec.containers[0].resources.limits.cpu"],
                ),
                (
                    clique(),
                    container,
                    with("resources", json!({"limits": {"cpu": true}})),
                    &["spec.podSpec.containers[0].resources.limits.cpu"],
                ),
                (
                    clique(),
                    container,
                    with("livenessProbe", json!({"tcpSocket": {"port": {}}})),
                    &["spec.podSpec.containers[0].livenessProbe.tcpSocket.port"],
                ),
                (
                    gang(),
                    "/spec/podgroups/0/minReplicas",
                    json!("one"),
                    &["spec.podgroups[0].minReplicas", "must be of type integer"],
                ),
                (
                    gang(),
                    "/spec/podgroups/0/podReferences",
                    Value::Null,
                    &["spec.podgroups[0].podReferences: Required value"],
                ),
            ],
        );
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn negative_replicas() {
    on_every_version(|plane| {
        let expected: &[&str] =
            &["spec.replicas: Invalid value: -1: should be a non-negative integer"];
        assert_refused(
            plane,
            vec![
                (set(), "/spec/replicas", json!(-1), expected),
                (clique(), "/spec/replicas", json!(-1), expected),
                (group(), "/spec/replicas", json!(-1), expected),
            ],
        );
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn statuses_with_bad_conditions() {
    let condition = |key: &str, value: Value| {
        let mut condition = json!({
            "type": "T", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-08-01T10:00:00Z",
        });
        condition[key] = value;
        json!({"conditions": [condition]})
    };
    let phase = |phase: &str| json!({"podGangStatuses": [{"name": "g", "phase": phase}]});
    on_every_version(|plane| {
        plane.namespace("statuses");
        let mut object = set();
        object["metadata"]["namespace"] = json!("statuses");
        let path = collection(&object);
        let created = plane.create(&path, &object).unwrap();
        let write = |status: Value| {
            let mut update = created.clone();
            update["status"] = status;
            plane.replace(&format!("{path}/bad/status?dryRun=All"), &update)
        };

        write(condition("message", json!("m".repeat(32768)))).unwrap();
        write(phase("Succeeded")).unwrap();
        for (status, expected) in [
            (
                condition("status", json!("Maybe")),
                "status.conditions[0].status: Unsupported value: \"Maybe\"",
            ),
            (condition("reason", json!("")), "status.conditions[0].reason"),
            (condition("reason", json!("two words")), "status.conditions[0].reason: Invalid value"),
            (condition("reason", json!("R".repeat(1025))), "status.conditions[0].reason: Too long"),
            (condition("type", json!("T".repeat(317))), "status.conditions[0].type: Too long"),
            (
                condition("message", json!("m".repeat(32769))),
                "status.conditions[0].message: Too long",
            ),
            (condition("observedGeneration", json!(-1)), "status.conditions[0].observedGeneration"),
            (
                condition("lastTransitionTime", json!("yesterday")),
                "status.conditions[0].lastTransitionTime",
            ),
            (phase("Napping"), "status.podGangStatuses[0].phase: Unsupported value: \"Napping\""),
        ] {
            let error = write(status).expect_err(expected);
            assert!(error.contains(expected), "expected {expected:?} in {error}");
        }
    });
}
