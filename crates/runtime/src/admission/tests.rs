use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request as HttpRequest;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

fn review(request: &Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
}

fn request() -> Value {
    json!({
        "uid": "u-1",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
        "resource": {"group": "grove.io", "version": "v1alpha1", "resource": "podcliquesets"},
        "name": "web", "namespace": "team-a", "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["team-a"]},
        "object": {"spec": {"unknownField": {"kept": true}}},
        "oldObject": null, "dryRun": true,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    })
}

fn env() -> Env {
    Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1)
}

async fn post_to(router: Router, path: &str, body: impl Into<Body>) -> (u16, String) {
    let request = HttpRequest::post(path).body(body.into()).unwrap();
    let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
}

/// Returns the response and the metrics of a webhook with this handler for a valid review.
async fn answered<F>(
    body: Value,
    handler: impl Fn(Request) -> F + Send + Sync + 'static,
) -> (Value, String)
where
    F: Future<Output = Admission> + Send + 'static,
{
    let env = env();
    let router = Webhooks::new(&env, 4).route("/hook", "pcs.validating", handler).into_router();
    let (code, text) = post_to(router, "/hook?timeout=10s", body.to_string()).await;
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 200, "{text}");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    (answer["response"].take(), env.metrics.encode())
}

fn counted(metrics: &str, result: &str) -> bool {
    let line = format!(
        "grove_admission_reviews_total{{webhook=\"pcs.validating\",result=\"{result}\"}} 1"
    );
    metrics.contains(&line)
}

