use grove_api::condition::Condition;
use serde_json::json;

use super::*;

const CREATED: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A condition: type, status, second of the last change.
type Row = (&'static str, &'static str, i64);

fn conditions(rows: &[Row]) -> Vec<Condition> {
    let condition = |(type_, status, second): &Row| {
        let time = at(*second).to_string();
        json!({ "type": type_, "status": status, "lastTransitionTime": time, "reason": "r",
            "message": "" })
    };
    serde_json::from_value(rows.iter().map(condition).collect()).unwrap()
}

fn clique(rows: &[Row]) -> PodClique {
    serde_json::from_value(json!({
        "metadata": { "name": "c", "creationTimestamp": at(CREATED).to_string() },
        "spec": { "replicas": 2 },
        "status": { "conditions": conditions(rows) },
    }))
    .unwrap()
}

fn group(minimum: i32, rows: &[Row]) -> PodCliqueScalingGroup {
    serde_json::from_value(json!({
        "metadata": { "name": "g", "creationTimestamp": at(CREATED).to_string() },
        "spec": { "replicas": 3, "minAvailable": minimum, "cliqueNames": ["c"] },
        "status": { "conditions": conditions(rows) },
    }))
    .unwrap()
}

#[test]
fn only_a_clique_that_was_scheduled_can_lose_its_minimum() {
    let breached = (BREACHED, "True", 2_000);
    let cases: [(&str, &[Row], Option<i64>); 7] = [
        ("no condition yet", &[], None),
        ("well", &[(BREACHED, "False", 2_000), (SCHEDULED, "True", 1_001)], None),
        ("being updated", &[(BREACHED, "Unknown", 2_000), (SCHEDULED, "True", 1_001)], None),
        ("pods fail", &[breached, (SCHEDULED, "True", 1_001)], Some(2_000)),
        ("never scheduled", &[breached, (SCHEDULED, "False", CREATED)], None),
        ("first said late", &[breached, (SCHEDULED, "False", CREATED + 5)], None),
        ("lost its nodes", &[breached, (SCHEDULED, "False", CREATED + 6)], Some(2_000)),
    ];
    for (what, rows, since) in cases {
        assert_eq!(clique_breached_since(&clique(rows)), since.map(at), "{what}");
    }
}

#[test]
fn only_a_group_that_was_healthy_and_is_not_recovering_can_lose_its_minimum() {
    let flag = (GANG_TERMINATION_IN_PROGRESS, "True", 2_100);
    let cases: [(&str, &[Row], Option<i64>); 5] = [
        ("no condition yet", &[], None),
        ("well", &[(BREACHED, "False", 2_000)], None),
        ("never healthy", &[(BREACHED, "True", CREATED)], None),
        ("breached", &[(BREACHED, "True", 2_000)], Some(2_000)),
        ("terminated already", &[(BREACHED, "True", 2_000), flag], None),
    ];
    for (what, rows, since) in cases {
        assert_eq!(group_breached_since(&group(1, rows)), since.map(at), "{what}");
    }
    assert_eq!(in_progress_since(&group(1, &[flag])), Some(at(2_100)));
}

#[test]
fn a_clique_that_is_made_anew_in_a_complete_gang_has_to_recover() {
    let gang = |status: &str, second: i64| -> PodGang {
        let conditions = conditions(&[(INITIALIZED, "True", second)]);
        let mut gang =
            json!({ "metadata": {}, "spec": {}, "status": { "conditions": conditions } });
        gang["status"]["conditions"][0]["status"] = json!(status);
        serde_json::from_value(gang).unwrap()
    };
    let (breached, well) = ((BREACHED, "True", CREATED), (BREACHED, "False", CREATED + 3));
    let updated = (BREACHED, "Unknown", 2_000);
    let cases: [(&str, PodGang, &[Row], bool); 7] = [
        ("nothing is reported yet", gang("True", CREATED - 1), &[], true),
        ("not scheduled yet", gang("True", CREATED - 1), &[breached], true),
        ("it has recovered", gang("True", CREATED - 1), &[well], false),
        ("an update after that", gang("True", CREATED - 1), &[updated], false),
        ("the gang is as young", gang("True", CREATED), &[], false),
        ("the gang was complete later", gang("True", CREATED + 1), &[breached], false),
        ("the gang never was complete", gang("False", CREATED - 1), &[breached], false),
    ];
    for (what, gang, rows, misses) in cases {
        let since = misses.then(|| at(CREATED));
        assert_eq!(missed_since(&clique(rows), &gang), since, "{what}");
    }
}

#[test]
fn the_first_breach_counts_and_the_delay_can_be_anything() {
    let delay = Duration::from_secs;
    for (breaches, wait, now, expected) in [
        (vec![], delay(0), 100, Verdict::Stay),
        (vec![90], delay(10), 99, Verdict::Wait(at(100))),
        (vec![90], delay(10), 100, Verdict::Terminate),
        (vec![95, 90], delay(10), 100, Verdict::Terminate),
        (vec![95], delay(10), 100, Verdict::Wait(at(105))),
        (vec![100], delay(0), 100, Verdict::Terminate),
        (vec![1], delay(u64::MAX), 100, Verdict::Stay),
    ] {
        let breaches: Vec<_> = breaches.into_iter().map(at).collect();
        assert_eq!(verdict(breaches.clone(), wait, at(now)), expected, "{breaches:?} at {now}");
    }
}

#[test]
fn replicas_of_a_group_go_alone_while_the_group_keeps_its_minimum() {
    use Verdict::{Stay, Terminate, Wait};
    let broken = |second| vec![at(second)];
    let whole = Vec::new;
    for (minimum, replicas, expected) in [
        (1, [whole(), broken(80), broken(95)], [Stay, Terminate, Wait(at(105))]),
        (2, [whole(), broken(80), whole()], [Stay, Terminate, Stay]),
        (2, [whole(), broken(80), broken(95)], [Stay; 3]),
        (1, [broken(80), broken(80), broken(80)], [Stay; 3]),
    ] {
        let group = group(minimum, &[]);
        let verdicts = group_replicas(&group, &replicas, Duration::from_secs(10), at(100));
        assert_eq!(verdicts, expected, "minimum {minimum}, {replicas:?}");
    }
}

#[test]
fn the_delay_is_that_of_the_set_or_four_hours() {
    let set = |delay: serde_json::Value| -> PodCliqueSet {
        serde_json::from_value(json!({
            "metadata": {},
            "spec": { "template": { "cliques": [], "terminationDelay": delay } },
        }))
        .unwrap()
    };
    assert_eq!(delay(&set(json!("1m0s"))), Duration::from_secs(60));
    assert_eq!(delay(&set(json!("0s"))), Duration::ZERO);
    assert_eq!(delay(&set(json!(null))), Duration::from_secs(4 * 3600));
}

#[test]
fn an_announced_termination_keeps_other_conditions_and_its_time() {
    let mut group = group(1, &[(BREACHED, "True", 2_000)]);
    group.status = Some(announced(&group, 7, at(3_000)));
    assert_eq!(in_progress_since(&group), Some(at(3_000)));
    assert!(is_in_progress(&group));
    let again = announced(&group, 7, at(4_000));
    assert_eq!(Some(&again), group.status.as_ref());
    insta::assert_json_snapshot!(again.conditions);
}
