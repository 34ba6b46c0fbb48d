//! The user's commands on the real control plane: what they show of a set, and what they change.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use grove_testbed::DEADLINE;
use grove_testbed::cluster::FLEET;
use grove_testbed::program::Program;
use serde_json::{Value, json};
use support::{configuration, start_operator};
use xtask::cluster::{Cluster, Options, Parts};
use xtask::poll;

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, annotations: {kubernetes.io/change-cause: first try}}
spec:
  replicas: 2
  template:
    cliques:
      - name: router
        spec: {roleName: router, replicas: 1, podSpec: {containers: [{name: c, image: 'router:1'}]}}
      - name: worker
        spec: {roleName: worker, replicas: 2, podSpec: {containers: [{name: c, image: 'worker:1'}]}}
    podCliqueScalingGroups: [{name: group, cliqueNames: [worker], replicas: 2, minAvailable: 1}]
";
const TOPOLOGY: &str = "
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: racks}
spec: {levels: [{domain: rack, key: topology.kubernetes.io/rack}]}
";
const PAUSED: &str = "grove.io/rollout-paused";

/// The user's program.
fn grove(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grove"));
    command.args(args).arg("--kubeconfig").arg(cluster.admin().kubeconfig());
    command
}

/// Exit code, standard output and standard error of a call.
fn called(cluster: &Cluster, args: &[&str]) -> (i32, String, String) {
    let output = grove(cluster, args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// What a call answers that succeeds and has nothing else to say.
fn answer(cluster: &Cluster, args: &[&str]) -> String {
    let (code, stdout, stderr) = called(cluster, args);
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
    stdout
}

/// Number of nodes of a tree, by kind and state.
fn count(node: &Value, counts: &mut BTreeMap<String, usize>) {
    let word = |key: &str| node[key].as_str().unwrap();
    *counts.entry(format!("{} {}", word("kind"), word("state"))).or_default() += 1;
    for child in node["children"].as_array().into_iter().flatten() {
        count(child, counts);
    }
}

fn image(clique: usize, image: &str) -> String {
    let path = format!("/spec/template/cliques/{clique}/spec/podSpec/containers/0/image");
    json!([{ "op": "replace", "path": path, "value": image }]).to_string()
}

fn patch(cluster: &Cluster, patch: &str) {
    cluster.kubectl(&["patch", "pcs/demo", "--type=json", "--patch", patch]).unwrap();
}

/// The rows of the history: number, mark of the current one, images, reason.
fn history(cluster: &Cluster) -> Vec<String> {
    let text = answer(cluster, &["rollout", "history", "demo"]);
    let row = |line: &str| {
        // Ages differ from run to run.
        let words = line.split_whitespace().filter(|word| !is_age(word));
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().skip(1).map(row).collect()
}

fn is_age(word: &str) -> bool {
    let number = word.strip_suffix('s').or_else(|| word.strip_suffix('m'));
    number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

fn until_history(cluster: &Cluster, expected: &[&str]) {
    let is = || Ok((history(cluster) == expected).then_some(()));
    let what = format!("the history is {expected:#?}");
    poll::until(DEADLINE, &what, is).unwrap_or_else(|_| {
        assert_eq!(history(cluster), expected);
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_user_follows_a_set_from_its_first_pod_to_its_end() {
    let cluster = Cluster::start(Options::default()).unwrap();
    cluster.nodes(&FLEET).unwrap();
    let config = configuration(&cluster, false);
    let mut operator = start_operator(&cluster, &config);
    let created = || Ok(cluster.kubectl_with_stdin(&["create", "-f", "-"], SET).ok());
    poll::until(DEADLINE, "the set is accepted", created).unwrap();

    // It comes up.
    let done = "PodCliqueSet \"demo\" successfully rolled out: 2 replicas\n";
    let said = answer(&cluster, &["rollout", "status", "demo", "--timeout=60s"]);
    assert!(said.ends_with(done), "{said}");
    assert_eq!(answer(&cluster, &["rollout", "status", "demo", "--watch=false"]), done);

    // What there is.
    let tree = answer(&cluster, &["tree", "demo", "--namespace", "default", "-o", "json"]);
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree["namespace"], "default");
    assert_eq!(tree["set"]["ready"], json!({ "ready": 2, "wanted": 2 }));
    let mut counts = BTreeMap::new();
    count(&tree["set"], &mut counts);
    let expected = [
        ("GroupReplica Ready", 4),
        ("Pod Ready", 10),
        ("PodClique Ready", 6),
        ("PodCliqueScalingGroup Ready", 2),
        ("PodCliqueSet Ready", 1),
        ("PodGang Ready", 4),
        ("SetReplica Ready", 2),
    ];
    assert_eq!(counts, expected.map(|(what, number)| (what.to_owned(), number)).into());
    let text = answer(&cluster, &["tree", "demo"]);
    assert_eq!(text.lines().count(), 1 + counts.values().sum::<usize>(), "{text}");

    // Where there is room: a binding without conditions, because no scheduler has topologies of its own.
    cluster.kubectl_with_stdin(&["create", "-f", "-"], TOPOLOGY).unwrap();
    let room = ["topology", "racks", "--fits", "nvidia.com/gpu=8,cpu=16", "-o", "json"];
    let room: Value = serde_json::from_str(&answer(&cluster, &room)).unwrap();
    let racks = &room["topologies"][0];
    assert_eq!(racks["free"]["pods"], (8 * 256 - 10).to_string(), "{racks}");
    let best = json!([{ "level": "rack", "pods": 4, "domain": ["z0-b0-r0"] }]);
    assert_eq!(racks["bestDomains"], best, "{racks}");
    let text = answer(&cluster, &["topology"]);
    assert!(text.starts_with("ClusterTopologyBinding racks\n"), "{text}");
    let (code, _, error) = called(&cluster, &["topology", "blocks"]);
    assert_eq!((code, &*error), (6, "error: there is no topology \"blocks\"; there are: racks\n"));

    // What there was.
    until_history(&cluster, &["1 * router=router:1,worker=worker:1 first try"]);
    let because = |why: &str| {
        let annotation = format!("kubernetes.io/change-cause={why}");
        cluster.kubectl(&["annotate", "--overwrite", "pcs/demo", &annotation]).unwrap();
    };
    patch(&cluster, &image(0, "router:2"));
    because("newer router");
    let second = "2 * router=router:2,worker=worker:1 newer router";
    until_history(&cluster, &["1 router=router:1,worker=worker:1 first try", second]);
    patch(&cluster, &image(1, "worker:2"));
    because("newer worker");
    let rows = [
        "1 router=router:1,worker=worker:1 first try",
        "2 router=router:2,worker=worker:1 newer router",
        "3 * router=router:2,worker=worker:2 newer worker",
    ];
    until_history(&cluster, &rows);
    let first = answer(&cluster, &["rollout", "history", "demo", "--revision=1"]);
    assert!(first.contains("image: router:1") || first.contains("image: \"router:1\""), "{first}");
    let differences: Vec<_> = first.lines().filter(|line| line.starts_with('#')).collect();
    let expected = [
        "# The current revision 3 differs in:",
        r#"#   cliques[router].spec.podSpec.containers[c].image: "router:1" -> "router:2""#,
        r#"#   cliques[worker].spec.podSpec.containers[c].image: "worker:1" -> "worker:2""#,
    ];
    assert_eq!(differences, expected);

    // Hold and go on.
    let annotation = || {
        let set = cluster.kubectl(&["get", "pcs/demo", "--output=json"]).unwrap();
        let set: Value = serde_json::from_str(&set).unwrap();
        set["metadata"]["annotations"][PAUSED].clone()
    };
    for (command, said, stored) in [
        ("pause", "PodCliqueSet \"demo\" paused\n", json!("true")),
        ("pause", "PodCliqueSet \"demo\" is paused already\n", json!("true")),
        ("resume", "PodCliqueSet \"demo\" resumed\n", Value::Null),
        ("resume", "PodCliqueSet \"demo\" is not paused\n", Value::Null),
    ] {
        assert_eq!(answer(&cluster, &["rollout", command, "demo"]), said);
        assert_eq!(annotation(), stored, "{command}");
    }

    // Back, and again.
    undone_and_restarted(&cluster);

    // Without an operator a set makes no progress.
    operator.kill();
    cluster.kubectl(&["scale", "pcs/demo", "--replicas=3"]).unwrap();
    let (code, said, error) = called(&cluster, &["rollout", "status", "demo", "--timeout=2s"]);
    assert_eq!((code, &*error), (1, "error: PodCliqueSet \"demo\" was not complete within 2 s\n"));
    assert!(said.contains("the operator has not seen generation"), "{said}");

    // It is deleted, and the running commands report that.
    let mut status = Program::reading_stdout(grove(&cluster, &["rollout", "status", "demo"]));
    status.until_line(&["has not seen generation"]);
    let mut tree = Program::reading_stdout(grove(&cluster, &["tree", "demo", "--watch"]));
    tree.until_line(&["pcs/demo", "the operator to see generation"]);
    cluster.kubectl(&["delete", "pcs/demo", "--wait=false"]).unwrap();
    tree.until_line(&["pcs/demo", "Terminating", "its finalizers"]);
    status.until_line(&["it is being deleted"]);
    let mut operator = start_operator(&cluster, &config);
    assert_eq!((tree.wait().0.code(), status.wait().0.code()), (Some(1), Some(1)));
    let left = cluster.kubectl(&["get", "controllerrevisions", "--output=name"]).unwrap();
    assert_eq!(left, "");
    operator.kill();
}

/// Goes back to a former template, restarts the pods, and reads the history as a program does.
fn undone_and_restarted(cluster: &Cluster) {
    let text = answer(cluster, &["rollout", "history", "demo", "-o", "json"]);
    let before: Value = serde_json::from_str(&text).unwrap();
    let numbers = |history: &Value| -> Vec<i64> {
        let revisions = history["revisions"].as_array().unwrap();
        revisions.iter().map(|one| one["revision"].as_i64().unwrap()).collect()
    };
    assert_eq!(numbers(&before), [1, 2, 3]);
    let all = answer(cluster, &["rollout", "history", "--all-namespaces"]);
    assert!(all.starts_with("PodCliqueSet default/demo\n"), "{all}");
    let all = answer(cluster, &["tree", "-A"]);
    assert!(all.starts_with("NAMESPACE default\n") && all.contains("pcs/demo"), "{all}");
    let all = answer(cluster, &["rollout", "status", "-A"]);
    assert!(all.starts_with("default: ") && all.contains("demo"), "{all}");

    // Paused sets stay as they are.
    answer(cluster, &["rollout", "pause", "demo"]);
    let (code, _, error) = called(cluster, &["rollout", "undo", "demo"]);
    assert_eq!(code, 6);
    assert!(error.contains("grove rollout resume demo"), "{error}");
    answer(cluster, &["rollout", "resume", "demo"]);

    let said = answer(cluster, &["rollout", "undo", "demo", "--to-revision=1"]);
    assert_eq!(said, "PodCliqueSet \"demo\" rolled back to revision 1\n");
    let set = || -> Value {
        let set = cluster.kubectl(&["get", "pcs/demo", "--output=json"]).unwrap();
        serde_json::from_str(&set).unwrap()
    };
    let images = |set: &Value| {
        let image = |clique: &Value| clique["spec"]["podSpec"]["containers"][0]["image"].clone();
        let cliques = set["spec"]["template"]["cliques"].as_array().unwrap().iter();
        cliques.map(image).collect::<Vec<_>>()
    };
    assert_eq!(images(&set()), ["router:1", "worker:1"]);
    // The template that came back has the highest number.
    let is =
        || Ok((history(cluster).last().is_some_and(|row| row.starts_with("4 *"))).then_some(()));
    poll::until(DEADLINE, "the revision is the newest", is).unwrap();
    let said = answer(cluster, &["rollout", "undo", "demo", "--to-revision=4"]);
    assert_eq!(said, "PodCliqueSet \"demo\" has the template of revision 4 already\n");

    let said = answer(cluster, &["rollout", "restart", "demo"]);
    assert_eq!(said, "PodCliqueSet \"demo\" restarted\n");
    let restarted = |object: &Value| {
        object["annotations"]["kubectl.kubernetes.io/restartedAt"].as_str().map(str::to_owned)
    };
    let set = set();
    let cliques = set["spec"]["template"]["cliques"].as_array().unwrap();
    let time = restarted(&cliques[0]).unwrap();
    assert!(cliques.iter().all(|clique| restarted(clique).as_ref() == Some(&time)), "{cliques:?}");
    let done = answer(cluster, &["rollout", "status", "demo", "--timeout=60s"]);
    assert!(done.contains("successfully rolled out"), "{done}");
    let pods = cluster.kubectl(&["get", "pods", "--output=json"]).unwrap();
    let pods: Value = serde_json::from_str(&pods).unwrap();
    let staying = pods["items"].as_array().unwrap().iter();
    let mut staying = staying.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert!(staying.all(|pod| restarted(&pod["metadata"]).as_ref() == Some(&time)), "{pods}");
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn missing_sets_and_clusters_are_named() {
    let options = Options { parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let (code, _, error) = called(&cluster, &["tree", "demo"]);
    assert_eq!(code, 6);
    assert!(error.contains("CustomResourceDefinition"), "{error}");

    let crds = Command::new(env!("CARGO_BIN_EXE_grove")).arg("crds").output().unwrap().stdout;
    let crds = String::from_utf8(crds).unwrap();
    cluster.kubectl_with_stdin(&["apply", "--server-side", "-f", "-"], &crds).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    for (args, code, reported) in [
        (&["tree", "demo"][..], 6, "error: PodCliqueSet default/demo does not exist\n"),
        (&["rollout", "status", "demo"], 1, "error: PodCliqueSet default/demo does not exist\n"),
        (&["rollout", "history", "demo"], 6, "error: PodCliqueSet default/demo does not exist\n"),
        (&["rollout", "pause", "demo"], 6, "error: PodCliqueSet default/demo does not exist\n"),
        (&["rollout", "undo", "demo"], 6, "error: PodCliqueSet default/demo does not exist\n"),
    ] {
        assert_eq!(called(&cluster, args), (code, String::new(), reported.to_owned()), "{args:?}");
    }
    let (code, _, error) = called(&cluster, &["tree", "demo", "--context", "elsewhere"]);
    assert_eq!(code, 6);
    assert!(error.contains("elsewhere"), "{error}");
}
