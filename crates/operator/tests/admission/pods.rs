//! The rules about pod specs against the API server itself.

use grove_api::pod_spec::PodSpec;
use grove_core::admission::pod_errors;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NAMESPACE;
use grove_testbed::kinds::PODS;
use grove_testbed::mirror::send;

/// The same cases that the rules have without a cluster.
const CASES: &str = include_str!("../../../core/src/admission/pod_spec/cases.yaml");

#[derive(Deserialize)]
struct Case {
    name: String,
    pod: Option<Value>,
    container: Option<Value>,
}

/// The cases about which the rules and the API server disagree.
pub(crate) async fn disagreements(client: &Client) -> Vec<String> {
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    let path = format!("{}?dryRun=All", PODS.in_namespace(NAMESPACE));
    let mut wrong = Vec::new();
    for Case { name, pod, container } in cases {
        let mut spec = json!({ "containers": [{ "name": "c", "image": "busybox" }] });
        json_patch::merge(&mut spec, &pod.unwrap_or_else(|| json!({})));
        if let Some(container) = container {
            json_patch::merge(&mut spec["containers"][0], &container);
        }
        let body = json!({ "metadata": { "name": "demo" }, "spec": spec });
        let answer = send(client, Method::POST, &path, &body).await;
        let typed: PodSpec = serde_json::from_value(spec).unwrap();
        let found = pod_errors("spec", &typed, false);
        match (found.is_empty(), answer) {
            (true, Err(refusal)) => wrong.push(format!("{name}: accepted, but: {refusal}")),
            (false, Ok(_)) => wrong.push(format!("{name}: refused without need: {found:?}")),
            (true, Ok(_)) | (false, Err(_)) => {}
        }
    }
    wrong
}
