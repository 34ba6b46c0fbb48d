use std::sync::{Arc, Mutex};

use grove_runtime::class::{Class, Classed as _};
use grove_runtime::write::Verb;
use serde_json::{Value, json};

use super::*;
use crate::contract::PodProgress;
use crate::objects::testkit::Given;

fn groups() -> Resource {
    POD_GROUPS
}

fn queues(queues: &[(&str, &str)]) -> Given {
    queues.iter().fold(Given::default(), |given, (name, state)| {
        let queue = json!({ "metadata": { "name": name }, "status": { "state": state } });
        given.with(queue::QUEUES, queue)
    })
}

fn set(annotations: &Value, template: &Value) -> PodCliqueSet {
    serde_json::from_value(json!({
        "metadata": { "name": "inf", "namespace": "team-a", "annotations": annotations },
        "spec": { "template": template },
    }))
    .unwrap()
}

fn gang(minima: &[(&str, i32)]) -> PodGang {
    let groups: Vec<Value> = minima
        .iter()
        .map(|(name, min)| json!({ "name": name, "minReplicas": min, "podReferences": [] }))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": "inf-0", "namespace": "team-a", "uid": "gang",
            "labels": { "app.kubernetes.io/part-of": "inf", "grove.io/scheduler-name": "volcano" },
            "annotations": { annotations::VOLCANO_QUEUE: " batch " },
        },
        "spec": { "priorityClassName": "high", "podgroups": groups },
    }))
    .unwrap()
}

fn volcano() -> Volcano {
    Volcano { clock: Clock::system() }
}

fn planned(gang: &PodGang, objects: &Given) -> Option<Verb> {
    let mut writes = volcano()
        .plan(&GangInput {
            object: gang,
            set: None,
            progress: &PodProgress::default(),
            topology: None,
            objects,
        })
        .unwrap();
    assert!(writes.len() <= 1, "{writes:?}");
    writes.pop().map(|write| write.verb)
}

fn created(gang: &PodGang) -> Value {
    let Some(Verb::Create { body }) = planned(gang, &Given::default()) else {
        panic!("not created")
    };
    body
}

#[test]
fn every_field_of_a_gang_is_in_its_pod_group() {
    let minima = [("inf-0-router", 1), ("inf-0-decode-0-leader", 1), ("inf-0-decode-0-worker", 3)];
    let group = created(&gang(&minima));
    insta::assert_json_snapshot!(group);

    let same = Given::default().with(groups(), group.clone());
    assert_eq!(planned(&gang(&minima), &same), None, "nothing to write when equal");
    let mut theirs = group;
    theirs["metadata"]["labels"]["theirs"] = json!("x");
    theirs["metadata"]["annotations"] = json!({ "theirs": "x" });
    theirs["spec"]["minResources"] = json!({ "cpu": "1" });
    theirs["spec"]["minMember"] = json!(1);
    let Some(Verb::Merge { patch, .. }) =
        planned(&gang(&minima), &Given::default().with(groups(), theirs))
    else {
        panic!("not patched")
    };
    assert_eq!(patch, json!({ "spec": { "minMember": 5 } }), "what is not ours stays");
}

#[test]
fn minima_of_zero_become_one_unless_the_group_has_some() {
    let sizes = |group: &Value| -> Vec<Value> {
        let policies = group["spec"]["subGroupPolicy"].as_array().unwrap();
        policies.iter().map(|policy| policy["subGroupSize"].clone()).collect()
    };
    for (minima, member, expected) in [([2, 0], 2, [2, 1]), ([0, 0], 1, [1, 1])] {
        let group = created(&gang(&[("a", minima[0]), ("b", minima[1])]));
        assert_eq!(group["spec"]["minMember"], member);
        assert_eq!(sizes(&group), expected);
    }
    let mut stored = created(&gang(&[("a", 4)]));
    stored["spec"]["subGroupPolicy"] = Value::Null;
    let stored = Given::default().with(groups(), stored);
    assert_eq!(planned(&gang(&[("a", 0), ("b", 0)]), &stored), None);
}

