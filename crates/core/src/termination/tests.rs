use grove_api::condition::Condition;
use grove_api::condition::min_available::REACHED;
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
fn only_a_minimum_that_was_reached_can_be_breached() {
    let (breached, reached) = ((BREACHED, "True", 2_000), (REACHED, "True", 1_500));
    let cases: [(&str, &[Row], Option<i64>); 6] = [
        ("no condition yet", &[], None),
        ("healthy", &[(BREACHED, "False", 2_000), reached], None),
        ("being updated", &[(BREACHED, "Unknown", 2_000), reached], None),
        ("never up", &[breached, (REACHED, "False", CREATED)], None),
        ("no record", &[breached], None),
        ("lost", &[breached, reached], Some(2_000)),
    ];
    for (what, rows, since) in cases {
        assert_eq!(clique_breached_since(&clique(rows)), since.map(at), "clique: {what}");
        assert_eq!(group_breached_since(&group(1, rows)), since.map(at), "group: {what}");
    }
}

#[test]
fn a_recreated_clique_recovers_until_it_has_its_minimum() {
    let cases: [(&str, bool, &[Row], bool); 4] = [
        ("new", false, &[], false),
        ("recreated", true, &[], true),
        ("not ready yet", true, &[(REACHED, "False", 1_001)], true),
        ("recovered", true, &[(REACHED, "True", 1_001)], false),
    ];
    for (what, is_recreated, rows, recovers) in cases {
        let mut clique = clique(rows);
        if is_recreated {
            let mark = (annotations::RECREATED.to_owned(), "true".to_owned());
            clique.metadata.annotations = Some([mark].into());
        }
        assert_eq!(is_recovering(&clique, clique.status.as_ref()), recovers, "{what}");
    }
}

#[test]
fn the_base_gang_lists_the_cliques_to_delete() {
    let gang = |list: serde_json::Value| -> PodGang {
        let annotations = json!({ annotations::TERMINATING_POD_CLIQUES: list });
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": {} }))
            .unwrap()
    };
    assert_eq!(Vec::from_iter(terminating(&gang(json!("u1,u2")))), ["u1", "u2"]);
    assert!(terminating(&gang(json!(""))).is_empty());
    assert!(
        terminating(&PodGang::new("x-0", grove_api::pod_gang::PodGangSpec::default())).is_empty()
    );
}

#[test]
fn the_delay_counts_from_the_first_breach() {
    let delay = Duration::from_secs;
    for (breaches, wait, now, expected) in [
        (vec![], delay(0), 100, Consequence::Stay),
        (vec![90], delay(10), 99, Consequence::Wait(at(100))),
        (vec![90], delay(10), 100, Consequence::Terminate),
        (vec![95, 90], delay(10), 100, Consequence::Terminate),
        (vec![95], delay(10), 100, Consequence::Wait(at(105))),
        (vec![100], delay(0), 100, Consequence::Terminate),
        (vec![1], delay(u64::MAX), 100, Consequence::Stay),
    ] {
        let breaches: Vec<_> = breaches.into_iter().map(at).collect();
        assert_eq!(consequence(breaches.clone(), wait, at(now)), expected, "{breaches:?} at {now}");
    }
}

#[test]
fn only_group_replicas_are_terminated_while_the_group_keeps_its_minimum() {
    use Consequence::{Stay, Terminate, Wait};
    let broken = |second| vec![at(second)];
    let healthy = Vec::new;
    for (minimum, replicas, expected) in [
        (1, [healthy(), broken(80), broken(95)], [Stay, Terminate, Wait(at(105))]),
        (2, [healthy(), broken(80), healthy()], [Stay, Terminate, Stay]),
        (2, [healthy(), broken(80), broken(95)], [Stay; 3]),
        (1, [broken(80), broken(80), broken(80)], [Stay; 3]),
    ] {
        let group = group(minimum, &[]);
        let consequences = group_replicas(&group, &replicas, Duration::from_secs(10), at(100));
        assert_eq!(consequences, expected, "minimum {minimum}, {replicas:?}");
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
fn an_announced_termination_keeps_other_conditions_and_clears_the_record() {
    let mut group = group(1, &[(BREACHED, "True", 2_000), (REACHED, "True", 1_500)]);
    group.status = Some(announced(&group, 7, at(3_000)));
    assert!(is_in_progress(&group) && is_announced(&group));
    assert_eq!(group_breached_since(&group), None, "what was not reached again cannot be lost");
    let again = announced(&group, 7, at(4_000));
    assert_eq!(Some(&again), group.status.as_ref());
    insta::assert_json_snapshot!(again.conditions);
    for condition in &mut group.status.as_mut().unwrap().conditions {
        condition.message = "written by the group".to_owned();
    }
    assert!(is_announced(&group), "the message does not matter");
}
