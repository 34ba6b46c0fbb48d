use http::{Request, Response};
use serde_json::json;

use super::*;
use crate::class::{Class, Classed};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

fn write(verb: Verb) -> Write {
    Write { resource: PODS, key: ObjectKey::new("team-a", "x"), verb, reason: "test" }
}

fn precondition() -> Precondition {
    Precondition::version(&"u-1".into(), 7)
}

fn built(verb: Verb) -> (String, String, Value) {
    let request = request::build(&write(verb), "grove", Mode::Real).unwrap();
    let body = serde_json::from_slice(request.body()).unwrap();
    (request.method().to_string(), request.uri().to_string(), body)
}

#[test]
fn every_verb_sends_its_precondition() {
    let merge = Verb::Merge {
        patch: json!({"status": {"a": 1}}),
        only_if: precondition(),
        subresource: Some("status"),
    };
    assert_eq!(
        built(merge),
        (
            "PATCH".into(),
            "/api/v1/namespaces/team-a/pods/x/status?fieldManager=grove&fieldValidation=Ignore"
                .into(),
            json!({"metadata": {"uid": "u-1", "resourceVersion": "7"}, "status": {"a": 1}}),
        )
    );
    let patch = serde_json::from_value(json!([{"op": "remove", "path": "/spec/a"}])).unwrap();
    let json_patch = Verb::Json { patch, only_if: precondition(), subresource: None };
    assert_eq!(
        built(json_patch).2,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u-1"},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/spec/a"},
        ])
    );
    let delete = Verb::Delete {
        only_if: Precondition::uid(&"u-1".into()),
        propagation: Propagation::Background,
        grace_seconds: Some(0),
    };
    assert_eq!(
        built(delete),
        (
            "DELETE".into(),
            "/api/v1/namespaces/team-a/pods/x".into(),
            json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                "gracePeriodSeconds": 0, "preconditions": {"uid": "u-1"},
            }),
        )
    );
    let apply = Verb::Apply {
        body: json!({"metadata": {"name": "x"}}),
        only_if: Some(precondition()),
        force: true,
        subresource: None,
    };
    let (_, uri, body) = built(apply);
    assert_eq!(
        uri,
        "/api/v1/namespaces/team-a/pods/x?fieldManager=grove&fieldValidation=Ignore&force=true"
    );
    assert_eq!(body["metadata"], json!({"name": "x", "uid": "u-1", "resourceVersion": "7"}));
}

#[test]
fn a_body_must_be_an_object() {
    let verb = Verb::Merge { patch: json!([]), only_if: precondition(), subresource: None };
    let error = request::build(&write(verb), "grove", Mode::Real).unwrap_err();
    assert_eq!(error.to_string(), "the body must be a JSON object");
}

