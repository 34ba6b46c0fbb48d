use grove_api::{
    PodClique,
    error_code::{ErrorCode, LastError},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CliqueFacts, Outcome, pod_clique};
use crate::pods::{
    ObservedPod,
    testkit::{any_pods, pod, running},
};
use crate::replicas::{TargetHashes, is_updated};
use crate::update::{self, testkit::idle};

mod aggregate;

const COMPLETE: Outcome<'static> = Outcome::Complete { generation: Some(1) };
const TARGET: TargetHashes<'static> =
    TargetHashes { template_hash: "hash", generation_hash: Some("gen") };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn clique(name: &str, replicas: i32, min_available: i32) -> PodClique {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "generation": 1,
            "labels": { "grove.io/pod-template-hash": "hash" },
        },
        "spec": { "replicas": replicas, "minAvailable": min_available },
    }))
    .unwrap()
}

fn facts<'a>(clique: &'a PodClique, pods: &'a [ObservedPod]) -> CliqueFacts<'a> {
    let (set_replica, template_hash) = (0, TARGET.template_hash);
    let clique = update::clique::CliqueUpdate { object: clique, set_replica, template_hash, pods };
    let rollout = idle(TARGET.generation_hash);
    CliqueFacts { set: "demo", clique, rollout, had_minimum: false }
}

/// Writes a status like a controller.
fn settled(mut clique: PodClique, pods: &[ObservedPod]) -> PodClique {
    clique.status = Some(pod_clique(&facts(&clique, pods), COMPLETE, at(60)));
    clique
}

fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap()
}

#[test]
fn ready_clique_reports_what_the_documentation_shows() {
    let pods = [running("a", 0), running("b", 1), running("c", 2)];
    let mut member = clique("demo-0-decode-1-worker", 3, 2);
    let labels = member.metadata.labels.as_mut().unwrap();
    labels.insert("grove.io/podcliquescalinggroup".to_owned(), "demo-0-decode".to_owned());
    let standalone = settled(clique("demo-0-router", 1, 1), &[running("r", 0)]);

    let member = settled(member, &pods);

    insta::assert_json_snapshot!([member.status, standalone.status]);
}

#[test]
fn terminating_pods_are_excluded_from_replicas_only() {
    let leaving = ObservedPod { deleting: true, ..running("a", 0) };
    let old = ObservedPod { template_hash: Some("old".into()), ..running("b", 1) };

    let status = settled(clique("x", 2, 1), &[leaving, old, pod("c", 2)]).status.unwrap();

    let counters = [
        status.replicas,
        status.ready_replicas,
        status.scheduled_replicas,
        status.schedule_gated_replicas,
        status.updated_replicas,
    ];
    assert_eq!(counters, [2, 2, 2, 1, 2]);
}

#[test]
fn without_a_minimum_all_pods_are_needed() {
    let mut clique = clique("x", 2, 1);
    clique.spec.min_available = None;

    let written = serde_json::to_value(settled(clique, &[running("a", 0)]).status).unwrap();

    assert_eq!(condition(&written, "PodCliqueScheduled")["status"], "False");
}

#[test]
fn updated_pods_are_counted_by_the_best_known_hash() {
    let mut clique = clique("x", 1, 1);
    clique.metadata.labels = None;
    clique.status = serde_json::from_value(json!({ "updatedReplicas": 7 })).unwrap();
    let pods = [running("a", 0)];
    let counted =
        |clique: &PodClique| pod_clique(&facts(clique, &pods), COMPLETE, at(1)).updated_replicas;
    // There is no hash to compare with, so the last count stays.
    assert_eq!(counted(&clique), 7);
    clique.status.as_mut().unwrap().current_pod_template_hash = Some("hash".to_owned());
    assert_eq!(counted(&clique), 1);
    clique.metadata.labels =
        Some([("grove.io/pod-template-hash".to_owned(), "other".to_owned())].into());
    assert_eq!(counted(&clique), 0);
}

#[test]
fn breach_counts_scheduled_pods_that_do_not_fail() {
    let unscheduled = pod("u", 9);
    let starting = |name: &str| ObservedPod { ready: false, ..running(name, 0) };
    let erroneous = |name: &str| ObservedPod { erroneous: true, ..starting(name) };
    let unready = |name: &str| ObservedPod { started_not_ready: true, ..starting(name) };
    let recovered = ObservedPod { erroneous: true, started_not_ready: true, ..running("r", 8) };
    for (min, pods, status, reason) in [
        (2, vec![running("a", 0), unscheduled], "True", "ScheduledReplicasBelowMinAvailable"),
        (2, vec![running("a", 0), running("b", 1), erroneous("c")], "False", "SufficientReadyPods"),
        (2, vec![running("a", 0), unready("b"), erroneous("c")], "True", "InsufficientReadyPods"),
        (1, vec![starting("a"), starting("b")], "False", "SufficientReadyPods"),
        (1, vec![recovered], "False", "SufficientReadyPods"),
    ] {
        let clique = settled(clique("x", 3, min), &pods);

        let written = serde_json::to_value(&clique.status).unwrap();
        let breached = condition(&written, "MinAvailableBreached");
        assert_eq!((&breached["status"], &breached["reason"]), (&json!(status), &json!(reason)));
    }
}

