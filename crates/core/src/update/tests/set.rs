use grove_api::PodCliqueSet;
use serde_json::{Value, json};

use super::at;
use crate::replicas::{Number, SetReplica};
use crate::status::{Outcome, pod_clique_set};
use crate::update::set::is_due;
use crate::update::{Rollout, is_held_back, updating_replica};

/// Hashes in our own form.
const A: &str = "bbbbbbbbbbbbbb";
const B: &str = "cccccccccccccc";
const C: &str = "dddddddddddddd";

const DONE: SetReplica = SetReplica {
    available: true,
    updated: true,
    renewed: true,
    scheduled: true,
    breached: false,
    outdated: false,
    cliques: Number { updated: 1, total: 1 },
    groups: Number { updated: 1, total: 1 },
};
const OLD: SetReplica = SetReplica {
    updated: false,
    renewed: false,
    cliques: Number { updated: 0, total: 1 },
    groups: Number { updated: 0, total: 1 },
    ..DONE
};

struct Run {
    set: PodCliqueSet,
    replicas: Vec<SetReplica>,
    clock: i64,
}

impl Run {
    fn new(replicas: usize) -> Self {
        let set = serde_json::from_value(json!({
            "metadata": { "name": "demo", "generation": 1, "annotations": {} },
            "spec": { "replicas": replicas, "template": { "cliques": [] } },
        }))
        .unwrap();
        let mut run = Self { set, replicas: vec![DONE; replicas], clock: 0 };
        run.report(A);
        run
    }

    fn report(&mut self, hash: &str) {
        self.clock += 1;
        let due = is_due(&self.set, hash, |index| self.replicas[index as usize]);
        let outcome = Outcome::Complete { generation: self.set.metadata.generation };
        let next = pod_clique_set(&self.set, hash, &self.replicas, outcome, at(self.clock));
        let before = self.set.status.as_ref();
        let steps = before.is_some_and(|before| {
            let turn = |status: &grove_api::pod_clique_set::PodCliqueSetStatus| {
                status.update_progress.clone().map(|it| (it.currently_updating, it.update_ended_at))
            };
            turn(before) != turn(&next)
        });
        assert!(due || !steps, "a step is always due");
        self.set.status = Some(next);
    }

    fn on_delete(&mut self) {
        let strategy = json!({ "type": "OnDelete" });
        self.set.spec.update_strategy = serde_json::from_value(strategy).unwrap();
    }

    fn pause(&mut self, paused: bool) {
        let annotations = self.set.metadata.annotations.as_mut().unwrap();
        annotations.insert("grove.io/rollout-paused".to_owned(), paused.to_string());
    }

    fn status(&self) -> Value {
        json!(self.set.status)
    }

    fn ended(&self) -> bool {
        !self.status()["updateProgress"]["updateEndedAt"].is_null()
    }
}

#[test]
fn the_first_hash_starts_no_update() {
    let run = Run::new(2);
    assert_eq!(run.status()["currentGenerationHash"], A);
    assert_eq!(run.status().get("updateProgress"), None);
}

#[test]
fn replicas_take_turns_from_the_lowest() {
    let mut run = Run::new(3);
    run.replicas = vec![OLD; 3];
    for index in 0..3 {
        run.report(B);
        assert_eq!(updating_replica(&run.set), Some(index));
        run.report(B);
        assert_eq!(updating_replica(&run.set), Some(index), "it is not done");
        assert_eq!(run.status()["updateProgress"]["updatedPodCliquesCount"], index);
        run.replicas[index as usize] = DONE;
    }
    assert!(!run.ended());
    run.report(B);
    assert!(run.ended());
    insta::assert_json_snapshot!(run.status());
}

#[test]
fn replicas_without_ready_pods_are_updated_first() {
    let mut run = Run::new(4);
    run.replicas = vec![
        OLD,
        SetReplica { breached: true, ..OLD },
        DONE,
        SetReplica { scheduled: false, available: false, ..OLD },
    ];
    for expected in [3, 1, 0] {
        run.report(B);
        assert_eq!(updating_replica(&run.set), Some(expected));
        run.replicas[expected as usize] = DONE;
    }
    run.report(B);
    assert!(run.ended());
}

