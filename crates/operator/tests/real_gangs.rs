//! Gangs on the scheduler of Kubernetes: whole or not at all, as far as the cluster can.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use serde_json::{Value, json};
use support::kinds::{Kind, PODS, SETS};
use support::mirror::{Mirror, Namespace, State, condition, text};
use support::{Operator, Setup, World, sets};
use xtask::cluster::{Fleet, Gates, Kube};

const ROLE: &str = include_str!("../../../deploy/schedulers/kubernetes.yaml");
const GANGS: &str =
    "scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true}}]}";
const NODES: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// A world, its operator and what there is to see. Every pod needs a node of its own.
struct Stage {
    world: World,
    operator: Operator,
    mirror: Mirror,
    groups: Option<(Mirror, Kind)>,
}

impl Stage {
    async fn new(kube: Kube, gates: Gates, fleet: &Fleet, groups: Option<Kind>) -> Self {
        let world = World::with(kube, gates, fleet);
        world.cluster.kubectl_with_stdin(&["apply", "-f", "-"], ROLE).unwrap();
        let setup = Setup { configuration: GANGS, ..Setup::default() };
        let operator = world.operator(setup).await;
        let mirror = world.mirror().await;
        let groups = match groups {
            Some(kind) => Some((world.mirror_of(&[kind]).await, kind)),
            None => None,
        };
        Self { world, operator, mirror, groups }
    }

    /// Leaves this many nodes to be used.
    fn room_for(&self, pods: usize) {
        let names = self.world.cluster.kubectl(&["get", "nodes", "--output=name"]).unwrap();
        for (index, node) in names.lines().enumerate() {
            let verb = if index < pods { "uncordon" } else { "cordon" };
            self.world.cluster.kubectl(&[verb, node.trim_start_matches("node/")]).unwrap();
        }
    }

    /// Waits until the scheduler has tried to place these groups, and could not.
    async fn until_refused(&self, namespace: &str, names: &[&str]) {
        let (mirror, kind) = self.groups.as_ref().unwrap();
        let namespace = mirror.namespace(namespace);
        let what = format!("{} cannot be placed", names.join(", "));
        namespace
            .until_is(&what, |state| {
                names.iter().all(|name| {
                    state.get(*kind, name).is_some_and(|group| {
                        let conditions = group["status"]["conditions"].as_array();
                        conditions.into_iter().flatten().any(|one| one["status"] == "False")
                    })
                })
            })
            .await;
    }
}

/// A clique whose pods fill a node each.
fn clique(name: &str, replicas: i32, min: i32) -> Value {
    let mut clique = sets::clique_with_min(name, replicas, min);
    let resources = json!({ "limits": { "nvidia.com/gpu": "8" } });
    clique["spec"]["podSpec"]["containers"][0]["resources"] = resources;
    clique
}

