use serde_json::{Value, json};

use super::super::testkit::{changed, clique, gang, pod, read, set};
use super::*;

#[test]
fn a_changed_reconcile_trigger_wakes_the_cliques_of_a_set() {
    let [before, same, after] = ["1", "1", "2"].map(Set::with_reconcile_trigger);
    assert_eq!(set_facts(&before), set_facts(&same));
    assert_ne!(set_facts(&before), set_facts(&after));
}

#[test]
fn a_clique_is_woken_by_its_metadata_and_status() {
    let before = changed(clique(), |_| ());
    for (field, value) in [
        ("uid", json!("another")),
        ("generation", json!(4)),
        ("labels", json!({})),
        ("finalizers", json!([])),
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("ownerReferences", json!([])),
    ] {
        let after = changed(clique(), |clique| clique["metadata"][field] = value);
        assert!(own_facts_differ(&before, &after), "{field}");
    }
    let edited = changed(clique(), |clique| clique["status"] = json!({ "replicas": 7 }));
    assert!(own_facts_differ(&before, &edited), "status");
    let touched = changed(clique(), |clique| clique["metadata"]["resourceVersion"] = "8".into());
    assert!(!own_facts_differ(&before, &touched));
}

#[test]
fn a_pod_wakes_its_clique_when_a_fact_changes() {
    let before: Pod = read(&pod("p", 0));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut object = pod("p", 0);
        change(&mut object);
        read::<Pod>(&object)
    };

    let noise = |pod: &mut Value| pod["status"]["hostIP"] = "10.0.0.1".into();
    let started = |pod: &mut Value| {
        pod["status"]["containerStatuses"] =
            json!([{ "name": "c", "started": true, "ready": false }]);
    };
    let scheduled = |pod: &mut Value| {
        pod["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "True" }]);
    };
    let other_gate = |pod: &mut Value| {
        pod["spec"]["schedulingGates"].as_array_mut().unwrap().remove(0);
    };
    assert!(!pod_facts_differ(&before, &with(&noise)));
    assert!(pod_facts_differ(&before, &with(&started)));
    assert!(!pod_facts_differ(&with(&started), &with(&started)), "another copy of the same");
    assert!(pod_facts_differ(&before, &with(&scheduled)));
    assert!(pod_facts_differ(&before, &with(&other_gate)));
    assert_eq!(clique_of(&before), [ObjectKey::new("ns", "x-0-a")]);
    assert_eq!(before.gang(), Some(ObjectKey::new("ns", "x-0")), "whose waiting gangs it wakes");
}

#[test]
fn a_pod_that_starts_to_terminate_wakes_its_clique() {
    let mut object = pod("p", 0);
    let before: Pod = read(&object);
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(pod_facts_differ(&before, &read(&object)));
}

#[test]
fn a_pod_that_lost_its_label_still_wakes_its_owner() {
    let mut object = pod("p", 0);
    object["metadata"]["labels"] = json!({});
    assert_eq!(clique_of(&read(&object)), [ObjectKey::new("ns", "x-0-a")]);
}

#[test]
fn a_gang_wakes_its_members_for_references_and_those_who_wait_for_minima() {
    let read_gang = |gang: &Value| read::<Object<PodGang>>(gang);
    let before = read_gang(&gang(false, &["p"]));
    let mut object = gang(false, &["p"]);
    object["status"]["phase"] = "Running".into();
    let phase = read_gang(&object);
    object["spec"]["podgroups"][0]["minReplicas"] = 2.into();
    let minimum = read_gang(&object);

    assert!(!gang_facts_differ(&before, &phase));
    assert!(gang_facts_differ(&before, &read_gang(&gang(true, &["p"]))));
    assert!(gang_facts_differ(&before, &read_gang(&gang(false, &["p", "q"]))));
    assert!(!gang_minima_differ(&before, &read_gang(&gang(true, &["p", "q"]))));
    assert!(gang_minima_differ(&before, &minimum));
    assert_eq!(members_of_gang(&before), [ObjectKey::new("ns", "x-0-a")]);
}

#[test]
fn a_set_wakes_its_cliques_for_its_target_only() {
    let before = set();
    let mut object = json!(before.object);
    object["status"]["replicas"] = 2.into();
    let counted = read::<Set>(&object);
    object["status"]["currentGenerationHash"] = "next".into();
    let updated = read::<Set>(&object);

    assert_eq!(set_facts(&before), set_facts(&counted));
    assert_ne!(set_facts(&before), set_facts(&updated));
}
