//! Cliques one by one and together, and their pod templates.

use serde_json::json;

use super::*;

const EXPLICIT: &str = "CliqueStartupTypeExplicit";

#[test]
fn a_set_needs_a_clique() {
    let error = "spec.template.cliques: Required value: at least one PodClique must be defined";
    let lonely: Change = |s| {
        for key in ["cliques", "podCliqueScalingGroups", "resourceSharing"] {
            remove(template(s), key);
        }
    };
    assert_created(&[("no cliques", lonely, &[error])]);
    let empty = decode(&json!({"metadata": {"name": "demo"}})).unwrap();
    let errors =
        texts(&crate::admission::validate_create(&empty, &context(), &SetTopology::Disabled));
    assert!(errors.iter().any(|text| text == error), "{errors:?}");
}

#[test]
fn clique_names_and_metadata_are_checked() {
    assert_created(&[
        (
            "name missing",
            |s| {
                remove(template(s), "resourceSharing");
                router(s)["name"] = json!("");
            },
            &["spec.template.cliques[0].name: Required value: field cannot be empty"],
        ),
        (
            "name is no subdomain",
            |s| {
                remove(template(s), "resourceSharing");
                router(s)["name"] = json!("Router");
            },
            &[
                "spec.template.cliques[0].name: Invalid value: \"Router\": invalid PodCliqueTemplateSpec \
               name, must be a valid DNS subdomain",
            ],
        ),
        (
            "names of 45 bytes together",
            |s| s["metadata"]["name"] = json!("x".repeat(45 - "decodeleader".len())),
            &[],
        ),
        (
            "standalone names of 46 bytes together",
            |s| {
                remove(template(s), "podCliqueScalingGroups");
                remove(template(s), "resourceSharing");
                s["metadata"]["name"] = json!("x".repeat(37));
                router(s)["name"] = json!("y".repeat(9));
            },
            &[
                "spec.template.cliques[0].name: Invalid value: \"yyyyyyyyy\": combined resource name \
                 length 46 exceeds 45-character limit required for pod naming. Consider shortening: \
                 PodCliqueSet 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' or PodClique 'yyyyyyyyy'",
                "metadata.name: Invalid value: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\": combined \
                 resource name length 46 exceeds 45-character limit required for pod naming. Consider \
                 shortening: PodCliqueSet 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' or PodClique \
                 'yyyyyyyyy'",
            ],
        ),
        (
            "label key",
            |s| router(s)["labels"] = json!({"/x": "y"}),
            &[
                "spec.template.cliques[0].labels: Invalid value: \"/x\": prefix part must be non-empty",
            ],
        ),
        (
            "annotations too long",
            |s| router(s)["annotations"] = json!({"a": "x".repeat(256 * 1024)}),
            &["spec.template.cliques[0].annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            "name and role twice",
            |s| {
                let router = router(s).clone();
                template(s)["cliques"].as_array_mut().unwrap().push(router);
            },
            &[
                "spec.template.cliques.name: Duplicate value: \"router\"",
                "spec.template.cliques.roleName: Duplicate value: \"router\": cliques \"router\", \"router\" have \
                 the same roleName; give each its own",
            ],
        ),
        ("one role missing", |s| remove(&mut router(s)["spec"], "roleName"), &[]),
        (
            "two roles missing",
            |s| {
                for index in [0, 1] {
                    remove(&mut template(s)["cliques"][index]["spec"], "roleName");
                }
            },
            &[
                "spec.template.cliques.roleName: Duplicate value: \"\": cliques \"router\", \"leader\" have \
                 no roleName; give each its own",
            ],
        ),
        (
            "shared claim",
            |s| router(s)["resourceSharing"] = json!([{"name": "gpu", "scope": ""}]),
            &[
                "spec.template.cliques[0].resourceSharing[0].scope: Unsupported value: \"\": supported \
               values: \"AllReplicas\", \"PerReplica\"",
            ],
        ),
    ]);
}

#[test]
fn numbers_of_a_clique_are_checked() {
    assert_created(&[
        (
            "no replicas",
            |s| {
                router(s)["spec"]["replicas"] = json!(0);
                router(s)["spec"]["minAvailable"] = json!(0);
            },
            &[
                "spec.template.cliques[0].spec.replicas: Invalid value: 0: must be greater than 0",
                "spec.template.cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0",
            ],
        ),
        (
            "minimum missing",
            |s| remove(&mut router(s)["spec"], "minAvailable"),
            &["spec.template.cliques[0].spec.minAvailable: Required value: field is required"],
        ),
        ("minimum of all", |s| router(s)["spec"]["minAvailable"] = json!(3), &[]),
        (
            "minimum beyond replicas",
            |s| router(s)["spec"]["minAvailable"] = json!(4),
            &[
                "spec.template.cliques[0].spec.minAvailable: Invalid value: 4: minAvailable must not be \
               greater than replicas",
            ],
        ),
        (
            "autoscaling",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({"minReplicas": 2, "maxReplicas": 3});
            },
            &[],
        ),
        (
            "autoscaling without minimum",
            |s| router(s)["spec"]["autoScalingConfig"] = json!({"maxReplicas": 3}),
            &[
                "spec.template.cliques[0].spec.autoScalingConfig.minReplicas: Required value: field is \
               required",
            ],
        ),
        (
            "autoscaling below the minimum",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({"minReplicas": 1, "maxReplicas": 3});
            },
            &[
                "spec.template.cliques[0].spec.autoScalingConfig.minReplicas: Invalid value: 1: must be \
               greater than or equal to podCliqueSpec.minAvailable",
            ],
        ),
        (
            "autoscaling upside down",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({"minReplicas": 4, "maxReplicas": 3});
            },
            &[
                "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 3: must be \
               greater than or equal to podCliqueSpec.minReplicas",
            ],
        ),
        (
            "autoscaling below replicas",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({"minReplicas": 2, "maxReplicas": 2});
            },
            &[
                "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2: must be \
               greater than or equal to replicas",
            ],
        ),
    ]);
}