/// A writer whose server always gives the same answer.
fn writer(leadership: Leadership, status: u16, headers: &[(&str, &str)], body: Value) -> Writer {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let service = tower::service_fn(move |_: Request<Body>| {
        let mut answer = Response::builder().status(status);
        for (name, value) in &headers {
            answer = answer.header(name, value);
        }
        let answer = answer.body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let client = Client::new(service, "default");
    let env = Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1);
    Writer::new(client, &env, leadership, "grove")
}

fn delete() -> Write {
    write(Verb::Delete {
        only_if: precondition(),
        propagation: Propagation::Background,
        grace_seconds: None,
    })
}

fn create() -> Write {
    write(Verb::Create { body: json!({}) })
}

fn merge() -> Write {
    write(Verb::Merge { patch: json!({}), only_if: precondition(), subresource: None })
}

#[tokio::test(start_paused = true)]
async fn each_answer_has_its_class() {
    let uid_cause = json!({"causes": [{"field": "metadata.uid", "message": "immutable"}]});
    let spec_cause = json!({"causes": [{"field": "spec.a", "message": "immutable"}]});
    let cases = [
        (create(), 409, json!({"reason": "AlreadyExists"}), Class::Conflict),
        (merge(), 409, json!({"reason": "Conflict"}), Class::Conflict),
        (merge(), 404, json!({"reason": "NotFound"}), Class::Conflict),
        (merge(), 422, json!({"reason": "Invalid", "details": uid_cause}), Class::Conflict),
        (merge(), 422, json!({"reason": "Invalid", "details": spec_cause}), Class::Invalid),
        (create(), 403, json!({"reason": "Forbidden"}), Class::Denied),
        (create(), 429, json!({"reason": "TooManyRequests"}), Class::Transient),
        (create(), 500, json!("an HTML page"), Class::Transient),
        (create(), 413, json!({"reason": "RequestEntityTooLarge"}), Class::Invalid),
        (create(), 405, json!({"reason": "MethodNotAllowed"}), Class::Bug),
    ];
    for (write, code, body, class) in cases {
        let writer = writer(Leadership::without_election(), code, &[], body.clone());
        let error = writer.execute(&Fence::default(), &write).await.unwrap_err();
        assert_eq!(error.class(), class, "{code} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_name_verb_object_purpose_and_cause() {
    let body = json!({"reason": "Forbidden", "message": "exceeded quota: gpus"});
    let writer = writer(Leadership::without_election(), 403, &[], body);

    let error = writer.execute(&Fence::default(), &create()).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "create pods team-a/x (test): 403 Forbidden: exceeded quota: gpus"
    );
}

fn waited(writer: &Writer) -> Duration {
    writer.clock.now().since(crate::clock::Instant::START)
}

#[tokio::test(start_paused = true)]
async fn the_writer_honours_retry_after() {
    // The writer waits for a short pause and fails on a long one.
    for (asked, waits, message) in [("1", 1, "429"), ("7", 0, "not sent: the API server asked")] {
        let headers = [("Retry-After", asked)];
        let writer = writer(Leadership::without_election(), 429, &headers, json!({}));

        let error = writer.execute(&Fence::default(), &create()).await.unwrap_err();
        let next = writer.execute(&Fence::default(), &create()).await.unwrap_err();

        let pause = Some(Duration::from_secs(asked.parse().unwrap()));
        assert_eq!((error.retry_after(), next.retry_after()), (pause, pause));
        assert_eq!((next.class(), waited(&writer)), (Class::Transient, Duration::from_secs(waits)));
        assert!(next.to_string().contains(message), "{next}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_an_hour_delays_its_kind_and_namespace_by_seconds() {
    let headers = [("Retry-After", "3600")];
    let writer = writer(Leadership::without_election(), 429, &headers, json!({}));
    let is_sent = async |writer: &Writer, write: &Write| {
        writer.execute(&Fence::default(), write).await.unwrap_err().status().is_some()
    };

    let error = writer.execute(&Fence::default(), &create()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(10)), "the queue waits no longer");
    assert!(!is_sent(&writer, &create()).await);
    let other_namespace = Write { key: ObjectKey::new("team-b", "x"), ..create() };
    let services = Resource::namespaced("", "v1", "services", "Service");
    let other_kind = Write { resource: services, ..create() };
    for write in [&other_namespace, &other_kind] {
        assert!(is_sent(&writer, write).await, "{write:?}");
    }
    assert!(is_sent(&writer.unpaced(), &create()).await, "certificates do not wait");
    assert_eq!(waited(&writer), Duration::ZERO);
    writer.clock.sleep(Duration::from_secs(10)).await;
    assert!(is_sent(&writer, &create()).await);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_missing_object_succeeds_and_a_follower_sends_nothing() {
    let gone = writer(Leadership::without_election(), 404, &[], json!({"reason": "NotFound"}));
    assert!(gone.execute(&Fence::default(), &delete()).await.is_ok());

    let follower = writer(Leadership::follower_for_test(), 200, &[], json!({}));
    let error = follower.execute(&Fence::default(), &create()).await.unwrap_err();
    assert_eq!(error.class(), Class::Fenced);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_recorded_in_its_fence() {
    let body = json!({"metadata": {"name": "x", "uid": "u", "resourceVersion": "41"}});
    let writer = writer(Leadership::without_election(), 201, &[], body);
    let fence = Fence::default();

    let written = writer.execute(&fence, &create()).await.unwrap();

    assert_eq!((written.resource_version, written.uid), (41, "u".into()));
    let noted =
        |fence: &Fence| -> Vec<Mark> { fence.take().into_iter().map(|one| one.mark).collect() };
    assert_eq!(noted(&fence), [Mark::Version(41)]);

    let status = json!({"kind": "Status", "status": "Success", "metadata": {}});
    let writer = self::writer(Leadership::without_election(), 200, &[], status);
    writer.execute(&fence, &delete()).await.unwrap();
    assert_eq!(noted(&fence), [Mark::Gone(ObjectKey::new("team-a", "x"), "u-1".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_contain_the_generated_name() {
    let body = json!({"metadata": {"generateName": "x-0-a-"}});
    let create = write(Verb::Create { body });
    let refusal = |name: &str| {
        let message =
            format!("Pod \"{name}\" is invalid: spec.containers[0].image: Required value");
        writer(
            Leadership::without_election(),
            422,
            &[],
            json!({"reason": "Invalid", "message": message}),
        )
    };
    let mut texts = Vec::new();
    for name in ["x-0-a-7kx2p", "x-0-a-bb8zr", "x-0-a-"] {
        let error = refusal(name).execute(&Fence::default(), &create).await.unwrap_err();
        texts.push(error.to_string());
    }
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].contains("Pod \"x-0-a-\" is invalid"), "{}", texts[0]);
    assert_eq!(texts[0], texts[2]);
}

#[test]
fn a_dry_run_stores_nothing() {
    let request = request::build(&create(), "grove", Mode::DryRun).unwrap();
    assert!(request.uri().query().unwrap().ends_with("&dryRun=All"), "{}", request.uri());
}
