use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::lease::Leadership;

type Sent = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A server that answers the n-th request with `answer(n)` and records the requests.
fn server(answer: impl Fn(usize) -> u16 + Clone + Send + Sync + 'static) -> (Client, Sent) {
    let sent = Sent::default();
    let log = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let number = {
                let mut log = log.lock().unwrap();
                log.push((parts.method.to_string(), parts.uri.path().to_owned(), body));
                log.len()
            };
            let answer = Response::builder().status(answer(number));
            let stored = json!({"metadata": {"name": "e", "uid": format!("event-{number}")}});
            let body = Body::from(stored.to_string().into_bytes());
            Ok::<_, Infallible>(answer.body(body).unwrap())
        }
    });
    (Client::new(service, "default"), sent)
}

fn sender(client: Client, leadership: Leadership) -> (Recorder, EventSender, Metrics) {
    let env = Env::new(Clock::at("2026-06-01T12:00:00Z".parse().unwrap()), 1);
    let writer = Writer::new(client, &env, leadership, "tests");
    let (recorder, sender) = events("podclique-controller", "operator-0".into(), &env, writer);
    (recorder, sender, env.metrics)
}

fn created(message: &str) -> Occurrence {
    Occurrence {
        about: Subject {
            api_version: "grove.io/v1alpha1".to_owned(),
            kind: "PodClique".to_owned(),
            namespace: "team-a".to_owned(),
            name: "web".to_owned(),
            uid: "u-1".into(),
            resource_version: 12,
        },
        severity: Severity::Normal,
        reason: "PodCreateSuccessful".into(),
        action: "CreatePod",
        message: message.to_owned(),
    }
}

/// Sends all queued events, as a shutdown does.
async fn flush(sender: EventSender) {
    let shutdown = Shutdown::new();
    shutdown.start();
    sender.run(shutdown).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_occurrence_creates_an_event_and_the_second_increments_it() {
    let (client, sent) = server(|_| 200);
    let (recorder, sender, metrics) = sender(client, Leadership::without_election());

    recorder.record(created("Created Pod: web-0"));
    recorder.record(created("Created Pod: web-0"));
    flush(sender).await;

    let sent = sent.lock().unwrap();
    let (method, path, first) = &sent[0];
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/team-a/events"));
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web.") && name.len() == 20, "{name}");
    let expected = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": "team-a"},
        "involvedObject": {
            "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "namespace": "team-a",
            "name": "web", "uid": "u-1", "resourceVersion": "12",
        },
        "type": "Normal", "reason": "PodCreateSuccessful", "action": "CreatePod",
        "message": "Created Pod: web-0",
        "source": {"component": "podclique-controller"},
        "reportingComponent": "podclique-controller", "reportingInstance": "operator-0",
        "firstTimestamp": "2026-06-01T12:00:00Z", "lastTimestamp": "2026-06-01T12:00:00Z",
        "count": 1,
    });
    assert_eq!(*first, expected);
    let (method, path, second) = &sent[1];
    assert_eq!(method, "PATCH");
    assert_eq!(*path, format!("/api/v1/namespaces/team-a/events/{name}"));
    let expected = json!({
        "metadata": {"uid": "event-1"}, "count": 2, "lastTimestamp": "2026-06-01T12:00:00Z",
    });
    assert_eq!(*second, expected);
    assert!(metrics.encode().contains("grove_events_total{result=\"repeated\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_event_is_created_again() {
    let (client, sent) = server(|number| if number == 2 { 404 } else { 200 });
    let (recorder, sender, _) = sender(client, Leadership::without_election());

    (0..3).for_each(|_| recorder.record(created("x")));
    flush(sender).await;

    let sent = sent.lock().unwrap();
    let verbs: Vec<(&str, i64)> = sent
        .iter()
        .map(|(method, _, body)| (method.as_str(), body["count"].as_i64().unwrap()))
        .collect();
    assert_eq!(verbs, [("POST", 1), ("PATCH", 2), ("POST", 1), ("PATCH", 2)]);
}

#[tokio::test(start_paused = true)]
async fn server_failures_are_retried_and_refusals_are_not() {
    let (client, sent) = server(|number| if number < 3 { 500 } else { 200 });
    let (recorder, sender, _) = self::sender(client, Leadership::without_election());
    recorder.record(created("x"));
    flush(sender).await;
    assert_eq!(sent.lock().unwrap().len(), 3);

    let (client, sent) = server(|_| 403);
    let (recorder, sender, metrics) = self::sender(client, Leadership::without_election());
    recorder.record(created("x"));
    flush(sender).await;
    assert_eq!(sent.lock().unwrap().len(), 1);
    assert!(metrics.encode().contains("grove_events_total{result=\"failed\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_follower_sends_nothing() {
    let (client, sent) = server(|_| 200);
    let (recorder, sender, metrics) = sender(client, Leadership::follower_for_test());

    recorder.record(created("x"));
    flush(sender).await;

    assert!(sent.lock().unwrap().is_empty());
    assert!(metrics.encode().contains("grove_events_total{result=\"not-leading\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_blocks() {
    let (client, sent) = server(|_| 200);
    let (recorder, sender, metrics) = sender(client, Leadership::without_election());

    for number in 0..MAX_QUEUED + 5 {
        let mut occurrence = created("x");
        occurrence.about.uid = number.to_string().as_str().into();
        recorder.record(occurrence);
    }
    flush(sender).await;

    assert_eq!(sent.lock().unwrap().len(), MAX_QUEUED);
    assert!(metrics.encode().contains("grove_events_total{result=\"dropped\"} 5"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_three_seconds_at_most() {
    let (client, _) = server(|_| 500);
    let (recorder, sender, _) = sender(client, Leadership::without_election());
    let clock = sender.clock.clone();
    (0..50).for_each(|_| recorder.record(created("x")));

    flush(sender).await;

    assert_eq!(clock.wall().to_string(), "2026-06-01T12:00:03Z");
}

#[tokio::test(start_paused = true)]
async fn events_name_their_component_and_those_of_cluster_objects_go_to_default() {
    let (client, sent) = server(|_| 200);
    let (recorder, sender, _) = sender(client, Leadership::without_election());
    let mut occurrence = created("x");
    occurrence.about.namespace = String::new();
    occurrence.about.resource_version = 0;

    recorder.component("topology-controller").record(occurrence);
    flush(sender).await;

    let sent = sent.lock().unwrap();
    let (_, path, event) = &sent[0];
    assert_eq!(path, "/api/v1/namespaces/default/events");
    assert_eq!(event["source"]["component"], "topology-controller");
    let involved = event["involvedObject"].as_object().unwrap();
    assert!(!involved.contains_key("namespace") && !involved.contains_key("resourceVersion"));
}