#[test]
fn no_breach_is_reported_before_the_first_complete_reconcile_or_during_an_update() {
    let mut clique = clique("x", 1, 1);
    let waiting = Outcome::Waiting;
    let early = pod_clique(&facts(&clique, &[]), waiting, at(1));
    assert!(early.conditions.is_empty() && early.observed_generation.is_none());

    clique.status = serde_json::from_value(json!({ "updateProgress": {
        "updateStartedAt": "2026-08-01T10:00:00Z",
        "podCliqueSetGenerationHash": "gen", "podTemplateHash": "hash",
    }}))
    .unwrap();
    let old = ObservedPod { template_hash: Some("old".into()), ..running("b", 1) };
    let clique = settled(clique, &[running("a", 0), old]);
    let running_update = serde_json::to_value(&clique.status).unwrap();
    assert_eq!(condition(&running_update, "MinAvailableBreached")["reason"], "UpdateInProgress");
    assert_eq!(running_update["updatedReplicas"], 1);
    assert_eq!(running_update.get("currentPodTemplateHash"), None);

    let ended = settled(clique, &[running("a", 0)]);
    let status = ended.status.unwrap();
    assert!(status.update_progress.unwrap().update_ended_at.is_some());
    assert_eq!(status.current_pod_template_hash.as_deref(), Some("hash"));
    assert_eq!(status.current_pod_clique_set_generation_hash.as_deref(), Some("gen"));
}

#[test]
fn current_hashes_change_after_the_label_and_all_pods() {
    let old = [ObservedPod { template_hash: Some("old".into()), ..running("a", 0) }];
    let mut relabelled = clique("x", 1, 1);
    relabelled.metadata.labels =
        Some([("grove.io/pod-template-hash".to_owned(), "old".to_owned())].into());
    for clique in [settled(clique("x", 1, 1), &old), settled(relabelled, &old)] {
        let status = clique.status.unwrap();
        assert_eq!(status.current_pod_template_hash, None);
        assert_eq!(status.current_pod_clique_set_generation_hash, None);
    }
}

#[test]
fn repeated_error_keeps_its_time_and_success_clears_it() {
    let error = |text: &str, second| LastError {
        code: ErrorCode::CreatePod,
        description: text.to_owned(),
        observed_at: Some(Time(at(second))),
        ..LastError::default()
    };
    let mut clique = clique("x", 1, 1);
    let mut step = |errors: &[LastError]| {
        let status = pod_clique(
            &facts(&clique, &[]),
            Outcome::Failed { generation: Some(1), errors },
            at(1),
        );
        clique.status = Some(status.clone());
        status.last_errors
    };

    assert_eq!(step(&[error("full", 1)]), [error("full", 1)]);
    assert_eq!(step(&[error("full", 2), error("new", 2)]), [error("full", 1), error("new", 2)]);
    let complete = pod_clique(&facts(&clique, &[]), COMPLETE, at(1));
    assert!(complete.last_errors.is_empty());
    assert_eq!(complete.observed_generation, Some(1));
    let waiting = Outcome::Waiting;
    assert!(pod_clique(&facts(&clique, &[]), waiting, at(1)).last_errors.is_empty());
}

/// A reason why a PodClique is not up to date.
type Lapse = fn(&mut PodClique);

#[test]
fn a_clique_is_up_to_date_when_all_five_criteria_hold() {
    let complete = || settled(clique("x", 2, 2), &[running("a", 0), running("b", 1)]);
    let lapses: [Lapse; 7] = [
        |it| it.metadata.labels = None,
        |it| it.status.as_mut().unwrap().current_pod_template_hash = Some("old".into()),
        |it| it.status.as_mut().unwrap().current_pod_clique_set_generation_hash = None,
        |it| {
            let hash = Some("old".into());
            it.status.as_mut().unwrap().current_pod_clique_set_generation_hash = hash;
        },
        |it| it.status.as_mut().unwrap().updated_replicas = 1,
        |it| it.status.as_mut().unwrap().ready_replicas = 1,
        |it| it.status = None,
    ];
    assert!(is_updated(&complete(), TARGET));
    for lapse in lapses {
        let mut clique = complete();
        lapse(&mut clique);
        assert!(!is_updated(&clique, TARGET), "{clique:?}");
    }
    let mut unhashed = complete();
    unhashed.status.as_mut().unwrap().current_pod_clique_set_generation_hash = None;
    assert!(!is_updated(&unhashed, TargetHashes { generation_hash: None, ..TARGET }));
}

proptest! {
    #[test]
    fn status_computed_from_its_own_result_is_the_same(
        pods in any_pods(), min in 0_i32..4, member in any::<bool>(),
    ) {
        let mut clique = clique("x", 4, min);
        if member {
            let labels = clique.metadata.labels.as_mut().unwrap();
            labels.insert("grove.io/podcliquescalinggroup".to_owned(), "g".to_owned());
        }
        let first = settled(clique, &pods);
        let shuffled: Vec<_> = pods.iter().rev().cloned().collect();

        let again = pod_clique(&facts(&first, &shuffled), COMPLETE, at(1_000));

        prop_assert_eq!(Some(again), first.status);
    }
}
