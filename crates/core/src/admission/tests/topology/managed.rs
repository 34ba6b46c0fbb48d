//! Constraints that refer to the managed topology.

use super::*;

fn mode() -> Mode {
    managing(&["rack", "host"])
}

#[test]
fn domains_are_known_words_and_configured_levels() {
    assert_constraints(
        &mode(),
        &[
            ("known", |s| constrain(template(s), json!({"packDomain": "rack"})), &[]),
            (
                "both spellings",
                |s| {
                    constrain(
                        template(s),
                        json!({"pack": {"required": "rack", "preferred": "host"}}),
                    );
                },
                &[],
            ),
            (
                "not configured",
                |s| constrain(template(s), json!({"packDomain": "block"})),
                &[
                    "spec.template.topologyConstraint.packDomain: Invalid value: \"block\": topology level 'block' not \
                   defined in ClusterTopology 'grove-topology'",
                ],
            ),
            (
                "not configured, preferred",
                |s| constrain(group(s), json!({"pack": {"required": "numa", "preferred": "zone"}})),
                &[
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.required: Invalid value: \"numa\": \
                     topology level 'numa' not defined in ClusterTopology 'grove-topology'",
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint.pack.preferred: Invalid value: \"zone\": \
                     topology level 'zone' not defined in ClusterTopology 'grove-topology'",
                ],
            ),
            (
                "no word of the list",
                |s| constrain(router(s), json!({"packDomain": "shelf"})),
                &[
                    "spec.template.cliques[0].topologyConstraint.packDomain: Unsupported value: \"shelf\": supported \
                   values: \"region\", \"zone\", \"datacenter\", \"block\", \"rack\", \"host\", \"numa\"",
                ],
            ),
        ],
    );
}

#[test]
fn children_are_not_broader_than_their_parents() {
    assert_constraints(
        &mode(),
        &[
            (
                "group below set",
                |s| {
                    constrain(template(s), json!({"packDomain": "host"}));
                    constrain(group(s), json!({"packDomain": "rack"}));
                },
                &[
                    "spec.template.podCliqueScalingGroups[0].topologyConstraint.packDomain: Invalid value: \"rack\": \
                   child topology constraint 'rack' must be equal to or stricter than parent constraint 'host'",
                ],
            ),
            (
                "clique below group",
                |s| {
                    constrain(group(s), json!({"packDomain": "host"}));
                    constrain(leader(s), json!({"pack": {"required": "rack"}}));
                },
                &[
                    "spec.template.cliques[1].topologyConstraint.pack.required: Invalid value: \"rack\": child topology \
                   constraint 'rack' must be equal to or stricter than parent constraint 'host'",
                ],
            ),
            (
                "clique of no group",
                |s| {
                    constrain(group(s), json!({"packDomain": "host"}));
                    constrain(router(s), json!({"packDomain": "rack"}));
                },
                &[],
            ),
            (
                "preferred below preferred",
                |s| {
                    constrain(template(s), json!({"pack": {"preferred": "host"}}));
                    constrain(
                        router(s),
                        json!({"pack": {"required": "rack", "preferred": "rack"}}),
                    );
                },
                &[
                    "spec.template.cliques[0].topologyConstraint.pack.preferred: Invalid value: \"rack\": child topology \
                   constraint 'rack' must be equal to or stricter than parent constraint 'host'",
                ],
            ),
            (
                "a level that is not configured is broader all the same",
                |s| {
                    constrain(template(s), json!({"packDomain": "rack"}));
                    constrain(router(s), json!({"packDomain": "block"}));
                },
                &[
                    "spec.template.cliques[0].topologyConstraint.packDomain: Invalid value: \"block\": topology level \
                     'block' not defined in ClusterTopology 'grove-topology'",
                    "spec.template.cliques[0].topologyConstraint.packDomain: Invalid value: \"block\": child topology \
                     constraint 'block' must be equal to or stricter than parent constraint 'rack'",
                ],
            ),
            (
                "narrower at every step",
                |s| {
                    constrain(template(s), json!({"packDomain": "rack"}));
                    constrain(group(s), json!({"packDomain": "host"}));
                    constrain(leader(s), json!({"packDomain": "host"}));
                },
                &[],
            ),
        ],
    );
}

#[test]
fn constraints_may_change_and_are_checked_again() {
    let rack: Change = |s| constrain(template(s), json!({"packDomain": "rack"}));
    let host: Change = |s| constrain(template(s), json!({"packDomain": "host"}));
    let none: Change = |s| remove(template(s), "topologyConstraint");
    for (before, after) in [(rack, host), (host, rack), (rack, none), ((|_| {}) as Change, rack)] {
        assert_eq!(updated(&mode(), before, after), [""; 0]);
    }
    assert_eq!(
        updated(&mode(), rack, |s| constrain(template(s), json!({"packDomain": "block"}))),
        [
            "spec.template.topologyConstraint.packDomain: Invalid value: \"block\": topology level 'block' not defined in \
          ClusterTopology 'grove-topology'"
        ]
    );
    let broader: Change = |s| constrain(group(s), json!({"packDomain": "rack"}));
    assert_eq!(updated(&mode(), host, broader).len(), 1);
}

#[test]
fn a_set_whose_level_was_removed_can_still_be_scaled() {
    let removed: Change = |s| {
        constrain(template(s), json!({"packDomain": "rack"}));
        constrain(group(s), json!({"packDomain": "block"}));
    };
    assert_eq!(updated(&mode(), removed, |s| s["spec"]["replicas"] = json!(7)), [""; 0]);
    // Constraints that do not change are not the reason to refuse others.
    let other: Change = |s| constrain(router(s), json!({"packDomain": "host"}));
    assert_eq!(updated(&mode(), removed, other), [""; 0]);
    let both: Change = |s| constrain(group(s), json!({"pack": {"required": "block"}}));
    assert_eq!(updated(&mode(), removed, both).len(), 2);
}

#[test]
fn the_usual_spelling_is_not_warned_about() {
    let rack: Change = |s| constrain(template(s), json!({"packDomain": "rack"}));
    for mode in [mode(), Mode::Disabled] {
        assert_eq!(update_validation(&mode, rack, |_| {}).warnings, [""; 0]);
    }
    assert_eq!(update_validation(&Mode::Bindings, rack, |_| {}).warnings.len(), 1);
    let redundant = changed(|s| {
        constrain(template(s), json!({"pack": {"required": "host", "preferred": "rack"}}));
    });
    assert_eq!(
        create_validation(&mode(), &redundant).warnings,
        ["spec.template.topologyConstraint.pack.preferred is coarser than \
          spec.template.topologyConstraint.pack.required and is redundant"]
    );
}
