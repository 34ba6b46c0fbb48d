//! Constraints that name a ClusterTopologyBinding.

use super::*;

const REQUIRED: &str = "Required value: topologyName is required when topologyConstraint is set and cannot be inherited";
const DIFFERENT: &str = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current \
                         implementation";

fn in_both_modes(rows: &[(&str, Change, &[&str])]) {
    for mode in [Mode::Bindings, managing(&["rack", "host"])] {
        assert_constraints(&mode, rows);
    }
}

#[test]
fn names_are_inherited_from_parents_and_from_no_other_part() {
    let (set, clique, group_) = (
        format!("spec.template.topologyConstraint.topologyName: {REQUIRED}"),
        format!("spec.template.cliques[0].topologyConstraint.topologyName: {REQUIRED}"),
        format!(
            "spec.template.podCliqueScalingGroups[0].topologyConstraint.topologyName: {REQUIRED}"
        ),
    );
    let rows: [(&str, Change, &[&str]); 6] = [
        (
            "from the set",
            |s| {
                constrain(template(s), json!({"topologyName": "t", "pack": {"required": "zone"}}));
                constrain(group(s), json!({"pack": {"required": "rack"}}));
                constrain(leader(s), json!({"pack": {"required": "host"}}));
            },
            &[],
        ),
        (
            "from the group",
            |s| {
                constrain(group(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(leader(s), json!({"pack": {"required": "host"}}));
            },
            &[],
        ),
        (
            "not from another clique",
            |s| {
                constrain(leader(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(router(s), json!({"pack": {"required": "host"}}));
            },
            &[&clique],
        ),
        (
            "not from a child",
            |s| {
                constrain(template(s), json!({"pack": {"required": "rack"}}));
                constrain(leader(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
            },
            &[&set],
        ),
        (
            "not from a member",
            |s| {
                constrain(group(s), json!({"pack": {"required": "rack"}}));
                constrain(leader(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
            },
            &[&group_],
        ),
        (
            "an empty name is none",
            |s| {
                constrain(group(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(router(s), json!({"topologyName": "", "pack": {"required": "rack"}}));
            },
            &[&clique],
        ),
    ];
    in_both_modes(&rows);
    let unnamed: Change = |s| {
        constrain(template(s), json!({"packDomain": "rack"}));
        constrain(router(s), json!({"pack": {"required": "nowhere"}}));
    };
    let pack_domain = "spec.template.topologyConstraint.packDomain: Forbidden: packDomain is deprecated and cannot be \
                       used on new workloads; use pack.required";
    assert_eq!(created(&Mode::Bindings, unnamed), [pack_domain, &set, &clique]);
}

#[test]
fn a_set_names_one_topology() {
    in_both_modes(&[
        (
            "a child that differs",
            |s| {
                constrain(
                    template(s),
                    json!({"topologyName": "t", "pack": {"required": "nowhere"}}),
                );
                constrain(router(s), json!({"topologyName": "u", "pack": {"required": "rack"}}));
            },
            &[&format!(
                "spec.template.cliques[0].topologyConstraint.topologyName: Invalid value: \"u\": {DIFFERENT}"
            )],
        ),
        (
            "a member that differs from its group",
            |s| {
                constrain(group(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(leader(s), json!({"topologyName": "u", "pack": {"required": "rack"}}));
            },
            &[&format!(
                "spec.template.cliques[1].topologyConstraint.topologyName: Invalid value: \"u\": {DIFFERENT}"
            )],
        ),
        (
            "unrelated parts that differ",
            |s| {
                constrain(group(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(leader(s), json!({"pack": {"required": "rack"}}));
                constrain(router(s), json!({"topologyName": "u", "pack": {"required": "rack"}}));
            },
            &[
                &format!(
                    "spec.template.cliques[0].topologyConstraint.topologyName: Invalid value: \"u\": {DIFFERENT}"
                ),
                &format!(
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint.topologyName: Invalid value: \"t\": \
                     {DIFFERENT}"
                ),
            ],
        ),
    ]);
}

#[test]
fn topology_and_domains_exist() {
    in_both_modes(&[
        (
            "no such binding",
            |s| {
                constrain(
                    router(s),
                    json!({"topologyName": "absent", "pack": {"required": "nowhere"}}),
                );
            },
            &[
                "spec.template.topologyConstraint.topologyName: Invalid value: \"absent\": ClusterTopologyBinding \
               \"absent\" not found",
            ],
        ),
        (
            "no such domains, and the order is not checked",
            |s| {
                constrain(
                    template(s),
                    json!({"topologyName": "t", "pack": {"required": "x", "preferred": "host"}}),
                );
                constrain(router(s), json!({"pack": {"required": "zone", "preferred": "y"}}));
                constrain(group(s), json!({"pack": {"required": "z", "preferred": "zone"}}));
            },
            &[
                "spec.template.topologyConstraint.pack.required: Invalid value: \"x\": topology domain 'x' does not \
                 exist in cluster topology [zone block rack host]",
                "spec.template.cliques[0].topologyConstraint.pack.preferred: Invalid value: \"y\": topology domain 'y' \
                 does not exist in cluster topology [zone block rack host]",
                "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required: Invalid value: \"z\": \
                 topology domain 'z' does not exist in cluster topology [zone block rack host]",
            ],
        ),
    ]);
}

#[test]
fn parents_are_not_narrower_than_their_children() {
    in_both_modes(&[
        (
            "equal and narrower children",
            |s| {
                constrain(template(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
                constrain(router(s), json!({"pack": {"required": "host"}}));
                constrain(group(s), json!({"pack": {"required": "rack"}}));
            },
            &[],
        ),
        (
            "required above preferred",
            |s| {
                constrain(template(s), json!({"topologyName": "t", "pack": {"required": "host"}}));
                constrain(router(s), json!({"pack": {"preferred": "zone"}}));
            },
            &[],
        ),
        (
            "the set is narrower",
            |s| {
                constrain(
                    template(s),
                    json!({"topologyName": "t", "pack": {"required": "host", "preferred": "host"}}),
                );
                constrain(router(s), json!({"pack": {"required": "rack"}}));
                constrain(group(s), json!({"pack": {"required": "host", "preferred": "block"}}));
            },
            &[
                "spec.template.topologyConstraint: Invalid value: \"host\": PodCliqueSet topology constraint domain \
                 'host' is narrower than PodClique 'router' topology constraint domain 'rack'",
                "spec.template.topologyConstraint.pack.preferred: Invalid value: \"host\": PodCliqueSet topology \
                 constraint domain 'host' is narrower than PodCliqueScalingGroup 'decode' topology constraint domain \
                 'block'",
            ],
        ),
        (
            "the group is narrower",
            |s| {
                constrain(group(s), json!({"topologyName": "t", "pack": {"required": "host"}}));
                constrain(leader(s), json!({"pack": {"required": "rack"}}));
                constrain(router(s), json!({"topologyName": "t", "pack": {"required": "zone"}}));
            },
            &[
                "spec.template.podCliqueScalingGroups[0].topologyConstraint: Invalid value: \"host\": \
               PodCliqueScalingGroup 'decode' topology constraint domain 'host' is narrower than PodClique 'leader' \
               topology constraint domain 'rack'",
            ],
        ),
    ]);
}

#[test]
fn the_older_spelling_is_refused_once_per_list() {
    let text = "Forbidden: packDomain is deprecated and cannot be used on new workloads; use pack.required";
    in_both_modes(&[(
        "everywhere",
        |s| {
            constrain(template(s), json!({"topologyName": "t", "packDomain": "rack"}));
            constrain(router(s), json!({"packDomain": "host"}));
            constrain(leader(s), json!({"packDomain": "host"}));
            constrain(group(s), json!({"packDomain": "host"}));
        },
        &[
            &format!("spec.template.topologyConstraint.packDomain: {text}"),
            &format!("spec.template.cliques: {text}"),
            &format!("spec.template.podCliqueScalingGroups: {text}"),
        ],
    )]);
}

#[test]
fn a_preference_that_the_requirement_contains_is_warned_about() {
    let set = changed(|s| {
        constrain(
            template(s),
            json!({"topologyName": "t", "pack": {"required": "rack", "preferred": "zone"}}),
        );
        constrain(router(s), json!({"pack": {"required": "rack", "preferred": "host"}}));
    });
    assert_eq!(
        create_validation(&Mode::Bindings, &set).warnings,
        ["spec.template.topologyConstraint.pack.preferred is coarser than \
          spec.template.topologyConstraint.pack.required and is redundant"]
    );
}
