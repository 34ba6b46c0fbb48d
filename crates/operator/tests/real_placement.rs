//! Where the scheduler of Kubernetes places the pods of sets with topology constraints, with the feature gates
//! for it: required levels. It knows no preferred ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::sync::Arc;

use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::{Fixture, select};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::placement;
use grove_testbed::topology::{HOST, RACK, managing};
use xtask::cluster::{Fleet, Gates, Kube};

const ROLE: &str = include_str!("../../../deploy/schedulers/kubernetes.yaml");
const GANGS: &str =
    "scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true}}]}";
/// The rows bring their own nodes.
const NODES: Fleet = Fleet { zones: 1, blocks: 1, racks: 1, hosts: 1, gpus: 8 };

mod table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn required_levels_are_kept_at_every_event() {
        let Some(rules) = select(&[placement::RULES]) else { return };
        let cluster = TestCluster::with(&OPERATOR, Kube::V1_37, Gates::All, &NODES);
        cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], ROLE).unwrap();
        let cluster = Arc::new(cluster);
        let configuration = managing(GANGS, &[("rack", RACK), ("host", HOST)]);
        let setup = Setup { configuration: &configuration, ..Setup::default() };
        let operator = cluster.operator(setup).await;
        let fixture = Fixture::new(cluster, operator.requests.clone()).await;
        grove_testbed::table::run(fixture.rows(&rules.rows)).await.assert_none();
        operator.stop().await;
    }
}