#[test]
fn another_change_restarts_the_update_and_skips_replicas_that_are_up_to_date() {
    let mut run = Run::new(3);
    run.replicas = vec![OLD; 3];
    run.report(B);
    run.replicas[0] = DONE;
    run.report(B);
    assert_eq!(updating_replica(&run.set), Some(1));
    // Back to the first template: the updated replica has to be updated again, the last one was never updated.
    run.replicas = vec![OLD, OLD, DONE];
    run.report(A);
    assert_eq!(updating_replica(&run.set), Some(0));
    run.replicas[0] = DONE;
    run.report(A);
    assert_eq!(updating_replica(&run.set), Some(1));
    run.replicas[1] = DONE;
    run.report(A);
    assert!(run.ended());
}

#[test]
fn an_update_whose_progress_was_removed_restarts() {
    let mut run = Run::new(2);
    run.replicas = vec![OLD; 2];
    run.report(B);
    run.set.status.as_mut().unwrap().update_progress = None;
    run.replicas = vec![DONE; 2];
    run.report(B);
    assert!(run.status().get("updateProgress").is_none(), "nothing is left to do");
    run.replicas[1] = SetReplica { outdated: true, ..OLD };
    let outcome = Outcome::Complete { generation: Some(1) };
    let status = pod_clique_set(&run.set, B, &run.replicas, outcome, at(9));
    let progress = status.update_progress.unwrap();
    assert_eq!(progress.currently_updating[0].replica_index, 1);
}

#[test]
fn scale_in_drops_the_selected_replica_and_a_set_without_replicas_is_up_to_date() {
    let mut run = Run::new(2);
    run.replicas = vec![DONE, OLD];
    run.report(B);
    assert_eq!(updating_replica(&run.set), Some(1));
    run.replicas.pop();
    run.set.spec.replicas = 1;
    run.report(B);
    assert!(run.ended());
    run.set.spec.replicas = 0;
    run.replicas.clear();
    run.report(C);
    assert!(run.ended());
}

#[test]
fn an_on_delete_update_ends_at_once_and_its_counters_follow() {
    let mut run = Run::new(2);
    run.on_delete();
    run.replicas = vec![OLD; 2];
    run.report(B);
    assert!(run.ended());
    assert_eq!(run.status()["updatedReplicas"], 0);
    run.replicas[1] = DONE;
    run.report(B);
    let status = run.status();
    assert_eq!(status["updatedReplicas"], 1);
    assert_eq!(status["updateProgress"]["updatedPodCliqueScalingGroupsCount"], 1);
}

#[test]
fn a_pause_delays_a_new_template_and_stops_between_replicas() {
    let mut run = Run::new(2);
    run.replicas = vec![OLD; 2];
    run.pause(true);
    run.report(B);
    assert_eq!(run.status()["currentGenerationHash"], A);
    assert!(is_held_back(&run.set, B));
    run.pause(false);
    run.report(B);
    assert_eq!(updating_replica(&run.set), Some(0));
    assert!(!is_held_back(&run.set, B));
    run.pause(true);
    run.replicas[0] = DONE;
    run.report(B);
    assert_eq!(updating_replica(&run.set), Some(0));
    run.pause(false);
    run.report(B);
    assert_eq!(updating_replica(&run.set), Some(1));
}

#[test]
fn hashes_of_another_implementation_are_replaced_without_an_update_if_up_to_date() {
    for (observed, updates) in [(1, false), (0, true)] {
        let mut run = Run::new(1);
        run.set.status = serde_json::from_value(json!({
            "currentGenerationHash": "65z58f9z6b5d7c8z9z2", "observedGeneration": observed,
        }))
        .unwrap();
        run.report(A);
        assert_eq!(run.status()["currentGenerationHash"], A);
        assert_eq!(run.status().get("updateProgress").is_some(), updates);
    }
}

#[test]
fn children_learn_which_replica_is_updated() {
    let mut run = Run::new(2);
    run.replicas = vec![OLD; 2];
    assert!(Rollout::of(&run.set, A).may_begin(1), "no update runs");
    assert_eq!(Rollout::of(&run.set, B).generation_hash, None, "not reported yet");
    run.report(B);
    let rollout = Rollout::of(&run.set, B);
    assert!(rollout.may_begin(0) && !rollout.may_begin(1));
    assert_eq!(rollout.generation_hash, Some(B));
}
