use grove_api::PodCliqueScalingGroup;
use serde_json::json;

use super::at;
use crate::replicas::GroupReplica;
use crate::status::{GroupFacts, Outcome, scaling_group};
use crate::update::Rollout;
use crate::update::group::{GroupUpdate, Outdated, ReplicaUpdate, outdated};
use crate::update::testkit::{idle, rolling};

const READY: ReplicaUpdate = ReplicaUpdate {
    state: GroupReplica {
        scheduled: true,
        available: true,
        updated: true,
        healthy: true,
        reports_healthy: true,
        reached: true,
        current: true,
    },
    outdated: None,
    updated_members: 2,
    members: 2,
};

/// A group of set replica 0.
struct Run {
    object: PodCliqueScalingGroup,
    replicas: Vec<ReplicaUpdate>,
    clock: i64,
}

impl Run {
    fn new(replicas: usize, minimum: i32) -> Self {
        let object = serde_json::from_value(json!({
            "metadata": { "name": "g", "generation": 1 },
            "spec": { "replicas": replicas, "minAvailable": minimum, "cliqueNames": ["a", "b"] },
        }))
        .unwrap();
        let mut run = Self { object, replicas: vec![READY; replicas], clock: 0 };
        run.report(&idle(Some("A")));
        run
    }

    fn breached(&self) -> &str {
        let all = &self.object.status.as_ref().unwrap().conditions;
        &all.iter().find(|one| one.type_ == "MinAvailableBreached").unwrap().status
    }

    /// Makes all replicas outdated.
    fn change(&mut self) {
        for replica in &mut self.replicas {
            let ready = replica.state.available;
            replica.outdated = Some(if ready { Outdated::Ready } else { Outdated::Useless });
            replica.state.updated = false;
            replica.state.current = false;
            replica.updated_members = 0;
        }
    }

    fn report(&mut self, rollout: &Rollout<'_>) {
        self.clock += 1;
        let group = GroupUpdate { object: &self.object, set_replica: 0, replicas: &self.replicas };
        let facts = GroupFacts { set: "demo", group, rollout: *rollout };
        let outcome = Outcome::Complete { generation: Some(1) };
        let status = scaling_group(&facts, outcome, at(self.clock));
        self.object.status = Some(status);
    }

    /// Deletes outdated replicas, which are recreated at once and not ready yet.
    fn replace(&mut self, rollout: &Rollout<'_>) -> Vec<usize> {
        let group = GroupUpdate { object: &self.object, set_replica: 0, replicas: &self.replicas };
        let gone = outdated(&group, rollout);
        for index in &gone {
            let state = GroupReplica { current: true, ..GroupReplica::default() };
            self.replicas[*index] = ReplicaUpdate { state, updated_members: 0, ..READY };
        }
        gone
    }

    fn step(&mut self, rollout: &Rollout<'_>) -> Vec<usize> {
        self.report(rollout);
        self.replace(rollout)
    }

    fn progress(&self) -> String {
        let status = self.object.status.as_ref().unwrap();
        let Some(progress) = &status.update_progress else { return "none".to_owned() };
        let selected = progress.ready_replica_indices_selected_to_update.as_ref();
        format!(
            "{} {} {:?} {}/{}",
            progress.pod_clique_set_generation_hash,
            if progress.update_ended_at.is_some() { "ended" } else { "runs" },
            selected.map(|it| (it.current, it.completed.clone())),
            progress.updated_pod_cliques_count,
            progress.total_pod_cliques_count,
        )
    }
}

#[test]
fn ready_replicas_are_replaced_one_by_one_from_the_lowest() {
    let mut run = Run::new(3, 2);
    assert_eq!(run.progress(), "none", "a new group has nothing to update");
    run.change();
    assert_eq!(run.step(&rolling("B", 1)), [0; 0], "it is the turn of another replica");
    assert_eq!(run.progress(), "none");
    for index in 0..3 {
        assert_eq!(run.step(&rolling("B", 0)), [index]);
        assert_eq!(run.step(&rolling("B", 0)), [0; 0], "it is not complete yet");
        let breached = &run.object.status.as_ref().unwrap().conditions[0];
        assert_eq!((&*breached.status, &*breached.reason), ("Unknown", "UpdateInProgress"));
        run.replicas[index] = READY;
    }
    assert_eq!(run.step(&rolling("B", 0)), [0; 0]);
    assert_eq!(run.progress(), "B ended None 6/6");
    let status = run.object.status.as_ref().unwrap();
    assert_eq!(status.current_pod_clique_set_generation_hash.as_deref(), Some("B"));
    assert_eq!(status.conditions[0].status, "False");
}

