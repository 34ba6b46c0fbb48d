//! What of a stored set may change, and what may not.

use serde_json::json;

use super::Answer::Accepted;
use super::{Row, denied, group, remove, router, template};

const IMMUTABLE: &str = "field is immutable";

/// For the good set, whose cliques start in order.
pub(crate) fn rows() -> Vec<Row> {
    [cliques(), groups(), rest(), mutable()].into_iter().flatten().collect()
}

fn cliques() -> Vec<Row> {
    vec![
        (
            "one clique more",
            |s| {
                let mut one = router(s).clone();
                one["name"] = json!("other");
                one["spec"]["roleName"] = json!("other");
                template(s)["cliques"].as_array_mut().unwrap().push(one);
            },
            denied(&["spec.template.cliques: Forbidden: not allowed to change clique composition"]),
        ),
        (
            "one clique less",
            |s| {
                remove(template(s), "resourceSharing");
                template(s)["cliques"].as_array_mut().unwrap().remove(0);
            },
            denied(&["spec.template.cliques: Forbidden: not allowed to change clique composition"]),
        ),
        (
            "another clique",
            |s| {
                template(s)["resourceSharing"][0]["filter"]["childCliqueNames"] = json!(["other"]);
                router(s)["name"] = json!("other");
            },
            denied(&[
                "cliques.name: Forbidden: not allowed to change clique composition, new clique name \
                 'other' is not allowed",
            ]),
        ),
        (
            "another order",
            |s| template(s)["cliques"].as_array_mut().unwrap().swap(0, 1),
            denied(&[
                "clique order cannot be changed when StartupType is InOrder or Explicit. Expected \
                 'router' at position 0, got 'leader'",
            ]),
        ),
        (
            "an image that is removed",
            |s| remove(&mut router(s)["spec"]["podSpec"]["containers"][0], "image"),
            denied(&["cliques[0].spec.podSpec.containers[0].image: Required value"]),
        ),
        (
            "a node",
            |s| router(s)["spec"]["podSpec"]["nodeName"] = json!("n"),
            denied(&["podSpec.spec.nodeName", "must not be set"]),
        ),
        (
            "another role",
            |s| router(s)["spec"]["roleName"] = json!("x"),
            denied(&["cliques.spec.roleName", IMMUTABLE]),
        ),
        (
            "another minimum",
            |s| router(s)["spec"]["minAvailable"] = json!(1),
            denied(&["cliques.spec.minAvailable", IMMUTABLE]),
        ),
        (
            "other parents",
            |s| router(s)["spec"]["startsAfter"] = json!(["leader"]),
            denied(&["cliques.spec.startsAfter", IMMUTABLE]),
        ),
        (
            "another scheduler",
            |s| {
                for clique in template(s)["cliques"].as_array_mut().unwrap() {
                    clique["spec"]["podSpec"]["schedulerName"] = json!("default-scheduler");
                }
            },
            denied(&["cliques.spec.podSpec.schedulerName", IMMUTABLE]),
        ),
        (
            "another claim of a clique",
            |s| router(s)["resourceSharing"] = json!([{ "name": "gpu", "scope": "PerReplica" }]),
            denied(&["cliques[0].resourceSharing", IMMUTABLE]),
        ),
        (
            "a rule for new sets is a rule for old ones",
            |s| router(s)["spec"]["replicas"] = json!(-1),
            denied(&["cliques[0].spec.replicas: Invalid value: -1: must be greater than 0"]),
        ),
    ]
}

fn groups() -> Vec<Row> {
    vec![
        (
            "one group more",
            |s| {
                let one = json!({ "name": "other", "cliqueNames": ["router"] });
                template(s)["podCliqueScalingGroups"].as_array_mut().unwrap().push(one);
            },
            denied(&["not allowed to add or remove PodCliqueScalingGroupConfigs"]),
        ),
        (
            "no group",
            |s| {
                remove(template(s), "podCliqueScalingGroups");
                remove(&mut template(s)["resourceSharing"][0]["filter"], "childScalingGroupNames");
            },
            denied(&["not allowed to add or remove PodCliqueScalingGroupConfigs"]),
        ),
        (
            "another group",
            |s| {
                let filter = &mut template(s)["resourceSharing"][0]["filter"];
                filter["childScalingGroupNames"] = json!(["other"]);
                group(s)["name"] = json!("other");
            },
            denied(&[
                "not allowed to change scaling group composition, new scaling group name 'other' is \
                 not allowed",
            ]),
        ),
        (
            "other members",
            |s| group(s)["cliqueNames"] = json!(["worker", "leader"]),
            denied(&["podCliqueScalingGroups.cliqueNames", IMMUTABLE]),
        ),
        (
            "another minimum of a group",
            |s| group(s)["minAvailable"] = json!(1),
            denied(&["podCliqueScalingGroups.minAvailable", IMMUTABLE]),
        ),
        (
            "another claim of a group",
            |s| group(s)["resourceSharing"] = json!([{ "name": "gpu", "scope": "PerReplica" }]),
            denied(&["podCliqueScalingGroups.resourceSharing", IMMUTABLE]),
        ),
    ]
}

fn rest() -> Vec<Row> {
    vec![
        (
            "another kind of order",
            |s| template(s)["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder"),
            denied(&["spec.template.cliqueStartupType", IMMUTABLE]),
        ),
        (
            "other claim templates",
            |s| {
                let spec = &mut template(s)["resourceClaimTemplates"][0]["templateSpec"]["spec"];
                spec["devices"]["requests"][0]["name"] = json!("h");
            },
            denied(&["spec.template.resourceClaimTemplates", IMMUTABLE]),
        ),
        (
            "other claims",
            |s| template(s)["resourceSharing"][0]["scope"] = json!("PerReplica"),
            denied(&["spec.template.resourceSharing", IMMUTABLE]),
        ),
        (
            "a fabric",
            |s| s["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": "none" }),
            denied(&["cannot be added after creation"]),
        ),
    ]
}

fn mutable() -> Vec<Row> {
    vec![
        ("replicas", |s| s["spec"]["replicas"] = json!(5), Accepted),
        ("strategy", |s| s["spec"]["updateStrategy"] = json!({ "type": "OnDelete" }), Accepted),
        ("priority", |s| template(s)["priorityClassName"] = json!("high"), Accepted),
        ("delay", |s| template(s)["terminationDelay"] = json!("1h"), Accepted),
        ("no delay, which is the default", |s| remove(template(s), "terminationDelay"), Accepted),
        (
            "service",
            |s| {
                let config = json!({ "publishNotReadyAddresses": false });
                template(s)["headlessServiceConfig"] = config;
            },
            Accepted,
        ),
        (
            "pod spec",
            |s| router(s)["spec"]["podSpec"]["containers"][0]["image"] = json!("new"),
            Accepted,
        ),
        ("labels", |s| router(s)["labels"] = json!({ "a": "b" }), Accepted),
        ("annotations", |s| router(s)["annotations"] = json!({ "a": "b" }), Accepted),
        ("replicas of a clique", |s| router(s)["spec"]["replicas"] = json!(7), Accepted),
        ("replicas of a group", |s| group(s)["replicas"] = json!(7), Accepted),
        (
            "autoscaling of a clique",
            |s| router(s)["spec"]["autoScalingConfig"] = json!({ "maxReplicas": 7 }),
            Accepted,
        ),
        (
            "autoscaling of a group",
            |s| group(s)["scaleConfig"] = json!({ "maxReplicas": 7 }),
            Accepted,
        ),
        ("annotations of a group", |s| group(s)["annotations"] = json!({ "a": "b" }), Accepted),
    ]
}
