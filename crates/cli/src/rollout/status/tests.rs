use serde_json::{Value, json};

use super::*;
use crate::testkit::{MINIMAL, SetObjects, after};

fn reported(set: &SetObjects) -> (bool, String) {
    let Report { line, complete } = report(&set.objects());
    (complete, line)
}

/// A set of ten replicas whose fifth is being updated.
fn updating() -> SetObjects {
    let mut set = SetObjects::ready(&MINIMAL.replacen("replicas: 1", "replicas: 10", 1));
    let started = after(60).to_string();
    let progress = json!({
        "updateStartedAt": started, "podCliqueSetGenerationHash": "h", "podTemplateHash": "h",
    });
    set.patch_set(&json!({ "status": { "updatedReplicas": 3, "updateProgress": {
        "updateStartedAt": started,
        "currentlyUpdating": [{ "replicaIndex": 4, "updateStartedAt": started }],
    }}}));
    let mut of_router = progress.clone();
    of_router["readyPodsSelectedToUpdate"] = json!({ "current": "demo-4-router-x" });
    let router = json!({ "updatedReplicas": 0, "updateProgress": of_router });
    set.patch_clique("demo-4-router", &json!({ "status": router }));
    let mut of_group = progress;
    of_group["updatedPodCliquesCount"] = json!(2);
    of_group["totalPodCliquesCount"] = json!(4);
    set.patch_group("demo-4-decode", &json!({ "status": { "updateProgress": of_group } }));
    set
}

#[test]
fn a_complete_set_has_rolled_out() {
    let (complete, line) = reported(&SetObjects::ready(MINIMAL));
    assert!(complete);
    assert_eq!(line, r#"PodCliqueSet "demo" successfully rolled out: 1 replica"#);

    let mut set = SetObjects::ready(MINIMAL);
    set.patch_set(&json!({ "spec": { "replicas": 0 }, "status": {
        "availableReplicas": 0, "updatedReplicas": 0,
        "updateProgress": {
            "updateStartedAt": after(1).to_string(), "updateEndedAt": after(2).to_string(),
        },
    }}));
    let (complete, line) = reported(&set);
    assert!(complete);
    assert_eq!(line, r#"PodCliqueSet "demo" successfully rolled out: 0 replicas"#);
}

#[test]
fn a_rollout_reports_the_first_thing_it_waits_for() {
    let mut paused =
        json!({ "metadata": { "annotations": { "grove.io/rollout-paused": "true" } } });
    let failed =
        json!({ "status": { "lastErrors": [{ "code": "ERR_X", "description": "no quota" }] } });
    let update = "3 of 10 replicas updated, replica 4 is being updated: clique demo-4-router 0 of 1 \
                  pods (pod demo-4-router-x now), group demo-4-decode 2 of 4 PodCliques";
    let cases: [(&str, Value, String); 8] = [
        ("an update", json!({}), format!("Waiting for PodCliqueSet \"demo\": {update}")),
        (
            "an error",
            failed,
            format!("Waiting for PodCliqueSet \"demo\": {update}; error: no quota"),
        ),
        (
            "a pause",
            paused.clone(),
            format!(
                "PodCliqueSet \"demo\" is paused: {update}; \"grove rollout resume demo\" lets it go on"
            ),
        ),
        (
            "the next replica",
            json!({ "status": { "updateProgress": { "currentlyUpdating": null } } }),
            "Waiting for PodCliqueSet \"demo\": 3 of 10 replicas updated".to_owned(),
        ),
        (
            "the operator",
            json!({ "metadata": { "generation": 2 } }),
            "Waiting for PodCliqueSet \"demo\": the operator has not seen generation 2 yet"
                .to_owned(),
        ),
        (
            "pods",
            json!({ "status": { "updateProgress": null, "availableReplicas": 7 } }),
            "Waiting for PodCliqueSet \"demo\": 7 of 10 replicas available".to_owned(),
        ),
        (
            "the user",
            json!({
                "spec": { "updateStrategy": { "type": "OnDelete" } },
                "status": { "updateProgress": null },
            }),
            "Waiting for PodCliqueSet \"demo\": 3 of 10 replicas updated, the others follow when \
             somebody deletes their pods (updateStrategy OnDelete)"
                .to_owned(),
        ),
        (
            "its end",
            json!({ "metadata": { "deletionTimestamp": after(1).to_string() } }),
            "Waiting for PodCliqueSet \"demo\": it is being deleted".to_owned(),
        ),
    ];
    for (what, change, expected) in cases {
        let mut set = updating();
        set.patch_set(&change);
        assert_eq!(reported(&set), (false, expected), "{what}");
    }

    let mut set = SetObjects::ready(MINIMAL);
    let current = grove_core::hash::generation_hash(&set.set);
    paused["status"] = json!({ "currentGenerationHash": current });
    set.patch_set(&paused);
    let line = "PodCliqueSet \"demo\" successfully rolled out: 1 replica; it is paused, so the next \
                change will wait";
    assert_eq!(reported(&set), (true, line.to_owned()));
    set.patch_set(&json!({ "status": { "currentGenerationHash": "former" } }));
    let line = "PodCliqueSet \"demo\" is paused: its template has changed; \"grove rollout resume \
                demo\" lets it go on";
    assert_eq!(reported(&set), (false, line.to_owned()));
}
