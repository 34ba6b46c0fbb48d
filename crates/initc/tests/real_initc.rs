//! The start-order container on the real API server, with the permissions of a real pod.
//!
//! Its log lines show that it has observed a change: no test sleeps.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use grove_testbed::program::{Program, Signal};
use serde_json::json;
use xtask::cluster::{Cluster, Options, Parts};
use xtask::poll::Stopwatch;

/// A cluster with a set `x`, its first gang `x-0`, and the access objects of the start-order container.
struct World {
    cluster: Cluster,
}

impl World {
    fn start() -> Self {
        let options = Options { parts: Parts::ApiServer, ..Options::default() };
        let world = Self { cluster: Cluster::start(options).unwrap() };
        world.kubectl(&["create", "serviceaccount", "x"]);
        let rule = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "grove.io:pcs:x", "namespace": "default"},
            "rules": [{
                "apiGroups": [""],
                "resources": ["pods", "pods/status"],
                "verbs": ["get", "list", "watch"],
            }],
        });
        world.create(&rule);
        world
    }

    /// The same, with the role bound.
    fn with_permission() -> Self {
        let world = Self::start();
        world.bind();
        world
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.cluster.kubectl(args).unwrap()
    }

    fn create(&self, object: &serde_json::Value) {
        self.cluster.kubectl_with_stdin(&["create", "-f", "-"], &object.to_string()).unwrap();
    }

    fn bind(&self) {
        self.kubectl(&[
            "create",
            "rolebinding",
            "grove.io:pcs:x",
            "--role=grove.io:pcs:x",
            "--serviceaccount=default:x",
        ]);
    }

    /// A token of the service account.
    fn token(&self) -> String {
        self.kubectl(&["create", "token", "x"]).trim().to_owned()
    }

    /// Creates a pod of a gang and a clique without a kubelet; the test sets its readiness.
    fn pod(&self, name: &str, gang: &str, clique: &str) {
        self.pod_in("default", name, gang, clique);
    }

    fn pod_in(&self, namespace: &str, name: &str, gang: &str, clique: &str) {
        self.create(&json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"grove.io/podgang": gang, "grove.io/podclique": clique},
                "finalizers": ["grove.io/test"],
            },
            "spec": {
                "nodeName": "nowhere",
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "none"}],
            },
        }));
    }

    fn ready(&self, pod: &str, status: &str) {
        self.ready_in("default", pod, status);
    }

    fn ready_in(&self, namespace: &str, pod: &str, status: &str) {
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let patch = format!("--patch={patch}");
        self.kubectl(&["patch", "pod", pod, "-n", namespace, "--subresource=status", &patch]);
    }

    fn ready_pod(&self, name: &str, gang: &str, clique: &str) {
        self.pod(name, gang, clique);
        self.ready(name, "True");
    }

    /// The container of a pod in gang `x-0` with a valid token.
    fn initc(&self, parents: &str) -> Program {
        self.initc_with_token(parents, &self.token())
    }

    fn initc_with_token(&self, parents: &str, token: &str) -> Program {
        let directory = self.cluster.directory().join("initc");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("namespace"), "default").unwrap();
        fs::write(directory.join("podgangname"), "x-0").unwrap();
        fs::write(directory.join("ca.crt"), self.cluster.ca_pem()).unwrap();
        fs::write(self.token_file(), token).unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
            "clusters": [{"name": "pod", "cluster": {
                "server": self.cluster.server_url(),
                "certificate-authority": directory.join("ca.crt"),
            }}],
            "users": [{"name": "pod", "user": {"tokenFile": self.token_file()}}],
        });
        let path = directory.join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_grove-initc"));
        command
            .arg(format!("--pod-info-dir={}", directory.display()))
            .arg(format!("--podcliques={parents}"))
            .env_clear()
            .env("KUBECONFIG", path);
        Program::reading_stderr(command)
    }

    fn token_file(&self) -> PathBuf {
        self.cluster.directory().join("initc").join("token")
    }
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn it_succeeds_once_all_parents_are_ready_at_the_same_time() {
    let world = World::with_permission();
    world.ready_pod("a-1", "x-0", "x-0-a");
    world.pod("a-2", "x-0", "x-0-a");
    let mut initc = world.initc("x-0-a:2,x-0-b:1");
    initc.until_line(&["waiting for x-0-a (2 ready), x-0-b (1 ready)"]);
    initc.until_line(&["waiting: x-0-a 1/2 ready, x-0-b 0/1 ready"]);

    world.ready("a-2", "True");
    initc.until_line(&["waiting: x-0-a done, x-0-b 0/1 ready"]);
    world.ready("a-1", "False");
    initc.until_line(&["waiting: x-0-a 1/2 ready, x-0-b 0/1 ready"]);
    world.ready_pod("b-1", "x-0", "x-0-b");
    initc.until_line(&["waiting: x-0-a 1/2 ready, x-0-b done"]);
    // A pod on its way out does not count, although it is still there and still ready.
    world.kubectl(&["delete", "pod", "b-1", "--wait=false"]);
    initc.until_line(&["waiting: x-0-a 1/2 ready, x-0-b 0/1 ready"]);
    world.ready("a-1", "True");
    initc.until_line(&["waiting: x-0-a done, x-0-b 0/1 ready"]);
    world.ready_pod("b-2", "x-0", "x-0-b");

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(0), "{printed:#?}");
    assert!(printed.last().unwrap().contains("done: all parents are ready"), "{printed:#?}");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn cliques_with_a_common_prefix_other_gangs_and_other_namespaces_do_not_count() {
    let world = World::with_permission();
    world.kubectl(&["create", "namespace", "other"]);
    world.pod_in("other", "x-0-a-1", "x-0", "x-0-a");
    world.ready_in("other", "x-0-a-1", "True");
    world.ready_pod("x-0-a-b-1", "x-0", "x-0-a-b");
    world.ready_pod("x-0-a-named-alike", "x-0", "x-0-ab");
    world.ready_pod("x-0-a-other-gang", "x-0-a", "x-0-a");
    let mut initc = world.initc("x-0-a:1,x-0-a-b:2");
    initc.until_line(&["waiting: x-0-a 0/1 ready, x-0-a-b 1/2 ready"]);

    world.ready_pod("x-0-a-b-2", "x-0", "x-0-a-b");
    initc.until_line(&["waiting: x-0-a 0/1 ready, x-0-a-b done"]);
    world.ready_pod("x-0-a-1", "x-0", "x-0-a");

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(0), "{printed:#?}");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn it_continues_after_a_restart_of_the_api_server() {
    let world = World::with_permission();
    world.ready_pod("a-1", "x-0", "x-0-a");
    let mut initc = world.initc("x-0-a:2");
    initc.until_line(&["waiting: x-0-a 1/2 ready"]);

    world.cluster.kill_api_server().unwrap();
    initc.until_line(&["the API server cannot be reached"]);
    world.cluster.start_api_server().unwrap();
    initc.until_line(&["pods can be watched now"]);
    world.ready_pod("a-2", "x-0", "x-0-a");

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(0), "{printed:#?}");
    let complaints = printed.iter().filter(|line| !line.contains(" INFO ")).count();
    assert!(complaints <= 3, "once per kind of error: {printed:#?}");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn it_waits_for_an_api_server_that_is_unreachable_at_the_start() {
    let world = World::with_permission();
    world.ready_pod("a-1", "x-0", "x-0-a");
    let token = world.token();
    world.cluster.kill_api_server().unwrap();
    let mut initc = world.initc_with_token("x-0-a:1", &token);
    initc.until_line(&["Connection refused"]);

    world.cluster.start_api_server().unwrap();

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(0), "{printed:#?}");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn it_logs_a_refused_token_or_missing_permission_and_waits() {
    let world = World::start();
    world.ready_pod("a-1", "x-0", "x-0-a");
    let token = world.token();
    let mut initc = world.initc_with_token("x-0-a:1", "no-token-of-this-cluster");
    initc.until_line(&["the API server does not accept the token"]);

    // The Secret changes while the container runs.
    fs::write(world.token_file(), token).unwrap();
    initc.until_line(&["not allowed to watch pods, the RoleBinding may be missing"]);
    assert!(initc.printed.last().unwrap().contains("system:serviceaccount:default:x"));
    world.bind();

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(0), "{printed:#?}");
    let said: Vec<&str> = printed.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    let expected = [
        "waiting for x-0-a (1 ready) namespace=default pod_gang=x-0",
        "the API server does not accept the token, it may have expired; retrying cause=401 Unauthorized",
        "not allowed to watch pods, the RoleBinding may be missing; retrying cause=403 Forbidden",
        "pods can be watched now",
        "done",
    ];
    assert_eq!(said, expected);
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn signals_end_it_at_once_with_an_error() {
    let world = World::with_permission();
    let token = world.token();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut initc = world.initc_with_token("x-0-a:1", &token);
        initc.until_line(&["waiting: x-0-a 0/1 ready"]);

        initc.signal(signal);
        let asked = Stopwatch::start();
        let (status, printed) = initc.wait();

        assert_eq!(status.code(), Some(code), "{printed:#?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    // A problem must not delay the end either.
    world.cluster.kill_api_server().unwrap();
    let mut initc = world.initc_with_token("x-0-a:1", &token);
    initc.until_line(&["the API server cannot be reached"]);
    initc.signal(Signal::TERM);
    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(143), "{printed:#?}");
}
