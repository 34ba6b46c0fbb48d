//! Parts of pods. Complete pods of the examples are in the snapshots of `children`.

use grove_api::PodClique;
use serde_json::{Value, json};

use crate::{
    pods::{BuildError, PodContext, draft, finish},
    start_order::Parent,
};

fn clique(pod_spec: &Value, starts_after: &[&str]) -> PodClique {
    serde_json::from_value(json!({
        "metadata": {
            "name": "x-0-a", "namespace": "ns", "uid": "u1",
            "labels": {
                "grove.io/podgang": "x-0", "app.kubernetes.io/name": "x-0-a", "team": "t",
                "grove.io/podclique": "forged",
            },
            "annotations": { "note": "n" },
        },
        "spec": { "podSpec": pod_spec, "startsAfter": starts_after },
    }))
    .unwrap()
}

fn context<'a>(pod_clique: &'a PodClique, parents: &'a [Parent]) -> PodContext<'a> {
    PodContext { set: "x", set_replica: 0, pod_clique, parents, init_image: Some("initc:1") }
}

fn build(context: &PodContext<'_>, index: u32) -> Result<Value, BuildError> {
    let mut pod = draft(context, index)?;
    finish(context, index, &mut pod)?;
    Ok(pod)
}

#[test]
fn environment_of_the_worked_example() {
    let env = json!([
        { "name": "A", "value": "$(GROVE_PCLQ_NAME)" }, { "name": "GROVE_PCS_NAME", "value": "x" },
    ]);
    let clique = clique(&json!({ "containers": [{ "name": "c", "env": env }] }), &[]);

    let pod = build(&context(&clique, &[]), 0).unwrap();

    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let names: Vec<_> = env.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "GROVE_PCS_NAME",
            "GROVE_PCS_INDEX",
            "GROVE_PCLQ_NAME",
            "GROVE_HEADLESS_SERVICE",
            "GROVE_PCLQ_POD_INDEX",
            "A",
        ]
    );
    assert_eq!(env[3]["value"], "x-0.ns.svc.cluster.local");
}

#[test]
fn managed_fields_win_over_the_template_and_the_rest_is_kept() {
    let spec = json!({
        "containers": [{ "name": "c" }],
        "schedulingGates": [{ "name": "theirs" }],
        "hostname": "theirs",
        "subdomain": "theirs",
        "restartPolicy": "Never",
        "serviceAccountName": "mine",
        "newerThanUs": { "a": 1 },
    });
    let clique = clique(&spec, &[]);

    let pod = build(&context(&clique, &[]), 7).unwrap();

    let built = &pod["spec"];
    assert_eq!(built["schedulingGates"], json!([{ "name": "grove.io/podgang-pending-creation" }]));
    assert_eq!((&built["hostname"], &built["subdomain"]), (&json!("x-0-a-7"), &json!("x-0")));
    for kept in ["restartPolicy", "serviceAccountName", "newerThanUs"] {
        assert_eq!(built[kept], spec[kept]);
    }
    assert_eq!(built.get("initContainers"), None);
    assert_eq!(built.get("volumes"), None);
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["grove.io/podclique"], "x-0-a");
    assert_eq!(labels["grove.io/podclique-pod-index"], "7");
    assert_eq!(labels["team"], "t");
    assert_eq!(labels["app.kubernetes.io/part-of"], "x");
    assert_eq!(pod["metadata"]["annotations"], json!({ "note": "n" }));
    assert_eq!(pod["metadata"].get("name"), None);
}

#[test]
fn start_order_container_comes_last_without_variables() {
    let spec = json!({
        "containers": [{ "name": "c" }],
        "initContainers": [{ "name": "first" }],
        "volumes": null,
    });
    let clique = clique(&spec, &["x-0-c", "x-0-b"]);
    let parent = |name: &str, min_available| Parent { pod_clique: name.into(), min_available };
    let parents = [parent("x-0-b", 1), parent("x-0-c", 3)];

    let pod = build(&context(&clique, &parents), 0).unwrap();

    let init = pod["spec"]["initContainers"].as_array().unwrap();
    assert_eq!((init.len(), &init[0]["name"]), (2, &json!("first")));
    assert!(init[0]["env"].is_array());
    insta::assert_json_snapshot!(json!([init[1], pod["spec"]["volumes"]]));
}

#[test]
fn changes_of_the_backend_stay() {
    let clique = clique(&json!({ "containers": [{ "name": "c" }] }), &[]);
    let context = context(&clique, &[]);
    let mut pod = draft(&context, 0).unwrap();
    pod["spec"]["schedulerName"] = json!("special");
    pod["metadata"]["annotations"]["queue"] = json!("q");

    finish(&context, 0, &mut pod).unwrap();

    assert_eq!(pod["spec"]["schedulerName"], "special");
    assert_eq!(pod["metadata"]["annotations"]["queue"], "q");
}

#[test]
fn pods_do_not_share_annotations() {
    let mut clique = clique(&json!({ "containers": [{ "name": "c" }] }), &[]);
    clique.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    let before = clique.clone();
    let context = context(&clique, &[]);
    let mut first = draft(&context, 0).unwrap();
    first["metadata"]["annotations"]["queue"] = json!("q");

    let second = draft(&context, 1).unwrap();

    assert_eq!(second["metadata"]["annotations"], json!({ "a": "b" }));
    assert_eq!(clique, before);
}

#[test]
fn errors_of_invalid_cliques_name_the_next_step() {
    let mut gangless = clique(&json!({}), &[]);
    gangless.metadata.labels = None;
    let orphan = clique(&json!({}), &["x-0-z"]);
    let waiting = clique(&json!({}), &["x-0-b"]);
    let parents = [Parent { pod_clique: "x-0-b".into(), min_available: 1 }];
    let no_image = PodContext { init_image: None, ..context(&waiting, &parents) };
    for (context, code, expected) in [
        (
            context(&gangless, &[]),
            "ERR_MISSING_PODGANG_LABEL_ON_PODCLIQUE",
            "PodClique x-0-a has no label grove.io/podgang; put it back",
        ),
        (
            context(&orphan, &parents),
            "ERR_BUILD_POD_RESOURCE",
            "PodClique x-0-a starts after x-0-z, which its PodCliqueSet does not say; delete",
        ),
        (
            no_image,
            "ERR_INITCONTAINER_ENVIRONMENT_VARIABLE_MISSING",
            "PodClique x-0-a needs the start-order container, but environment variable \
             GROVE_INIT_CONTAINER_IMAGE of",
        ),
    ] {
        let error = build(&context, 0).unwrap_err();

        assert_eq!(error.code().as_str(), code);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
