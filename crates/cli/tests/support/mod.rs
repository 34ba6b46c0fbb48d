//! The operator as a program of its own, on a real control plane.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use grove_runtime::rng::Rng;
use xtask::cluster::{Cluster, Fleet};

/// Longer than anything here takes; a test that needs it has failed.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Nodes with room for all sets of the tests.
pub const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// A running operator.
pub struct Operator {
    pub child: Child,
    /// Lines of its log.
    log: Receiver<String>,
}

impl Operator {
    pub fn start(cluster: &Cluster, config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_grove"))
            .args(["operator", "--install-crds", "--webhook-host", "127.0.0.1"])
            .args(["--namespace", "default", "--log", "info,grove_runtime::write=debug"])
            .arg("--config")
            .arg(config)
            .env("KUBECONFIG", cluster.admin().kubeconfig())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (told, log) = mpsc::channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| drop(told.send(line)));
        });
        Self { child, log }
    }

    /// Reads the log until a line says this.
    pub fn says(&self, word: &str) {
        let said = |line: String| line.contains(word);
        while !said(self.log.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no {word:?}"))) {}
    }

    /// Lets it do some writes, or live for a while when there is nothing to do, and kills it.
    pub fn kill_in_the_middle(mut self, rng: &Rng) {
        for _ in 0..rng.next_u64() % 40 {
            let patience = Duration::from_millis(rng.next_u64() % 400);
            if self.log.recv_timeout(patience).is_err() {
                break;
            }
        }
        self.kill();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A failed test leaves no operator behind.
impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
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
