//! Gangs on the scheduler of Kubernetes: whole or not at all, as far as the cluster can. Each table runs
//! side by side on one control plane; a case has places of its own on a node of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod gangs;

use std::sync::Arc;

use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::{Fixture, Rule, select};
use grove_testbed::kinds::{
    ALL, KUBE_COMPOSITES, KUBE_GROUPS, KUBE_GROUPS_1_36, KUBE_WORKLOADS, Kind, SETS,
};
use grove_testbed::mirror::{Namespace, condition, text};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::sets;
use xtask::cluster::{Fleet, Gates, Kube};

const ROLE: &str = include_str!("../../../deploy/schedulers/kubernetes.yaml");
const GANGS: &str = "\
scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true}}]}
topologyAwareScheduling: {enabled: true}
";
const NODES: Fleet = Fleet { zones: 1, blocks: 1, racks: 1, hosts: 2, gpus: 8 };

fn setup() -> Setup<'static> {
    Setup { configuration: GANGS, ..Setup::default() }
}

fn cluster(kube: Kube, gates: Gates) -> Arc<TestCluster> {
    let cluster = TestCluster::with(&OPERATOR, kube, gates, &NODES);
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], ROLE).unwrap();
    Arc::new(cluster)
}

/// Waits until a set reports a limitation of its scheduler.
async fn until_limited(namespace: &Namespace, set: &str, reason: &str, gate: &str) {
    namespace
        .until_is(&format!("{set} says {reason}"), |state| {
            let Some(set) = state.get(SETS, set) else { return false };
            let said = condition(set, "SchedulerLimits");
            said["reason"] == reason && text(&said["message"]).contains(gate)
        })
        .await;
}

async fn run(kube: Kube, gates: Gates, kinds: &[Kind], tables: &[&[Rule]]) {
    let Some(rules) = select(tables) else { return };
    let cluster = cluster(kube, gates);
    let operator = cluster.operator(setup()).await;
    let kinds: Vec<Kind> = ALL.into_iter().chain(kinds.iter().copied()).collect();
    let fixture = Fixture::watching(cluster, operator.requests.clone(), &kinds).await;
    grove_testbed::table::run(fixture.rows(&rules.rows)).await.assert_none();
    if !rules.is_all {
        return;
    }
    gangs::minimum::changed(&fixture, operator).await;
    // The same on every cluster, so one of them is enough.
    if gates == Gates::Cautious {
        gangs::refused::held_back(&fixture).await;
    }
}

mod table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn with_composites_gangs_are_trees() {
        let kinds = [KUBE_GROUPS, KUBE_COMPOSITES, KUBE_WORKLOADS];
        let tables =
            [gangs::every::RULES, gangs::ended::RULES, gangs::tree::RULES, gangs::trap::RULES];
        run(Kube::V1_37, Gates::All, &kinds, &tables).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn without_composites_gangs_are_flat() {
        let kinds = [KUBE_GROUPS, KUBE_WORKLOADS];
        let tables = [gangs::every::RULES, gangs::ended::RULES, gangs::flat::RULES];
        run(Kube::V1_37, Gates::Cautious, &kinds, &tables).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn on_1_36_gangs_are_flat() {
        let tables = [gangs::every::RULES, gangs::flat::RULES];
        run(Kube::V1_36, Gates::All, &[KUBE_GROUPS_1_36], &tables).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn without_the_api_pods_are_only_released_together() {
    let cluster = cluster(Kube::V1_37, Gates::Defaults);
    let operator = cluster.operator(setup()).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("gates").await;
    namespace.create(SETS, &sets::small("x")).await;
    namespace.until_complete(5).await;
    until_limited(&namespace, "x", "GangSchedulingNotServed", "GenericWorkload").await;
    operator.stop().await;
}