#[tokio::test]
async fn the_handler_gets_the_request_with_unknown_fields() {
    let handler = |request: Request| async move {
        assert_eq!(request.operation, Operation::Create);
        assert_eq!((request.namespace.as_str(), request.name.as_str()), ("team-a", "web"));
        assert_eq!(request.kind.kind, "PodCliqueSet");
        assert_eq!(request.user_info.username.as_deref(), Some("alice"));
        assert!(request.dry_run && request.old_object.is_none());
        let object = request.object.unwrap();
        assert_eq!(object.get(), r#"{"spec":{"unknownField":{"kept":true}}}"#);
        Admission::allow()
    };

    let (answer, metrics) = answered(review(&request()), handler).await;

    assert_eq!(answer, json!({"uid": "u-1", "allowed": true}));
    assert!(counted(&metrics, "allowed"), "{metrics}");
}

#[tokio::test]
async fn each_response_has_its_wire_form_and_metric() {
    let patch = json!([{"op": "add", "path": "/spec/a", "value": 1}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    let cause = StatusCause {
        reason: "FieldValueInvalid".into(),
        message: "must be positive".into(),
        field: "spec.replicas".into(),
    };
    let with_cause = Admission::Deny(Denial {
        code: 422,
        reason: "Invalid",
        message: "bad".into(),
        causes: vec![cause],
        warnings: Vec::new(),
    });
    let cases = [
        (
            Admission::patch(patch).warn(["deprecated".to_owned()]),
            "allowed",
            json!({
                "uid": "u-1", "allowed": true, "patchType": "JSONPatch",
                "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvYSIsInZhbHVlIjoxfV0=",
                "warnings": ["deprecated"],
            }),
        ),
        (
            Admission::patch(json_patch::Patch::default()),
            "allowed",
            json!({"uid": "u-1", "allowed": true}),
        ),
        (
            Admission::deny("no").warn(["really".to_owned()]),
            "denied",
            json!({
                "uid": "u-1", "allowed": false, "warnings": ["really"],
                "status": {
                    "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
                },
            }),
        ),
        (
            with_cause,
            "denied",
            json!({
                "uid": "u-1", "allowed": false,
                "status": {
                    "status": "Failure", "code": 422, "reason": "Invalid", "message": "bad",
                    "details": {"causes": [{
                        "reason": "FieldValueInvalid", "message": "must be positive",
                        "field": "spec.replicas",
                    }]},
                },
            }),
        ),
        (
            Admission::failed("the cache is empty"),
            "failed",
            json!({
                "uid": "u-1", "allowed": false,
                "status": {
                    "status": "Failure", "code": 500, "reason": "InternalError",
                    "message": "the cache is empty",
                },
            }),
        ),
    ];
    for (response, result, expected) in cases {
        let handed = response.clone();
        let handler = move |_| std::future::ready(handed.clone());
        let (answer, metrics) = answered(review(&request()), handler).await;
        assert_eq!(answer, expected, "{response:?}");
        assert!(counted(&metrics, result), "{metrics}");
    }
}

#[tokio::test]
async fn an_undecodable_request_is_answered_with_its_uid() {
    let mut without_kind = request();
    without_kind.as_object_mut().unwrap().remove("kind");
    let mut unknown_operation = request();
    unknown_operation["operation"] = json!("GUESS");
    let mut beta = review(&request());
    beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let cases = [
        (review(&without_kind), "missing field `kind`"),
        (review(&unknown_operation), "unknown variant `GUESS`"),
        (beta, "expected admission.k8s.io/v1 AdmissionReview, got admission.k8s.io/v1beta1"),
    ];
    for (body, expected) in cases {
        let unreached = |_| async { unreachable!("the handler is not called") };
        let (answer, metrics) = answered(body, unreached).await;
        assert_eq!((&answer["uid"], &answer["allowed"]), (&json!("u-1"), &json!(false)));
        assert_eq!(answer["status"]["code"], 400);
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert!(counted(&metrics, "undecodable"), "{metrics}");
    }
}

#[tokio::test]
async fn a_body_without_a_review_gets_a_client_error() {
    let router = || {
        Webhooks::new(&env(), 4).route("/hook", "x", |_| async { Admission::allow() }).into_router()
    };
    let large = format!("{{\"request\": \"{}\"", "x".repeat(BODY_LIMIT));
    let cases = [
        ("{", 400),
        ("", 400),
        ("[]", 400),
        (r#"{"request": null}"#, 400),
        (r#"{"request": {"uid": 7}}"#, 400),
        (large.as_str(), 413),
    ];
    for (body, expected) in cases {
        let (code, text) = post_to(router(), "/hook", body.to_owned()).await;
        assert_eq!(code, expected, "{text}");
    }
    assert_eq!(post_to(router(), "/other", "").await.0, 404);
}

#[tokio::test]
async fn a_panic_is_answered_and_the_next_review_works() {
    let calls = AtomicUsize::new(0);
    let handler = move |_| {
        assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "first call panics");
        std::future::ready(Admission::allow())
    };
    let env = env();
    let router = Webhooks::new(&env, 1).route("/hook", "pcs.validating", handler).into_router();

    let (code, first) = post_to(router.clone(), "/hook", review(&request()).to_string()).await;
    let (_, second) = post_to(router, "/hook", review(&request()).to_string()).await;

    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(code, 200);
    assert_eq!(first["response"]["uid"], "u-1");
    assert_eq!(first["response"]["status"]["code"], 500);
    assert!(second.contains(r#""allowed":true"#), "{second}");
    assert!(counted(&env.metrics.encode(), "panicked"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_answered_before_the_api_server_gives_up() {
    let env = env();
    let router = Webhooks::new(&env, 1)
        .route("/hook", "pcs.validating", |_| std::future::pending())
        .into_router();

    let body = review(&request()).to_string();
    let (code, text) = post_to(router, "/hook?timeout=2s", body).await;

    assert_eq!(code, 200);
    assert!(text.contains("no decision within 1.8s"), "{text}");
    assert_eq!(env.clock.wall().as_millisecond(), 1800);
    assert!(counted(&env.metrics.encode(), "timeout"));
}

#[tokio::test(start_paused = true)]
async fn reviews_above_the_limit_wait() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let env = env();
    let (running, peak, clock_of_handler) = (now.clone(), most.clone(), env.clock.clone());
    let handler = move |_| {
        let (running, peak, clock) = (running.clone(), peak.clone(), clock_of_handler.clone());
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            clock.sleep(Duration::from_millis(100)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Admission::allow()
        }
    };
    let router = Webhooks::new(&env, 3).route("/hook", "x", handler).into_router();

    let body = review(&request()).to_string();
    let all = (0..9).map(|_| post_to(router.clone(), "/hook", body.clone()));
    let answers = futures::future::join_all(all).await;

    assert!(answers.iter().all(|(_, text)| text.contains(r#""allowed":true"#)));
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(env.clock.wall().as_millisecond(), 300);
}