#[test]
fn one_enabled_scheduler_is_responsible_for_all_cliques() {
    assert_created(&[
        (
            "default by name and by silence",
            |s| router(s)["spec"]["podSpec"]["schedulerName"] = json!("default-scheduler"),
            &[],
        ),
        (
            "another one",
            |s| {
                for index in [0, 1, 2] {
                    let spec = &mut template(s)["cliques"][index]["spec"]["podSpec"];
                    spec["schedulerName"] = json!("kai-scheduler");
                }
            },
            &[],
        ),
        (
            "two",
            |s| router(s)["spec"]["podSpec"]["schedulerName"] = json!("kai-scheduler"),
            &["spec.template.cliques.spec.podSpec.schedulerName: Invalid value: \"kai-scheduler, \
               default-scheduler\": the schedulerName for all pods have to be the same"],
        ),
        (
            "one that is not enabled",
            |s| {
                for index in [0, 1, 2] {
                    let spec = &mut template(s)["cliques"][index]["spec"]["podSpec"];
                    spec["schedulerName"] = json!("volcano");
                }
            },
            &[
                "spec.template.cliques.spec.podSpec.schedulerName: Invalid value: \"volcano\": schedulerName \
               must be an enabled scheduler backend; this scheduler is not enabled in \
               OperatorConfiguration",
            ],
        ),
    ]);
}

#[test]
fn only_enabled_schedulers_can_be_named() {
    let alone =
        Context { enabled_schedulers: ["default-scheduler".to_owned()].into(), ..context() };
    let cases: [(Change, bool); 3] = [
        (|_| {}, true),
        (|s| router(s)["spec"]["podSpec"]["schedulerName"] = json!("default-scheduler"), true),
        (
            |s| {
                for index in [0, 1, 2] {
                    let spec = &mut template(s)["cliques"][index]["spec"]["podSpec"];
                    spec["schedulerName"] = json!("kai-scheduler");
                }
            },
            false,
        ),
    ];
    for (change, admitted) in cases {
        assert_eq!(create_in(&alone, change).is_allowed(), admitted, "{}", changed(change));
    }
}

