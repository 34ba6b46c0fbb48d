//! Changes of the constraints of sets that name a topology.

use super::*;

const SET: &str = "spec.template.topologyConstraint";

/// One change of a stored set: before, after, errors.
type Row<'a> = (&'a str, Change, Change, &'a [&'a str]);

fn assert_changes(rows: &[Row<'_>]) {
    for mode in [Mode::Bindings, managing(&["rack", "host"])] {
        for (what, before, after, expected) in rows {
            assert_eq!(updated(&mode, *before, *after), *expected, "{what}");
        }
    }
}

/// A set that names a topology at every part.
fn named(s: &mut Value) {
    constrain(template(s), json!({"topologyName": "t", "pack": {"required": "zone"}}));
    constrain(router(s), json!({"topologyName": "t", "pack": {"required": "rack"}}));
    constrain(group(s), json!({"pack": {"required": "rack", "preferred": "host"}}));
}

fn scale(s: &mut Value) {
    s["spec"]["replicas"] = json!(7);
}

#[test]
fn other_fields_may_change_even_when_the_topology_is_gone() {
    let gone: Change =
        |s| constrain(router(s), json!({"topologyName": "gone", "pack": {"required": "x"}}));
    assert_changes(&[
        ("topology exists", named, scale, &[]),
        ("topology is gone", gone, scale, &[]),
        (
            "cliques in another order",
            named,
            |s| template(s)["cliques"].as_array_mut().unwrap().reverse(),
            &[],
        ),
    ]);
}

#[test]
fn constraints_cannot_be_added_removed_or_changed() {
    assert_changes(&[
        (
            "added to a set",
            |_| {},
            |s| constrain(template(s), json!({"topologyName": "t", "pack": {"required": "rack"}})),
            &[&format!(
                "{SET}.topologyName: Forbidden: topologyName cannot be changed from \"\" to \"t\""
            )],
        ),
        (
            "removed from a set",
            named,
            |s| remove(template(s), "topologyConstraint"),
            &[&format!(
                "{SET}.topologyName: Forbidden: topologyName cannot be changed from \"t\" to \"\""
            )],
        ),
        (
            "another topology and another domain",
            named,
            |s| constrain(template(s), json!({"topologyName": "u", "pack": {"required": "rack"}})),
            &[&format!(
                "{SET}.topologyName: Forbidden: topologyName cannot be changed from \"t\" to \"u\""
            )],
        ),
        (
            "another domain",
            named,
            |s| {
                template(s)["topologyConstraint"]["pack"] =
                    json!({"required": "block", "preferred": "host"});
            },
            &[&format!(
                "{SET}: Forbidden: PodCliqueSet topology constraint cannot be changed from required=\"zone\" \
                 preferred=\"\" to required=\"block\" preferred=\"host\""
            )],
        ),
        (
            "added to a clique",
            named,
            |s| constrain(leader(s), json!({"pack": {"required": "host"}})),
            &[
                "spec.template.cliques[1].topologyConstraint: Forbidden: PodClique 'leader' topology constraint cannot be \
               added after creation",
            ],
        ),
        (
            "removed from a group",
            named,
            |s| remove(group(s), "topologyConstraint"),
            &[
                "spec.template.podCliqueScalingGroups[0].topologyConstraint: Forbidden: PodCliqueScalingGroup 'decode' \
               topology constraint cannot be removed after creation",
            ],
        ),
        (
            "inherited name instead of the same own one",
            named,
            |s| remove(&mut router(s)["topologyConstraint"], "topologyName"),
            &[
                "spec.template.cliques[0].topologyConstraint: Forbidden: PodClique 'router' topology constraint \
               topologyName cannot be changed from 't' to ''",
            ],
        ),
        (
            "back to the older spelling",
            named,
            |s| constrain(template(s), json!({"topologyName": "t", "packDomain": "zone"})),
            &[&format!(
                "{SET}: Forbidden: PodCliqueSet topology constraint cannot be changed from required=\"zone\" \
                 preferred=\"\" to required=\"zone\" preferred=\"\""
            )],
        ),
    ]);
}

#[test]
fn the_older_spelling_may_be_replaced_without_another_change() {
    let older: Change =
        |s| constrain(template(s), json!({"topologyName": "t", "packDomain": "rack"}));
    let refused = |new: &str| {
        format!(
            "{SET}: Forbidden: PodCliqueSet deprecated packDomain migration can only move packDomain to pack.required \
             without changing the required or preferred topology domain (old required=\"rack\" preferred=\"\", new \
             {new})"
        )
    };
    assert_changes(&[
        (
            "same domain",
            older,
            |s| constrain(template(s), json!({"topologyName": "t", "pack": {"required": "rack"}})),
            &[],
        ),
        (
            "another domain",
            older,
            |s| constrain(template(s), json!({"topologyName": "t", "pack": {"required": "host"}})),
            &[&refused("required=\"host\" preferred=\"\"")],
        ),
        (
            "a preference as well",
            older,
            |s| {
                let pack = json!({"required": "rack", "preferred": "host"});
                constrain(template(s), json!({"topologyName": "t", "pack": pack}));
            },
            &[&refused("required=\"rack\" preferred=\"host\"")],
        ),
    ]);
    assert_eq!(
        update_validation(&Mode::Bindings, older, scale).warnings,
        [format!("{SET}.packDomain is deprecated; use {SET}.pack.required instead")]
    );
}

/// A set of a version that had no names.
fn legacy(s: &mut Value) {
    constrain(template(s), json!({"packDomain": "rack"}));
    constrain(router(s), json!({"packDomain": "host"}));
}

#[test]
fn a_missing_name_may_be_added_and_the_set_is_checked_then() {
    assert_changes(&[
        (
            "to the set and the clique",
            legacy,
            |s| {
                template(s)["topologyConstraint"]["topologyName"] = json!("t");
                router(s)["topologyConstraint"]["topologyName"] = json!("t");
            },
            &[],
        ),
        (
            "to the set, and the clique inherits it",
            legacy,
            |s| template(s)["topologyConstraint"]["topologyName"] = json!("t"),
            &[],
        ),
        (
            "to the clique only",
            legacy,
            |s| router(s)["topologyConstraint"]["topologyName"] = json!("t"),
            &[&format!(
                "{SET}.topologyName: Required value: topologyName is required when topologyConstraint is set and cannot \
                 be inherited"
            )],
        ),
        (
            "of a topology that does not exist",
            legacy,
            |s| template(s)["topologyConstraint"]["topologyName"] = json!("absent"),
            &[&format!(
                "{SET}.topologyName: Invalid value: \"absent\": ClusterTopologyBinding \"absent\" not found"
            )],
        ),
        (
            "to domains that do not exist",
            |s| constrain(template(s), json!({"packDomain": "numa"})),
            |s| template(s)["topologyConstraint"]["topologyName"] = json!("t"),
            &[&format!(
                "{SET}.packDomain: Invalid value: \"numa\": topology domain 'numa' does not exist in cluster topology \
                 [zone block rack host]"
            )],
        ),
        (
            "together with the newer spelling",
            |s| constrain(template(s), json!({"packDomain": "rack"})),
            |s| constrain(template(s), json!({"topologyName": "t", "pack": {"required": "rack"}})),
            &[&format!(
                "{SET}.topologyName: Forbidden: topologyName cannot be changed from \"\" to \"t\""
            )],
        ),
        (
            "together with the newer spelling of a clique",
            |s| constrain(router(s), json!({"packDomain": "rack"})),
            |s| constrain(router(s), json!({"topologyName": "t", "pack": {"required": "rack"}})),
            &[
                "spec.template.cliques[0].topologyConstraint: Forbidden: PodClique 'router' topology constraint \
               topologyName cannot be changed from '' to 't'",
            ],
        ),
        (
            "not where the name is inherited already",
            |s| {
                constrain(template(s), json!({"topologyName": "t", "packDomain": "rack"}));
                constrain(router(s), json!({"packDomain": "host"}));
            },
            |s| router(s)["topologyConstraint"]["topologyName"] = json!("t"),
            &[
                "spec.template.cliques[0].topologyConstraint: Forbidden: PodClique 'router' topology constraint \
               topologyName cannot be changed from '' to 't'",
            ],
        ),
    ]);
}

#[test]
fn without_a_managed_topology_a_set_without_name_has_to_be_repaired_first() {
    let required = "topologyName: Required value: topologyName is required when topologyConstraint is set and cannot be \
                    inherited";
    let errors = [
        format!("{SET}.{required}"),
        format!("spec.template.cliques[0].topologyConstraint.{required}"),
    ];
    assert_eq!(updated(&Mode::Bindings, legacy, scale), errors);
    assert_eq!(updated(&managing(&["rack", "host"]), legacy, scale), [""; 0]);
    assert_eq!(updated(&Mode::Disabled, legacy, scale), [""; 0]);
}
