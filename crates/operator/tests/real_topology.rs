//! Topologies, and those that schedulers have of their own. KAI does not run here; its CRDs do, with the
//! constraints of the real ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_api::testkit::foreign_crds;
use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{CLUSTER_TOPOLOGIES, EVENTS, KAI_TOPOLOGIES, TOPOLOGY_BINDINGS};
use grove_testbed::mirror::{Namespace, condition, text};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::topology::{HOST, Levels, levels, managing};
use serde_json::{Value, json};
use xtask::cluster::Kube;

const KAI_ROLE: &str = include_str!("../../../deploy/schedulers/kai.yaml");
const PROFILES: &str = "scheduler: {profiles: [{name: kai-scheduler}]}";

fn setup() -> Setup<'static> {
    Setup { configuration: PROFILES, ..Setup::default() }
}

fn with_role(cluster: TestCluster) -> TestCluster {
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], KAI_ROLE).unwrap();
    cluster
}

fn binding(name: &str, of: &Levels<'_>) -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
        "metadata": { "name": name }, "spec": { "levels": levels(of) },
    })
}

/// A binding to a topology of another owner.
fn referring(name: &str, of: &Levels<'_>, scheduler: &str, reference: &str) -> Value {
    let mut binding = binding(name, of);
    binding["spec"]["schedulerTopologyBindings"] =
        json!([{ "schedulerName": scheduler, "topologyReference": reference }]);
    binding
}

fn kai_topology(name: &str, labels: &[&str]) -> Value {
    let levels: Value = labels.iter().map(|label| json!({ "nodeLabel": label })).collect();
    json!({
        "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
        "metadata": { "name": name }, "spec": { "levels": levels },
    })
}

