//! The control plane itself: it schedules gangs, isolates instances, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xtask::cluster::directory::Owner;
use xtask::cluster::{Cluster, Fleet, Gates, Kube, Options, Parts, User};
use xtask::poll;

const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 2, gpus: 8 };
const LIMIT: Duration = Duration::from_secs(30);

fn api_server() -> Cluster {
    Cluster::start(Options { parts: Parts::ApiServer, ..Options::default() }).unwrap()
}

fn pod(name: &str, group: Option<&str>) -> String {
    let group = group.map(|group| format!("schedulingGroup: {{ podGroupName: {group} }}"));
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec:\n  \
         containers: [ {{ name: c, image: i }} ]\n  {}\n",
        group.unwrap_or_default()
    )
}

fn node_of(cluster: &Cluster, pod: &str) -> String {
    cluster.kubectl(&["get", "pod", pod, "--output=jsonpath={.spec.nodeName}"]).unwrap()
}

// === gangs ===

/// A gang of two is bound together: the first pod waits while the scheduler places other pods, and the second
/// pod completes the gang.
fn a_gang_is_bound_as_a_whole(kube: Kube, version: &str, condition: &str) {
    let cluster = Cluster::start(Options { kube, ..Options::default() }).unwrap();
    cluster.nodes(&FLEET).unwrap();
    let create = |text: &str| cluster.kubectl_with_stdin(&["create", "-f", "-"], text).unwrap();
    create(&format!(
        "apiVersion: scheduling.k8s.io/{version}\nkind: PodGroup\nmetadata: {{ name: gang }}\n\
         spec: {{ schedulingPolicy: {{ gang: {{ minCount: 2 }} }} }}"
    ));
    create(&pod("first", Some("gang")));
    // A later pod is bound, so the scheduler has processed the first one.
    create(&pod("witness", None));
    cluster
        .kubectl(&["wait", "pod/witness", "--for=condition=PodScheduled", "--timeout=30s"])
        .unwrap();
    assert_ne!(node_of(&cluster, "witness"), "");
    assert_eq!(node_of(&cluster, "first"), "");
    let group = format!("podgroups.{version}.scheduling.k8s.io/gang");
    let conditions = |path: &str| {
        let path = format!("--output=jsonpath={{.status.conditions{path}}}");
        cluster.kubectl(&["get", &group, &path]).unwrap()
    };
    assert_eq!(conditions(""), "");

    create(&pod("second", Some("gang")));
    let both = ["wait", "pod/first", "pod/second", "--for=condition=Ready", "--timeout=30s"];
    cluster.kubectl(&both).unwrap();
    assert_ne!(node_of(&cluster, "first"), "");
    assert_ne!(node_of(&cluster, "second"), "");
    let scheduled = format!("--for=condition={condition}");
    cluster.kubectl(&["wait", &group, &scheduled, "--timeout=30s"]).unwrap();
    assert_eq!(conditions(&format!("[?(@.type==\"{condition}\")].reason")), "Scheduled");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_gang_is_bound_as_a_whole_on_1_37() {
    a_gang_is_bound_as_a_whole(Kube::V1_37, "v1beta1", "PodGroupInitiallyScheduled");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_gang_is_bound_as_a_whole_on_1_36() {
    a_gang_is_bound_as_a_whole(Kube::V1_36, "v1alpha2", "PodGroupScheduled");
}

/// Every program accepts its gates, and the API server serves exactly the chosen versions.
#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn every_choice_of_version_and_gates_serves_its_api_versions() {
    let table: [(Kube, Gates, &[&str]); 6] = [
        (Kube::V1_37, Gates::All, &["v1", "v1alpha3", "v1beta1"]),
        (Kube::V1_37, Gates::Cautious, &["v1", "v1beta1"]),
        (Kube::V1_37, Gates::Defaults, &["v1"]),
        (Kube::V1_36, Gates::All, &["v1", "v1alpha2"]),
        (Kube::V1_36, Gates::Cautious, &["v1", "v1alpha2"]),
        (Kube::V1_36, Gates::Defaults, &["v1"]),
    ];
    for (kube, gates, expected) in table {
        let cluster = Cluster::start(Options { kube, gates, ..Options::default() }).unwrap();
        let versions = cluster.kubectl(&["api-versions"]).unwrap();
        let mut served: Vec<&str> =
            versions.lines().filter_map(|line| line.strip_prefix("scheduling.k8s.io/")).collect();
        served.sort_unstable();
        assert_eq!(served, expected, "{kube} {gates}");
        let version = cluster.kubectl(&["version", "--output=json"]).unwrap();
        assert_eq!(version.matches(&format!("\"v{kube}\"")).count(), 2, "{version}");
    }
}

// === users and instances ===

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_new_user_has_name_and_groups_and_no_permissions() {
    let cluster = api_server();
    let alice = cluster.user("alice", &["team-a", "team-b"]).unwrap();
    let whoami = cluster.kubectl_as(&alice, &["auth", "whoami"]).unwrap();
    for known in ["alice", "team-a", "team-b"] {
        assert!(whoami.contains(known), "{whoami}");
    }
    let list = |user: &User| cluster.kubectl_as(user, &["get", "configmaps"]);
    let refused = list(&alice).unwrap_err().to_string();
    assert!(refused.contains("User \"alice\" cannot list resource \"configmaps\""), "{refused}");

    cluster.kubectl(&["create", "role", "r", "--verb=list", "--resource=configmaps"]).unwrap();
    cluster.kubectl(&["create", "rolebinding", "r", "--role=r", "--group=team-b"]).unwrap();
    poll::until(LIMIT, "the second group is allowed to read", || Ok(list(&alice).ok())).unwrap();
    let bob = cluster.user("bob", &["team-a"]).unwrap();
    assert!(list(&bob).is_err());
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn concurrent_instances_share_nothing() {
    let here = api_server();
    let there = Cluster::start(Options {
        kube: Kube::V1_36,
        parts: Parts::ApiServer,
        ..Options::default()
    })
    .unwrap();
    here.kubectl(&["create", "configmap", "mine"]).unwrap();
    let missing = there.kubectl(&["get", "configmap", "mine"]).unwrap_err().to_string();
    assert!(missing.contains("NotFound"), "{missing}");
    let server = format!("--server={}", there.server_url());
    let stranger = here.kubectl(&[&server, "get", "configmaps"]).unwrap_err().to_string();
    assert!(stranger.contains("certificate signed by unknown authority"), "{stranger}");
    drop(there);
    here.kubectl(&["get", "configmap", "mine"]).unwrap();
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_killed_api_server_restarts_with_its_data() {
    let cluster = api_server();
    let version = |name: &str| {
        cluster.kubectl(&["get", "configmap", name, "--output=jsonpath={.metadata.uid}"])
    };
    cluster.kubectl(&["create", "configmap", "kept"]).unwrap();
    let before = version("kept").unwrap();
    cluster.kill_api_server().unwrap();
    assert!(version("kept").is_err());
    assert!(cluster.kill_api_server().is_err());
    cluster.start_api_server().unwrap();
    assert_eq!(version("kept").unwrap(), before);
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn compaction_makes_old_versions_unknown() {
    let cluster = api_server();
    let list = cluster.kubectl(&["get", "--raw", "/api/v1/configmaps?limit=1"]).unwrap();
    let version = list.split("\"resourceVersion\":\"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    cluster.kubectl(&["create", "configmap", "newer"]).unwrap();
    let path =
        format!("/api/v1/configmaps?resourceVersion={version}&resourceVersionMatch=Exact&limit=1");
    // A restarted API server has no versions in memory and reads them from etcd.
    cluster.kill_api_server().unwrap();
    cluster.start_api_server().unwrap();
    cluster.kubectl(&["get", "--raw", &path]).unwrap();
    cluster.etcd_compact().unwrap();
    let expired = cluster.kubectl(&["get", "--raw", &path]).unwrap_err().to_string();
    assert!(expired.contains("too old") || expired.contains("Expired"), "{expired}");
}

// === nothing stays behind ===

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_error_for_a_program_that_stops_has_its_log_and_nothing_stays() {
    let flag = "--no-such-flag-at-all".to_owned();
    let options = Options { api_server_flags: vec![flag], ..Options::default() };
    let Err(error) = Cluster::start(options) else { panic!("it started with an unknown flag") };
    let error = format!("{error:#}");
    assert!(error.starts_with("cannot start kube-apiserver 1.37.1: kube-apiserver stopped"));
    assert!(error.contains("unknown flag: --no-such-flag-at-all"), "{error}");
    assert_eq!(processes_naming("--no-such-flag-at-all"), BTreeMap::new());
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn dropping_a_cluster_leaves_no_process_and_no_file() {
    let cluster = Cluster::start(Options::default()).unwrap();
    let directory = cluster.directory().to_owned();
    assert_eq!(processes_naming(&directory.display().to_string()).len(), 5);
    drop(cluster);
    assert_nothing_left(&directory);
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn ten_ups_and_downs_leave_no_process_and_no_file() {
    let name = format!("ten-{}", std::process::id());
    for round in 0..10 {
        let parts = if round % 5 == 0 { "full" } else { "api" };
        let output = xtask(&["up", "--name", &name, "--parts", parts]);
        assert!(output.starts_with(&format!("{name}: Kubernetes 1.37.1 ready after ")), "{output}");
        let directory = directory_of(&name);
        assert!(xtask(&["status"]).contains(&name));
        xtask(&["down", &name]);
        assert_nothing_left(&directory);
        assert_eq!(processes_naming(&name), BTreeMap::new());
        assert!(!xtask(&["status"]).contains(&name));
    }
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn all_programs_end_with_a_killed_supervisor() {
    let name = format!("killed-{}", std::process::id());
    xtask(&["up", "--name", &name, "--nodes", "1x1x1x2"]);
    let directory = directory_of(&name);
    let processes = processes_naming(&directory.display().to_string());
    assert_eq!(processes.len(), 5, "{processes:?}");
    let owner = i32::try_from(Owner::of(&directory).unwrap().pid).unwrap();
    kill_process(Pid::from_raw(owner).unwrap(), Signal::KILL).unwrap();
    // Its children may end before the supervisor.
    poll::until(LIMIT, "all processes have ended", || {
        let children = processes_naming(&directory.display().to_string());
        let alive = !children.is_empty() || !processes_naming(&name).is_empty();
        Ok((!alive).then_some(()))
    })
    .unwrap();
    // Only the directory is left, and the next command removes it.
    assert!(!xtask(&["status"]).contains(&name));
    assert_nothing_left(&directory);
}

/// Runs `cargo xtask cluster` with these arguments.
fn xtask(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_xtask")).arg("cluster").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn directory_of(name: &str) -> PathBuf {
    let env = xtask(&["env", "--name", name]);
    let kubeconfig = env.split('\'').nth(1).unwrap();
    Path::new(kubeconfig).parent().unwrap().to_owned()
}

fn assert_nothing_left(directory: &Path) {
    assert!(!directory.exists(), "{} is still there", directory.display());
    assert_eq!(processes_naming(&directory.display().to_string()), BTreeMap::new());
}

/// Processes with `text` in their command line.
fn processes_naming(text: &str) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if let Some(pid) = pid.filter(|_| line.contains(text)) {
            found.insert(pid, line);
        }
    }
    found
}
