//! Rules about new sets.

use serde_json::json;

use super::Answer::{Accepted, Refused};
use super::{Row, denied, explicit, group, invalid, remove, router, template};

pub(crate) fn rows() -> Vec<Row> {
    [set(), claims(), cliques(), numbers(), pod_specs(), start_order(), groups()]
        .into_iter()
        .flatten()
        .collect()
}

fn set() -> Vec<Row> {
    vec![
        ("nothing is wrong", |_| {}, Accepted),
        (
            "name in upper case",
            |s| s["metadata"]["name"] = json!("Demo"),
            invalid(&["metadata.name"]),
        ),
        (
            "label",
            |s| s["metadata"]["labels"] = json!({ "a": "b c" }),
            invalid(&["metadata.labels"]),
        ),
        ("no replicas", |s| s["spec"]["replicas"] = json!(0), Accepted),
        ("negative replicas", |s| s["spec"]["replicas"] = json!(-1), invalid(&["spec.replicas"])),
        (
            "any order",
            |s| template(s)["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder"),
            Accepted,
        ),
        ("no order", |s| remove(template(s), "cliqueStartupType"), Accepted),
        (
            "unknown order",
            |s| template(s)["cliqueStartupType"] = json!("Sideways"),
            invalid(&["cliqueStartupType"]),
        ),
        ("short delay", |s| template(s)["terminationDelay"] = json!("1m"), Accepted),
        (
            "no delay",
            |s| template(s)["terminationDelay"] = json!("0s"),
            denied(&["terminationDelay must be greater than 0"]),
        ),
        (
            "negative delay",
            |s| template(s)["terminationDelay"] = json!("-1m"),
            denied(&["terminationDelay must be greater than 0"]),
        ),
        (
            "delay that is none",
            |s| template(s)["terminationDelay"] = json!("abc"),
            Refused(400, &["time: invalid duration"]),
        ),
        (
            "topology constraint while the feature is off",
            |s| template(s)["topologyConstraint"] = json!({ "packDomain": "rack" }),
            denied(&[
                "topology constraints are not allowed when Topology Aware Scheduling is disabled",
                "topology support is not enabled in the operator",
            ]),
        ),
        (
            "no fabric",
            |s| s["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": "none" }),
            Accepted,
        ),
        (
            "fabric that is not enabled",
            |s| s["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": "a" }),
            denied(&["MNNVL is not enabled in the operator configuration"]),
        ),
        (
            "empty fabric",
            |s| router(s)["annotations"] = json!({ "grove.io/mnnvl-group": "" }),
            denied(&["cliques[0].annotations", "mnnvl-group value must not be empty"]),
        ),
        (
            "fabric that is no label",
            |s| group(s)["annotations"] = json!({ "grove.io/mnnvl-group": "A_B" }),
            denied(&["podCliqueScalingGroups[0].annotations", "is not a valid DNS-1123 label"]),
        ),
    ]
}

