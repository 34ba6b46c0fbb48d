use grove_api::PodCliqueSet;

use super::*;

/// A standalone clique `a` and `b` in the group `g`, with these annotations and GPUs.
fn set(annotations: [Value; 4], gpus: &Value) -> PodCliqueSet {
    let [of_set, of_group, of_a, of_b] = annotations;
    let clique = |name: &str, annotations: Value| {
        json!({ "name": name, "annotations": annotations, "spec": {
            "roleName": name, "replicas": 1,
            "podSpec": {
                "containers": [{ "name": "plain" }, { "name": "gpu", "resources": gpus }],
                "initContainers": [{ "name": "init", "resources": gpus }],
            },
        }})
    };
    serde_json::from_value(json!({
        "metadata": { "name": "x", "namespace": "ns", "uid": "u", "annotations": of_set },
        "spec": { "replicas": 2, "template": {
            "cliques": [clique("a", of_a), clique("b", of_b)],
            "podCliqueScalingGroups": [
                { "name": "g", "cliqueNames": ["b"], "annotations": of_group },
            ],
        }},
    }))
    .unwrap()
}

fn group(name: &str) -> Value {
    json!({ "grove.io/mnnvl-group": name })
}

fn switch(value: &str) -> Value {
    json!({ "grove.io/auto-mnnvl": value })
}

fn one_gpu() -> Value {
    json!({ "limits": { "nvidia.com/gpu": "1" } })
}

fn names(set: &PodCliqueSet) -> Vec<String> {
    let domains = compute_domains(&Layout::of(set), 1);
    domains.into_iter().map(|domain| domain.metadata.name.unwrap()).collect()
}

#[test]
fn the_nearest_annotation_decides() {
    let no = || json!({});
    let cases = [
        ("no annotation", [no(), no(), no(), no()], &[][..]),
        ("the set", [group("s"), no(), no(), no()], &["x-1-s"]),
        ("another for the group", [group("s"), group("g"), no(), no()], &["x-1-g", "x-1-s"]),
        ("and for its clique", [group("s"), group("g"), no(), group("b")], &["x-1-b", "x-1-s"]),
        ("only the group", [no(), group("g"), no(), no()], &["x-1-g"]),
        ("not the group", [group("s"), group("none"), no(), no()], &["x-1-s"]),
        ("both opt out", [group("s"), group("none"), group("none"), no()], &[]),
        ("the older switch", [switch("enabled"), no(), no(), no()], &["x-1"]),
        ("switched off", [switch("enabled"), no(), no(), switch("disabled")], &["x-1"]),
        ("off for all", [switch("disabled"), no(), no(), no()], &[]),
        (
            "a group counts more than the switch beside it",
            [
                json!({ "grove.io/mnnvl-group": "s", "grove.io/auto-mnnvl": "disabled" }),
                no(),
                no(),
                no(),
            ],
            &["x-1-s"],
        ),
        ("nearer switch", [group("s"), no(), switch("enabled"), no()], &["x-1", "x-1-s"]),
    ];
    for (what, annotations, expected) in cases {
        let set = set(annotations, &one_gpu());
        assert_eq!(names(&set), expected, "{what}");
        assert_eq!(is_used(&Layout::of(&set)), !expected.is_empty(), "{what}");
    }
}

#[test]
fn only_cliques_with_gpus_join_a_domain() {
    let cases = [
        (json!({}), false),
        (json!(null), false),
        (json!({ "limits": { "nvidia.com/gpu": "0" } }), false),
        (json!({ "limits": { "nvidia.com/gpu": 0 } }), false),
        (json!({ "limits": { "nvidia.com/gpu": "-1" } }), false),
        (json!({ "limits": { "amd.com/gpu": "1" } }), false),
        (json!({ "limits": { "nvidia.com/gpu": 8 } }), true),
        (json!({ "limits": { "nvidia.com/gpu": "1k" } }), true),
        (json!({ "requests": { "nvidia.com/gpu": "1" } }), true),
    ];
    for (resources, takes_part) in cases {
        let set = set([group("s"), json!({}), json!({}), json!({})], &resources);
        assert_eq!(names(&set).len(), usize::from(takes_part), "{resources}");
    }
}

#[test]
fn a_compute_domain_has_the_form_that_the_driver_expects() {
    let no = || json!({});
    let set = set([group("s"), no(), no(), switch("enabled")], &one_gpu());

    let [default, named] = compute_domains(&Layout::of(&set), 1).try_into().unwrap();

    assert_eq!(default.metadata.labels.unwrap().get("grove.io/mnnvl-group"), None);
    let expected = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {
            "name": "x-1-s",
            "namespace": "ns",
            "labels": {
                "app.kubernetes.io/component": "pcs-computedomain",
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/name": "x-1-s",
                "app.kubernetes.io/part-of": "x",
                "grove.io/mnnvl-group": "s",
                "grove.io/podcliqueset-replica-index": "1",
            },
            "finalizers": ["grove.io/computedomain-finalizer"],
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "x", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "numNodes": 0, "channel": { "resourceClaimTemplate": { "name": "x-1-s" } } },
    });
    assert_eq!(json!(named), expected);
}

#[test]
fn containers_with_gpus_reference_the_claim_of_their_domain() {
    let no = || json!({});
    let set = set([group("s"), no(), no(), group("none")], &one_gpu());
    let layout = Layout::of(&set);
    let joined = |clique: &Clique<'_>| {
        let mut spec = clique.template.spec.pod_spec.clone();
        for _ in 0..2 {
            join(&layout, clique, &mut spec);
        }
        json!(spec)
    };

    let spec = joined(&layout.standalone_cliques(1)[0]);
    let claim = json!([{ "name": "mnnvl-claim", "resourceClaimTemplateName": "x-1-s" }]);
    assert_eq!(spec["resourceClaims"], claim);
    let named = json!([{ "name": "mnnvl-claim" }]);
    assert_eq!(spec["containers"][0].get("resources"), None);
    assert_eq!(spec["containers"][1]["resources"]["claims"], named);
    assert_eq!(spec["initContainers"][0]["resources"]["claims"], named);

    let opted_out = &layout.member_cliques(1, &layout.groups()[0], 0)[0];
    assert_eq!(joined(opted_out), json!(opted_out.template.spec.pod_spec));
}

#[test]
fn an_existing_claim_of_the_same_name_stays() {
    let no = || json!({});
    let mut set = set([group("s"), no(), no(), no()], &one_gpu());
    let own = json!([{ "name": "mnnvl-claim", "resourceClaimName": "mine" }]);
    set.spec.template.cliques[0].spec.pod_spec.insert("resourceClaims".to_owned(), own);
    let layout = Layout::of(&set);
    let clique = &layout.standalone_cliques(0)[0];
    let mut spec = clique.template.spec.pod_spec.clone();

    join(&layout, clique, &mut spec);

    assert_eq!(spec, clique.template.spec.pod_spec);
}
