//! The topology block under both of its names.

use super::{parse, problems};

#[test]
fn both_names_of_the_block_mean_the_same() {
    let levels =
        "levels: [{domain: rack, key: a/rack}, {domain: host, key: kubernetes.io/hostname}]";
    let current = parse(&format!("topologyAwareScheduling: {{enabled: true, {levels}}}")).unwrap();
    let older = parse(&format!("topology: {{enabled: true, {levels}}}")).unwrap();
    let both = parse(&format!(
        "topology: {{enabled: true, {levels}}}\ntopologyAwareScheduling: {{enabled: true, {levels}}}"
    ))
    .unwrap();
    let split =
        parse(&format!("topology: {{{levels}}}\ntopologyAwareScheduling: {{enabled: true}}"))
            .unwrap();

    assert!(current.manages_topology());
    assert_eq!(current.topology.levels.len(), 2);
    for other in [older, both, split] {
        assert_eq!(other.topology, current.topology);
    }
}

#[test]
fn feature_without_levels_leaves_topologies_to_users() {
    let configuration = parse("topologyAwareScheduling: {enabled: true}").unwrap();

    assert!(configuration.topology.enabled);
    assert!(!configuration.manages_topology());
}

#[test]
fn levels_are_kept_in_the_configured_order_and_not_checked_while_disabled() {
    let configuration = parse(
        "topology: {enabled: false, levels: [{domain: host, key: h}, {domain: zone, key: h}, {domain: x, key: ''}]}",
    )
    .unwrap();

    let levels: Vec<_> =
        configuration.topology.levels.iter().map(|level| level.domain.as_str()).collect();
    assert_eq!(levels, ["host", "zone", "x"]);
    assert!(!configuration.manages_topology());
}

#[test]
fn topology_that_cannot_be_used_is_refused() {
    let long = "k".repeat(65);
    for (body, expected) in [
        (
            "topology: {enabled: true}".to_owned(),
            "topology.levels: Required value: levels are required when topology is enabled".to_owned(),
        ),
        (
            "topologyAwareScheduling: {enabled: true, levels: []}".to_owned(),
            "topologyAwareScheduling.levels: Required value: levels are required when topology is enabled"
                .to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: cage, key: a}]}".to_owned(),
            "topology.levels[0].domain: Invalid value: \"cage\": must be one of region, zone, \
             datacenter, block, rack, host, numa"
                .to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack, key: a}, {domain: rack, key: b}]}".to_owned(),
            "topology.levels[1].domain: Duplicate value: \"rack\"".to_owned(),
        ),
        (
            "topologyAwareScheduling: {enabled: true, levels: [{domain: rack, key: a}, {domain: host, key: a}]}"
                .to_owned(),
            "topologyAwareScheduling.levels[1].key: Duplicate value: \"a\"".to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack, key: 'not a key'}]}".to_owned(),
            "topology.levels[0].key: Invalid value: \"not a key\": must be a node label key such as \
             topology.kubernetes.io/zone"
                .to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack}]}".to_owned(),
            "topology.levels[0].key: Invalid value: \"\": must be a node label key such as \
             topology.kubernetes.io/zone"
                .to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack, key: Bad_/rack}]}".to_owned(),
            "topology.levels[0].key: Invalid value: \"Bad_/rack\": the part before the slash must be a \
             DNS subdomain"
                .to_owned(),
        ),
        (
            format!("topology: {{enabled: true, levels: [{{domain: rack, key: {long}}}]}}"),
            format!(
                "topology.levels[0].key: Invalid value: \"{long}\": must be no more than 64 characters"
            ),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack, key: a}]}\n\
             topologyAwareScheduling: {enabled: false}"
                .to_owned(),
            "topology.enabled: Invalid value: true: contradicts topologyAwareScheduling.enabled"
                .to_owned(),
        ),
        (
            "topology: {enabled: true, levels: [{domain: rack, key: a}]}\n\
             topologyAwareScheduling: {enabled: true, levels: [{domain: rack, key: b}]}"
                .to_owned(),
            "topology.levels: Invalid value: [\"rack\"]: contradicts topologyAwareScheduling.levels"
                .to_owned(),
        ),
    ] {
        assert_eq!(problems(&body), [expected], "{body}");
    }
}
