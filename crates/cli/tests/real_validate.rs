//! `grove validate` against the real API server with the webhooks of the operator.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod compared;
mod support;

use std::process::Command;

use compared::{Case, cases, validate};
use grove_testbed::DEADLINE;
use http::Request;
use serde_json::Value;
use support::{configuration, start_operator};
use xtask::cluster::{Cluster, Options, Parts};
use xtask::poll;

/// Asks the API server itself, as strict as it can be; the text reaches it as it is.
async fn refusal(client: &kube::Client, case: &Case) -> Option<String> {
    let place = match () {
        () if case.text.contains("kind: ClusterTopologyBinding") => "clustertopologybindings",
        () if case.text.contains("kind: ClusterTopology") => "clustertopologies",
        () => "namespaces/default/podcliquesets",
    };
    let path = format!("/apis/grove.io/v1alpha1/{place}?dryRun=All&fieldValidation=Strict");
    let request = Request::post(path)
        .header("content-type", "application/yaml")
        .body(case.text.clone().into_bytes())
        .unwrap();
    client.request::<Value>(request).await.err().map(|error| error.to_string())
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn validate_and_the_cluster_agree_about_every_manifest() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let config = configuration(&cluster, false);
    let mut operator = start_operator(&cluster, &config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    let good = cases().into_iter().next().unwrap();
    // Created in earnest: the CRDs and the webhooks have to be there.
    let accepted = || Ok(cluster.kubectl_with_stdin(&create, &good.text).ok());
    poll::until(DEADLINE, "the webhooks answer", accepted).unwrap();

    let mut wrong = Vec::new();
    runtime.block_on(async {
        let client = cluster.admin().client().await.unwrap();
        for case in cases() {
            let refusal = if case.kubectl {
                let created = cluster.kubectl_with_stdin(&create, &case.text);
                created.err().map(|error| error.to_string())
            } else {
                refusal(&client, &case).await
            };
            let (code, findings) = validate(&case.text);
            if refusal.is_some() != (code != 0) || refusal.is_some() != case.refused {
                let name = &case.name;
                wrong.push(format!("{name}: cluster {refusal:?}, validate {code}: {findings}"));
            }
        }
    });
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    topologies_of_the_cluster_are_used(&cluster);
    operator.kill();
}

/// `--live` finds the binding that the sets name, and no managed topology.
fn topologies_of_the_cluster_are_used(cluster: &Cluster) {
    let bindings = include_str!("manifests/topology/bindings.yaml");
    cluster.kubectl_with_stdin(&["create", "-f", "-"], bindings).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["validate", "-f", "tests/manifests/topology/sets.yaml", "--live"])
        .env("KUBECONFIG", cluster.admin().kubeconfig())
        .output()
        .unwrap();
    let findings = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{findings}");
    for text in [
        "default/named: spec.template.topologyConstraint: Invalid value: \"shelf\": PodCliqueSet topology",
        "default/unnamed: spec.template.topologyConstraint.topologyName: Required value",
    ] {
        assert!(findings.contains(text), "{text}: {findings}");
    }
}