fn claims() -> Vec<Row> {
    vec![
        (
            "claim template without name",
            |s| template(s)["resourceClaimTemplates"][0]["name"] = json!(""),
            denied(&["resourceClaimTemplates[0].name: Required value: template name is required"]),
        ),
        (
            "claim template without requests",
            |s| {
                let spec = &mut template(s)["resourceClaimTemplates"][0]["templateSpec"]["spec"];
                spec["devices"]["requests"] = json!([]);
            },
            denied(&["at least one device request is required"]),
        ),
        (
            "claim template twice",
            |s| {
                let one = template(s)["resourceClaimTemplates"][0].clone();
                template(s)["resourceClaimTemplates"] = json!([one, one]);
            },
            denied(&["resourceClaimTemplates.name: Duplicate value: \"gpu\""]),
        ),
        (
            "claim without name",
            |s| template(s)["resourceSharing"][0]["name"] = json!(""),
            denied(&["resourceSharing[0].name: Required value: reference name is required"]),
        ),
        (
            "claim twice",
            |s| {
                let one = template(s)["resourceSharing"][0].clone();
                template(s)["resourceSharing"] = json!([one, one]);
            },
            denied(&["resourceSharing[1].name: Duplicate value: \"gpu\""]),
        ),
        (
            "namespace of an own template",
            |s| template(s)["resourceSharing"][0]["namespace"] = json!("other"),
            denied(&[
                "namespace must be empty when name matches an internal resourceClaimTemplate",
            ]),
        ),
        (
            "namespace of another template",
            |s| {
                template(s)["resourceSharing"][0]["name"] = json!("other");
                template(s)["resourceSharing"][0]["namespace"] = json!("other");
            },
            Accepted,
        ),
        (
            "unknown scope",
            |s| template(s)["resourceSharing"][0]["scope"] = json!("Now"),
            invalid(&["resourceSharing[0].scope"]),
        ),
        (
            "claim for everybody",
            |s| remove(&mut template(s)["resourceSharing"][0], "filter"),
            Accepted,
        ),
        (
            "claim for nobody",
            |s| template(s)["resourceSharing"][0]["filter"] = json!({}),
            denied(&[
                "filter must specify at least one childCliqueNames or childScalingGroupNames entry",
            ]),
        ),
        (
            "claim for strangers",
            |s| {
                let filter = json!({ "childCliqueNames": ["x"], "childScalingGroupNames": ["y"] });
                template(s)["resourceSharing"][0]["filter"] = filter;
            },
            denied(&[
                "filter.childCliqueNames[0]: Not found: \"x\"",
                "filter.childScalingGroupNames[0]: Not found: \"y\"",
            ]),
        ),
        (
            "claim of a group for a member",
            |s| {
                let filter = json!({ "childCliqueNames": ["worker"] });
                group(s)["resourceSharing"] =
                    json!([{ "name": "gpu", "scope": "PerReplica", "filter": filter }]);
            },
            Accepted,
        ),
        (
            "claim of a group for a stranger",
            |s| {
                let filter = json!({ "childCliqueNames": ["router"] });
                group(s)["resourceSharing"] =
                    json!([{ "name": "gpu", "scope": "PerReplica", "filter": filter }]);
            },
            denied(&["resourceSharing[0].filter.childCliqueNames[0]: Not found: \"router\""]),
        ),
        (
            "claim of a group for nobody",
            |s| {
                group(s)["resourceSharing"] =
                    json!([{ "name": "gpu", "scope": "PerReplica", "filter": {} }]);
            },
            denied(&["filter must specify at least one childCliqueNames entry"]),
        ),
        (
            "claim of a clique",
            |s| router(s)["resourceSharing"] = json!([{ "name": "gpu", "scope": "PerReplica" }]),
            Accepted,
        ),
    ]
}

fn cliques() -> Vec<Row> {
    vec![
        (
            "no cliques",
            |s| *template(s) = json!({ "cliques": [] }),
            denied(&[
                "spec.template.cliques: Required value: at least one PodClique must be defined",
            ]),
        ),
        (
            "clique without name",
            |s| {
                remove(template(s), "resourceSharing");
                router(s)["name"] = json!("");
            },
            denied(&["cliques[0].name: Required value: field cannot be empty"]),
        ),
        (
            "clique in upper case",
            |s| {
                remove(template(s), "resourceSharing");
                router(s)["name"] = json!("Router");
            },
            denied(&["invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain"]),
        ),
        (
            "45 characters",
            |s| s["metadata"]["name"] = json!("x".repeat(45 - "decodeleader".len())),
            Accepted,
        ),
        (
            "46 characters in a group",
            |s| s["metadata"]["name"] = json!("x".repeat(46 - "decodeleader".len())),
            denied(&[
                "metadata.name: Invalid value",
                "podCliqueScalingGroups[0].name: Invalid value",
                "podCliqueScalingGroups[0].cliqueNames[0].name: Invalid value",
                "combined resource name length 46 exceeds 45-character limit required for pod naming",
                "PodCliqueScalingGroup 'decode', or PodClique 'leader'",
            ]),
        ),
        (
            "46 characters alone",
            |s| {
                remove(template(s), "podCliqueScalingGroups");
                remove(template(s), "resourceSharing");
                s["metadata"]["name"] = json!("x".repeat(40));
            },
            denied(&[
                "cliques[0].name: Invalid value",
                "combined resource name length 46 exceeds 45-character limit required for pod naming",
                "or PodClique 'router'",
            ]),
        ),
        (
            "label of a clique",
            |s| router(s)["labels"] = json!({ "/x": "y" }),
            denied(&["cliques[0].labels: Invalid value"]),
        ),
        (
            "annotation of a clique",
            |s| router(s)["annotations"] = json!({ "/x": "y" }),
            denied(&["cliques[0].annotations: Invalid value"]),
        ),
        (
            "clique twice",
            |s| {
                let one = router(s).clone();
                template(s)["cliques"].as_array_mut().unwrap().push(one);
            },
            invalid(&["Duplicate value"]),
        ),
        ("one role missing", |s| remove(&mut router(s)["spec"], "roleName"), Accepted),
        (
            "role twice",
            |s| router(s)["spec"]["roleName"] = json!("leader"),
            denied(&["cliques.roleName: Duplicate value: \"leader\""]),
        ),
        (
            "the default scheduler by name",
            |s| router(s)["spec"]["podSpec"]["schedulerName"] = json!("default-scheduler"),
            Accepted,
        ),
        (
            "two schedulers",
            |s| router(s)["spec"]["podSpec"]["schedulerName"] = json!("other"),
            denied(&["the schedulerName for all pods have to be the same"]),
        ),
        (
            "a scheduler that is not enabled",
            |s| {
                for clique in template(s)["cliques"].as_array_mut().unwrap() {
                    clique["spec"]["podSpec"]["schedulerName"] = json!("other");
                }
            },
            denied(&["schedulerName must be an enabled scheduler backend"]),
        ),
    ]
}