#[test]
fn dependencies_are_checked_for_explicit_start_order_only() {
    let broken: Change = |s| {
        router(s)["spec"]["startsAfter"] = json!(["", "router", "ghost", "leader", "leader"]);
        template(s)["cliques"][1]["spec"]["startsAfter"] = json!(["worker"]);
        template(s)["cliques"][2]["spec"]["startsAfter"] = json!(["leader"]);
    };
    assert_created(&[("not explicit", broken, &[])]);
    let explicit: Change = |s| {
        template(s)["cliqueStartupType"] = json!(EXPLICIT);
        router(s)["spec"]["startsAfter"] = json!(["", "router", "ghost", "leader", "leader"]);
        template(s)["cliques"][1]["spec"]["startsAfter"] = json!(["worker"]);
        template(s)["cliques"][2]["spec"]["startsAfter"] = json!(["leader"]);
    };
    let chain: Change = |s| {
        template(s)["cliqueStartupType"] = json!(EXPLICIT);
        template(s)["cliques"][1]["spec"]["startsAfter"] = json!(["router"]);
        template(s)["cliques"][2]["spec"]["startsAfter"] = json!(["router", "leader"]);
    };
    assert_created(&[
        ("chain", chain, &[]),
        (
            "everything wrong",
            explicit,
            &[
                "spec.template.cliques[0].spec.startsAfter: Required value: clique dependency must not be \
                 empty",
                "spec.template.cliques[0].spec.startsAfter: Invalid value: \"router\": clique dependency \
                 cannot refer to itself",
                "spec.template.cliques[0].spec.startsAfter: Duplicate value: \"leader\"",
                "spec.template.cliques.startsAfter: Invalid value: \"ghost\": unknown clique names found, \
                 all clique dependencies must be defined as cliques",
                "spec.template.cliques: Invalid value: [[\"leader\",\"worker\"]]: clique must not have \
                 circular dependencies",
            ],
        ),
    ]);
}

#[test]
fn pod_templates_are_checked() {
    assert_created(&[
        (
            "spread constraints",
            |s| {
                let spec = &mut router(s)["spec"]["podSpec"];
                spec["topologySpreadConstraints"] = json!([{"maxSkew": 1}]);
            },
            &[
                "spec.template.cliques[0].spec.podSpec.spec.topologySpreadConstraints: Invalid value: \
               [{\"maxSkew\":1}]: must not be set",
            ],
        ),
        (
            "node name",
            |s| router(s)["spec"]["podSpec"]["nodeName"] = json!("node-1"),
            &[
                "spec.template.cliques[0].spec.podSpec.spec.nodeName: Invalid value: \"node-1\": must not \
               be set",
            ],
        ),
        ("empty node name", |s| router(s)["spec"]["podSpec"]["nodeName"] = json!(""), &[]),
        (
            "environment",
            |s| {
                let spec = &mut router(s)["spec"]["podSpec"];
                spec["containers"][0]["env"] = json!([{"name": "A"}, {"name": "1"}, {"name": "A"}]);
                spec["initContainers"][0]["env"] = json!([{"name": "..x"}]);
            },
            &[
                "spec.template.cliques[0].spec.podSpec.spec.containers[0].env[1].name: Invalid value: \
                 \"1\": a valid environment variable name must consist of alphabetic characters, digits, \
                 '_', '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or \
                 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is \
                 '[-._a-zA-Z][-._a-zA-Z0-9]*')",
                "spec.template.cliques[0].spec.podSpec.spec.containers[0].env: Duplicate value: [\"A\"]",
                "spec.template.cliques[0].spec.podSpec.spec.initContainers[0].env[0].name: Invalid value: \
                 \"..x\": must not start with '..'",
            ],
        ),
    ]);
}
