use grove_api::PodCliqueSet;

use super::*;
use crate::children::owner;

/// A standalone clique `a` and a group `g` of `b` and `c`, with entries at all levels.
fn set() -> PodCliqueSet {
    let clique = |name: &str, sharing: Value| {
        json!({ "name": name, "resourceSharing": sharing, "spec": {
            "roleName": name, "replicas": 2, "minAvailable": 1,
            "podSpec": { "containers": [{ "name": "c" }] },
        }})
    };
    let entry = |name: &str, scope: &str| json!({ "name": name, "scope": scope });
    let filtered = |name: &str, scope: &str, filter: Value| json!({ "name": name, "scope": scope, "filter": filter });
    let spec = json!({ "devices": { "requests": [{ "name": "r" }] } });
    serde_json::from_value(json!({
        "metadata": { "name": "x", "namespace": "ns", "uid": "u" },
        "spec": { "replicas": 2, "template": {
            "resourceClaimTemplates": [{ "name": "own", "templateSpec": {
                "metadata": {
                    "labels": { "team": "t", "app.kubernetes.io/part-of": "forged" },
                    "annotations": { "note": "n" },
                },
                "spec": spec,
            }}],
            "resourceSharing": [
                filtered("each", "PerReplica", json!({ "childScalingGroupNames": ["g"] })),
                entry("own", "AllReplicas"),
                filtered("some", "AllReplicas", json!({ "childCliqueNames": ["a", "c"] })),
            ],
            "cliques": [
                clique("a", json!([entry("pod", "PerReplica"), entry("own", "AllReplicas")])),
                clique("b", json!([])),
                clique("c", json!([
                    { "name": "far", "namespace": "elsewhere", "scope": "AllReplicas" },
                ])),
            ],
            "podCliqueScalingGroups": [{
                "name": "g", "cliqueNames": ["b", "c"], "replicas": 2,
                "resourceSharing": [
                    entry("each", "PerReplica"),
                    filtered("own", "AllReplicas", json!({ "childCliqueNames": ["b"] })),
                ],
            }],
        }},
    }))
    .unwrap()
}

fn names(claims: &[ResourceClaim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.name.as_str()).collect()
}

#[test]
fn filters_do_not_affect_which_claims_exist() {
    let set = set();
    let layout = Layout::of(&set);
    let group = &layout.groups()[0];
    let alone = &layout.standalone_cliques(1)[0];
    let members = layout.member_cliques(1, group, 2);

    assert_eq!(names(&of_set(&layout)), ["x-all-own", "x-all-some"]);
    assert_eq!(names(&of_set_replica(&layout, 1)), ["x-1-each"]);
    let of_two = ["x-1-g-all-own", "x-1-g-0-each", "x-1-g-1-each"];
    assert_eq!(names(&of_group(&layout, 1, group, 2)), of_two);
    assert_eq!(names(&of_group(&layout, 1, group, 0)), ["x-1-g-all-own"]);
    let with_pods = ["x-1-a-all-own", "x-1-a-0-pod", "x-1-a-4-pod"];
    assert_eq!(names(&of_clique(&layout, alone, [0, 4])), with_pods);
    assert_eq!(names(&of_clique(&layout, &members[0], 0..2)), [""; 0]);
    assert_eq!(names(&of_clique(&layout, &members[1], 0..2)), ["x-1-g-2-c-all-far"]);
}

