use grove_api::PodClique;
use proptest::prelude::*;
use serde_json::json;

use super::at;
use crate::pods::{ObservedPod, testkit::running};
use crate::status::{CliqueFacts, Outcome, pod_clique};
use crate::update::testkit::{idle, rolling};
use crate::update::{Rollout, clique};

/// One standalone PodClique of replica 0 and its pods.
struct Run {
    object: PodClique,
    template: String,
    pods: Vec<ObservedPod>,
    /// Seconds that have passed, and number of names.
    clock: i64,
    log: Vec<String>,
}

impl Run {
    /// A PodClique whose pods are all ready with template `a` of generation `A`.
    fn new(replicas: i32, minimum: i32) -> Self {
        let object = serde_json::from_value(json!({
            "metadata": { "name": "x", "generation": 1,
                "labels": { "grove.io/pod-template-hash": "a" } },
            "spec": { "replicas": replicas, "minAvailable": minimum },
        }))
        .unwrap();
        let mut run =
            Self { object, template: "a".to_owned(), pods: Vec::new(), clock: 0, log: Vec::new() };
        run.report(&idle(Some("A")));
        run.balance();
        run.all_ready();
        run.settle(&idle(Some("A")));
        run.log.clear();
        run
    }

    fn facts(&self) -> clique::CliqueUpdate<'_> {
        clique::CliqueUpdate {
            object: &self.object,
            set_replica: 0,
            template_hash: &self.template,
            pods: &self.pods,
        }
    }

    /// The set has another template for this clique, and its spec is updated.
    fn change(&mut self, template: &str) {
        self.template = template.to_owned();
        let labels = self.object.metadata.labels.as_mut().unwrap();
        labels.insert("grove.io/pod-template-hash".to_owned(), template.to_owned());
    }

    fn report(&mut self, rollout: &Rollout<'_>) -> bool {
        self.clock += 1;
        let (set, clique, rollout) = ("demo", self.facts(), *rollout);
        let facts = CliqueFacts { set, clique, rollout, had_minimum: false };
        let outcome = Outcome::Complete { generation: Some(1) };
        let next = Some(pod_clique(&facts, outcome, at(self.clock)));
        let changed = next != self.object.status;
        self.object.status = next;
        changed
    }

    fn delete_outdated(&mut self, rollout: &Rollout<'_>) -> bool {
        let goes = clique::outdated(&self.facts(), rollout);
        let goes: Vec<String> = goes.iter().map(|pod| pod.name.to_string()).collect();
        self.pods.retain(|pod| !goes.iter().any(|name| **name == *pod.name));
        self.log.extend(goes.iter().map(|name| format!("-{name}")));
        !goes.is_empty()
    }

    /// Creates missing pods from the spec.
    fn balance(&mut self) -> bool {
        let desired = usize::try_from(self.object.spec.replicas).unwrap();
        let before = self.pods.len();
        while self.pods.len() < desired {
            self.clock += 1;
            let name = format!("{}{}", self.template, self.clock);
            self.log.push(format!("+{name}"));
            self.pods.push(ObservedPod {
                ready: false,
                template_hash: Some(self.template.as_str().into()),
                created: Some(at(self.clock)),
                ..running(&name, 0)
            });
        }
        self.pods.len() > before
    }

    fn all_ready(&mut self) {
        self.pods.iter_mut().for_each(|pod| pod.ready = true);
    }

    /// Runs until nothing changes without new ready pods.
    fn settle(&mut self, rollout: &Rollout<'_>) {
        for _ in 0..100 {
            if !(self.delete_outdated(rollout) | self.balance() | self.report(rollout)) {
                return;
            }
        }
        panic!("it never ends: {:?}", self.log);
    }

    fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    fn names(&self) -> Vec<&str> {
        self.pods.iter().map(|pod| &*pod.name).collect()
    }

    fn progress(&self) -> String {
        let status = self.object.status.as_ref().unwrap();
        let Some(progress) = &status.update_progress else { return "none".to_owned() };
        let selected = progress.ready_pods_selected_to_update.as_ref();
        format!(
            "{}/{} {} {:?}",
            progress.pod_clique_set_generation_hash,
            progress.pod_template_hash,
            if progress.update_ended_at.is_some() { "ended" } else { "runs" },
            selected.map(|it| (it.current.as_str(), it.completed.len())),
        )
    }

    fn current(&self) -> (Option<&str>, Option<&str>) {
        let status = self.object.status.as_ref().unwrap();
        (
            status.current_pod_clique_set_generation_hash.as_deref(),
            status.current_pod_template_hash.as_deref(),
        )
    }
}

#[test]
fn a_new_clique_reports_an_update_that_ended_when_it_started() {
    let run = Run::new(2, 2);
    assert_eq!(run.progress(), "A/a ended None");
    let progress = run.object.status.as_ref().unwrap().update_progress.clone().unwrap();
    assert_eq!(progress.update_started_at, progress.update_ended_at);
    assert_eq!(run.current(), (Some("A"), Some("a")));
}

