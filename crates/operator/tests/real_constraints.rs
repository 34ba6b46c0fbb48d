//! Topology constraints through the life of a topology: configured, changed, switched off and on, and with
//! restarts of the operator. KAI does not run here; its CRDs do, with the constraints of the real ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_api::testkit::foreign_crds;
use grove_operator::OperatorError;
use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{
    CLUSTER_TOPOLOGIES, GANGS, KAI_GROUPS, KAI_TOPOLOGIES, SETS, TOPOLOGY_BINDINGS,
};
use grove_testbed::mirror::{Mirror, Namespace, condition, text};
use grove_testbed::operator::{OPERATOR, Operator, Setup};
use grove_testbed::requests::Sent;
use grove_testbed::sets;
use grove_testbed::topology::{
    BLOCK, HOST, Levels, PODS_OF_SET, RACK, levels, managing, pack, packed, pods, until_packed,
    until_said,
};
use serde_json::{Value, json};
use xtask::cluster::Kube;

const KAI_ROLE: &str = include_str!("../../../deploy/schedulers/kai.yaml");
const PROFILES: &str = "scheduler: {profiles: [{name: default-scheduler}, {name: kai-scheduler}]}";
const MANAGED: &str = "grove-topology";
const CONSTRAINTS: &str = "TopologyConstraints";
const UNAVAILABLE: &str = "TopologyLevelsUnavailable";
const AVAILABLE: (&str, &str) = ("True", "TopologyLevelsAvailable");

/// A cluster whose operators know KAI.
struct World {
    cluster: TestCluster,
    topologies: Namespace,
    kai: Namespace,
    mirror: Mirror,
}

impl World {
    async fn new() -> Self {
        let cluster = TestCluster::full(&OPERATOR, Kube::default());
        cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], KAI_ROLE).unwrap();
        cluster.install(&foreign_crds::kai());
        cluster.operator(Setup { configuration: PROFILES, ..Setup::default() }).await.stop().await;
        let kinds = [CLUSTER_TOPOLOGIES, TOPOLOGY_BINDINGS];
        let topologies = cluster.mirror_of(&kinds).await.namespace("");
        let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
        let mirror = cluster.mirror().await;
        Self { cluster, topologies, kai, mirror }
    }

    async fn operator(&self, configuration: &str) -> Operator {
        self.cluster.operator(Setup { configuration, ..Setup::default() }).await
    }

    /// Replaces an operator by one that manages these levels.
    async fn restarted(&self, operator: Operator, of: &Levels<'_>) -> Operator {
        operator.stop().await;
        let operator = self.operator(&managing(PROFILES, of)).await;
        self.topologies
            .until_is("the topology has the levels of the configuration", |state| {
                let found = state.get(CLUSTER_TOPOLOGIES, MANAGED);
                found.is_some_and(|found| found["spec"]["levels"] == levels(of))
            })
            .await;
        operator
    }

    /// Waits until the managed topology is ready, or not, and KAI has these levels.
    async fn until_ready(&self, (status, reason): (&str, &str), of_kai: &[&str]) {
        self.topologies
            .until_is(&format!("the topology says Ready {status} {reason}"), |state| {
                let Some(found) = state.get(CLUSTER_TOPOLOGIES, MANAGED) else { return false };
                let said = condition(found, "Ready");
                said["status"] == status
                    && said["reason"] == reason
                    && said["observedGeneration"] == found["metadata"]["generation"]
            })
            .await;
        self.kai
            .until_is(&format!("KAI has {of_kai:?}"), |state| {
                let Some(found) = state.get(KAI_TOPOLOGIES, MANAGED) else {
                    return of_kai.is_empty();
                };
                let levels = found["spec"]["levels"].as_array().unwrap();
                levels.iter().map(|level| text(&level["nodeLabel"])).eq(of_kai.iter().copied())
            })
            .await;
    }
}

const READY: (&str, &str) = ("True", "TopologyReady");
const FAILED: (&str, &str) = ("False", "KAITopologyCreationOrUpdateFailed");

fn domain(word: &str) -> Value {
    json!({ "packDomain": word })
}

