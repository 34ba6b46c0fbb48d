//! Memory per cached pod: 5,000 pods on the real API server, listed and indexed.
//!
//! ```text
//! cargo bench -p grove-runtime --bench cache_memory
//! ```
//!
//! Prints the resident memory per pod, for the view that the operator uses and, for comparison, for the
//! complete typed pod. Each is measured in its own process, because an allocator does not return memory for
//! the next measurement.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::StreamExt;
use grove_runtime::cache::Caches;
use grove_runtime::fence::Fence;
use grove_runtime::lease::Leadership;
use grove_runtime::process::{Env, Process};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::{Meta, View};
use grove_runtime::watch::Selection;
use grove_runtime::write::{Verb, Write, Writer};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use serde_json::json;
use xtask::cluster::{Cluster, Options, Parts};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const COUNT: u32 = 5_000;

/// The fields of a pod that a gang controller needs.
#[derive(Deserialize)]
struct PodView {
    metadata: Meta,
    #[expect(dead_code, reason = "measured, not read")]
    spec: PodSpecView,
    #[serde(default)]
    #[expect(dead_code, reason = "measured, not read")]
    status: PodStatusView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "measured, not read")]
struct PodSpecView {
    node_name: Option<Box<str>>,
    #[serde(default)]
    scheduling_gates: Box<[GateView]>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "measured, not read")]
struct GateView {
    name: Box<str>,
}

#[derive(Default, Deserialize)]
#[expect(dead_code, reason = "measured, not read")]
struct PodStatusView {
    #[serde(default)]
    phase: Box<str>,
    #[serde(default)]
    conditions: Box<[ConditionView]>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "measured, not read")]
struct ConditionView {
    r#type: Box<str>,
    status: Box<str>,
}

impl View for PodView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The complete typed pod, for comparison.
#[derive(Deserialize)]
#[serde(from = "Pod")]
struct TypedPod {
    metadata: Meta,
    #[expect(dead_code, reason = "measured, not read")]
    pod: Pod,
}

impl From<Pod> for TypedPod {
    fn from(pod: Pod) -> Self {
        let meta = &pod.metadata;
        let version = meta.resource_version.as_deref().and_then(|version| version.parse().ok());
        let metadata = Meta {
            key: ObjectKey::new(
                meta.namespace.as_deref().unwrap_or_default(),
                meta.name.as_deref().unwrap_or_default(),
            ),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            resource_version: version.unwrap_or_default(),
            generation: 0,
            created: None,
            deleting: false,
            gone_by: None,
            labels: meta.labels.iter().flatten().collect(),
            controller: None,
        };
        Self { metadata, pod }
    }
}

impl View for TypedPod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Maximum memory per cached pod. The benchmark fails above it.
const BUDGET_KIB: f64 = 2.0;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    // Cargo passes `--bench` to every benchmark.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.as_slice() {
        [] => runtime.block_on(measure_all()),
        [kubeconfig, kind] if kind == "narrow" => {
            let per_pod = runtime.block_on(measure::<PodView>(kubeconfig))?;
            ensure!(per_pod <= BUDGET_KIB, "{per_pod:.2} KiB per pod, more than {BUDGET_KIB} KiB");
            Ok(())
        }
        [kubeconfig, kind] if kind == "typed" => {
            runtime.block_on(measure::<TypedPod>(kubeconfig)).map(drop)
        }
        other => anyhow::bail!("unexpected arguments {other:?}"),
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
async fn measure_all() -> anyhow::Result<()> {
    let cluster = Cluster::start(Options { parts: Parts::ApiServer, ..Options::default() })?;
    let kubeconfig = cluster.admin().kubeconfig();
    // The service account admission plugin waits for an account that the controller manager would create.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"}});
    cluster.kubectl_with_stdin(&["apply", "-f", "-"], &account.to_string())?;
    make_pods(client(kubeconfig.to_str().context("path is UTF-8")?).await?).await?;
    println!("{COUNT} pods on a real API server, resident memory added per pod:");
    for kind in ["narrow", "typed"] {
        let output = Command::new(std::env::current_exe()?).arg(kubeconfig).arg(kind).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("{kind:>8} view: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
    Ok(())
}

async fn client(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(grove_runtime::client::client(config, "cache-memory")?)
}

async fn make_pods(client: Client) -> anyhow::Result<()> {
    let writer = Writer::new(client, &Env::system(), Leadership::without_election(), "bench");
    let results: Vec<_> = futures::stream::iter(0..COUNT)
        .map(|index| {
            let (writer, write) = (writer.clone(), pod(index));
            async move { writer.execute(&Fence::default(), &write).await }
        })
        .buffer_unordered(32)
        .collect()
        .await;
    results.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(())
}

/// A pod of a prefill worker with the usual labels, environment, mounts and probes.
fn pod(index: u32) -> Write {
    let (gang, clique) = (index / 8, format!("inference-{}-prefill", index / 8));
    let name = format!("{clique}-{index:05}");
    let env: Vec<_> = (0..20).map(|n| json!({"name": format!("VAR_{n}"), "value": "v"})).collect();
    let probe = json!({"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10});
    let body = json!({
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "inference",
                "app.kubernetes.io/name": clique,
                "app.kubernetes.io/component": "pcs-podclique",
                "grove.io/podclique": clique,
                "grove.io/podgang": format!("inference-{gang}"),
                "grove.io/podcliqueset-replica-index": gang.to_string(),
                "grove.io/podclique-pod-index": (index % 8).to_string(),
                "grove.io/pod-template-hash": "5d4f8c7b9",
            },
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": clique,
                "uid": format!("00000000-0000-0000-0000-{gang:012}"), "controller": true,
            }],
        },
        "spec": {
            "schedulingGates": [{"name": "grove.io/podgang-pending-creation"}],
            "containers": [{
                "name": "server", "image": "registry.example/inference:1", "env": env,
                "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            }],
            "volumes": [{"name": "models", "emptyDir": {}}],
        },
    });
    Write {
        resource: PODS,
        key: ObjectKey::new("default", &name),
        verb: Verb::Create { body },
        reason: "benchmark",
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
async fn measure<T: View>(kubeconfig: &str) -> anyhow::Result<f64> {
    let client = client(kubeconfig).await?;
    // Warm up connection, TLS and allocator before the first reading.
    client.apiserver_version().await?;
    let env = Env::system();
    let mut process = Process::new(env.clone(), Duration::from_secs(1));
    let mut caches = Caches::new(client, &env, process.stage("caches"));
    let before = resident_bytes()?;
    let mut declared = caches.declare::<T>(Selection::all(PODS));
    let by_gang = declared.index(|pod| pod.labels.get("grove.io/podgang").map(str::to_owned));
    declared.index(|pod| pod.controller.as_ref().map(|owner| owner.uid.to_string()));
    let store = caches.start(declared);
    store.synced().await;
    let added = resident_bytes()?.saturating_sub(before);
    ensure!(store.len() == COUNT as usize, "{} pods listed", store.len());
    ensure!(store.by(by_gang, "inference-7").len() == 8, "the index works");
    let per_pod = f64::from(u32::try_from(added / 1024)?) / f64::from(COUNT);
    println!("{per_pod:.2} KiB per pod ({} MiB in all)", added / 1024 / 1024);
    Ok(per_pod)
}

fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("VmRSS in /proc")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}
