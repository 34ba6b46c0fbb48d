//! `cargo xtask demo`: runs the product with one command.
//!
//! Starts a real control plane with simulated nodes and the operator, applies the example service, shows its
//! progress and prints how to inspect it. Everything ends with this program: at Enter, at Ctrl-C, or at once
//! without a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::cluster::{Cluster, Fleet, Options};
use xtask::poll;

use crate::generate::workspace_root;
use crate::operator::{Launch, Operator, Profile};

const SET: &str = "inference";
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// Shows the product.
pub(crate) fn run() -> Result<ExitCode> {
    let root = workspace_root()?;
    say("building grove")?;
    Profile::Dev.build(&root, &["grove"])?;
    say("starting a control plane with 16 simulated nodes of 8 GPUs")?;
    let cluster = Cluster::start(Options::default())?;
    cluster.nodes(&Fleet { zones: 1, blocks: 2, racks: 2, hosts: 4, gpus: 8 })?;
    say("starting the operator")?;
    let launch = Launch {
        program: &Profile::Dev.program(&root, "grove"),
        user: cluster.admin(),
        namespace: "default",
        configuration: "logFormat: text",
    };
    let mut operator = Operator::start(&cluster, launch)?;
    say("applying examples/inference.yaml")?;
    let manifest = root.join("examples/inference.yaml");
    let manifest = manifest.to_str().context("the path of the example is no text")?;
    poll::until(READY_TIMEOUT, "the operator answers", || {
        operator.ensure_running()?;
        // The API server refuses it until the CRDs are served and the webhooks answer.
        Ok(cluster.kubectl(&["apply", "-f", manifest]).ok())
    })?;
    watch(&cluster)?;
    say(&cluster.kubectl(&["get", "pcs,pcsg,pclq,pg,pods"])?)?;
    explain(&cluster)?;
    if io::stdin().is_terminal() {
        io::stdin().read_line(&mut String::new())?;
    }
    // Killed: an orderly stop has no use for a cluster that is removed.
    drop(operator);
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{}", text.trim_end()).context("cannot write to standard output")
}

/// Prints one line for each change until the whole set is available.
fn watch(cluster: &Cluster) -> Result<()> {
    let mut printed = String::new();
    poll::until(READY_TIMEOUT, "the service is up", || {
        let selector = format!("app.kubernetes.io/part-of={SET}");
        let pods = cluster.kubectl(&["get", "pods", "-l", &selector, "-o", "json"])?;
        let (progress, all_ready) = progress(&serde_json::from_str(&pods)?);
        if progress != printed {
            say(&progress)?;
            printed = progress;
        }
        let groups = ["get", "pcsg", &format!("{SET}-0-workers"), "--ignore-not-found", "-o"];
        let available = "jsonpath={.status.availableReplicas}";
        let groups = cluster.kubectl(&[&groups[..], &[available]].concat())?;
        let sets = cluster.kubectl(&["get", "pcs", SET, "-o", available])?;
        Ok((all_ready && sets == "1" && groups == "2").then_some(()))
    })
}

/// Progress of the pods, and whether all are ready: an available set may have fewer ready pods.
fn progress(pods: &Value) -> (String, bool) {
    let pods = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_true = |pod: &Value, kind: &str| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions
            .is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
    };
    let count = |kind| pods.iter().filter(|pod| is_true(pod, kind)).count();
    let (created, scheduled, ready) = (pods.len(), count("PodScheduled"), count("Ready"));
    let text = format!("pods: {created} created, {scheduled} scheduled, {ready} ready");
    (text, ready == created)
}

fn explain(cluster: &Cluster) -> Result<()> {
    let directory = cluster.kubectl_dir()?;
    say(&format!(
        "\nLook at it from another terminal:\n    export KUBECONFIG={} PATH={}:$PATH\n    \
         kubectl scale pcsg/{SET}-0-workers --replicas=3\n    kubectl get pg,pods -w\n\
         The operator's log is {}/operator.log\nPress Enter to stop.",
        cluster.admin().kubeconfig().display(),
        directory.display(),
        cluster.directory().display(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_counts_created_scheduled_and_ready_pods() {
        let pod = |kinds: &[&str]| {
            let conditions: Vec<_> =
                kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
            json!({"status": {"conditions": conditions}})
        };
        let pods =
            json!({"items": [pod(&[]), pod(&["PodScheduled"]), pod(&["PodScheduled", "Ready"])]});

        assert_eq!(progress(&pods), ("pods: 3 created, 2 scheduled, 1 ready".to_owned(), false));
        let ready = json!({"items": [pod(&["PodScheduled", "Ready"])]});
        assert!(progress(&ready).1);
    }
}