/// The writes to gangs of a namespace, and those to pods, since a mark.
fn writes(operator: &Operator, namespace: &Namespace, mark: usize) -> [usize; 2] {
    ["/podgangs", "/pods"].map(|kind| {
        let of = |sent: &Sent| {
            sent.is_in(&namespace.name)
                && sent.path.contains(kind)
                && !sent.path.contains("/status")
        };
        operator.requests.writes_since(mark, of).len()
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_life_of_a_managed_topology() {
    let world = World::new().await;
    let namespace = world.mirror.new_namespace("life").await;

    // Off: sets without constraints run, others are refused.
    let operator = world.operator(PROFILES).await;
    namespace.create(SETS, &sets::small("x")).await;
    namespace.until_complete(PODS_OF_SET).await;
    let rack = domain("rack");
    let refused = namespace.try_create(SETS, &packed("y", &rack, &Value::Null, &Value::Null)).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("topology support is not enabled in the operator"), "{refused}");
    assert_eq!(condition(&namespace.object(SETS, "x"), UNAVAILABLE), &Value::Null);

    // Switched on: both topologies appear, and gangs that run prefer the narrowest level.
    let running = pods(&namespace);
    let operator = world.restarted(operator, &[("rack", RACK), ("host", HOST)]).await;
    world.until_ready(READY, &[RACK, HOST]).await;
    let prefers_host = json!({ "preferred": HOST });
    until_packed(&namespace, "x-0", prefers_host.clone()).await;
    until_packed(&namespace, "x-0-decode-0", prefers_host.clone()).await;
    until_said(
        &namespace,
        "x",
        UNAVAILABLE,
        ("False", "AllClusterTopologyLevelsAvailable"),
        "No topology",
    )
    .await;
    assert_eq!(writes(&operator, &namespace, 0), [2, 0], "one for each gang, none for pods");
    assert_eq!(pods(&namespace), running);

    constraints_are_checked_and_translated(&namespace).await;
    let running = pods(&namespace);

    // A narrower level: only what is preferred changes. KAI wants hosts to be the narrowest level.
    let with_numa = [("host", HOST), ("rack", RACK), ("numa", "example.com/numa")];
    let operator = world.restarted(operator, &with_numa).await;
    world.until_ready(FAILED, &[]).await;
    for gang in ["x-0", "x-0-decode-0"] {
        until_packed(&namespace, gang, json!({ "preferred": "example.com/numa" })).await;
    }
    let in_rack = json!({ "required": RACK, "preferred": "example.com/numa" });
    until_packed(&namespace, "y-0", in_rack).await;
    until_packed(
        &namespace,
        "y-0-decode-0",
        json!({ "required": HOST, "preferred": "example.com/numa" }),
    )
    .await;
    assert_eq!(writes(&operator, &namespace, 0), [4, 0]);

    // A broader one, in another order: gangs get their old preference back.
    let with_block = [("host", HOST), ("block", BLOCK), ("rack", RACK)];
    let operator = world.restarted(operator, &with_block).await;
    world.until_ready(READY, &[BLOCK, RACK, HOST]).await;
    until_packed(&namespace, "y-0", json!({ "required": RACK, "preferred": HOST })).await;
    until_packed(&namespace, "x-0", prefers_host.clone()).await;
    let block = packed("z", &domain("block"), &Value::Null, &domain("rack"));
    namespace.create(SETS, &block).await;
    namespace.until_complete(3 * PODS_OF_SET).await;
    until_packed(&namespace, "z-0", json!({ "required": BLOCK, "preferred": HOST })).await;
    until_said(&namespace, "z", CONSTRAINTS, AVAILABLE, "All topology constraints satisfied").await;
    let running_with_z = pods(&namespace);
    assert!(running.iter().all(|pod| running_with_z.contains(pod)));

    // Only the order changes: nothing is written.
    let reordered = [("rack", RACK), ("block", BLOCK), ("host", HOST)];
    let operator = world.restarted(operator, &reordered).await;
    world.until_ready(READY, &[BLOCK, RACK, HOST]).await;
    let is_here = |sent: &Sent| sent.is_in(&namespace.name);
    world.cluster.until_no_writes(&world.mirror, &operator.requests, is_here).await;
    assert_eq!(writes(&operator, &namespace, 0), [0, 0]);

    a_removed_level_is_reported(&world, operator, &namespace).await;
    assert_eq!(pods(&namespace), running_with_z);
}

async fn constraints_are_checked_and_translated(namespace: &Namespace) {
    let (rack, host, none) = (domain("rack"), domain("host"), Value::Null);
    let refused = namespace.try_create(SETS, &packed("y", &domain("block"), &none, &none)).await;
    let refused = refused.unwrap_err();
    let undefined = "topology level 'block' not defined in ClusterTopology 'grove-topology'";
    assert!(refused.contains(undefined), "{refused}");
    let refused = namespace.try_create(SETS, &packed("y", &host, &rack, &none)).await.unwrap_err();
    let broader = "child topology constraint 'rack' must be equal to or stricter than parent \
                   constraint 'host'";
    assert!(refused.contains(broader), "{refused}");
    namespace.create(SETS, &packed("y", &rack, &host, &host)).await;
    namespace.until_complete(2 * PODS_OF_SET).await;
    until_packed(namespace, "y-0", json!({ "required": RACK, "preferred": HOST })).await;
    let on_host = json!({ "required": HOST, "preferred": HOST });
    until_packed(namespace, "y-0-decode-0", on_host.clone()).await;
    let gang = namespace.object(GANGS, "y-0");
    assert_eq!(gang["metadata"]["annotations"]["grove.io/topology-name"], MANAGED);
    let group = &gang["spec"]["topologyConstraintGroupConfigs"];
    assert_eq!((&group[0]["name"], pack(&group[0])), (&json!("y-0-decode-0"), &on_host));
    let names = json!(["y-0-decode-0-leader", "y-0-decode-0-worker"]);
    assert_eq!((&group[0]["podGroupNames"], &group[1]), (&names, &Value::Null));
    let members = gang["spec"]["podgroups"].as_array().unwrap();
    let packs: Vec<_> = members.iter().map(pack).collect();
    let prefers = json!({ "preferred": HOST });
    assert_eq!(packs, [&prefers, &prefers, &on_host]);
    until_said(namespace, "y", CONSTRAINTS, AVAILABLE, "All topology constraints satisfied").await;

    // Constraints of the managed topology may change; pods that run stay.
    let running = pods(namespace);
    let change =
        |word: &str| json!({ "spec": { "template": { "topologyConstraint": domain(word) } } });
    namespace.patch(SETS, "y", change("host")).await;
    until_packed(namespace, "y-0", on_host).await;
    until_said(namespace, "y", CONSTRAINTS, AVAILABLE, "").await;
    namespace.patch(SETS, "y", change("rack")).await;
    until_packed(namespace, "y-0", json!({ "required": RACK, "preferred": HOST })).await;
    until_said(namespace, "y", CONSTRAINTS, AVAILABLE, "").await;
    assert_eq!(namespace.object(SETS, "y")["metadata"]["generation"], 3);
    assert_eq!(pods(namespace), running);
}

/// A level goes, then the whole topology, and both come back.
async fn a_removed_level_is_reported(world: &World, operator: Operator, namespace: &Namespace) {
    let without = [("rack", RACK), ("host", HOST)];
    let operator = world.restarted(operator, &without).await;
    let gone = "Topology level 'block' not found in ClusterTopology 'grove-topology'";
    until_said(namespace, "z", CONSTRAINTS, ("False", "TopologyLevelNotFound"), gone).await;
    until_packed(namespace, "z-0", json!({ "preferred": HOST })).await;
    until_said(namespace, "y", CONSTRAINTS, AVAILABLE, "").await;
    assert_eq!(
        writes(&operator, namespace, 0),
        [2, 0],
        "the gangs of the set that needs the level"
    );
    let new = packed("w", &domain("block"), &Value::Null, &Value::Null);
    let refused = namespace.try_create(SETS, &new);
    assert!(refused.await.unwrap_err().contains("not defined in ClusterTopology"));
    // Sets that are there can be changed in everything else.
    namespace.patch(SETS, "z", json!({ "metadata": { "labels": { "a": "b" } } })).await;

    let running = pods(namespace);
    operator.stop().await;
    let operator = world.operator(PROFILES).await;
    world.topologies.until_gone(CLUSTER_TOPOLOGIES, MANAGED).await;
    world.kai.until_gone(KAI_TOPOLOGIES, MANAGED).await;
    let off = "Topology support disabled in operator configuration. Required constraints removed.";
    for set in ["y", "z"] {
        until_said(namespace, set, CONSTRAINTS, ("False", "TopologyDisabled"), off).await;
        let reason = ("Unknown", "TopologyAwareSchedulingDisabled");
        until_said(namespace, set, UNAVAILABLE, reason, "").await;
        let gang = format!("{set}-0");
        until_packed(namespace, &gang, json!({ "preferred": HOST })).await;
        let gang = namespace.object(GANGS, &gang);
        assert_eq!(gang["metadata"]["annotations"]["grove.io/topology-name"], Value::Null);
    }
    let operator =
        world.restarted(operator, &[("block", BLOCK), ("rack", RACK), ("host", HOST)]).await;
    world.until_ready(READY, &[BLOCK, RACK, HOST]).await;
    until_packed(namespace, "z-0", json!({ "required": BLOCK, "preferred": HOST })).await;
    until_packed(namespace, "y-0", json!({ "required": RACK, "preferred": HOST })).await;
    for set in ["y", "z"] {
        until_said(namespace, set, CONSTRAINTS, AVAILABLE, "").await;
    }
    assert_eq!(pods(namespace), running, "nothing of this touched a pod");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn kai_may_come_later_and_the_topology_is_kept_as_configured() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], KAI_ROLE).unwrap();
    let configuration = managing(PROFILES, &[("host", HOST), ("rack", RACK)]);
    let setup = Setup { configuration: &configuration, ..Setup::default() };

    // Without the CRDs there is nothing to manage: the operator says so and ends.
    let started = cluster.start_operator(Setup { install_crds: false, ..setup }).await;
    let error = started.failed().await;
    assert!(matches!(error, OperatorError::Topology(_)), "{error:?}");

    let operator = cluster.operator(setup).await;
    let topologies = cluster.mirror_of(&[CLUSTER_TOPOLOGIES]).await.namespace("");
    let until_ready = async |(status, reason): (&str, &str)| {
        topologies
            .until_is(&format!("Ready is {status} {reason}"), |state| {
                let Some(found) = state.get(CLUSTER_TOPOLOGIES, MANAGED) else { return false };
                let said = condition(found, "Ready");
                said["status"] == status && said["reason"] == reason
            })
            .await;
        topologies.object(CLUSTER_TOPOLOGIES, MANAGED)
    };
    let found = until_ready(FAILED).await;
    assert_eq!(found["spec"]["levels"], levels(&[("host", HOST), ("rack", RACK)]));
    assert_eq!(found["status"]["lastErrors"][0]["code"], "KAI_TOPOLOGY_CREATE_ERROR");
    cluster.install(&foreign_crds::kai());
    let kai = cluster.mirror_of(&[KAI_TOPOLOGIES]).await.namespace("");
    let found = until_ready(READY).await;
    assert_eq!(found["status"]["observedGeneration"], found["metadata"]["generation"]);
    assert_eq!(found["status"]["lastErrors"], Value::Null);
    let owner = &kai.object(KAI_TOPOLOGIES, MANAGED)["metadata"]["ownerReferences"][0].clone();
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("ClusterTopology"), &found["metadata"]["uid"])
    );

    // Users may not change it, and whoever can is overruled.
    let other = json!({ "spec": { "levels": levels(&[("zone", "example.com/zone")]) } });
    let refused = topologies.try_patch(CLUSTER_TOPOLOGIES, MANAGED, other.clone()).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("can only be modified by the operator"), "{refused}");
    let as_operator = cluster.client_of_account().await;
    let path = format!("/apis/grove.io/v1alpha1/clustertopologies/{MANAGED}");
    grove_testbed::mirror::send(&as_operator, http::Method::PATCH, &path, &other).await.unwrap();
    topologies
        .until_is("the levels are those of the configuration again", |state| {
            let found = state.get(CLUSTER_TOPOLOGIES, MANAGED).unwrap();
            found["metadata"]["generation"].as_i64() >= Some(3)
                && found["spec"]["levels"] == levels(&[("host", HOST), ("rack", RACK)])
        })
        .await;
    until_ready(READY).await;
    let before = kai.object(KAI_TOPOLOGIES, MANAGED)["metadata"]["uid"].clone();
    kai.delete(KAI_TOPOLOGIES, MANAGED).await;
    kai.until_is("the topology of KAI is back", |state| {
        state.get(KAI_TOPOLOGIES, MANAGED).is_some_and(|one| one["metadata"]["uid"] != before)
    })
    .await;
    operator.stop().await;
}