#[test]
fn labels_name_the_owner_and_the_replica_of_a_claim() {
    let set = set();
    let layout = Layout::of(&set);
    let group = &layout.groups()[0];
    let alone = &layout.standalone_cliques(1)[0];
    let own = |claim: &ResourceClaim| {
        let labels = claim.labels.iter().filter(|(key, _)| key.starts_with("grove.io/"));
        labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let in_group = "grove.io/podcliquescalinggroup=x-1-g";
    let in_clique = "grove.io/podclique=x-1-a";
    let cases = [
        (of_set(&layout).remove(0), String::new()),
        (of_set_replica(&layout, 1).remove(0), "grove.io/podcliqueset-replica-index=1".to_owned()),
        (of_group(&layout, 1, group, 2).remove(0), in_group.to_owned()),
        (
            of_group(&layout, 1, group, 2).remove(2),
            format!("{in_group} grove.io/podcliquescalinggroup-replica-index=1"),
        ),
        (of_clique(&layout, alone, [3]).remove(0), in_clique.to_owned()),
        (
            of_clique(&layout, alone, [3]).remove(1),
            format!("{in_clique} grove.io/podclique-pod-index=3"),
        ),
    ];
    for (claim, expected) in cases {
        assert_eq!(own(&claim), expected, "{}", claim.name);
        let managed = ["managed-by", "part-of", "component"]
            .map(|key| claim.labels[&format!("app.kubernetes.io/{key}")].as_str());
        assert_eq!(managed, ["grove-operator", "x", "resource-claim"], "{}", claim.name);
        assert!(!claim.labels.contains_key("app.kubernetes.io/name"), "{}", claim.name);
    }
}

#[test]
fn a_template_name_without_namespace_refers_to_the_set_first() {
    let mut set = set();
    let external = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let layout = Layout::of(&set);
    assert_eq!(of_set(&layout)[0].template, ClaimTemplate::Internal { name: "own".to_owned() });
    let templates = [
        external("elsewhere", "far"),
        external("ns", "each"),
        external("ns", "pod"),
        external("ns", "some"),
    ];
    assert_eq!(external_templates(&layout), templates.into());
    assert!(internal_template(&layout, "own").is_some());

    set.spec.template.resource_sharing[1].namespace = Some("ns".to_owned());
    let layout = Layout::of(&set);
    let (namespace, name) = external("ns", "own");
    assert_eq!(of_set(&layout)[0].template, ClaimTemplate::External { namespace, name });
    set.spec.template.resource_sharing[1].namespace = Some(String::new());
    let layout = Layout::of(&set);
    assert!(matches!(of_set(&layout)[0].template, ClaimTemplate::Internal { .. }));
}

#[test]
fn a_claim_is_built_from_its_template_with_owner_and_labels() {
    let set = set();
    let layout = Layout::of(&set);
    let claim = of_set(&layout).remove(0);
    let template = internal_template(&layout, "own").unwrap();

    let object = claim.object("ns", &owner::of_set(&set), template);

    let expected = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "x-all-own",
            "namespace": "ns",
            "labels": {
                "app.kubernetes.io/component": "resource-claim",
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "x",
                "team": "t",
            },
            "annotations": { "note": "n" },
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "x", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "devices": { "requests": [{ "name": "r" }] } },
    });
    assert_eq!(object, expected);
}

#[test]
fn pods_reference_the_claims_that_filters_select_from_the_set_down() {
    let set = set();
    let layout = Layout::of(&set);
    let group = &layout.groups()[0];
    let alone = layout.standalone_cliques(1).remove(0);
    let [b, c] = layout.member_cliques(1, group, 0).try_into().unwrap();
    let cases = [
        (&alone, &["x-all-own", "x-all-some", "x-1-a-all-own", "x-1-a-3-pod"][..]),
        (&b, &["x-all-own", "x-1-each", "x-1-g-all-own", "x-1-g-0-each"]),
        (&c, &["x-all-own", "x-all-some", "x-1-each", "x-1-g-0-each", "x-1-g-0-c-all-far"]),
    ];
    for (clique, expected) in cases {
        let claims = PodClaims::of(&layout, clique);
        assert!(!claims.is_empty());
        assert_eq!(claims.names(3), expected, "{}", clique.name);
    }
}

#[test]
fn all_containers_of_a_pod_reference_all_its_claims() {
    let set = set();
    let layout = Layout::of(&set);
    let claims = PodClaims::of(&layout, &layout.member_cliques(0, &layout.groups()[0], 0)[0]);
    let mut pod = json!({ "spec": {
        "containers": [{ "name": "c" }], "initContainers": [{ "name": "i" }],
    }});

    claims.add_to(0, &mut pod);

    let all = ["x-all-own", "x-0-each", "x-0-g-all-own", "x-0-g-0-each"];
    let references = all.map(|name| json!({ "name": name }));
    let expected = json!({
        "containers": [{ "name": "c", "resources": { "claims": references } }],
        "initContainers": [{ "name": "i", "resources": { "claims": references } }],
        "resourceClaims": all.map(|name| json!({ "name": name, "resourceClaimName": name })),
    });
    assert_eq!(pod["spec"], expected);
}

#[test]
fn a_set_without_sharing_has_no_claims() {
    let mut set = set();
    assert!(is_used(&set.spec.template));
    let template = &mut set.spec.template;
    template.resource_sharing.clear();
    assert!(is_used(template), "its groups and cliques do");
    template.cliques.iter_mut().for_each(|clique| clique.resource_sharing.clear());
    assert!(is_used(template), "its group does");
    template.pod_clique_scaling_groups[0].resource_sharing.clear();
    assert!(!is_used(template));
    let layout = Layout::of(&set);
    assert!(PodClaims::of(&layout, &layout.standalone_cliques(0)[0]).is_empty());
    assert_eq!(of_set(&layout), []);
    assert_eq!(of_set_replica(&layout, 0), []);
}