#[test]
fn the_queue_is_that_of_the_set_or_of_its_cliques() {
    let of = |set: Option<&PodCliqueSet>| {
        let (gang, objects) = (gang(&[]), Given::default());
        queue::of(&GangInput {
            object: &gang,
            set,
            progress: &PodProgress::default(),
            topology: None,
            objects: &objects,
        })
    };
    let batch = json!({ annotations::VOLCANO_QUEUE: "cliques" });
    let by_clique = set(&json!({}), &json!({ "cliques": [{ "name": "a", "annotations": batch }] }));
    let by_set = set(&json!({ annotations::VOLCANO_QUEUE: "set" }), &json!({}));
    assert_eq!(of(Some(&by_set)), "set");
    assert_eq!(of(Some(&by_clique)), "cliques");
    assert_eq!(of(None), "batch", "as the gang has it");
}

#[test]
fn sets_that_volcano_cannot_honour_are_refused() {
    let queue = |queue: &str| json!({ annotations::VOLCANO_QUEUE: queue });
    let clique =
        |name: &str, annotations: Value| json!({ "name": name, "annotations": annotations });
    let cliques = |cliques: &[Value]| json!({ "cliques": cliques });
    let pack = json!({ "pack": { "required": "rack" } });
    let constrained = |part: &str| {
        format!("volcano scheduler backend does not support topologyConstraint on {part}")
    };
    let same =
        "all PodCliques in a PodCliqueSet using volcano scheduler must resolve to the same queue";
    let cases = [
        (json!({}), cliques(&[clique("a", json!({}))]), None),
        (queue(" open "), cliques(&[clique("a", queue("open"))]), None),
        (json!({}), json!({ "topologyConstraint": pack }), Some(constrained("PodCliqueSet"))),
        (
            json!({}),
            json!({ "cliques": [{ "name": "c", "topologyConstraint": pack }] }),
            Some(constrained("PodClique \"c\"")),
        ),
        (
            json!({}),
            json!({ "podCliqueScalingGroups": [{ "name": "g", "topologyConstraint": pack }] }),
            Some(constrained("PodCliqueScalingGroup \"g\"")),
        ),
        (
            queue("open"),
            cliques(&[clique("a", queue("closed"))]),
            Some(
                "conflicting volcano queue annotations: PodCliqueSet has \"open\", PodClique has \
                 \"closed\""
                    .to_owned(),
            ),
        ),
        (
            json!({}),
            cliques(&[clique("a", queue("open")), clique("b", json!({}))]),
            Some(same.to_owned()),
        ),
        (queue("nowhere"), json!({}), Some("volcano queue \"nowhere\" does not exist".to_owned())),
        (queue("closed"), json!({}), Some("volcano queue \"closed\" is not Open".to_owned())),
    ];
    let objects = queues(&[("default", "Open"), ("open", "Open"), ("closed", "Closed")]);
    for (annotations, template, expected) in cases {
        let set = set(&annotations, &template);
        assert_eq!(accepts(&set, &objects).err(), expected, "{set:?}");
    }
    let bad = set(&json!({}), &cliques(&[clique("a", json!({})), clique("b", queue("No_Name"))]));
    let error = accepts(&bad, &objects).unwrap_err();
    let path = "spec.template.cliques[1].annotations[scheduling.grove.io/volcano-queue]: ";
    assert!(error.starts_with(path), "{error}");
    assert!(error.contains("a lowercase RFC 1123 subdomain"), "{error}");
    assert!(accepts(&set(&json!({}), &json!({})), &Given::default()).is_err(), "no queue at all");
}

#[test]
fn pods_name_their_group() {
    let draft = json!({ "metadata": { "labels": { "grove.io/podgang": "inf-0" } } });
    let mut pod = draft.clone();
    prepared(&draft).unwrap().apply(0, &mut pod);
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
    let annotations = json!({
        "scheduling.volcano.sh/group-name": "inf-0", "scheduling.k8s.io/group-name": "inf-0",
    });
    assert_eq!(pod["metadata"]["annotations"], annotations);
    assert!(prepared(&json!({})).unwrap_err().to_string().contains("grove.io/podgang"));
}

#[test]
fn a_volcano_without_subgroups_is_too_old() {
    let version = |name: &str, served: bool, fields: Value| {
        let spec = json!({ "properties": fields });
        let schema = json!({ "openAPIV3Schema": { "properties": { "spec": spec } } });
        json!({ "name": name, "served": served, "schema": schema })
    };
    let crd = |version: Value| json!({ "spec": { "versions": [version] } });
    let policy = || json!({ "subGroupPolicy": {} });
    assert!(has_sub_groups(&crd(version("v1beta1", true, policy()))).is_ok());
    for old in [
        version("v1beta1", true, json!({ "minMember": {} })),
        version("v1beta1", false, policy()),
        version("v1alpha1", true, policy()),
    ] {
        let error = has_sub_groups(&crd(old)).unwrap_err();
        assert_eq!(error.reason(), "VolcanoCapabilityUnavailable");
        assert!(error.to_string().contains("Volcano 1.14 or newer"), "{error}");
    }
}

