//! From a PodCliqueSet to ready pods and back to nothing, on the whole real control plane.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use serde_json::Value;
use support::World;
use xtask::cluster::{Fleet, Parts};

const SET: &str = include_str!("../../../examples/minimal.yaml");

fn names(world: &World, kind: &str) -> Vec<String> {
    let args = ["get", kind, "-n", "default", "-l", "app.kubernetes.io/part-of=demo"];
    let columns = ["-o", "custom-columns=:metadata.name", "--no-headers"];
    let found = world.cluster.kubectl(&[&args[..], &columns].concat()).unwrap();
    found.lines().map(str::to_owned).collect()
}

fn wait(world: &World, what: &str, condition: &str) {
    let options = ["-n", "default", condition, "--timeout=60s"];
    let what: Vec<&str> = what.split(' ').collect();
    let waited = world.cluster.kubectl(&[&["wait"], &what[..], &options].concat());
    if let Err(error) = waited {
        let all = "pcs,pcsg,pclq,pg,pods";
        let state = world.cluster.kubectl(&["get", all, "-n", "default", "-o", "wide"]);
        panic!("{error:#}\n{}", state.unwrap_or_default());
    }
}

fn get(world: &World, what: &[&str]) -> Value {
    let args = [&["get", "-n", "default", "-o", "json"], what].concat();
    serde_json::from_str(&world.cluster.kubectl(&args).unwrap()).unwrap()
}

fn world() -> World {
    let world = World::start(Parts::Full);
    world.cluster.nodes(&Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 }).unwrap();
    world
}

fn apply(world: &World, manifest: &str) {
    world.cluster.kubectl_with_stdin(&["apply", "-n", "default", "-f", "-"], manifest).unwrap();
}

fn kubectl(world: &World, args: &[&str]) {
    world.cluster.kubectl(&[args, &["-n", "default"]].concat()).unwrap();
}

