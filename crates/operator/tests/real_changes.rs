//! Updates and terminations on a real control plane, with the schedulers that keep objects of their
//! own: the same stories once for each, in the order in which a watch shows them. The same rules in
//! virtual time are in `simulation.rs` and next to the code of `grove_core::{update, termination}`.
//!
//! | Rule about lost minima | Story in `changes/termination.rs` |
//! |---|---|
//! | too few scheduled, too few good; what starts counts; the time is that of the first breach | `a_lost_minimum_is_terminated_once_after_the_delay`, `a_minimum_restored_in_time_terminates_nothing` |
//! | terminated after the delay, once; the loss of all pods and the end are reported | `a_lost_minimum_is_terminated_once_after_the_delay` |
//! | up for a moment and lost: terminated as well | `a_group_that_was_up_briefly_is_terminated_once` |
//! | recovered in time, flapping, never scheduled: not terminated | `a_minimum_restored_in_time_terminates_nothing`, `flapping_faster_than_the_delay_terminates_nothing` |
//! | the delay: refused at 0, four hours when unset, prolonged and shortened while it runs | `the_delay_follows_the_spec_and_updates_suspend_it` |
//! | suspended during an update; `OnDelete` does not suspend it | `the_delay_follows_the_spec_and_updates_suspend_it`, `replicas_are_updated_one_by_one_above_the_floor`, `a_scaling_group_is_updated_replica_by_replica` |
//! | the deadline passes while no operator runs | `over_the_deadline` |
//! | a replica of a group alone | `a_surplus_group_replica_is_terminated_alone` |
//! | the whole replica, no other one, flag on every group, gangs and services stay, no repetition | `a_breached_group_terminates_its_replica_once` |
//!
//! | Rule about updates | Story in `changes/updates.rs` |
//! |---|---|
//! | what is in the hashes, first hash, order of cliques | `a_change_outside_the_templates_replaces_no_pod`, `an_update_is_reported_and_spares_other_cliques` |
//! | one replica at a time; which is next | `replicas_are_updated_one_by_one_above_the_floor`, `the_least_available_replica_is_updated_first` |
//! | pod by pod, useless ones at once, oldest first, floor, cliques without a change | `replicas_are_updated_one_by_one_above_the_floor`, `the_least_available_replica_is_updated_first`, `an_update_is_reported_and_spares_other_cliques` |
//! | group replica by replica, useless ones at once, lowest first, floor | `a_scaling_group_is_updated_replica_by_replica` |
//! | a template that does not work, and the way back | `a_broken_template_stops_until_it_is_rolled_back`, `a_scaling_group_is_updated_replica_by_replica` |
//! | another change, scaling, pause and deletion on the way; replicas created later | `an_update_leads_to_the_newest_template`, `replicas_can_be_scaled_during_an_update`, `an_update_can_be_paused`, `a_set_can_be_deleted_during_its_update`, `a_replica_created_later_is_not_updated_again` |
//! | `OnDelete`, its stamps and hashes; switching | `with_on_delete_only_recreated_pods_are_updated`, `the_strategy_can_be_switched_during_an_update` |

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

/// `scheduler` is the profile of the default scheduler; `groups` are its objects for gangs.
async fn updates_and_terminations(gates: Gates, scheduler: &str, groups: Option<Kind>) {
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
    async fn rules_hold_with_the_scheduler_of_kubernetes() {
        updates_and_terminations(Gates::default(), "name: default-scheduler", None).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn rules_hold_with_gangs_of_kubernetes() {
        let scheduler = "name: default-scheduler, config: {gangScheduling: true}";
        updates_and_terminations(Gates::default(), scheduler, Some(KUBE_GROUPS)).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn rules_hold_with_kai() {
        let scheduler = "name: kai-scheduler, config: {defaultQueue: test}";
        updates_and_terminations(Gates::default(), scheduler, Some(KAI_GROUPS)).await;
    }
}