#[test]
fn pod_groups_of_other_owners_are_reported_and_not_taken_over() {
    let gang = gang(&[("a", 1)]);
    let stored = |owner: Value, labels: Value| {
        let mut group = created(&gang);
        group["metadata"]["ownerReferences"] = owner;
        group["metadata"]["labels"] = labels;
        group["spec"]["minMember"] = json!(7);
        Given::default().with(groups(), group)
    };
    let plan = |objects: &Given| {
        volcano().plan(&GangInput {
            object: &gang,
            set: None,
            progress: &PodProgress::default(),
            topology: None,
            objects,
        })
    };
    let owner = |kind: &str, name: &str, uid: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true }]);
    let ours = json!({
        labels::MANAGED_BY: labels::MANAGED_BY_VALUE, "app.kubernetes.io/part-of": "inf",
    });

    for (name, objects) in [
        ("of a job", stored(owner("Job", "j", "j"), ours.clone())),
        ("of a user", stored(json!([]), json!({}))),
        (
            "of another set",
            stored(
                json!([]),
                json!({
                    labels::MANAGED_BY: labels::MANAGED_BY_VALUE, "app.kubernetes.io/part-of": "other",
                }),
            ),
        ),
    ] {
        let error = plan(&objects).unwrap_err();
        assert_eq!(error.reason(), "SchedulerObjectNameTaken", "{name}");
        assert_eq!(error.class(), Class::Denied, "{name}");
        let text = "PodGroup team-a/inf-0 is not owned by PodGang team-a/inf-0";
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
    let former = plan(&stored(owner("PodGang", "inf-0", "former"), ours.clone())).unwrap_err();
    assert_eq!(former.reason(), "SchedulerObjectMissing");
    // A reference that was removed comes back.
    let [write] = &plan(&stored(json!([]), ours)).unwrap()[..] else { panic!("one write") };
    let Verb::Merge { patch, .. } = &write.verb else { panic!("{write:?}") };
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "gang");
}

/// What init answers to an API server that has this CRD, and the events that it records.
async fn initialised(crd: Option<Value>) -> (Result<(), BackendError>, Vec<Value>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorded = events.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (crd, recorded) = (crd.clone(), recorded.clone());
        async move {
            let not_found = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "not found",
            });
            let (code, answer) = if request.method() == http::Method::POST {
                let event = request.into_body().collect_bytes().await.unwrap();
                let event: Value = serde_json::from_slice(&event).unwrap();
                recorded.lock().unwrap().push(event.clone());
                (201, event)
            } else {
                crd.map_or((404, not_found), |crd| (200, crd))
            };
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(
                http::Response::builder().status(code).body(body).unwrap(),
            )
        }
    });
    let client = Client::new(service, "default");
    let done = volcano().init(&client).await;
    let events = events.lock().unwrap().clone();
    (done, events)
}

#[tokio::test]
async fn a_missing_or_outdated_volcano_emits_an_event_at_its_crd() {
    let crd = |fields: Value| {
        let spec = json!({ "properties": { "spec": { "properties": fields } } });
        let version =
            json!({ "name": "v1beta1", "served": true, "schema": { "openAPIV3Schema": spec } });
        json!({ "metadata": { "uid": "crd" }, "spec": { "versions": [version] } })
    };
    let (done, events) = initialised(Some(crd(json!({ "subGroupPolicy": {} })))).await;
    assert!(done.is_ok() && events.is_empty(), "{done:?} {events:?}");

    let (done, events) = initialised(Some(crd(json!({})))).await;
    assert_eq!(done.unwrap_err().reason(), "VolcanoCapabilityUnavailable");
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!(UNAVAILABLE)));
    assert_eq!(event["involvedObject"]["kind"], "CustomResourceDefinition");
    assert_eq!(event["involvedObject"]["uid"], "crd");

    // It may be installed later, so the operator starts.
    let (done, events) = initialised(None).await;
    assert!(done.is_ok());
    assert_eq!(events.len(), 1);
}
