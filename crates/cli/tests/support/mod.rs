//! The operator as a program on a real control plane.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use grove_runtime::rng::Rng;
use grove_testbed::program::Program;
use xtask::cluster::Cluster;

/// Starts the operator; its lines are those of its log.
pub fn start_operator(cluster: &Cluster, config: &Path) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grove"));
    command
        .args(["operator", "--install-crds", "--webhook-host", "127.0.0.1"])
        .args(["--namespace", "default", "--log", "info,grove_runtime::write=debug"])
        .arg("--config")
        .arg(config)
        .env("KUBECONFIG", cluster.admin().kubeconfig());
    Program::reading_stderr(command)
}

/// Lets the operator write some log lines, or wait for the next one for a while, and kills it.
pub fn kill_in_the_middle(mut operator: Program, rng: &Rng) {
    for _ in 0..rng.next_u64() % 40 {
        let timeout = Duration::from_millis(rng.next_u64() % 400);
        if operator.next_line(timeout).is_none() {
            break;
        }
    }
    operator.kill();
}

/// Writes a configuration file.
pub fn configuration(cluster: &Cluster, election: bool) -> PathBuf {
    let config = cluster.directory().join("operator.yaml");
    // Ports of its own: another operator may be running here.
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [webhooks, health, metrics] = listeners.map(|one| one.local_addr().unwrap().port());
    let text = format!(
        "apiVersion: operator.config.grove.io/v1alpha1\n\
         kind: OperatorConfiguration\n\
         leaderElection: {{enabled: {election}}}\n\
         server: {{webhooks: {{port: {webhooks}}}, healthProbes: {{port: {health}}}, \
         metrics: {{port: {metrics}}}}}\n"
    );
    fs::write(&config, text).unwrap();
    config
}
