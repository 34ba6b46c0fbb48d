//! The operator as a program on the real control plane: it starts, serves, stops on a signal, and continues
//! where a killed one was.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use grove_runtime::rng::Rng;
use grove_testbed::DEADLINE;
use grove_testbed::cluster::FLEET;
use grove_testbed::program::Signal;
use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend};
use serde_json::{Value, json};
use support::{configuration, kill_in_the_middle, start_operator};
use xtask::cluster::{Cluster, Options, Parts};
use xtask::poll;

const BAD_SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: bad}
spec:
  template:
    cliques:
      - name: worker
        spec: {roleName: worker, replicas: 0, podSpec: {containers: [{name: c, image: busybox}]}}
";

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_operator_serves_from_start_to_sigterm() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let mut operator = start_operator(&cluster, &configuration(&cluster, true));
    operator.until_line(&["leading"]);

    let ready = || {
        let probe = cluster.kubectl_with_stdin(&["apply", "-f", "-"], BAD_SET).unwrap_err();
        let refusal = format!("{probe:#}");
        Ok(refusal.contains("minAvailable: Invalid value: 0: must be greater than 0").then_some(()))
    };
    poll::until(DEADLINE, "the webhooks refuse a bad set", ready).unwrap();

    operator.signal(Signal::TERM);
    operator.until_line(&["released"]);
    assert!(operator.wait().0.success());
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn an_operator_without_what_mnnvl_needs_reports_it_and_exits() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let config = configuration(&cluster, false);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}network: {{autoMNNVLEnabled: true}}\n")).unwrap();
    let mut operator = start_operator(&cluster, &config);

    operator.until_line(&["MNNVL preflight check failed"]);
    assert_eq!(operator.wait().0.code(), Some(7));
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn backends_are_compared_as_the_cluster_is() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let config = cluster.directory().join("backends.yaml");
    let text = |endpoint: &str| {
        format!(
            "apiVersion: operator.config.grove.io/v1alpha1\n\
             kind: OperatorConfiguration\n\
             scheduler: {{profiles: [{{name: default-scheduler, config: {{gangScheduling: true}}}}, \
             {{name: kai-scheduler, default: true}}, {{name: volcano}}, \
             {{name: crew-scheduler, config: {{endpoint: {endpoint}}}}}]}}\n"
        )
    };
    let nowhere = "{url: 'https://127.0.0.1:1/', caFile: /none/ca.crt, tokenFile: /none/token}";
    fs::write(&config, text(nowhere)).unwrap();
    let backends = |output: &str| {
        let answer = Command::new(env!("CARGO_BIN_EXE_grove"))
            .args(["backends", "--output", output, "--config"])
            .arg(&config)
            .env("KUBECONFIG", cluster.admin().kubeconfig())
            .output()
            .unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        String::from_utf8(answer.stdout).unwrap()
    };
    insta::assert_snapshot!(backends("text"));
    let rows: Value = serde_json::from_str(&backends("json")).unwrap();
    assert_eq!(rows[2]["name"], "kai-scheduler");
    assert_eq!(rows[2]["default"], true);
    assert_eq!(rows[2]["served"]["scheduling.run.ai/v2alpha2 podgroups"], false);
    assert_eq!(rows[1]["served"]["scheduling.k8s.io/v1alpha3 compositepodgroups"], true);
    assert_eq!(rows[0]["endpoint"]["reachable"], false);
    let check = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["backends", "--check", "--config"])
        .arg(&config)
        .env("KUBECONFIG", cluster.admin().kubeconfig())
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(1));

    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/compared"));
    let program = ReferenceBackend::start(&pki, Credential::Token, 0);
    let endpoint = format!(
        "{{url: '{}', caFile: '{}', tokenFile: '{}'}}",
        program.url(),
        pki.path("ca.crt"),
        pki.path("token")
    );
    fs::write(&config, text(&endpoint)).unwrap();
    let rows: Value = serde_json::from_str(&backends("json")).unwrap();
    let reachable = json!({ "url": program.url(), "reachable": true, "problem": null });
    assert_eq!(rows[0]["endpoint"], reachable);
    assert_eq!(rows[0]["capabilities"]["objects"], "Crew");
    assert_eq!(rows[2]["endpoint"], Value::Null);
}

// === kills ===

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo}
spec:
  replicas: 4
  template:
    cliques:
      - name: router
        spec: {roleName: router, replicas: 2, podSpec: {containers: [{name: c, image: busybox}]}}
      - name: worker
        spec: {roleName: worker, replicas: 3, podSpec: {containers: [{name: c, image: busybox}]}}
    podCliqueScalingGroups: [{name: group, cliqueNames: [worker], replicas: 2, minAvailable: 1}]
";
/// Pods of one replica.
const PODS: usize = 2 + 2 * 3;

/// What the user does, how many pods that makes, and how often the operator dies meanwhile.
const PHASES: [(&[&str], usize, u32); 4] = [
    (&["create", "-f", "-"], 4 * PODS, 12),
    (&["scale", "pcs/demo", "--replicas=6"], 6 * PODS, 8),
    (&["scale", "pcs/demo", "--replicas=1"], PODS, 8),
    (&["delete", "pcs/demo", "--wait=false"], 0, 8),
];

fn list(cluster: &Cluster, kinds: &str) -> Vec<Value> {
    let selector = "--selector=app.kubernetes.io/part-of=demo";
    let text = cluster.kubectl(&["get", kinds, selector, "--output=json"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Every pod is there once and ready, or nothing at all is left.
fn is_done(cluster: &Cluster, pods: usize) -> bool {
    if pods == 0 {
        return list(cluster, "pcsg,pclq,podgangs,pods,services,secrets,roles").is_empty();
    }
    let found = list(cluster, "pods");
    let hosts: BTreeSet<_> =
        found.iter().filter_map(|pod| pod["spec"]["hostname"].as_str()).collect();
    found.len() == pods && hosts.len() == pods && found.iter().all(is_ready)
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_next_operator_finishes_what_killed_ones_left() {
    let cluster = Cluster::start(Options::default()).unwrap();
    cluster.nodes(&FLEET).unwrap();
    let config = configuration(&cluster, false);
    let rng = Rng::seeded(7);
    for (act, pods, kills) in PHASES {
        let mut operator = start_operator(&cluster, &config);
        let acted = || Ok(cluster.kubectl_with_stdin(act, SET).ok());
        poll::until(DEADLINE, "the webhooks are there and let the user act", acted).unwrap();
        for _ in 0..kills {
            kill_in_the_middle(operator, &rng);
            operator = start_operator(&cluster, &config);
        }
        let what = format!("{} ends with {pods} pods", act.join(" "));
        poll::until(DEADLINE, &what, || Ok(is_done(&cluster, pods).then_some(()))).unwrap();
        operator.kill();
    }
}