fn numbers() -> Vec<Row> {
    vec![
        (
            "negative clique",
            |s| router(s)["spec"]["replicas"] = json!(-1),
            denied(&["cliques[0].spec.replicas: Invalid value: -1: must be greater than 0"]),
        ),
        (
            "clique without numbers",
            |s| {
                remove(&mut router(s)["spec"], "replicas");
                remove(&mut router(s)["spec"], "minAvailable");
            },
            denied(&["cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0"]),
        ),
        (
            "clique with a minimum only",
            |s| {
                remove(&mut router(s)["spec"], "replicas");
                router(s)["spec"]["minAvailable"] = json!(1);
            },
            Accepted,
        ),
        ("clique without minimum", |s| remove(&mut router(s)["spec"], "minAvailable"), Accepted),
        (
            "minimum of none",
            |s| router(s)["spec"]["minAvailable"] = json!(0),
            denied(&["cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0"]),
        ),
        (
            "minimum of more",
            |s| router(s)["spec"]["minAvailable"] = json!(4),
            denied(&["minAvailable must not be greater than replicas"]),
        ),
        (
            "autoscaling",
            |s| router(s)["spec"]["autoScalingConfig"] = json!({ "maxReplicas": 3 }),
            Accepted,
        ),
        (
            "autoscaling below the minimum",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({ "minReplicas": 1, "maxReplicas": 3 });
            },
            denied(&["must be greater than or equal to podCliqueSpec.minAvailable"]),
        ),
        (
            "autoscaling upside down",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({ "minReplicas": 4, "maxReplicas": 3 });
            },
            denied(&["must be greater than or equal to podCliqueSpec.minReplicas"]),
        ),
        (
            "autoscaling below replicas",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({ "minReplicas": 2, "maxReplicas": 2 });
            },
            denied(&["maxReplicas: Invalid value: 2: must be greater than or equal to replicas"]),
        ),
    ]
}

fn pod_specs() -> Vec<Row> {
    vec![
        (
            "pods that do not restart",
            |s| router(s)["spec"]["podSpec"]["restartPolicy"] = json!("Never"),
            Accepted,
        ),
        (
            "pods that spread",
            |s| {
                let spread = json!([{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                }]);
                router(s)["spec"]["podSpec"]["topologySpreadConstraints"] = spread;
            },
            denied(&["podSpec.spec.topologySpreadConstraints", "must not be set"]),
        ),
        (
            "pods with a node",
            |s| router(s)["spec"]["podSpec"]["nodeName"] = json!("n"),
            denied(&["podSpec.spec.nodeName", "must not be set"]),
        ),
        (
            "container without image",
            |s| remove(&mut router(s)["spec"]["podSpec"]["containers"][0], "image"),
            denied(&[
                "spec.template.cliques[0].spec.podSpec.containers[0].image: Required value",
                "(clique \"router\")",
            ]),
        ),
        (
            "pods without containers",
            |s| router(s)["spec"]["podSpec"]["containers"] = json!([]),
            denied(&["spec.template.cliques[0].spec.podSpec.containers: Required value"]),
        ),
        (
            "variable that is none",
            |s| router(s)["spec"]["podSpec"]["containers"][0]["env"] = json!([{ "name": "=" }]),
            denied(&["podSpec.spec.containers[0].env[0].name"]),
        ),
        (
            "variable twice",
            |s| {
                let twice = json!([{ "name": "A" }, { "name": "A" }]);
                router(s)["spec"]["podSpec"]["containers"][0]["env"] = twice;
            },
            invalid(&["Duplicate value"]),
        ),
        (
            "no containers",
            |s| remove(&mut router(s)["spec"]["podSpec"], "containers"),
            invalid(&["podSpec.containers"]),
        ),
    ]
}

