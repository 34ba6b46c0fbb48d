use grove_api::PodGang;
use grove_api::pod_gang::PodGangSpec;
use grove_runtime::class::{Class, Classed};
use grove_runtime::write::{Precondition, Verb};

use super::*;
use crate::contract::PodProgress;
use crate::objects::testkit::Given;

const CREWS: Resource = Resource::namespaced("crew.example.com", "v1", "crews", "Crew");

fn gang() -> PodGang {
    let mut gang = PodGang::new("g", PodGangSpec::default());
    gang.metadata.namespace = Some("n".to_owned());
    gang.metadata.uid = Some("life-1".to_owned());
    gang
}

fn owned_by(uid: &str) -> Value {
    json!({
        "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "g", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn crew(name: &str) -> Value {
    json!({
        "apiVersion": "crew.example.com/v1", "kind": "Crew", "metadata": { "name": name },
        "spec": { "members": 2 },
    })
}

/// A crew as it is stored for one life of the gang.
fn stored(name: &str, uid: &str) -> Value {
    let mut crew = crew(name);
    crew["metadata"]["namespace"] = json!("n");
    crew["metadata"]["ownerReferences"] = json!([owned_by(uid)]);
    crew
}

fn writes_for(objects: &Given, wanted: Vec<Value>) -> Result<Vec<Write>, Refused> {
    let gang = gang();
    let gang = GangInput {
        object: &gang,
        set: None,
        progress: &PodProgress::default(),
        topology: None,
        objects,
    };
    writes("crew", &[CREWS], &gang, wanted)
}

#[test]
fn objects_are_owned_by_the_gang_whatever_the_answer_says() {
    let mut wanted = crew("a");
    wanted["metadata"] = json!({
        "name": "a", "namespace": "kube-system", "uid": "u", "resourceVersion": "3",
        "finalizers": ["stay"], "ownerReferences": [{ "uid": "somebody" }],
        "labels": { "a": "b" }, "annotations": { "c": "d" },
    });
    wanted["status"] = json!({ "phase": "Running" });

    let writes = writes_for(&Given::default(), vec![wanted]).unwrap();

    let body = json!({
        "apiVersion": "crew.example.com/v1", "kind": "Crew",
        "metadata": {
            "name": "a", "namespace": "n", "labels": { "a": "b" }, "annotations": { "c": "d" },
            "ownerReferences": [owned_by("life-1")],
        },
        "spec": { "members": 2 },
    });
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].key, ObjectKey::new("n", "a"));
    assert_eq!(writes[0].verb, Verb::Create { body });
}

#[test]
fn up_to_date_objects_are_kept_and_others_deleted() {
    let objects = Given::default()
        .with(CREWS, stored("same", "life-1"))
        .with(CREWS, stored("other", "life-1"))
        .with(CREWS, stored("unwanted", "life-1"))
        .with(CREWS, stored("of-earlier-life", "life-0"));
    let mut changed = crew("other");
    changed["spec"]["members"] = json!(5);

    let writes = writes_for(&objects, vec![crew("same"), changed]).unwrap();

    let reported: Vec<_> = writes.iter().map(|one| (one.verb.as_str(), &*one.key.name)).collect();
    assert_eq!(reported, [("merge-patch", "other"), ("delete", "unwanted")]);
    let Verb::Merge { patch, .. } = &writes[0].verb else { panic!("{:?}", writes[0]) };
    assert_eq!(*patch, json!({ "spec": { "members": 5 } }));
    let Verb::Delete { only_if, .. } = &writes[1].verb else { panic!("{:?}", writes[1]) };
    assert_eq!(*only_if, Precondition::uid(&"u".into()));
}

#[test]
fn terminating_objects_are_left_alone() {
    let mut going = stored("a", "life-1");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let objects = Given::default().with(CREWS, going);
    assert_eq!(writes_for(&objects, vec![crew("a")]).unwrap(), []);
    assert_eq!(writes_for(&objects, vec![]).unwrap(), []);
}