fn binding(of: &Levels<'_>) -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
        "metadata": { "name": "dc" }, "spec": { "levels": levels(of) },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn gangs_follow_the_binding_that_their_set_names() {
    let world = World::new().await;
    let namespace = world.mirror.new_namespace("head").await;
    let configuration = format!("{PROFILES}\ntopologyAwareScheduling: {{enabled: true}}");
    let operator = world.operator(&configuration).await;
    let own = json!({ "topologyName": "dc", "pack": { "required": "row", "preferred": "shelf" } });
    let inherits = json!({ "pack": { "required": "shelf" } });
    let set = packed("x", &own, &inherits, &Value::Null);
    let refused = namespace.try_create(SETS, &set).await.unwrap_err();
    assert!(refused.contains("ClusterTopologyBinding \"dc\" not found"), "{refused}");

    let of = [("row", RACK), ("shelf", HOST)];
    world.topologies.create(TOPOLOGY_BINDINGS, &binding(&of)).await;
    namespace.create(SETS, &set).await;
    namespace.until_complete(PODS_OF_SET).await;
    let whole = json!({ "required": RACK, "preferred": HOST });
    until_packed(&namespace, "x-0", whole.clone()).await;
    until_packed(&namespace, "x-0-decode-0", json!({ "required": HOST })).await;
    let gang = namespace.object(GANGS, "x-0");
    assert_eq!(gang["metadata"]["annotations"]["grove.io/topology-name"], "dc");
    let group = &gang["spec"]["topologyConstraintGroupConfigs"][0];
    assert_eq!(pack(group), &json!({ "required": HOST }));
    let members = gang["spec"]["podgroups"].as_array().unwrap();
    assert!(members.iter().all(|member| pack(member).is_null()), "only what the set asks for");
    until_said(&namespace, "x", CONSTRAINTS, AVAILABLE, "").await;
    let running = pods(&namespace);

    // Other keys, a level less, gone, and back: gangs follow, pods stay.
    let change = |of: &Levels<'_>| json!({ "spec": { "levels": levels(of) } });
    let mark = operator.requests.mark();
    let other = change(&[("row", BLOCK), ("shelf", HOST)]);
    world.topologies.patch(TOPOLOGY_BINDINGS, "dc", other).await;
    until_packed(&namespace, "x-0", json!({ "required": BLOCK, "preferred": HOST })).await;
    world.topologies.patch(TOPOLOGY_BINDINGS, "dc", change(&[("row", RACK)])).await;
    until_packed(&namespace, "x-0", json!({ "required": RACK })).await;
    let missing = ("True", "ClusterTopologyLevelsUnavailable");
    until_said(&namespace, "x", UNAVAILABLE, missing, "[shelf]").await;
    until_said(&namespace, "x", CONSTRAINTS, ("False", "TopologyLevelNotFound"), "'shelf'").await;
    world.topologies.delete(TOPOLOGY_BINDINGS, "dc").await;
    until_packed(&namespace, "x-0", Value::Null).await;
    let not_found = ("Unknown", "ClusterTopologyNotFound");
    until_said(&namespace, "x", UNAVAILABLE, not_found, "resource not found").await;
    let gang = namespace.object(GANGS, "x-0");
    assert_eq!(gang["metadata"]["annotations"]["grove.io/topology-name"], Value::Null);
    assert_eq!(gang["spec"]["topologyConstraintGroupConfigs"][0]["name"], "x-0-decode-0");
    world.topologies.create(TOPOLOGY_BINDINGS, &binding(&of)).await;
    until_packed(&namespace, "x-0", whole.clone()).await;
    until_said(&namespace, "x", CONSTRAINTS, AVAILABLE, "").await;
    let [gangs, of_pods] = writes(&operator, &namespace, mark);
    assert!(gangs <= 2 * 4, "at most one write for each gang and change: {gangs}");
    assert_eq!(of_pods, 0);

    // Off and on.
    operator.stop().await;
    let operator = world.operator(PROFILES).await;
    until_packed(&namespace, "x-0", Value::Null).await;
    let gang = namespace.object(GANGS, "x-0");
    assert_eq!(gang["spec"]["topologyConstraintGroupConfigs"], Value::Null);
    operator.stop().await;
    let operator = world.operator(&configuration).await;
    until_packed(&namespace, "x-0", whole).await;
    assert_eq!(pods(&namespace), running);
    operator.stop().await;
}

/// A set for KAI with constraints of all three kinds.
fn for_kai(own: &Value, group: &Value, worker: &Value) -> Value {
    let mut set = packed("x", own, group, worker);
    set["metadata"]["labels"] = json!({ "kai.scheduler/queue": "test" });
    for clique in set["spec"]["template"]["cliques"].as_array_mut().unwrap() {
        clique["spec"]["podSpec"]["schedulerName"] = json!("kai-scheduler");
    }
    set
}

/// Waits until the groups of KAI for the base gang and the scaled gang have these constraints.
async fn until_kai_has(namespace: &Namespace, expected: &[(&str, Value, Value)]) {
    namespace
        .until_is(&format!("KAI has {expected:?}"), |state| {
            expected.iter().all(|(group, whole, parts)| {
                let Some(found) = state.get(KAI_GROUPS, group) else { return false };
                let sub_groups = found["spec"]["subGroups"].as_array().into_iter().flatten();
                let constraints: Value =
                    sub_groups.map(|one| one["topologyConstraint"].clone()).collect();
                found["spec"]["topologyConstraint"] == *whole && constraints == *parts
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn kai_gets_the_constraints_of_every_part() {
    let world = World::new().await;
    let mirror = world.cluster.mirror_of(&[SETS, GANGS, KAI_GROUPS]).await;
    let constraint = |topology: &str, required: &str, preferred: &str| {
        json!({ "topology": topology, "requiredTopologyLevel": required,
            "preferredTopologyLevel": preferred })
    };
    let prefers = |topology: &str| json!({ "topology": topology, "preferredTopologyLevel": HOST });

    let operator = world.operator(&managing(PROFILES, &[("rack", RACK), ("host", HOST)])).await;
    let namespace = mirror.new_namespace("managed").await;
    namespace.create(SETS, &for_kai(&domain("rack"), &domain("host"), &Value::Null)).await;
    let (whole, group) = (constraint(MANAGED, RACK, HOST), constraint(MANAGED, HOST, HOST));
    let one = prefers(MANAGED);
    until_kai_has(
        &namespace,
        &[
            ("x-0", whole, json!([group, one, one, one])),
            ("x-0-decode-0", group.clone(), json!([one, one])),
        ],
    )
    .await;
    operator.stop().await;

    // A topology of another owner: its groups name that one.
    let configuration = format!("{PROFILES}\ntopologyAwareScheduling: {{enabled: true}}");
    let operator = world.operator(&configuration).await;
    let of = [("row", RACK), ("shelf", HOST)];
    world.topologies.create(TOPOLOGY_BINDINGS, &binding(&of)).await;
    let namespace = mirror.new_namespace("named").await;
    let own = json!({ "topologyName": "dc", "pack": { "required": "row", "preferred": "shelf" } });
    let set = for_kai(&own, &Value::Null, &json!({ "pack": { "required": "shelf" } }));
    namespace.create(SETS, &set).await;
    let of = |topology: &str| {
        let whole = constraint(topology, RACK, HOST);
        let worker = json!({ "topology": topology, "requiredTopologyLevel": HOST });
        [
            ("x-0", whole.clone(), json!([null, null, worker])),
            ("x-0-decode-0", whole, json!([null, worker])),
        ]
    };
    until_kai_has(&namespace, &of("dc")).await;
    let reference = json!([{ "schedulerName": "kai-scheduler", "topologyReference": "theirs" }]);
    let refers = json!({ "spec": { "schedulerTopologyBindings": reference } });
    world.topologies.patch(TOPOLOGY_BINDINGS, "dc", refers).await;
    until_kai_has(&namespace, &of("theirs")).await;
    operator.stop().await;
}
