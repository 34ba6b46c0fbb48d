//! Mutable and immutable fields of a stored set.

use serde_json::json;

use super::*;
use crate::admission::validate_update;

fn update(before: Change, after: Change) -> Validation {
    let old = changed(before);
    let mut new = old.clone();
    after(&mut new);
    validate_update(
        &decode(&new).unwrap(),
        &decode(&old).unwrap(),
        &context(),
        &SetTopology::Disabled,
    )
}

/// Changes the valid set and compares the errors.
fn assert_updated(rows: &[(&str, Change, &[&str])]) {
    for (what, change, expected) in rows {
        assert_eq!(texts(&update(|_| {}, *change)), *expected, "{what}");
    }
}

#[test]
fn fields_that_are_not_identity_can_change() {
    assert_updated(&[
        ("nothing", |_| {}, &[]),
        ("replicas", |s| s["spec"]["replicas"] = json!(7), &[]),
        ("strategy", |s| s["spec"]["updateStrategy"] = json!({"type": "OnDelete"}), &[]),
        ("priority", |s| template(s)["priorityClassName"] = json!("high"), &[]),
        ("delay", |s| template(s)["terminationDelay"] = json!("1m"), &[]),
        (
            "service",
            |s| template(s)["headlessServiceConfig"]["publishNotReadyAddresses"] = json!(false),
            &[],
        ),
        (
            "pod template",
            |s| router(s)["spec"]["podSpec"]["containers"][0]["image"] = json!("busybox:2"),
            &[],
        ),
        ("labels", |s| router(s)["labels"] = json!({"x": "y"}), &[]),
        ("annotations", |s| router(s)["annotations"] = json!({"x": "y"}), &[]),
        ("clique replicas", |s| router(s)["spec"]["replicas"] = json!(5), &[]),
        (
            "autoscaling",
            |s| {
                router(s)["spec"]["autoScalingConfig"] =
                    json!({"minReplicas": 2, "maxReplicas": 9});
            },
            &[],
        ),
        ("group replicas", |s| group(s)["replicas"] = json!(5), &[]),
        ("group annotations", |s| group(s)["annotations"] = json!({"x": "y"}), &[]),
        (
            "group autoscaling",
            |s| group(s)["scaleConfig"] = json!({"minReplicas": 2, "maxReplicas": 9}),
            &[],
        ),
        (
            "order of cliques that start in any order",
            |s| template(s)["cliques"].as_array_mut().unwrap().reverse(),
            &[],
        ),
    ]);
}

#[test]
fn cliques_can_be_neither_added_nor_renamed_nor_reordered() {
    assert_updated(&[
        (
            "added",
            |s| {
                let mut clique = router(s).clone();
                clique["name"] = json!("extra");
                clique["spec"]["roleName"] = json!("extra");
                template(s)["cliques"].as_array_mut().unwrap().push(clique);
            },
            &[
                "spec.template.cliques: Forbidden: not allowed to change clique composition",
                "spec.template.cliques.name: Forbidden: not allowed to change clique composition, new \
                 clique name 'extra' is not allowed",
            ],
        ),
        (
            "removed",
            |s| {
                template(s)["cliques"].as_array_mut().unwrap().pop();
                group(s)["cliqueNames"] = json!(["leader"]);
            },
            &[
                "spec.template.cliques: Forbidden: not allowed to change clique composition",
                "spec.template.podCliqueScalingGroups.cliqueNames: Invalid value: [\"leader\"]: field is \
                 immutable",
            ],
        ),
        (
            "renamed",
            |s| {
                router(s)["name"] = json!("gateway");
                template(s)["resourceSharing"][0]["filter"]["childCliqueNames"] =
                    json!(["gateway"]);
            },
            &[
                "spec.template.cliques.name: Forbidden: not allowed to change clique composition, new \
                 clique name 'gateway' is not allowed",
                "spec.template.resourceSharing: Invalid value: \
                 [{\"filter\":{\"childCliqueNames\":[\"gateway\"],\"childScalingGroupNames\":[\"decode\"]},\
                 \"name\":\"gpu\",\"scope\":\"AllReplicas\"}]: field is immutable",
            ],
        ),
    ]);
    for startup in ["CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"] {
        let mut old = good();
        template(&mut old)["cliqueStartupType"] = json!(startup);
        let mut new = old.clone();
        template(&mut new)["cliques"].as_array_mut().unwrap().swap(1, 2);

        let (new, old) = (decode(&new).unwrap(), decode(&old).unwrap());
        let validation = validate_update(&new, &old, &context(), &SetTopology::Disabled);

        assert_eq!(
            texts(&validation),
            [
                "spec.template.cliques: Invalid value: \"worker\": clique order cannot be changed when \
              StartupType is InOrder or Explicit. Expected 'leader' at position 1, got 'worker'"
            ]
        );
    }
}

