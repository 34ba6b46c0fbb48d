//! Two processes compete for one lease on the real API server, while signals stop and kill them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::path::PathBuf;
use std::process::Command;

use grove_testbed::in_time;
use grove_testbed::program::{Program, Signal};
use support::api_server;
use xtask::cluster::Cluster;

/// Starts the `lease_holder` example.
fn holder(cluster: &Cluster, identity: &str, mode: &[&str]) -> Program {
    // Built by `cargo build -p grove-runtime --example lease_holder`.
    let mut command = Command::new(example("lease_holder"));
    command.arg(cluster.admin().kubeconfig()).arg(identity).args(mode);
    Program::reading_stdout(command)
}

/// Examples are built next to the directory of the test binaries.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).unwrap();
    target.join("examples").join(name)
}

/// The writers, in the order in which the API server stored their writes.
fn writers(cluster: &Cluster) -> Vec<(u64, String)> {
    let args = ["get", "configmaps", "-n", "default", "-o", "json"];
    let list: serde_json::Value = serde_json::from_str(&cluster.kubectl(&args).unwrap()).unwrap();
    let mut writes: Vec<(u64, String)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|map| {
            let metadata = &map["metadata"];
            let (who, _) = metadata["name"].as_str()?.split_once('-')?;
            (who == "a" || who == "b").then_some(())?;
            let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
            Some((version, who.to_owned()))
        })
        .collect();
    writes.sort();
    writes
}

/// When the lease was last renewed, and by whom.
fn renewed(cluster: &Cluster) -> String {
    let fields = "jsonpath={.spec.renewTime} {.spec.holderIdentity}";
    cluster.kubectl(&["get", "lease", "contended", "-n", "default", "-o", fields]).unwrap()
}

fn turns(writes: &[(u64, String)]) -> Vec<&str> {
    let mut turns: Vec<&str> = writes.iter().map(|(_, who)| who.as_str()).collect();
    turns.dedup();
    turns
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_paused_holder_writes_nothing_after_it_wakes() {
    let cluster = api_server();
    // It has checked the lease and is about to send.
    let mut a = holder(&cluster, "a", &["stop-in-write"]);
    a.until_line(&["acting"]);
    let mut b = holder(&cluster, "b", &[]);

    b.until_line(&["acting"]);
    a.signal(Signal::CONT);
    a.until_line(&["following"]);
    // From here on `a` tries to write all the time; `b` writes more.
    b.signal(Signal::TERM);
    assert!(b.wait().0.success());
    a.until_line(&["acting"]);
    a.signal(Signal::TERM);
    assert!(a.wait().0.success());

    let writes = writers(&cluster);
    assert_eq!(turns(&writes), ["a", "b", "a"], "each acts only in its own turn");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_killed_holder_is_replaced_and_a_stopped_one_releases_its_lease() {
    let cluster = api_server();
    let mut a = holder(&cluster, "a", &[]);
    a.until_line(&["leading"]);
    let mut b = holder(&cluster, "b", &[]);

    // Other programs may change the lease while it is held.
    for number in 0..5 {
        let before = renewed(&cluster);
        let label = format!("number={number}");
        let edit = ["label", "lease", "contended", "-n", "default", "--overwrite", &label];
        cluster.kubectl(&edit).unwrap();
        in_time("the next renewal", async {
            while renewed(&cluster) == before {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    a.kill();
    let (_, lines) = a.wait();
    let mut lines = lines.iter().skip_while(|line| *line != "leading");
    assert!(!lines.any(|line| line == "following"), "an edit ended the leadership");
    b.until_line(&["leading"]);
    b.signal(Signal::TERM);
    assert!(b.wait().0.success());

    let args = ["get", "lease", "contended", "-n", "default", "-o", "json"];
    let lease: serde_json::Value = serde_json::from_str(&cluster.kubectl(&args).unwrap()).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "released");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
}