/// Host names of the pods of the set: each clique's indices, without gaps or repetitions.
fn hostnames(world: &World) -> Vec<String> {
    let pods = get(world, &["pods", "-l", "app.kubernetes.io/part-of=demo"]);
    let pods = pods["items"].as_array().unwrap().iter();
    let staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let mut names: Vec<String> =
        staying.map(|pod| pod["spec"]["hostname"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What one replica of the set consists of.
fn hostnames_of_replica(index: u32) -> Vec<String> {
    let group = |replica: u32| {
        let group = format!("demo-{index}-decode-{replica}");
        let workers = (0..3).map(|pod| format!("{group}-worker-{pod}")).collect::<Vec<_>>();
        [vec![format!("{group}-leader-0")], workers].concat()
    };
    let mut names = [group(0), group(1), vec![format!("demo-{index}-router-0")]].concat();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn what_others_break_is_repaired_and_what_is_theirs_stays() {
    let world = world();
    let operator = world.operator("").await;
    apply(&world, SET);
    wait(&world, "pcs/demo", "--for=jsonpath={.status.updatedReplicas}=1");
    wait(&world, "pcsg/demo-0-decode", "--for=jsonpath={.status.availableReplicas}=2");
    let service = get(&world, &["service", "demo-0"])["metadata"]["uid"].clone();

    kubectl(&world, &["annotate", "pg", "demo-0-decode-0", "theirs=yes"]);
    kubectl(
        &world,
        &[
            "patch",
            "pclq",
            "demo-0-router",
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/metadata/finalizers/-","value":"somebody.else/x"}]"#,
        ],
    );
    let workers = "--selector=grove.io/podclique=demo-0-decode-0-worker";
    kubectl(&world, &["delete", "pod", workers, "--wait=false"]);
    kubectl(&world, &["delete", "pclq", "demo-0-decode-1-worker", "--wait=false"]);
    kubectl(&world, &["delete", "pg", "demo-0", "--wait=false"]);
    kubectl(&world, &["delete", "service", "demo-0"]);
    kubectl(&world, &["label", "pclq", "demo-0-router", "grove.io/podgang-"]);

    wait(&world, "service/demo-0", "--for=create");
    wait(&world, "pg/demo-0", "--for=jsonpath={.status.conditions[0].reason}=Ready");
    let label = "--for=jsonpath={.metadata.labels.grove\\.io/podgang}=demo-0";
    wait(&world, "pclq/demo-0-router", label);
    wait(&world, "pclq/demo-0-decode-1-worker", "--for=jsonpath={.status.readyReplicas}=3");
    wait(&world, "pclq/demo-0-decode-0-worker", "--for=jsonpath={.status.readyReplicas}=3");
    wait(&world, "pcs/demo", "--for=jsonpath={.status.updatedReplicas}=1");
    assert_eq!(hostnames(&world), hostnames_of_replica(0));
    assert_ne!(get(&world, &["service", "demo-0"])["metadata"]["uid"], service);
    let router = get(&world, &["pclq", "demo-0-router"]);
    assert_eq!(router["metadata"]["finalizers"][1], "somebody.else/x");
    let gang = get(&world, &["pg", "demo-0-decode-0"]);
    assert_eq!(gang["metadata"]["annotations"]["theirs"], "yes");

    // Settled: not a write more, also when something is touched that does not matter.
    let before = *operator.writes.borrow();
    kubectl(&world, &["annotate", "pcs", "demo", "note=nothing"]);
    kubectl(&world, &["annotate", "pod", "--all", "note=nothing"]);
    wait(&world, "pcs/demo", "--for=jsonpath={.metadata.annotations.note}=nothing");
    operator.settled().await;
    let mirrored = 2;
    assert_eq!(*operator.writes.borrow(), before + mirrored, "annotations go to the two gangs");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn crashes_after_any_write_change_nothing_about_the_end() {
    let world = world();
    apply_crds(&world).await;
    let mut expected = [hostnames_of_replica(0), hostnames_of_replica(1)].concat();
    expected.sort();
    for crash_after in [1, 2, 3, 5, 8, 12, 17, 23, 30, 38, 47, 57] {
        let mut operator = world.operator("").await;
        // Admitted while an operator is there to ask; it may crash before the first child.
        let manifest = SET.replace("replicas: 1\n  template", "replicas: 2\n  template");
        apply(&world, &manifest);
        let count = *operator.writes.borrow() + crash_after;
        let crash = operator.writes.wait_for(|writes| *writes >= count);
        let in_time = operator.env.clock.timeout(support::DEADLINE, crash).await;
        drop(in_time.expect("it writes that much"));
        operator.crash().await;

        let mut operator = world.operator("").await;
        wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=2");
        wait(&world, "pcsg/demo-1-decode", "--for=jsonpath={.status.availableReplicas}=2");
        wait(&world, "pcsg/demo-0-decode", "--for=jsonpath={.status.availableReplicas}=2");
        assert_eq!(hostnames(&world), expected, "after a crash after write {crash_after}");

        kubectl(&world, &["delete", "pcs/demo", "--wait=false"]);
        let count = *operator.writes.borrow() + crash_after.min(10);
        let crash = operator.writes.wait_for(|writes| *writes >= count);
        drop(operator.env.clock.timeout(support::DEADLINE, crash).await.expect("it deletes"));
        operator.crash().await;
        let operator = world.operator("").await;
        for kind in ["pods", "pclq", "pcsg", "pg", "services", "pcs"] {
            let all = if kind == "pcs" {
                "pcs/demo".to_owned()
            } else {
                format!("{kind} -l app.kubernetes.io/part-of=demo")
            };
            wait(&world, &all, "--for=delete");
        }
        operator.stop().await;
    }
}

/// The CRDs come with the first operator.
async fn apply_crds(world: &World) {
    world.operator("").await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_set_comes_up_whole_scales_and_goes() {
    let world = world();
    let operator = world.operator("leaderElection: {enabled: true}").await;

    apply(&world, SET);
    wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=1");
    assert_eq!(names(&world, "pg"), ["demo-0", "demo-0-decode-0"]);
    assert_eq!(
        names(&world, "pclq"),
        [
            "demo-0-decode-0-leader",
            "demo-0-decode-0-worker",
            "demo-0-decode-1-leader",
            "demo-0-decode-1-worker",
            "demo-0-router"
        ]
    );
    wait(&world, "pcsg/demo-0-decode", "--for=jsonpath={.status.availableReplicas}=2");
    assert_eq!(names(&world, "pods").len(), 9);
    let gang = get(&world, &["pg", "demo-0"]);
    assert_eq!(gang["status"]["conditions"][0]["reason"], "Ready");

    world.cluster.kubectl(&["scale", "pcs/demo", "-n", "default", "--replicas=2"]).unwrap();
    wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=2");
    assert_eq!(names(&world, "pods").len(), 18);
    world
        .cluster
        .kubectl(&["scale", "pcsg/demo-0-decode", "-n", "default", "--replicas=1"])
        .unwrap();
    wait(&world, "pg/demo-0-decode-0", "--for=delete");
    wait(&world, "pclq/demo-0-decode-1-worker", "--for=delete");
    world.cluster.kubectl(&["scale", "pcs/demo", "-n", "default", "--replicas=0"]).unwrap();
    wait(&world, "pods -l app.kubernetes.io/part-of=demo", "--for=delete");
    wait(&world, "service/demo-0", "--for=delete");
    wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=0");

    // Deleted, and made again under the same name while the first one is still going.
    world.cluster.kubectl(&["scale", "pcs/demo", "-n", "default", "--replicas=1"]).unwrap();
    wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=1");
    let first = get(&world, &["pclq", "demo-0-router"])["metadata"]["uid"].clone();
    world.cluster.kubectl(&["delete", "pcs/demo", "-n", "default", "--wait=false"]).unwrap();
    wait(&world, "pcs/demo", "--for=delete");
    apply(&world, SET);
    wait(&world, "pcs/demo", "--for=jsonpath={.status.availableReplicas}=1");
    assert_ne!(get(&world, &["pclq", "demo-0-router"])["metadata"]["uid"], first);
    world.cluster.kubectl(&["delete", "pcs/demo", "-n", "default"]).unwrap();
    for kind in ["pods", "pclq", "pcsg", "pg", "services", "roles", "secrets"] {
        wait(&world, &format!("{kind} -l app.kubernetes.io/part-of=demo"), "--for=delete");
    }
    operator.stop().await;
}
