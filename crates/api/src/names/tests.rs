//! The documented names, one row each, and the worked example.

use super::*;

#[test]
fn every_object_has_its_documented_name() {
    let group = scaling_group("inf", 0, "decode");
    let router = standalone_pod_clique("inf", 0, "router");
    let worker = member_pod_clique(&group, 2, "worker");
    for (name, expected) in [
        (headless_service("inf", 0), "inf-0"),
        (base_pod_gang("inf", 0), "inf-0"),
        (router.clone(), "inf-0-router"),
        (group.clone(), "inf-0-decode"),
        (worker.clone(), "inf-0-decode-2-worker"),
        (scaled_pod_gang(&group, 2, 1).unwrap(), "inf-0-decode-1"),
        (pod_generate_name(&worker), "inf-0-decode-2-worker-"),
        (pod_hostname(&worker, 0), "inf-0-decode-2-worker-0"),
        (headless_service_address("inf", 0, "default"), "inf-0.default.svc.cluster.local"),
        (service_account("inf"), "inf"),
        (role("inf"), "grove.io:pcs:inf"),
        (role_binding("inf"), "grove.io:pcs:inf"),
        (token_secret("inf"), "inf-ic-sat"),
        (legacy_token_secret("inf"), "inf-initc-sa-token-secret"),
        (revision("inf", "bcdf2"), "inf-bcdf2"),
        (autoscaler(&group), "inf-0-decode"),
        (constraint_group(&group, 0), "inf-0-decode-0"),
        (shared_resource_claim("inf", "gpu"), "inf-all-gpu"),
        (shared_resource_claim(&group, "gpu"), "inf-0-decode-all-gpu"),
        (shared_resource_claim(&router, "gpu"), "inf-0-router-all-gpu"),
        (replica_resource_claim("inf", 0, "gpu"), "inf-0-gpu"),
        (replica_resource_claim(&group, 2, "gpu"), "inf-0-decode-2-gpu"),
        (replica_resource_claim(&router, 1, "gpu"), "inf-0-router-1-gpu"),
        (compute_domain("inf", 0, "grp"), "inf-0-grp"),
        (legacy_compute_domain("inf", 0), "inf-0"),
    ] {
        assert_eq!(name, expected);
    }
}

#[test]
fn set_with_one_group_and_one_standalone_clique() {
    let group = scaling_group("simple1", 0, "workers");
    let members: Vec<_> = (0..2)
        .flat_map(|replica| ["prefill", "decode"].map(|c| member_pod_clique(&group, replica, c)))
        .collect();

    assert_eq!(base_pod_gang("simple1", 0), "simple1-0");
    assert_eq!(group, "simple1-0-workers");
    assert_eq!(
        members,
        [
            "simple1-0-workers-0-prefill",
            "simple1-0-workers-0-decode",
            "simple1-0-workers-1-prefill",
            "simple1-0-workers-1-decode",
        ]
    );
    assert_eq!(scaled_pod_gang(&group, 1, 1).as_deref(), Some("simple1-0-workers-0"));
    assert_eq!(pod_hostname(&members[3], 1), "simple1-0-workers-1-decode-1");
    let frontend = standalone_pod_clique("simple1", 0, "frontend");
    let address = headless_service_address("simple1", 0, "default");
    assert_eq!(
        format!("{}.{address}", pod_hostname(&frontend, 0)),
        "simple1-0-frontend-0.simple1-0.default.svc.cluster.local"
    );
}

#[test]
fn replica_within_the_minimum_has_no_gang_of_its_own() {
    assert_eq!(scaled_pod_gang("inf-0-decode", 0, 1), None);
    assert_eq!(scaled_pod_gang("inf-0-decode", 1, 2), None);
    assert_eq!(scaled_pod_gang("inf-0-decode", 2, 2).as_deref(), Some("inf-0-decode-0"));
}

#[test]
fn indices_are_not_padded() {
    assert_eq!(standalone_pod_clique("x", 10, "a-1"), "x-10-a-1");
}

#[test]
fn longest_allowed_names_fit_a_pod_name() {
    let (set, group, clique) = ("s".repeat(15), "g".repeat(15), "c".repeat(15));
    assert_eq!(combined_length(&set, Some(&group), &clique), MAX_COMBINED_LENGTH);
    assert_eq!(combined_length(&set, None, &clique), 30);

    let member = member_pod_clique(&scaling_group(&set, 99, &group), 999, &clique);

    assert!(pod_generate_name(&member).len() + 5 <= 63, "{member}");
}