fn start_order() -> Vec<Row> {
    vec![
        (
            "start after another",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!(["leader", "worker"]);
            },
            Accepted,
        ),
        (
            "start after nobody known",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!(["x"]);
            },
            denied(&[
                "unknown clique names found, all clique dependencies must be defined as cliques",
            ]),
        ),
        (
            "start after each other",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!(["leader"]);
                template(s)["cliques"][1]["spec"]["startsAfter"] = json!(["router"]);
            },
            denied(&["clique must not have circular dependencies"]),
        ),
        (
            "start after oneself",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!(["router"]);
            },
            denied(&["clique dependency cannot refer to itself"]),
        ),
        (
            "start after nobody",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!([""]);
            },
            denied(&["clique dependency must not be empty"]),
        ),
        (
            "start twice after another",
            |s| {
                explicit(s);
                router(s)["spec"]["startsAfter"] = json!(["leader", "leader"]);
            },
            denied(&["cliques[0].spec.startsAfter", "Duplicate value: \"leader\""]),
        ),
        (
            "start after nobody known, in order",
            |s| router(s)["spec"]["startsAfter"] = json!(["x"]),
            Accepted,
        ),
    ]
}

fn groups() -> Vec<Row> {
    vec![
        (
            "group in upper case",
            |s| {
                remove(template(s), "resourceSharing");
                group(s)["name"] = json!("Decode");
            },
            denied(&["invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain"]),
        ),
        (
            "group of strangers",
            |s| group(s)["cliqueNames"] = json!(["x"]),
            denied(&["unidentified PodClique names found"]),
        ),
        (
            "group without numbers",
            |s| {
                remove(group(s), "replicas");
                remove(group(s), "minAvailable");
            },
            Accepted,
        ),
        (
            "group of none",
            |s| group(s)["replicas"] = json!(0),
            denied(&[
                "podCliqueScalingGroups[0].replicas: Invalid value: 0: must be greater than 0",
            ]),
        ),
        (
            "group with a minimum of none",
            |s| group(s)["minAvailable"] = json!(0),
            denied(&[
                "podCliqueScalingGroups[0].minAvailable: Invalid value: 0: must be greater than 0",
            ]),
        ),
        (
            "group with a minimum of more",
            |s| group(s)["minAvailable"] = json!(4),
            denied(&["minAvailable must not be greater than replicas"]),
        ),
        ("group that scales", |s| group(s)["scaleConfig"] = json!({ "maxReplicas": 5 }), Accepted),
        (
            "group that scales below its minimum",
            |s| group(s)["scaleConfig"] = json!({ "minReplicas": 1, "maxReplicas": 5 }),
            denied(&["scaleConfig.minReplicas must be greater than or equal to minAvailable"]),
        ),
        (
            "group twice",
            |s| {
                let mut other = group(s).clone();
                other["cliqueNames"] = json!(["router"]);
                remove(template(s), "resourceSharing");
                template(s)["podCliqueScalingGroups"].as_array_mut().unwrap().push(other);
            },
            denied(&["podCliqueScalingGroups.name: Duplicate value: \"decode\""]),
        ),
        (
            "clique in two groups",
            |s| {
                let mut other = group(s).clone();
                other["name"] = json!("other");
                template(s)["podCliqueScalingGroups"].as_array_mut().unwrap().push(other);
            },
            denied(&["podCliqueScalingGroups.cliqueNames: Duplicate value: \"leader\""]),
        ),
        (
            "member that scales",
            |s| {
                let spec = &mut template(s)["cliques"][1]["spec"];
                spec["autoScalingConfig"] = json!({ "maxReplicas": 5 });
            },
            denied(&[
                "AutoScalingConfig is not allowed to be defined for PodClique that is part of",
            ]),
        ),
    ]
}