#[test]
fn objects_of_other_owners_are_not_changed() {
    let mut theirs = stored("a", "life-1");
    theirs["metadata"]["ownerReferences"] = json!([]);
    let cases = [
        (theirs, "Crew n/a is not owned by PodGang n/g: delete or rename it", Class::Denied),
        (stored("a", "life-0"), "of an earlier gang of the same name is still", Class::Conflict),
    ];
    for (live, expected, class) in cases {
        let objects = Given::default().with(CREWS, live);
        let Err(Refused::Cluster(error)) = writes_for(&objects, vec![crew("a")]) else {
            panic!("{expected}")
        };
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.class(), class, "{error}");
    }
    let absent = Given { absent: vec![CREWS], ..Given::default() };
    let Err(Refused::Cluster(error)) = writes_for(&absent, vec![crew("a")]) else { panic!() };
    assert_eq!(error.reason(), "SchedulerNotInstalled");
}

#[test]
fn objects_that_a_profile_does_not_list_are_wrong_answers() {
    let mut secret = crew("a");
    secret["apiVersion"] = json!("v1");
    secret["kind"] = json!("Secret");
    let mut other_version = crew("a");
    other_version["apiVersion"] = json!("crew.example.com/v2");
    let cases = [
        (vec![secret], "response.objects[0]: v1 Secret is none of the kinds that"),
        (vec![other_version], "response.objects[0]: crew.example.com/v2 Crew is none of"),
        (vec![crew("a"), crew("")], "response.objects[1].metadata.name: is missing"),
        (vec![crew("a"), crew("a")], "response.objects[1]: Crew n/a is there twice"),
        (vec![json!("crew")], "response.objects[0]: is no object"),
    ];
    for (wanted, expected) in cases {
        match writes_for(&Given::default(), wanted) {
            Err(Refused::Answer(wrong)) => assert!(wrong.contains(expected), "{wrong}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

fn draft() -> Value {
    json!({
        "metadata": {
            "generateName": "c-", "namespace": "n", "labels": { "grove.io/podgang": "g" },
            "ownerReferences": [{ "uid": "clique" }],
        },
        "spec": { "schedulingGates": [{ "name": "grove.io/podgang-pending-creation" }] },
    })
}

#[test]
fn pods_get_the_name_of_the_scheduler_and_what_the_patch_adds() {
    let patch = json!({
        "metadata": { "annotations": { "a": "b" }, "labels": { "new": "x", "grove.io/podgang": "g" } },
        "spec": { "priority": 7, "schedulingGates": [{ "name": "theirs" }] },
    });
    let mut pod = draft();
    preparation("crew", &draft(), Some(patch)).unwrap().apply(0, &mut pod);
    assert_eq!(pod["spec"]["schedulerName"], "crew");
    assert_eq!(pod["spec"]["priority"], 7);
    assert_eq!(pod["metadata"]["annotations"]["a"], "b");
    assert_eq!(pod["metadata"]["labels"], json!({ "new": "x", "grove.io/podgang": "g" }));
    assert_eq!(pod["spec"]["schedulingGates"].as_array().unwrap().len(), 2, "{pod}");

    let mut pod = draft();
    preparation("crew", &draft(), None).unwrap().apply(0, &mut pod);
    assert_eq!(pod["spec"]["schedulerName"], "crew");
}

#[test]
fn patches_that_change_labels_or_the_scheduler_are_wrong_answers() {
    let cases = [
        (json!({ "metadata": { "name": "a" } }), "response.patch.metadata.name: cannot be changed"),
        (json!({ "metadata": { "namespace": "m" } }), "metadata.namespace: cannot be changed"),
        (json!({ "metadata": { "ownerReferences": null } }), "ownerReferences: cannot be changed"),
        (json!({ "metadata": { "labels": null } }), "response.patch.metadata.labels: is no object"),
        (json!({ "metadata": null }), "response.patch.metadata: is no object"),
        (json!({ "spec": null }), "response.patch.spec: is no object"),
        (
            json!({ "status": {} }),
            "response.patch.status: cannot be changed, only metadata and spec",
        ),
        (
            json!({ "metadata": { "labels": { "grove.io/podgang": "h" } } }),
            "labels: grove.io/podgang is \"g\" and cannot become \"h\"",
        ),
        (
            json!({ "metadata": { "labels": { "grove.io/podgang": null } } }),
            "labels: grove.io/podgang is \"g\" and cannot become null",
        ),
        (
            json!({ "spec": { "schedulerName": "default-scheduler" } }),
            "schedulerName: is \"default-scheduler\", and pods of this profile have \"crew\"",
        ),
        (json!([]), "response.patch: is no object"),
    ];
    for (patch, expected) in cases {
        let wrong = preparation("crew", &draft(), Some(patch.clone())).unwrap_err();
        assert!(wrong.contains(expected), "{patch}: {wrong}");
    }
}
