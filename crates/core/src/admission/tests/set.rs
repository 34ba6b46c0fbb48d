//! Metadata, fields of the set, claims of the set, MNNVL groups, warnings.

use grove_api::OperatorConfiguration;
use serde_json::json;

use super::*;
use crate::admission::{Context, RESTART_POLICY_IGNORED, missing_priority_class, priority_classes};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[test]
fn metadata_is_checked_like_in_the_api_server() {
    assert_created(&[
        (
            "name missing",
            |s| remove(&mut s["metadata"], "name"),
            &["metadata.name: Required value: name or generateName is required"],
        ),
        (
            "name in upper case",
            |s| s["metadata"]["name"] = json!("Demo"),
            &[&format!("metadata.name: Invalid value: \"Demo\": {SUBDOMAIN}")],
        ),
        (
            "name generated",
            |s| {
                remove(&mut s["metadata"], "name");
                s["metadata"]["generateName"] = json!("demo-");
            },
            &[],
        ),
        (
            "name generated from a bad prefix",
            |s| {
                remove(&mut s["metadata"], "name");
                s["metadata"]["generateName"] = json!("-demo");
            },
            &[&format!("metadata.generateName: Invalid value: \"-demo\": {SUBDOMAIN}")],
        ),
        (
            "namespace missing",
            |s| remove(&mut s["metadata"], "namespace"),
            &["metadata.namespace: Required value"],
        ),
        (
            "namespace with a dot",
            |s| s["metadata"]["namespace"] = json!("a.b"),
            &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            "label key",
            |s| s["metadata"]["labels"] = json!({"/x": "y"}),
            &["metadata.labels: Invalid value: \"/x\": prefix part must be non-empty"],
        ),
        (
            "label value",
            |s| s["metadata"]["labels"] = json!({"x": "a b"}),
            &["metadata.labels: Invalid value: \"a b\": a valid label must be an empty string or \
               consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
               alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
               validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"],
        ),
        (
            "annotation key",
            |s| s["metadata"]["annotations"] = json!({"a/": "y"}),
            &[
                "metadata.annotations: Invalid value: \"a/\": name part must be non-empty",
                "metadata.annotations: Invalid value: \"a/\": name part must consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
        (
            "annotations of 256 KiB",
            |s| s["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024 - 1)}),
            &[],
        ),
        (
            "annotations beyond 256 KiB",
            |s| s["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024)}),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
    ]);
}

#[test]
fn replicas_start_order_and_termination_delay_are_checked() {
    assert_created(&[
        ("no replicas", |s| s["spec"]["replicas"] = json!(0), &[]),
        (
            "negative replicas",
            |s| s["spec"]["replicas"] = json!(-1),
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "start order missing",
            |s| remove(template(s), "cliqueStartupType"),
            &["spec.template.cliqueStartupType: Required value: field is required"],
        ),
        (
            "start order unknown",
            |s| template(s)["cliqueStartupType"] = json!("Sideways"),
            &["spec.template.cliqueStartupType: Invalid value: \"Sideways\": can only be one of \
               CliqueStartupTypeAnyOrder, CliqueStartupTypeInOrder, CliqueStartupTypeExplicit"],
        ),
        ("in order", |s| template(s)["cliqueStartupType"] = json!("CliqueStartupTypeInOrder"), &[]),
        (
            "termination delay missing",
            |s| remove(template(s), "terminationDelay"),
            &["spec.template.terminationDelay: Required value: terminationDelay is required"],
        ),
        (
            "termination delay of nothing",
            |s| template(s)["terminationDelay"] = json!("0"),
            &[
                "spec.template.terminationDelay: Invalid value: \"0s\": terminationDelay must be greater \
               than 0",
            ],
        ),
        (
            "negative termination delay",
            |s| template(s)["terminationDelay"] = json!("-1m"),
            &[
                "spec.template.terminationDelay: Invalid value: \"-1m0s\": terminationDelay must be \
               greater than 0",
            ],
        ),
        ("short termination delay", |s| template(s)["terminationDelay"] = json!("1ns"), &[]),
    ]);
}

#[test]
fn claim_templates_and_shared_claims_are_checked() {
    assert_created(&[
        (
            "template without name",
            |s| {
                template(s)["resourceClaimTemplates"][0]["name"] = json!("");
            },
            &[
                "spec.template.resourceClaimTemplates[0].name: Required value: template name is required",
            ],
        ),
        (
            "template without requests",
            |s| {
                template(s)["resourceClaimTemplates"][0]["templateSpec"]["spec"]["devices"] =
                    json!({});
            },
            &[
                "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required \
               value: at least one device request is required",
            ],
        ),
        (
            "template twice",
            |s| {
                let first = template(s)["resourceClaimTemplates"][0].clone();
                template(s)["resourceClaimTemplates"] = json!([first, first]);
            },
            &["spec.template.resourceClaimTemplates.name: Duplicate value: \"gpu\""],
        ),
        (
            "reference without name",
            |s| template(s)["resourceSharing"][0]["name"] = json!(""),
            &["spec.template.resourceSharing[0].name: Required value: reference name is required"],
        ),
        (
            "reference twice",
            |s| {
                let first = template(s)["resourceSharing"][0].clone();
                template(s)["resourceSharing"] = json!([first, first]);
            },
            &["spec.template.resourceSharing[1].name: Duplicate value: \"gpu\""],
        ),
        (
            "namespace of an internal template",
            |s| template(s)["resourceSharing"][0]["namespace"] = json!("other"),
            &[
                "spec.template.resourceSharing[0].namespace: Invalid value: \"other\": namespace must be \
               empty when name matches an internal resourceClaimTemplate",
            ],
        ),
        (
            "namespace of an external template",
            |s| {
                template(s)["resourceSharing"][0]["name"] = json!("external");
                template(s)["resourceSharing"][0]["namespace"] = json!("other");
            },
            &[],
        ),
        (
            "unknown scope",
            |s| template(s)["resourceSharing"][0]["scope"] = json!("PerFullMoon"),
            &[
                "spec.template.resourceSharing[0].scope: Unsupported value: \"PerFullMoon\": supported \
               values: \"AllReplicas\", \"PerReplica\"",
            ],
        ),
        ("no filter", |s| remove(&mut template(s)["resourceSharing"][0], "filter"), &[]),
        (
            "empty filter",
            |s| template(s)["resourceSharing"][0]["filter"] = json!({}),
            &[
                "spec.template.resourceSharing[0].filter: Required value: filter must specify at least one \
               childCliqueNames or childScalingGroupNames entry",
            ],
        ),
        (
            "filter for strangers",
            |s| {
                template(s)["resourceSharing"][0]["filter"] = json!({
                    "childCliqueNames": ["router", "ghost"],
                    "childScalingGroupNames": ["router"],
                });
            },
            &[
                "spec.template.resourceSharing[0].filter.childCliqueNames[1]: Not found: \"ghost\"",
                "spec.template.resourceSharing[0].filter.childScalingGroupNames[0]: Not found: \"router\"",
            ],
        ),
    ]);
}

#[test]
fn mnnvl_groups_are_labels_and_need_the_feature() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                 must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let set: fn(&mut Value) =
        |s| s["metadata"]["annotations"] = json!({"grove.io/mnnvl-group": "grp"});
    assert_created(&[
        ("on the set", set, &[]),
        (
            "empty",
            |s| router(s)["annotations"] = json!({"grove.io/mnnvl-group": ""}),
            &[
                "spec.template.cliques[0].annotations.grove.io/mnnvl-group: Invalid value: \"\": mnnvl-group \
             value must not be empty",
            ],
        ),
        (
            "no label",
            |s| group(s)["annotations"] = json!({"grove.io/mnnvl-group": "A"}),
            &[&format!(
                "spec.template.podCliqueScalingGroups[0].annotations.grove.io/mnnvl-group: Invalid value: \"A\": \
             mnnvl-group value \"A\" is not a valid DNS-1123 label: {label}"
            )],
        ),
    ]);

    let without = Context { mnnvl_enabled: false, ..context() };
    assert_eq!(
        texts(&create_in(&without, set)),
        [
            "metadata.annotations.grove.io/mnnvl-group: Invalid value: \"grp\": MNNVL is not enabled in the \
          operator configuration. Either enable MNNVL globally or remove the grove.io/mnnvl-group \
          annotation"
        ]
    );
    let opted_out: fn(&mut Value) =
        |s| s["metadata"]["annotations"] = json!({"grove.io/mnnvl-group": "none"});
    assert_eq!(texts(&create_in(&without, opted_out)), [""; 0]);
    let empty: fn(&mut Value) =
        |s| s["metadata"]["annotations"] = json!({"grove.io/mnnvl-group": ""});
    assert_eq!(texts(&create_in(&without, empty)).len(), 2);
}

#[test]
fn the_older_mnnvl_annotation_is_enabled_or_disabled_and_needs_the_feature() {
    let on: fn(&mut Value) =
        |s| s["metadata"]["annotations"] = json!({"grove.io/auto-mnnvl": "enabled"});
    let off: fn(&mut Value) =
        |s| s["metadata"]["annotations"] = json!({"grove.io/auto-mnnvl": "disabled"});
    assert_created(&[
        ("on", on, &[]),
        ("off", off, &[]),
        (
            "something else",
            |s| group(s)["annotations"] = json!({"grove.io/auto-mnnvl": "yes"}),
            &[
                "spec.template.podCliqueScalingGroups[0].annotations.grove.io/auto-mnnvl: Invalid value: \
             \"yes\": must be \"enabled\" or \"disabled\"",
            ],
        ),
    ]);

    let without = Context { mnnvl_enabled: false, ..context() };
    assert_eq!(
        texts(&create_in(&without, on)),
        [
            "metadata.annotations.grove.io/auto-mnnvl: Invalid value: \"enabled\": MNNVL is not enabled in \
          the operator configuration. Either enable MNNVL globally or remove the grove.io/auto-mnnvl \
          annotation"
        ]
    );
    assert_eq!(texts(&create_in(&without, off)), [""; 0]);
}

#[test]
fn the_context_follows_the_configuration() {
    let text = "\
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
network: {autoMNNVLEnabled: true}
scheduler: {profiles: [{name: kai-scheduler, default: true}]}
";
    let configuration = OperatorConfiguration::from_yaml(text).unwrap();

    let expected = Context { default_scheduler: "kai-scheduler".to_owned(), ..context() };
    assert_eq!(Context::from(&configuration), expected);
}

#[test]
fn several_errors_are_joined_in_one_message() {
    let validation = create_in(&context(), |s| {
        s["spec"]["replicas"] = json!(-1);
        remove(template(s), "terminationDelay");
    });

    assert!(!validation.is_allowed());
    assert_eq!(
        validation.message().unwrap(),
        "[spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
         spec.template.terminationDelay: Required value: terminationDelay is required]"
    );
    assert_eq!(create_in(&context(), |_| {}).message(), None);
}

#[test]
fn names_that_fail_later_get_warnings() {
    let warnings = |change: Change| {
        let mut warnings = create_in(&context(), change).warnings;
        warnings.retain(|warning| warning != RESTART_POLICY_IGNORED);
        warnings
    };

    assert_eq!(warnings(|_| {}), [""; 0]);
    assert_eq!(
        warnings(|s| s["metadata"]["name"] = json!("1.demo")),
        [
            "metadata.name: \"1.demo\" starts with a digit: the Service made from it may be refused",
            "metadata.name: \"1.demo\" contains a dot: host names made from it are no DNS labels and \
             will be refused",
        ]
    );
    assert_eq!(
        warnings(|s| {
            group(s)["name"] = json!("de.code");
            router(s)["name"] = json!("1.router");
        }),
        [
            "spec.template.cliques[0].name: \"1.router\" contains a dot: host names made from it are no \
             DNS labels and will be refused",
            "spec.template.podCliqueScalingGroups[0].name: \"de.code\" contains a dot: host names made \
             from it are no DNS labels and will be refused",
        ]
    );
}

#[test]
fn a_restart_policy_other_than_the_default_gets_a_warning() {
    assert_eq!(create_in(&context(), |_| {}).warnings, [""; 0]);
    let validation = create_in(&context(), |s| {
        for index in [0, 2] {
            template(s)["cliques"][index]["spec"]["podSpec"]["restartPolicy"] = json!("Never");
        }
    });
    assert_eq!(validation.warnings, [RESTART_POLICY_IGNORED; 2]);
}

#[test]
fn scheduling_gates_of_the_user_get_a_warning() {
    let validation = create_in(&context(), |s| {
        router(s)["spec"]["podSpec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    });
    assert_eq!(
        validation.warnings,
        [
            "spec.template.cliques[0].spec.podSpec.schedulingGates: ignored, Grove sets the scheduling gates \
          of its pods itself; remove the field (clique \"router\")"
        ]
    );
    let empty: Change = |s| router(s)["spec"]["podSpec"]["schedulingGates"] = json!([]);
    assert_eq!(create_in(&context(), empty).warnings, [""; 0]);
}

#[test]
fn priority_classes_are_those_of_the_template_and_of_the_pods() {
    let set = changed(|s| {
        template(s)["priorityClassName"] = json!("high");
        router(s)["spec"]["podSpec"]["priorityClassName"] = json!("low");
        template(s)["cliques"][1]["spec"]["podSpec"]["priorityClassName"] = json!("high");
        template(s)["cliques"][2]["spec"]["podSpec"]["priorityClassName"] = json!("");
    });
    let set = decode(&set).unwrap();

    let classes: Vec<_> = priority_classes(&set).into_iter().collect();

    assert_eq!(
        classes,
        [
            ("high", "spec.template.priorityClassName".to_owned()),
            ("low", "spec.template.cliques[0].spec.podSpec.priorityClassName".to_owned()),
        ]
    );
    assert_eq!(
        missing_priority_class("a.b", "low"),
        "a.b: PriorityClass \"low\" not found; pods are refused until it exists: create it or correct the \
         name"
    );
}