#[test]
fn ready_pods_are_replaced_one_by_one_oldest_first() {
    let mut run = Run::new(3, 2);
    let [first, second, third] = run.names()[..] else { panic!("three pods") };
    let names = [first, second, third].map(str::to_owned);
    run.change("b");
    run.settle(&rolling("B", 1));
    assert_eq!(run.take_log(), "", "it is the turn of another replica");
    for (done, name) in names.iter().enumerate() {
        run.settle(&rolling("B", 0));
        let (gone, _) = run.log.split_first().unwrap();
        assert_eq!(*gone, format!("-{name}"));
        assert_eq!(run.take_log().split(' ').count(), 2, "one is deleted, one is created");
        assert_eq!(run.progress(), format!("B/b runs Some(({name:?}, {done}))"));
        assert_eq!(run.current(), (Some("A"), Some("a")));
        run.all_ready();
    }
    run.settle(&rolling("B", 0));
    assert_eq!(run.take_log(), "");
    assert_eq!(run.progress(), "B/b ended None");
    assert_eq!(run.current(), (Some("B"), Some("b")));
}

#[test]
fn pods_that_are_not_ready_are_deleted_at_once_and_ready_ones_only_above_the_minimum() {
    let mut run = Run::new(3, 2);
    run.pods[0].ready = false;
    run.pods[1].ready = false;
    let names: Vec<String> = run.names().iter().map(|&name| name.to_owned()).collect();
    run.change("b");
    run.settle(&rolling("B", 0));
    let log = run.take_log();
    assert!(log.starts_with(&format!("-{} -{} +", names[0], names[1])), "{log}");
    assert_eq!(run.progress(), "B/b runs None", "one ready pod is less than the minimum");
    run.all_ready();
    run.settle(&rolling("B", 0));
    assert!(run.take_log().starts_with(&format!("-{}", names[2])));
}

#[test]
fn an_unchanged_template_is_updated_without_replacing_pods() {
    let mut run = Run::new(2, 2);
    run.settle(&rolling("B", 0));
    assert_eq!(run.take_log(), "");
    assert_eq!(
        (run.progress().as_str(), run.current()),
        ("B/a ended None", (Some("B"), Some("a")))
    );
}

#[test]
fn a_template_that_does_not_work_stops_the_update_at_the_first_pod() {
    let mut run = Run::new(3, 3);
    run.change("b");
    for _ in 0..5 {
        run.settle(&rolling("B", 0));
    }
    assert_eq!(run.take_log().split(' ').count(), 2);
    assert_eq!(run.pods.iter().filter(|pod| pod.ready).count(), 2);
}

#[test]
fn another_change_restarts_the_update_and_keeps_pods_that_are_up_to_date() {
    let mut run = Run::new(2, 1);
    run.change("b");
    run.settle(&rolling("B", 0));
    run.all_ready();
    run.change("c");
    run.settle(&rolling("C", 0));
    let log = run.take_log();
    assert!(log.contains("+c"), "{log}");
    assert!(run.progress().starts_with("C/c runs"));
    // Back to the template of one remaining pod.
    run.all_ready();
    let before = run.names().iter().filter(|name| name.starts_with('a')).count();
    run.change("a");
    while !run.progress().starts_with("A/a ended") {
        run.settle(&rolling("A", 0));
        run.all_ready();
    }
    let replaced = run.take_log().split(' ').filter(|one| one.starts_with('+')).count();
    assert_eq!(replaced, 2 - before);
}

#[test]
fn a_pod_recreated_with_a_withdrawn_template_is_replaced() {
    let mut run = Run::new(2, 1);
    run.change("b");
    run.pods.remove(0);
    run.settle(&rolling("B", 1));
    run.all_ready();
    assert!(run.take_log().contains("+b"), "the spec has the new template already");
    run.change("a");
    run.settle(&rolling("A", 1));
    assert_eq!(run.take_log(), "");
    run.settle(&rolling("A", 0));
    assert!(run.take_log().starts_with("-b"));
    run.all_ready();
    run.settle(&rolling("A", 0));
    assert_eq!(run.progress(), "A/a ended None");
}

#[test]
fn scaling_during_an_update_does_not_stop_it() {
    let mut run = Run::new(3, 2);
    run.change("b");
    run.settle(&rolling("B", 0));
    run.all_ready();
    run.settle(&rolling("B", 0));
    run.all_ready();
    run.settle(&rolling("B", 0));
    // Two are replaced and the third is selected; after the scale-in it needs no replacement.
    run.object.spec.replicas = 2;
    run.pods.pop();
    run.settle(&rolling("B", 0));
    assert_eq!(run.progress(), "B/b ended None");
    run.change("c");
    run.object.spec.replicas = 4;
    for _ in 0..5 {
        run.settle(&rolling("C", 0));
        run.all_ready();
    }
    run.settle(&rolling("C", 0));
    assert_eq!(run.progress(), "C/c ended None");
    assert!(run.names().iter().all(|name| name.starts_with('c')));
}

