//! Updates and terminations on a real control plane, with the schedulers that keep objects of their
//! own: the same stories once for each, in the order in which a watch shows them. The same rules in
//! virtual time are in `simulation.rs` and next to the code of `grove_core::{update, termination}`.
//!
//! | Rule about lost minima | Story in `changes/termination.rs` |
//! |---|---|
//! | too few scheduled, too few good; what starts counts; the time is that of the first breach | `lost`, `recovered` |
//! | terminated after the delay, once; all pods lost is told; the end is told | `lost` |
//! | up for a moment and lost: terminated as well | `brief` |
//! | back in time, flapping, never scheduled: stays | `recovered`, `flaps` |
//! | the delay: refused at 0, four hours when unset, made longer and shorter while it runs | `delays` |
//! | not judged during an update; `OnDelete` does not suspend it | `delays`, `one_by_one`, `groups` |
//! | the deadline passes while no operator runs | `over_the_deadline` |
//! | a replica of a group alone | `group_replica` |
//! | the whole replica, no other one, flag on every group, gangs and services stay, no repetition | `whole_replica` |
//!
//! | Rule about updates | Story in `changes/updates.rs` |
//! |---|---|
//! | what is in the hashes, first hash, order of cliques | `not_hashed`, `told` |
//! | one replica at a time; which is next | `one_by_one`, `turns` |
//! | pod by pod, useless ones at once, oldest first, floor, cliques without a change | `one_by_one`, `turns`, `told` |
//! | group replica by replica, useless ones at once, lowest first, floor | `groups` |
//! | a template that does not work, and the way back | `broken`, `groups` |
//! | another change, scaling, pause and deletion on the way; what is made later | `twice`, `scaled`, `paused`, `deleted`, `made_later` |
//! | `OnDelete`, its stamps and hashes; switching | `on_delete`, `switched` |

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

/// Stories with deadlines of a few seconds; more at a time would make each of them late.
const AT_ONCE: usize = 8;

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
    let setup = Setup { configuration: &configuration, ..Setup::default() };
    let operator = world.operator(setup).await;
    let kinds: Vec<Kind> = ALL.into_iter().chain(groups).collect();
    let bench = Bench::watching(world.clone(), operator.requests.clone(), &kinds).await;

    let later = changes::termination::prepare_for_later(&bench).await;
    let tables = [changes::updates::RULES, changes::termination::RULES];
    let cases = cases(&bench, tables.into_iter().flatten());
    let mut namespaces: Vec<_> =
        (0..cases.len()).map(|number| bench.mirror.namespace(&format!("case-{number}"))).collect();
    namespaces.push(later.clone());
    support::cases::run_at_once(AT_ONCE, cases).await.assert_none();
    let operator = changes::termination::over_the_deadline(&bench, later, operator, setup).await;
    operator.stop().await;
    if let Some(kind) = groups {
        for namespace in &namespaces {
            changes::assert_groups_are_right(namespace, kind).await;
        }
    }
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