#[test]
fn identity_of_cliques_cannot_change() {
    assert_updated(&[
        (
            "role",
            |s| router(s)["spec"]["roleName"] = json!("gateway"),
            &[
                "spec.template.cliques.spec.roleName: Invalid value: \"gateway\": field is immutable",
            ],
        ),
        (
            "minimum",
            |s| router(s)["spec"]["minAvailable"] = json!(1),
            &["spec.template.cliques.spec.minAvailable: Invalid value: 1: field is immutable"],
        ),
        (
            "parents",
            |s| router(s)["spec"]["startsAfter"] = json!(["leader"]),
            &[
                "spec.template.cliques.spec.startsAfter: Invalid value: [\"leader\"]: field is immutable",
            ],
        ),
        (
            "claims",
            |s| router(s)["resourceSharing"] = json!([{"name": "gpu", "scope": "PerReplica"}]),
            &["spec.template.cliques[0].resourceSharing: Invalid value: \
               [{\"name\":\"gpu\",\"scope\":\"PerReplica\"}]: field is immutable"],
        ),
    ]);
    let scheduled: Change = |s| {
        for index in [0, 1, 2] {
            let spec = &mut template(s)["cliques"][index]["spec"]["podSpec"];
            spec["schedulerName"] = json!("kai-scheduler");
        }
    };
    let error = "spec.template.cliques.spec.podSpec.schedulerName: Invalid value: \"kai-scheduler\": field \
                 is immutable";
    assert_updated(&[("scheduler", scheduled, &[error, error, error])]);
}

#[test]
fn shared_claims_cannot_change() {
    assert_updated(&[
        (
            "start order",
            |s| template(s)["cliqueStartupType"] = json!("CliqueStartupTypeInOrder"),
            &[
                "spec.template.cliqueStartupType: Invalid value: \"CliqueStartupTypeInOrder\": field is \
               immutable",
            ],
        ),
        (
            "claim templates",
            |s| template(s)["resourceClaimTemplates"][0]["name"] = json!("tpu"),
            &[
                "spec.template.resourceClaimTemplates: Invalid value: [{\"name\":\"tpu\",\"templateSpec\":\
               {\"spec\":{\"devices\":{\"requests\":[{\"name\":\"g\"}]}}}}]: field is immutable",
            ],
        ),
        (
            "claims",
            |s| template(s)["resourceSharing"] = json!([]),
            &["spec.template.resourceSharing: Invalid value: []: field is immutable"],
        ),
    ]);
}

#[test]
fn groups_can_be_neither_added_nor_renamed_nor_recomposed() {
    assert_updated(&[
        (
            "removed",
            |s| {
                template(s)["podCliqueScalingGroups"] = json!([]);
                template(s)["resourceSharing"][0]["filter"] =
                    json!({"childCliqueNames": ["router"]});
            },
            &[
                "spec.template.resourceSharing: Invalid value: \
                 [{\"filter\":{\"childCliqueNames\":[\"router\"]},\"name\":\"gpu\",\"scope\":\"AllReplicas\"}]: \
                 field is immutable",
                "spec.template.podCliqueScalingGroups: Forbidden: not allowed to add or remove \
                 PodCliqueScalingGroupConfigs",
            ],
        ),
        (
            "members, minimum and claims",
            |s| {
                group(s)["cliqueNames"] = json!(["worker", "leader"]);
                group(s)["minAvailable"] = json!(1);
                group(s)["resourceSharing"] = json!([{"name": "gpu", "scope": "PerReplica"}]);
            },
            &[
                "spec.template.podCliqueScalingGroups.cliqueNames: Invalid value: \
                 [\"worker\",\"leader\"]: field is immutable",
                "spec.template.podCliqueScalingGroups.minAvailable: Invalid value: 1: field is immutable",
                "spec.template.podCliqueScalingGroups.resourceSharing: Invalid value: \
                 [{\"name\":\"gpu\",\"scope\":\"PerReplica\"}]: field is immutable",
            ],
        ),
    ]);
    let unshared: Change = |s| remove(template(s), "resourceSharing");
    assert_eq!(
        texts(&update(unshared, |s| group(s)["name"] = json!("prefill"))),
        [
            "spec.template.podCliqueScalingGroups.name: Forbidden: not allowed to change scaling group \
          composition, new scaling group name 'prefill' is not allowed"
        ]
    );
}