fn labels(topology: &Value) -> Vec<&str> {
    let levels = topology["spec"]["levels"].as_array().unwrap();
    levels.iter().map(|level| text(&level["nodeLabel"])).collect()
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

/// Waits until a binding reports drift, with this text in the message of its first entry.
async fn until_drift(bindings: &Namespace, name: &str, (status, reason): (&str, &str), says: &str) {
    let what = format!("{name} says {status} {reason}: {says}");
    bindings
        .until_is(&what, |state| {
            let Some(binding) = state.get(TOPOLOGY_BINDINGS, name) else { return false };
            let said = condition(binding, "SchedulerTopologyDrift");
            let entries = binding["status"]["schedulerTopologyStatuses"].as_array();
            let is_said = |entry: &Value| text(&entry["message"]).contains(says);
            said["status"] == status
                && said["reason"] == reason
                && said["observedGeneration"] == binding["metadata"]["generation"]
                && entries.into_iter().flatten().any(is_said)
        })
        .await;
}

const IN_SYNC: (&str, &str) = ("False", "InSync");
const DRIFT: (&str, &str) = ("True", "Drift");

/// Waits until KAI has these levels under a name, in another life than the one given.
async fn until_levels(kai: &Namespace, name: &str, wanted: &[&str], not: &str) -> String {
    let what = format!("{name} has {wanted:?} and is not {not}");
    kai.until(&what, |state| {
        let topology = state.get(KAI_TOPOLOGIES, name)?;
        let is_right = labels(topology) == wanted && uid(topology) != not;
        is_right.then(|| uid(topology).to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn kai_has_the_topology_of_every_binding_whatever_happens_to_it() {
    let cluster = with_role(TestCluster::full(&OPERATOR, Kube::default()));
    let operator = cluster.operator(setup()).await;
    let bindings = cluster.mirror_of(&[TOPOLOGY_BINDINGS]).await.namespace("");
    let events = cluster.mirror_of(&[EVENTS]).await.namespace("default");
    let created = binding("dc", &[("zone", "topo/zone"), ("rack", "topo/rack")]);
    let created = bindings.create(TOPOLOGY_BINDINGS, &created).await;

    // Without KAI the binding reports that, and the operator keeps running.
    until_drift(&bindings, "dc", DRIFT, "topologies.kai.scheduler/v1alpha1").await;
    let status = &bindings.object(TOPOLOGY_BINDINGS, "dc")["status"];
    assert_eq!(status["observedGeneration"], Value::Null);

    // Installed later, without a restart.
    cluster.install(&foreign_crds::kai());
    let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
    let first = until_levels(&kai, "dc", &["topo/zone", "topo/rack"], "").await;
    until_drift(&bindings, "dc", IN_SYNC, "").await;
    let topology = kai.object(KAI_TOPOLOGIES, "dc");
    let owner = json!([{
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "name": "dc",
        "uid": uid(&created), "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(topology["metadata"]["ownerReferences"], owner);
    assert_eq!(topology["metadata"]["labels"], Value::Null);
    let status = &bindings.object(TOPOLOGY_BINDINGS, "dc")["status"];
    let entry =
        json!([{ "schedulerName": "kai-scheduler", "topologyReference": "dc", "inSync": true }]);
    assert_eq!(status["schedulerTopologyStatuses"], entry);
    assert_eq!(status["observedGeneration"], 1);
    events
        .until_is("both changes are reported", |state| {
            ["TopologyDriftDetected", "TopologyInSync"].iter().all(|reason| {
                state.of(EVENTS).iter().any(|event| {
                    event["reason"] == *reason
                        && event["source"]["component"] == "clustertopology-controller"
                        && event["involvedObject"]["name"] == "dc"
                })
            })
        })
        .await;

    // Other names of the same levels are no other topology.
    let renamed = levels(&[("datacenter", "topo/zone"), ("shelf", "topo/rack")]);
    bindings.patch(TOPOLOGY_BINDINGS, "dc", json!({ "spec": { "levels": renamed } })).await;
    bindings.until_field(TOPOLOGY_BINDINGS, "dc", "/status/observedGeneration", json!(2)).await;
    assert_eq!(uid(&kai.object(KAI_TOPOLOGIES, "dc")), first);

    // Other levels are.
    let more = levels(&[("zone", "topo/zone"), ("rack", "topo/rack"), ("host", HOST)]);
    bindings.patch(TOPOLOGY_BINDINGS, "dc", json!({ "spec": { "levels": more } })).await;
    let all = ["topo/zone", "topo/rack", HOST];
    let mut current = until_levels(&kai, "dc", &all, &first).await;
    until_drift(&bindings, "dc", IN_SYNC, "").await;

    // Deleted by hand, and again: it comes back every time.
    for _ in 0..5 {
        kai.delete(KAI_TOPOLOGIES, "dc").await;
        current = until_levels(&kai, "dc", &all, &current).await;
    }
    until_drift(&bindings, "dc", IN_SYNC, "").await;

    another_owner_takes_the_name(&bindings, &kai, &current).await;

    // The topology is deleted with its binding.
    bindings.delete(TOPOLOGY_BINDINGS, "dc").await;
    kai.until_gone(KAI_TOPOLOGIES, "dc").await;
    operator.stop().await;
}

/// The operator leaves an object of another owner alone, and creates its own after the deletion.
async fn another_owner_takes_the_name(bindings: &Namespace, kai: &Namespace, ours: &str) {
    let not_owned = "KAI Topology dc is not owned by ClusterTopologyBinding dc. It is required that \
                     KAI Topology by this name is created by Grove operator and has \
                     ClusterTopologyBinding set as its owner";
    let disowned = json!({ "metadata": { "ownerReferences": [] } });
    kai.patch(KAI_TOPOLOGIES, "dc", disowned).await;
    until_drift(bindings, "dc", DRIFT, not_owned).await;
    assert_eq!(uid(&kai.object(KAI_TOPOLOGIES, "dc")), ours, "it stays");
    kai.delete(KAI_TOPOLOGIES, "dc").await;
    until_levels(kai, "dc", &["topo/zone", "topo/rack", HOST], ours).await;
    until_drift(bindings, "dc", IN_SYNC, "").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_topology_that_is_there_before_the_operator_is_no_reason_not_to_start() {
    let cluster = with_role(TestCluster::api_server(&OPERATOR));
    cluster.install(&foreign_crds::kai());
    let operator = cluster.operator(setup()).await;
    let bindings = cluster.mirror_of(&[TOPOLOGY_BINDINGS]).await.namespace("");
    let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
    let theirs = kai.create(KAI_TOPOLOGIES, &kai_topology("dc", &["topo/rack"])).await;
    bindings.create(TOPOLOGY_BINDINGS, &binding("dc", &[("rack", "topo/rack")])).await;
    until_drift(&bindings, "dc", DRIFT, "KAI Topology dc is not owned by").await;
    operator.stop().await;

    let operator = cluster.operator(setup()).await;
    assert_eq!(uid(&kai.object(KAI_TOPOLOGIES, "dc")), uid(&theirs));

    // A refusal by KAI is reported, and the next generation repairs it.
    let wrong = binding("wrong", &[("host", HOST), ("rack", "topo/rack")]);
    bindings.create(TOPOLOGY_BINDINGS, &wrong).await;
    let refusal = "can only be used at the lowest level of topology";
    until_drift(&bindings, "wrong", DRIFT, refusal).await;
    let right = levels(&[("rack", "topo/rack"), ("host", HOST)]);
    bindings.patch(TOPOLOGY_BINDINGS, "wrong", json!({ "spec": { "levels": right } })).await;
    until_levels(&kai, "wrong", &["topo/rack", HOST], "").await;
    until_drift(&bindings, "wrong", IN_SYNC, "").await;

    // Nothing is written twice: the last binding converges, and the earlier ones do not change.
    let mark = operator.requests.mark();
    bindings.create(TOPOLOGY_BINDINGS, &binding("last", &[("rack", "topo/rack")])).await;
    until_drift(&bindings, "last", IN_SYNC, "").await;
    let writes = operator.requests.writes_since(mark, |sent| sent.path.contains("topolog"));
    assert_eq!(writes.len(), 2, "{writes:#?}");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn what_others_manage_is_compared_and_never_written() {
    let cluster = with_role(TestCluster::api_server(&OPERATOR));
    cluster.install(&foreign_crds::kai());
    let operator = cluster.operator(setup()).await;
    let bindings = cluster.mirror_of(&[TOPOLOGY_BINDINGS]).await.namespace("");
    let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
    let of = [("zone", "topo/zone"), ("rack", "topo/rack")];
    let external = referring("dc", &of, "kai-scheduler", "theirs");
    bindings.create(TOPOLOGY_BINDINGS, &external).await;
    until_drift(&bindings, "dc", DRIFT, "KAI Topology \"theirs\" not found").await;
    let observed = "/status/schedulerTopologyStatuses/0/schedulerBackendTopologyObservedGeneration";
    let generation = || bindings.object(TOPOLOGY_BINDINGS, "dc").pointer(observed).cloned();
    assert_eq!(generation(), None);

    kai.create(KAI_TOPOLOGIES, &kai_topology("theirs", &["topo/rack"])).await;
    let differs = "KAI Topology levels differ from ClusterTopologyBinding levels";
    until_drift(&bindings, "dc", DRIFT, differs).await;
    assert_eq!(generation(), Some(json!(1)));
    let status = &bindings.object(TOPOLOGY_BINDINGS, "dc")["status"];
    assert_eq!(status["observedGeneration"], 1, "a difference is no failure");

    kai.delete(KAI_TOPOLOGIES, "theirs").await;
    kai.create(KAI_TOPOLOGIES, &kai_topology("theirs", &["topo/zone", "topo/rack"])).await;
    until_drift(&bindings, "dc", IN_SYNC, "").await;
    let edited = json!([{ "op": "add", "path": "/spec/levels/0/alias", "value": "zone" }]);
    kai.patch(KAI_TOPOLOGIES, "theirs", edited).await;
    bindings.until_field(TOPOLOGY_BINDINGS, "dc", observed, json!(2)).await;
    assert_eq!(kai.names(KAI_TOPOLOGIES), ["theirs"], "nothing is made");

    // The operator manages it from now on, then another owner again: the object stays.
    let ours = json!({ "spec": { "schedulerTopologyBindings": null } });
    bindings.patch(TOPOLOGY_BINDINGS, "dc", ours).await;
    until_levels(&kai, "dc", &["topo/zone", "topo/rack"], "").await;
    let again = json!({ "spec": external["spec"] });
    bindings.patch(TOPOLOGY_BINDINGS, "dc", again).await;
    bindings.until_field(TOPOLOGY_BINDINGS, "dc", observed, json!(2)).await;
    assert_eq!(kai.names(KAI_TOPOLOGIES), ["dc", "theirs"]);

    // Nothing refers to a scheduler that is not enabled, unless it was enabled before.
    let unknown = referring("unknown", &of, "volcano", "x");
    let refusal = bindings.try_create(TOPOLOGY_BINDINGS, &unknown).await.unwrap_err();
    assert!(refusal.contains("scheduler backend is not enabled in Grove"), "{refusal}");
    operator.stop().await;
    let operator = cluster.operator(Setup::default()).await;
    let unavailable =
        "scheduler backend \"kai-scheduler\" is not available for topology management";
    until_drift(&bindings, "dc", ("Unknown", "TopologyNotFound"), unavailable).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_managed_topology_is_emitted_from_the_broadest_level_to_the_narrowest() {
    let cluster = with_role(TestCluster::api_server(&OPERATOR));
    cluster.install(&foreign_crds::kai());
    let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
    kai.create(KAI_TOPOLOGIES, &kai_topology("grove-topology", &["theirs"])).await;
    let of = [("host", HOST), ("zone", "topo/zone"), ("rack", "topo/rack")];
    let configuration = managing(PROFILES, &of);
    let operator = cluster.operator(Setup { configuration: &configuration, ..setup() }).await;
    let topologies = cluster.mirror_of(&[CLUSTER_TOPOLOGIES]).await.namespace("");
    let other = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology",
        "metadata": { "name": "other" }, "spec": { "levels": levels(&of) },
    });
    topologies.create(CLUSTER_TOPOLOGIES, &other).await;
    let until_ready = |status: &'static str, errors: usize| {
        let topologies = topologies.clone();
        async move {
            topologies
                .until_is(&format!("Ready is {status} with {errors} errors"), |state| {
                    let found = state.get(CLUSTER_TOPOLOGIES, "grove-topology");
                    let Some(topology) = found else { return false };
                    let found = topology["status"]["lastErrors"].as_array().map_or(0, Vec::len);
                    condition(topology, "Ready")["status"] == status && found == errors
                })
                .await;
            topologies.object(CLUSTER_TOPOLOGIES, "grove-topology")["status"].clone()
        }
    };

    let status = until_ready("False", 1).await;
    assert_eq!(status["conditions"][0]["reason"], "KAITopologyCreationOrUpdateFailed");
    let message = text(&status["conditions"][0]["message"]);
    let failed = "Failed to create KAI Topology CR: KAI Topology grove-topology is not owned by \
                  ClusterTopology grove-topology.";
    assert!(message.starts_with(failed), "{message}");
    assert_eq!(status["lastErrors"][0]["code"], "KAI_TOPOLOGY_CREATE_ERROR");

    kai.delete(KAI_TOPOLOGIES, "grove-topology").await;
    until_levels(&kai, "grove-topology", &["topo/zone", "topo/rack", HOST], "").await;
    let status = until_ready("True", 0).await;
    assert_eq!(status["conditions"][0]["reason"], "TopologyReady");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(kai.names(KAI_TOPOLOGIES), ["grove-topology"], "the other is nobody's");
    operator.stop().await;
}