/// How many pods of a clique are on a node.
fn bound(state: &State, clique: &str) -> usize {
    let pods = state.pods_of(clique);
    pods.values().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

/// How many pods of a namespace ever were.
fn ever_bound(namespace: &Namespace) -> usize {
    namespace.look(|state| {
        let pods = state.history.iter().filter(|(kind, _)| *kind == PODS);
        pods.filter(|(_, pod)| pod["spec"]["nodeName"].is_string()).count()
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_gang_of_cliques_and_a_group_is_placed_whole_and_scaled_gangs_apart() {
    let groups = support::kinds::KUBE_GROUPS;
    let stage = Stage::new(Kube::V1_37, Gates::All, &NODES, Some(groups)).await;
    stage.room_for(3);
    let namespace = stage.mirror.new_namespace("tree").await;
    let cliques = [clique("router", 1, 1), clique("leader", 1, 1), clique("worker", 3, 2)];
    let set = sets::set("x", &cliques, &[sets::group("decode", &["leader", "worker"], 2, 1)]);
    namespace.create(SETS, &set).await;

    let base = ["x-0-router", "x-0-decode-0-leader", "x-0-decode-0-worker"];
    stage.until_refused("tree", &base).await;
    assert_eq!(ever_bound(&namespace), 0, "three of four nodes are not enough");

    stage.room_for(5);
    namespace
        .until_is("the minimum of the base gang is placed", |state| {
            base.iter().zip([1, 1, 2]).all(|(clique, min)| bound(state, clique) >= min)
        })
        .await;
    let scaled = ["x-0-decode-1-leader", "x-0-decode-1-worker"];
    stage.until_refused("tree", &scaled).await;
    namespace.look(|state| {
        assert_eq!(scaled.map(|clique| bound(state, clique)), [0, 0], "a gang of its own");
    });

    stage.room_for(8);
    namespace
        .until_is("the scaled gang is placed", |state| {
            scaled.iter().zip([1, 2]).all(|(clique, min)| bound(state, clique) >= min)
        })
        .await;
    let limits = condition(&namespace.object(SETS, "x"), "SchedulerLimits").clone();
    assert_eq!(limits, Value::Null);
    stage.operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn of_ten_gangs_with_room_for_five_exactly_five_are_placed() {
    let fleet = Fleet { hosts: 5, ..NODES };
    let groups = support::kinds::KUBE_GROUPS;
    let stage = Stage::new(Kube::V1_37, Gates::All, &fleet, Some(groups)).await;
    let namespace = stage.mirror.new_namespace("ten").await;
    let set = sets::set("x", &[clique("a", 1, 1), clique("b", 1, 1)], &[]);
    namespace.create(SETS, &sets::with_replicas(set, 10)).await;

    let replica = |index: usize| [format!("x-{index}-a"), format!("x-{index}-b")];
    namespace
        .until_is("five gangs are placed", |state| {
            (0..10).filter(|index| replica(*index).iter().all(|one| bound(state, one) == 1)).count()
                == 5
        })
        .await;
    let waiting: Vec<String> = namespace.look(|state| {
        let idle = (0..10).filter(|index| replica(*index).iter().all(|one| bound(state, one) == 0));
        idle.flat_map(replica).collect()
    });
    assert_eq!(waiting.len(), 10, "the other five have nothing at all");
    let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
    stage.until_refused("ten", &waiting).await;
    stage.operator.stop().await;
}

/// Two cliques of which every pod counts are one flat gang.
async fn flat(kube: Kube, gates: Gates, groups: Kind) {
    let stage = Stage::new(kube, gates, &NODES, Some(groups)).await;
    stage.room_for(2);
    let namespace = stage.mirror.new_namespace("flat").await;
    let whole = sets::set("x", &[clique("a", 1, 1), clique("b", 2, 2)], &[]);
    namespace.create(SETS, &whole).await;
    stage.until_refused("flat", &["x-0"]).await;
    assert_eq!(ever_bound(&namespace), 0);

    stage.room_for(8);
    namespace
        .until_is("the gang is placed", |state| {
            bound(state, "x-0-a") == 1 && bound(state, "x-0-b") == 2
        })
        .await;
    let limits = condition(&namespace.object(SETS, "x"), "SchedulerLimits").clone();
    assert_eq!(limits, Value::Null);

    let part = sets::set("y", &[clique("a", 1, 1), clique("b", 2, 1)], &[]);
    namespace.create(SETS, &part).await;
    until_limited(&namespace, "y", "GangPartiallyEnforced", "CompositePodGroup").await;
    stage.operator.stop().await;
}

async fn until_limited(namespace: &Namespace, set: &str, reason: &str, gate: &str) {
    namespace
        .until_is(&format!("{set} says {reason}"), |state| {
            let Some(set) = state.get(SETS, set) else { return false };
            let said = condition(set, "SchedulerLimits");
            said["reason"] == reason && text(&said["message"]).contains(gate)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn without_composites_a_gang_is_flat() {
    flat(Kube::V1_37, Gates::Cautious, support::kinds::KUBE_GROUPS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_gang_is_flat_on_1_36() {
    flat(Kube::V1_36, Gates::All, support::kinds::KUBE_GROUPS_1_36).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn without_the_api_pods_are_only_let_go_together() {
    let stage = Stage::new(Kube::V1_37, Gates::Defaults, &NODES, None).await;
    let namespace = stage.mirror.new_namespace("gates").await;
    namespace.create(SETS, &sets::small("x")).await;
    namespace.until_complete(5).await;
    until_limited(&namespace, "x", "GangSchedulingNotServed", "GenericWorkload").await;
    stage.operator.stop().await;
}