#[test]
fn mnnvl_group_cannot_change() {
    let on_set: Change = |s| s["metadata"]["annotations"] = json!({"grove.io/mnnvl-group": "a"});
    let on_set_b: Change = |s| s["metadata"]["annotations"] = json!({"grove.io/mnnvl-group": "b"});
    let off_set: Change = |s| remove(&mut s["metadata"], "annotations");
    let on_clique: Change = |s| router(s)["annotations"] = json!({"grove.io/mnnvl-group": "none"});
    let on_group: Change = |s| group(s)["annotations"] = json!({"grove.io/mnnvl-group": "a"});
    for (before, after, expected) in [
        (
            off_set,
            on_set,
            "metadata.annotations.grove.io/mnnvl-group: Forbidden: annotation grove.io/mnnvl-group cannot \
             be added after creation",
        ),
        (
            on_set,
            off_set,
            "metadata.annotations.grove.io/mnnvl-group: Forbidden: annotation grove.io/mnnvl-group cannot \
             be removed after creation",
        ),
        (
            on_set,
            on_set_b,
            "metadata.annotations.grove.io/mnnvl-group: Invalid value: \"b\": annotation \
             grove.io/mnnvl-group is immutable and cannot be changed from \"a\" to \"b\"",
        ),
        (
            |_| {},
            on_clique,
            "spec.template.cliques[0].annotations.grove.io/mnnvl-group: Forbidden: annotation \
             grove.io/mnnvl-group cannot be added after creation",
        ),
        (
            |_| {},
            on_group,
            "spec.template.podCliqueScalingGroups[0].annotations.grove.io/mnnvl-group: Forbidden: annotation \
             grove.io/mnnvl-group cannot be added after creation",
        ),
        (
            off_set,
            |s| s["metadata"]["annotations"] = json!({"grove.io/auto-mnnvl": "enabled"}),
            "metadata.annotations.grove.io/auto-mnnvl: Forbidden: annotation grove.io/auto-mnnvl cannot \
             be added after creation",
        ),
    ] {
        assert_eq!(texts(&update(before, after)), [expected]);
    }
    assert!(update(on_set, |s| s["spec"]["replicas"] = json!(2)).is_allowed());
}

#[test]
fn general_rules_come_first() {
    let validation = update(
        |_| {},
        |s| {
            router(s)["spec"]["roleName"] = json!("gateway");
            s["spec"]["replicas"] = json!(-1);
        },
    );

    assert_eq!(
        texts(&validation),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn rules_about_placement_are_for_new_sets_only() {
    let placed: Change = |s| {
        router(s)["spec"]["podSpec"]["nodeName"] = json!("node-1");
        router(s)["spec"]["podSpec"]["topologySpreadConstraints"] = json!([]);
    };

    assert_eq!(texts(&update(placed, |_| {})), [""; 0]);
    assert_eq!(create_in(&context(), placed).errors.len(), 2);
}

#[test]
fn a_changed_pod_template_must_be_valid_for_the_api_server() {
    let image: Change = |s| remove(&mut router(s)["spec"]["podSpec"]["containers"][0], "image");
    let expected = "spec.template.cliques[0].spec.podSpec.containers[0].image: Required value: set the \
                    image to run, for example registry/name:tag (clique \"router\")";
    let node: Change = |s| router(s)["spec"]["podSpec"]["nodeName"] = json!("node-1");

    assert_eq!(texts(&update(|_| {}, image)), [expected]);
    assert_eq!(
        texts(&update(|_| {}, node)),
        [
            "spec.template.cliques[0].spec.podSpec.spec.nodeName: Invalid value: \"node-1\": must not be set"
        ]
    );
    // Other fields of a set that was stored before the rules existed can still change.
    for change in [
        (|s| s["spec"]["replicas"] = json!(7)) as Change,
        |s| s["metadata"]["finalizers"] = json!(["grove.io/x"]),
        |s| template(s)["cliques"][1]["spec"]["podSpec"]["containers"][0]["image"] = json!("b:2"),
        |s| router(s)["spec"]["replicas"] = json!(4),
    ] {
        assert_eq!(texts(&update(image, change)), [""; 0]);
    }
    let other: Change = |s| router(s)["spec"]["podSpec"]["hostNetwork"] = json!(true);
    assert_eq!(texts(&update(image, other)), [expected]);
}

#[test]
fn the_finalizer_of_a_deleted_set_can_always_be_removed() {
    let broken: Change = |s| {
        s["metadata"]["deletionTimestamp"] = json!("2026-08-01T10:00:00Z");
        s["metadata"]["finalizers"] = json!(["grove.io/x"]);
        router(s)["spec"]["replicas"] = json!(-1);
    };

    let validation = update(broken, |s| remove(&mut s["metadata"], "finalizers"));

    assert_eq!(validation, Validation::default());
}
