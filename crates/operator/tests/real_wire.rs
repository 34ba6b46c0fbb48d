//! Every object that the operator creates for the documented examples, on the wire.
//!
//! The goldens have every object as the API server stores it, once all pods are ready, without what
//! differs from run to run. Of equal pods only the first is shown. `INSTA_UPDATE=always` writes them
//! again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_testbed::cluster::TestCluster;
use grove_testbed::devices;
use grove_testbed::kinds::{CLAIM_TEMPLATES, PODS, SETS};
use grove_testbed::mirror::{Mirror, send};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::sets::{self, clique, group, set};
use http::Method;
use serde_json::{Value, json};
use xtask::cluster::Kube;

/// A frontend next to two copies of a group of workers.
fn simple1() -> Value {
    let cliques = [clique("frontend", 3), clique("prefill", 2), clique("decode", 2)];
    set("simple1", &cliques, &[group("workers", &["prefill", "decode"], 2, 1)])
}

/// The set that users start from.
fn demo() -> Value {
    serde_saphyr::from_str(include_str!("../../../examples/minimal.yaml")).unwrap()
}

/// Start order, autoscaling, priorities, metadata and variables of the user.
fn everything() -> Value {
    let mut set = simple1();
    set["metadata"] = json!({
        "name": "every", "labels": { "team": "a" }, "annotations": { "queue": "q" },
    });
    let template = &mut set["spec"]["template"];
    template["cliqueStartupType"] = json!("CliqueStartupTypeInOrder");
    template["priorityClassName"] = json!("system-cluster-critical");
    template["headlessServiceConfig"] = json!({ "publishNotReadyAddresses": false });
    let config = json!({ "minReplicas": 2, "maxReplicas": 6 });
    template["podCliqueScalingGroups"][0]["scaleConfig"] = config.clone();
    template["podCliqueScalingGroups"][0]["annotations"] = json!({ "note": "of the group" });
    let frontend = &mut template["cliques"][0];
    frontend["labels"] = json!({ "role": "frontend" });
    frontend["annotations"] = json!({ "note": "of the clique" });
    frontend["spec"]["minAvailable"] = json!(2);
    frontend["spec"]["autoScalingConfig"] = config;
    let env = json!([{ "name": "SELF", "value": "$(GROVE_PCLQ_NAME)" }]);
    frontend["spec"]["podSpec"]["containers"][0]["env"] = env;
    set
}

/// Claims of the set, its groups and its cliques.
async fn sharing(mirror: &Mirror, namespace: &str) -> Value {
    devices::install(mirror.client()).await;
    let templates = CLAIM_TEMPLATES.in_namespace(namespace);
    let template = devices::template("beside");
    send(mirror.client(), Method::POST, &templates, &template).await.unwrap();
    sets::sharing("share")
}

/// The objects of a namespace, one after the other.
async fn objects(mirror: &Mirror, namespace: &str, set: &Value, pods: usize) -> String {
    let here = mirror.namespace(namespace);
    here.create(SETS, set).await;
    here.until_complete(pods).await;
    here.until_gangs_run().await;
    let hosts = here.look(|state| state.of(PODS).len());
    assert_eq!(hosts, pods);
    let mut objects = here.normalized();
    objects.retain(|title, _| !title.starts_with("Pod ") || title.ends_with("-0"));
    serde_json::to_string_pretty(&objects).unwrap().replace("NAMESPACE", namespace)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_documented_examples_match_their_goldens() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    for namespace in ["team-a", "team-b", "team-c"] {
        mirror.new_namespace(namespace).await;
    }

    let sharing = sharing(&mirror, "team-c").await;
    let goldens = [
        ("simple1", objects(&mirror, "default", &simple1(), 11).await),
        ("demo", objects(&mirror, "team-a", &demo(), 9).await),
        ("every", objects(&mirror, "team-b", &everything(), 11).await),
        ("share", objects(&mirror, "team-c", &sharing, 5).await),
    ];
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| goldens.map(|(name, objects)| insta::assert_snapshot!(name, objects)));
    operator.stop().await;
}
