//! The operator as a program on the real control plane: it starts, serves, and stops when told.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use xtask::cluster::{Cluster, Options, Parts};
use xtask::poll;

const DEADLINE: Duration = Duration::from_secs(60);
const CONFIGURATION: &str = "
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection: {enabled: true}
";
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

/// Reads the log until a line says this.
fn says(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) {
    let found = lines.any(|line| line.unwrap().contains(word));
    assert!(found, "the log ended without {word:?}");
}

fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_operator_serves_from_start_to_sigterm() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let config = cluster.directory().join("operator.yaml");
    // Ports of its own: another operator may be running here.
    let [webhooks, health, metrics] = free_ports();
    let servers = format!(
        "server: {{webhooks: {{port: {webhooks}}}, healthProbes: {{port: {health}}}, \
         metrics: {{port: {metrics}}}}}\n"
    );
    fs::write(&config, format!("{CONFIGURATION}{servers}")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["operator", "--install-crds", "--webhook-host", "127.0.0.1"])
        .args(["--namespace", "default", "--config"])
        .arg(&config)
        .env("KUBECONFIG", cluster.admin().kubeconfig())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    says(&mut log, "leading");

    let ready = || {
        let probe = cluster.kubectl_with_stdin(&["apply", "-f", "-"], BAD_SET).unwrap_err();
        let refusal = format!("{probe:#}");
        Ok(refusal.contains("minAvailable: Invalid value: 0: must be greater than 0").then_some(()))
    };
    poll::until(DEADLINE, "the webhooks refuse a bad set", ready).unwrap();

    terminate(&child);
    says(&mut log, "released");
    assert!(child.wait().unwrap().success());
}

fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
