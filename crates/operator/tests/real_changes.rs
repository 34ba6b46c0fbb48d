//! Updates and terminations on a real control plane, with the schedulers that keep objects of their
//! own: the same stories once for each.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod changes;
mod support;

use std::sync::Arc;

use grove_api::testkit::foreign_crds;
use support::bench::{Bench, cases};
use support::kinds::{ALL, KAI_GROUPS, KUBE_GROUPS, Kind};
use support::{Setup, World};
use xtask::cluster::{Fleet, Gates, Kube};

const ROLES: [&str; 2] = [
    include_str!("../../../deploy/schedulers/kai.yaml"),
    include_str!("../../../deploy/schedulers/kubernetes.yaml"),
];

const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// `scheduler` is the profile of the scheduler that sets get which name none; `groups` are the objects
/// that it is told about gangs with.
async fn everything_changes(gates: Gates, scheduler: &str, groups: Option<Kind>) {
    let world = Arc::new(World::with(Kube::V1_37, gates, &FLEET));
    world.cluster.kubectl_with_stdin(&["apply", "-f", "-"], &ROLES.join("---\n")).unwrap();
    world.install(&foreign_crds::kai());
    let configuration = format!(
        "leaderElection: {{enabled: true}}\nscheduler: {{profiles: [{{default: true, {scheduler}}}]}}"
    );
    let operator =
        world.operator(Setup { configuration: &configuration, ..Setup::default() }).await;
    let kinds: Vec<Kind> = ALL.into_iter().chain(groups).collect();
    let bench = Bench::watching(world.clone(), operator.requests.clone(), &kinds).await;

    let tables = [changes::updates::RULES, changes::termination::RULES];
    let cases = cases(&bench, tables.into_iter().flatten());
    support::cases::run(cases).await.assert_none();
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn with_the_scheduler_of_kubernetes() {
    everything_changes(Gates::default(), "name: default-scheduler", None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn with_gangs_of_kubernetes() {
    let scheduler = "name: default-scheduler, config: {gangScheduling: true}";
    everything_changes(Gates::default(), scheduler, Some(KUBE_GROUPS)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn with_kai() {
    let scheduler = "name: kai-scheduler, config: {defaultQueue: test}";
    everything_changes(Gates::default(), scheduler, Some(KAI_GROUPS)).await;
}
