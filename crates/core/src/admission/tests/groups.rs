//! Scaling groups one by one and together.

use serde_json::json;

use super::*;

#[test]
fn group_names_and_members_are_checked() {
    assert_created(&[
        (
            "name is no subdomain",
            |s| {
                remove(template(s), "resourceSharing");
                group(s)["name"] = json!("De_code");
            },
            &["spec.template.podCliqueScalingGroups[0].name: Invalid value: \"De_code\": invalid \
               PodCliqueScalingGroupConfig name, must be a valid DNS subdomain"],
        ),
        (
            "strangers",
            |s| group(s)["cliqueNames"] = json!(["leader", "ghost", "spirit"]),
            &[
                "spec.template.podCliqueScalingGroups[0].cliqueNames: Invalid value: \"ghost, spirit\": \
               unidentified PodClique names found",
            ],
        ),
        (
            "names of 46 bytes together",
            |s| {
                s["metadata"]["name"] = json!("x".repeat(34));
                group(s)["cliqueNames"] = json!(["leader"]);
            },
            &[
                "spec.template.podCliqueScalingGroups[0].cliqueNames[0].name: Invalid value: \"leader\": \
                 combined resource name length 46 exceeds 45-character limit required for pod naming. \
                 Consider shortening: PodCliqueSet 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', \
                 PodCliqueScalingGroup 'decode', or PodClique 'leader'",
                "spec.template.podCliqueScalingGroups[0].name: Invalid value: \"leader\": combined \
                 resource name length 46 exceeds 45-character limit required for pod naming. Consider \
                 shortening: PodCliqueSet 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', PodCliqueScalingGroup \
                 'decode', or PodClique 'leader'",
                "metadata.name: Invalid value: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\": combined resource \
                 name length 46 exceeds 45-character limit required for pod naming. Consider shortening: \
                 PodCliqueSet 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', PodCliqueScalingGroup 'decode', or \
                 PodClique 'leader'",
            ],
        ),
        (
            "group and member twice",
            |s| {
                let first = group(s).clone();
                template(s)["podCliqueScalingGroups"] = json!([first, first]);
            },
            &[
                "spec.template.podCliqueScalingGroups.name: Duplicate value: \"decode\"",
                "spec.template.podCliqueScalingGroups.cliqueNames: Duplicate value: \"leader\"",
                "spec.template.podCliqueScalingGroups.cliqueNames: Duplicate value: \"worker\"",
            ],
        ),
        (
            "member that scales alone",
            |s| {
                let spec = &mut template(s)["cliques"][1]["spec"];
                spec["autoScalingConfig"] = json!({"minReplicas": 2, "maxReplicas": 3});
            },
            &[
                "spec.template.podCliqueScalingGroups: Invalid value: \"leader\": AutoScalingConfig is not \
               allowed to be defined for PodClique that is part of scaling group",
            ],
        ),
    ]);
}

#[test]
fn numbers_of_a_group_are_checked() {
    assert_created(&[
        (
            "numbers missing",
            |s| {
                remove(group(s), "replicas");
                remove(group(s), "minAvailable");
            },
            &[],
        ),
        (
            "no replicas, no minimum",
            |s| {
                group(s)["replicas"] = json!(0);
                group(s)["minAvailable"] = json!(-1);
            },
            &[
                "spec.template.podCliqueScalingGroups[0].replicas: Invalid value: 0: must be greater than 0",
                "spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: -1: must be greater \
                 than 0",
            ],
        ),
        (
            "minimum beyond replicas",
            |s| group(s)["minAvailable"] = json!(4),
            &[
                "spec.template.podCliqueScalingGroups[0].minAvailable: Invalid value: 4: minAvailable must \
               not be greater than replicas",
            ],
        ),
        (
            "autoscaling",
            |s| group(s)["scaleConfig"] = json!({"minReplicas": 2, "maxReplicas": 2}),
            &[],
        ),
        (
            "autoscaling below the minimum",
            |s| group(s)["scaleConfig"] = json!({"minReplicas": 1, "maxReplicas": 5}),
            &[
                "spec.template.podCliqueScalingGroups[0].scaleConfig.minReplicas: Invalid value: 1: \
               scaleConfig.minReplicas must be greater than or equal to minAvailable",
            ],
        ),
    ]);
}

#[test]
fn the_autoscaler_of_a_group_has_a_maximum_that_is_not_below_its_minimum() {
    assert_created(&[
        (
            "maximum below the minimum",
            |s| group(s)["scaleConfig"] = json!({"minReplicas": 4, "maxReplicas": 3}),
            &[
                "spec.template.podCliqueScalingGroups[0].scaleConfig.maxReplicas: Invalid value: 3: must \
                 be greater than or equal to scaleConfig.minReplicas, which is 4",
            ],
        ),
        (
            "maximum at the minimum",
            |s| group(s)["scaleConfig"] = json!({"minReplicas": 4, "maxReplicas": 4}),
            &[],
        ),
    ]);
}

#[test]
fn claims_of_a_group_can_only_name_its_members() {
    assert_created(&[
        (
            "for a member",
            |s| {
                group(s)["resourceSharing"] = json!([
                    {"name": "gpu", "scope": "PerReplica", "filter": {"childCliqueNames": ["worker"]}},
                ]);
            },
            &[],
        ),
        (
            "everything wrong",
            |s| {
                group(s)["resourceSharing"] = json!([
                    {"name": "gpu", "scope": "PerReplica", "filter": {}},
                    {"name": "", "scope": "PerReplica", "filter": {"childCliqueNames": ["router"]}},
                ]);
            },
            &[
                "spec.template.podCliqueScalingGroups[0].resourceSharing[0].filter: Required value: filter \
                 must specify at least one childCliqueNames entry",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[1].name: Required value: \
                 reference name is required",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[1].filter.childCliqueNames[0]: \
                 Not found: \"router\"",
            ],
        ),
    ]);
}