#[test]
fn replicas_that_do_not_work_are_deleted_at_once_and_ready_ones_only_above_the_minimum() {
    let mut run = Run::new(3, 2);
    for index in [0, 2] {
        run.replicas[index].state = GroupReplica::default();
    }
    run.change();
    assert_eq!(run.step(&rolling("B", 0)), [0, 2]);
    assert_eq!(run.step(&rolling("B", 0)), [0; 0], "one available is less than the minimum");
    run.replicas[0] = READY;
    assert_eq!(run.step(&rolling("B", 0)), [1]);
    assert_eq!(run.progress(), "B runs Some((1, [])) 2/6");
}

#[test]
fn a_selected_replica_that_is_scaled_in_is_not_waited_for() {
    let mut run = Run::new(3, 1);
    run.change();
    run.replicas[0] = READY;
    run.replicas[1] = READY;
    assert_eq!(run.step(&rolling("B", 0)), [2]);
    run.replicas.pop();
    run.object.spec.replicas = 2;
    run.step(&rolling("B", 0));
    assert_eq!(run.progress(), "B ended None 4/4");
}

#[test]
fn another_change_restarts_the_update_and_a_pause_starts_nothing() {
    let mut run = Run::new(2, 1);
    run.change();
    assert_eq!(run.step(&rolling("B", 0)), [0]);
    run.replicas[0] = READY;
    assert_eq!(run.step(&Rollout { paused: true, ..rolling("B", 0) }), [0; 0]);
    run.change();
    assert_eq!(run.step(&rolling("C", 0)), [0]);
    assert_eq!(run.progress(), "C runs Some((0, [])) 0/4");
}

#[test]
fn an_on_delete_update_ends_at_once() {
    let mut run = Run::new(2, 1);
    let on_delete = |hash| Rollout { on_delete: true, ..idle(Some(hash)) };
    run.report(&on_delete("A"));
    assert_eq!(run.progress(), "A ended None 4/4", "also for a new group");
    run.change();
    assert_eq!(run.step(&on_delete("B")), [0; 0]);
    assert_eq!(run.progress(), "B ended None 0/4");
}

#[test]
fn after_a_termination_only_members_that_report_no_breach_are_healthy() {
    use crate::termination::{announced, is_in_progress};
    let mut run = Run::new(1, 1);
    run.object.status = Some(announced(&run.object, 0, at(50)));
    let silent = GroupReplica { healthy: true, ..GroupReplica::default() };
    run.replicas[0].state = silent;
    run.report(&idle(Some("A")));
    assert_eq!(run.breached(), "True");
    assert!(is_in_progress(&run.object));
    run.replicas[0].state = GroupReplica { reached: false, ..READY.state };
    run.report(&idle(Some("A")));
    assert_eq!(run.breached(), "False");
    assert!(is_in_progress(&run.object), "its pods start, and were not ready yet");
    run.replicas[0] = READY;
    run.report(&idle(Some("A")));
    assert!(!is_in_progress(&run.object));
    run.replicas[0].state = silent;
    run.report(&idle(Some("A")));
    assert_eq!(run.breached(), "False");
}

#[test]
fn a_group_that_never_had_its_minimum_is_not_breached_after_an_update() {
    use crate::termination::group_breached_since;
    let mut run = Run::new(1, 1);
    run.object.status = None;
    run.replicas[0].state = GroupReplica::default();
    let breached =
        |run: &Run| (run.breached().to_owned(), group_breached_since(&run.object).is_some());
    let is = |status: &str, lost: bool| (status.to_owned(), lost);
    run.report(&idle(Some("A")));
    assert_eq!(breached(&run), is("True", false), "it was not scheduled");
    run.clock = 100;
    run.change();
    run.report(&rolling("B", 0));
    assert_eq!(breached(&run), is("Unknown", false));
    run.replace(&rolling("B", 0));
    run.replicas[0].state = GroupReplica { healthy: true, ..GroupReplica::default() };
    run.report(&rolling("B", 0));
    run.replicas[0].state = GroupReplica::default();
    run.report(&rolling("B", 0));
    assert_eq!(breached(&run), is("True", false), "it still is not");
    run.replicas[0] = READY;
    run.report(&rolling("B", 0));
    assert_eq!(breached(&run), is("False", false));
    run.replicas[0].state = GroupReplica::default();
    run.report(&rolling("B", 0));
    assert_eq!(breached(&run), is("True", true), "it had its minimum before");
}
