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

use std::sync::Arc;

use grove_api::testkit::foreign_crds;
use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::{Fixture, select};
use grove_testbed::kinds::{ALL, KAI_GROUPS, KUBE_GROUPS, Kind};
use grove_testbed::operator::{OPERATOR, Setup};
use xtask::cluster::{Fleet, Gates, Kube};

const ROLES: [&str; 2] = [
    include_str!("../../../deploy/schedulers/kai.yaml"),
    include_str!("../../../deploy/schedulers/kubernetes.yaml"),
];

/// Stories with deadlines of a few seconds; more at a time would make each of them late.
const MAX_IN_FLIGHT: usize = 8;

const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// `scheduler` is the profile of the scheduler that sets get which name none; `groups` are the objects
/// that it is told about gangs with.
async fn everything_changes(gates: Gates, scheduler: &str, groups: Option<Kind>) {
    let tables = [changes::updates::RULES, changes::termination::RULES];
    let Some(rules) = select(&tables) else { return };
    let cluster = Arc::new(TestCluster::with(&OPERATOR, Kube::V1_37, gates, &FLEET));
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], &ROLES.join("---\n")).unwrap();
    cluster.install(&foreign_crds::kai());
    let configuration = format!(
        "leaderElection: {{enabled: true}}\nscheduler: {{profiles: [{{default: true, {scheduler}}}]}}"
    );
    let setup = Setup { configuration: &configuration, ..Setup::default() };
    let operator = cluster.operator(setup).await;
    let kinds: Vec<Kind> = ALL.into_iter().chain(groups).collect();
    let fixture = Fixture::watching(cluster, operator.requests.clone(), &kinds).await;

    let later = changes::termination::prepare_for_later(&fixture).await;
    let rows = fixture.rows(&rules.rows);
    let mut namespaces: Vec<_> =
        (0..rows.len()).map(|number| fixture.mirror.namespace(&format!("row-{number}"))).collect();
    grove_testbed::table::run_in_flight(MAX_IN_FLIGHT, rows).await.assert_none();
    let mut operator = operator;
    if rules.is_all {
        namespaces.push(later.clone());
        operator = changes::termination::over_the_deadline(&fixture, later, operator, setup).await;
    }
    operator.stop().await;
    if let Some(kind) = groups {
        for namespace in &namespaces {
            changes::assert_groups_are_right(namespace, kind).await;
        }
    }
}

mod table {
    use super::*;

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
}