#[test]
fn a_selected_pod_that_scale_in_deleted_needs_no_replacement() {
    let mut run = Run::new(3, 1);
    run.change("b");
    run.report(&rolling("B", 0));
    run.object.spec.replicas = 2;
    run.pods.remove(0);
    run.settle(&rolling("B", 0));
    assert_eq!(run.take_log().matches('-').count(), 1, "the next one is deleted");
    for _ in 0..3 {
        run.all_ready();
        run.settle(&rolling("B", 0));
    }
    assert_eq!(run.progress(), "B/b ended None");
}

#[test]
fn a_paused_update_finishes_the_current_pod_and_starts_no_other() {
    let mut run = Run::new(3, 1);
    run.change("b");
    let paused = Rollout { paused: true, ..rolling("B", 0) };
    run.pods[2].ready = false;
    run.report(&rolling("B", 0));
    assert!(run.progress().contains("runs Some"));
    run.settle(&paused);
    assert_eq!(run.take_log().matches('-').count(), 1);
    run.all_ready();
    run.settle(&paused);
    assert_eq!(run.take_log(), "");
    run.settle(&rolling("B", 0));
    assert_eq!(run.take_log().matches('-').count(), 1);
}

#[test]
fn an_on_delete_update_ends_at_once_and_counts_pods_that_users_delete() {
    let mut run = Run::new(2, 2);
    let rollout = Rollout { on_delete: true, ..idle(Some("B")) };
    run.change("b");
    run.settle(&rollout);
    assert_eq!(run.take_log(), "");
    assert_eq!(
        (run.progress().as_str(), run.current()),
        ("B/b ended None", (Some("A"), Some("a")))
    );
    run.pods.remove(0);
    run.settle(&rollout);
    assert_eq!(run.object.status.as_ref().unwrap().updated_replicas, 1);
    // With the other strategy the remaining pod stays until the template changes again.
    run.settle(&idle(Some("B")));
    assert_eq!(run.take_log().matches('-').count(), 0);
    run.pods.remove(0);
    run.settle(&rollout);
    assert_eq!(run.current(), (Some("B"), Some("b")));
}

#[test]
fn changing_to_on_delete_ends_a_running_update() {
    let mut run = Run::new(3, 2);
    run.change("b");
    run.settle(&rolling("B", 0));
    run.all_ready();
    run.take_log();
    run.settle(&Rollout { on_delete: true, ..idle(Some("B")) });
    assert_eq!(run.take_log(), "");
    assert_eq!(run.progress(), "B/b ended None");
}

#[test]
fn members_of_groups_report_updates_with_on_delete_only() {
    let mut run = Run::new(1, 1);
    let labels = run.object.metadata.labels.as_mut().unwrap();
    labels.insert("grove.io/podcliquescalinggroup".to_owned(), "g".to_owned());
    run.object.status.as_mut().unwrap().update_progress = None;
    run.settle(&rolling("B", 0));
    assert_eq!((run.progress().as_str(), run.current()), ("none", (Some("B"), Some("a"))));
    run.settle(&Rollout { on_delete: true, ..idle(Some("C")) });
    assert_eq!(run.progress(), "C/a ended None");
    run.settle(&rolling("D", 0));
    assert_eq!(run.progress(), "D/a ended None", "nothing to do, so the hash must be current");
    run.change("b");
    run.settle(&rolling("E", 0));
    assert_eq!((run.progress().as_str(), run.take_log().as_str()), ("D/a ended None", ""));
}

#[test]
fn no_update_starts_before_the_set_and_the_spec_agree() {
    let mut run = Run::new(2, 2);
    run.template = "b".to_owned();
    run.settle(&rolling("B", 0));
    assert_eq!(run.progress(), "A/a ended None", "the spec has the old template");
    run.change("b");
    run.settle(&idle(None));
    assert_eq!(run.progress(), "A/a ended None", "the set has not reported the hash");
}

proptest! {
    /// An update never takes a ready pod below the minimum, and ends, in every order of readiness.
    #[test]
    fn an_update_keeps_the_minimum_of_ready_pods(
        replicas in 1_i32..6, minimum in 1_i32..6, ready in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let minimum = minimum.min(replicas);
        let mut run = Run::new(replicas, minimum);
        run.change("b");
        for pick in ready {
            run.report(&rolling("B", 0));
            let before = run.pods.iter().filter(|pod| pod.ready).count();
            run.delete_outdated(&rolling("B", 0));
            let after = run.pods.iter().filter(|pod| pod.ready).count();
            prop_assert!(before - after <= 1);
            let floor = usize::try_from(minimum).unwrap();
            prop_assert!(after == before || before >= floor);
            run.balance();
            let number = run.pods.len();
            run.pods[usize::from(pick) % number].ready = true;
        }
        for _ in 0..20 {
            run.all_ready();
            run.settle(&rolling("B", 0));
        }
        prop_assert_eq!(run.progress(), "B/b ended None");
    }
}
