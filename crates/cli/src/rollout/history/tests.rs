use serde_json::json;

use super::*;
use crate::testkit::{CREATED, MINIMAL, SetObjects, after};

/// A revision of the set `owner` whose workers have this image.
fn revision(number: i64, image: &str, cause: Option<&str>, owner: &str) -> ControllerRevision {
    let pod = |image: &str| json!({ "containers": [{ "name": "c", "image": image }] });
    let cliques = json!([
        { "name": "router", "spec": { "podSpec": { "containers": [
            { "name": "c", "image": "router:1" }, { "name": "proxy", "image": "proxy:1" },
        ]}}},
        { "name": "worker", "labels": { "team": "a" }, "spec": { "podSpec": pod(image) } },
    ]);
    let annotations = cause.map(|cause| json!({ annotations::CHANGE_CAUSE: cause }));
    let revision = json!({
        "metadata": {
            "name": format!("demo-{image}"), "creationTimestamp": CREATED,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo",
                "uid": owner, "controller": true,
            }],
        },
        "revision": number,
        "data": { "spec": { "template": { "cliques": cliques } } },
    });
    serde_json::from_value(revision).unwrap()
}

fn history() -> History {
    let found = vec![
        revision(3, "worker:2", None, "u"),
        revision(1, "worker:1", Some("first try"), "u"),
        revision(9, "worker:0", None, "of a former set"),
    ];
    History::of(&SetObjects::new(MINIMAL).set, found)
}

#[test]
fn the_history_is_a_table_with_the_oldest_first() {
    insta::assert_snapshot!(history().table(after(300)));
    let none = History::of(&SetObjects::new(MINIMAL).set, Vec::new());
    assert_eq!(none.table(after(0)), "PodCliqueSet \"demo\" has no revisions yet\n");
}

#[test]
fn programs_get_every_revision_with_its_template() {
    let document = history().json("team-a", None).unwrap();

    assert_eq!(document["namespace"], "team-a");
    assert_eq!(document["name"], "demo");
    let revisions = document["revisions"].as_array().unwrap();
    let short = |one: &Value| {
        json!([one["revision"], one["current"], one["changeCause"], one["createdAt"]])
    };
    assert_eq!(
        revisions.iter().map(short).collect::<Vec<_>>(),
        [json!([1, false, "first try", CREATED]), json!([3, true, null, CREATED])]
    );
    let image = "/template/cliques/1/spec/podSpec/containers/0/image";
    assert_eq!(revisions[1].pointer(image), Some(&json!("worker:2")));
    let one = history().json("team-a", Some(1)).unwrap();
    assert_eq!(one["revisions"].as_array().unwrap().len(), 1);
}

#[test]
fn undo_goes_to_the_revision_before_the_current_one() {
    assert_eq!(history().target(0).unwrap().number, 1);
    assert_eq!(history().target(3).unwrap().number, 3);
    assert!(history().target(2).is_err());
    let none = History::of(&SetObjects::new(MINIMAL).set, vec![revision(1, "a", None, "u")]);
    let error = none.target(0).err().unwrap().to_string();
    assert_eq!(error, "PodCliqueSet \"demo\" has no revision before the current one");
}

#[test]
fn change_cause_cannot_control_the_terminal() {
    let found = vec![revision(1, "a", Some("\x1b[2Jgone\nnew line"), "u")];
    let table = History::of(&SetObjects::new(MINIMAL).set, found).table(after(0));
    assert!(table.contains("\\u{1b}[2Jgone\\u{a}new line"), "{table}");
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[test]
fn a_former_template_is_shown_with_what_is_different_now() {
    insta::assert_snapshot!(history().template(1).unwrap());
    let current = history().template(3).unwrap();
    assert!(current.contains("worker:2") && !current.contains('#'), "{current}");
    let error = history().template(2).unwrap_err().to_string();
    assert_eq!(error, "PodCliqueSet \"demo\" has no revision 2; it has 1, 3");
}
