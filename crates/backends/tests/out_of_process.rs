//! A backend that is a program of its own: what the operator makes of its answers, and of it being down,
//! slow, wrong or unauthenticated.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod stand_in;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use futures::future::join_all;
use grove_api::{OperatorConfiguration, PodCliqueSet, PodGang};
use grove_backends::{
    Backend, BackendError, CallContext, GangInput, NewPods, PodProgress, Registry, SchedulerObject,
    SchedulerObjects,
};
use grove_runtime::class::{Class, Classed};
use grove_runtime::clock::Clock;
use grove_runtime::controller::Outside;
use grove_runtime::fence::Fence;
use grove_runtime::lease::Leadership;
use grove_runtime::process::Env;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Presence;
use grove_runtime::write::Writer;
use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend, ReservedPort};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use stand_in::{Behaviour, StandIn};

/// Longer than anything here takes; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(30);

// === the operator's side ===

/// An operator with the profile `crew`, and a cluster that takes every write.
struct Operator {
    env: Env,
    registry: Registry,
    writer: Writer,
    written: Arc<Mutex<Vec<(String, Value)>>>,
}

/// The scheduler's objects: none, of kinds that are served.
struct Nothing;

impl SchedulerObjects for Nothing {
    fn get(&self, _: &Resource, _: &ObjectKey) -> Option<Arc<SchedulerObject>> {
        None
    }

    fn of_gang(&self, _: &Resource, _: &ObjectKey) -> Vec<Arc<SchedulerObject>> {
        Vec::new()
    }

    fn presence(&self, _: &Resource) -> Presence {
        Presence::Served
    }
}

impl Operator {
    /// With these lines about the endpoint besides its address and files.
    fn new(pki: &Pki, url: &str, more: &str) -> Self {
        Self::named("crew", pki, url, more)
    }

    fn named(name: &str, pki: &Pki, url: &str, more: &str) -> Self {
        let (ca, token) = (pki.path("ca.crt"), pki.path("token"));
        let text = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\n\
             kind: OperatorConfiguration\n\
             scheduler: {{profiles: [{{name: {name}, config: {{endpoint: {{url: '{url}', \
             caFile: '{ca}', tokenFile: '{token}', \
             kinds: [{{group: crew.example.com, version: v1, plural: crews, kind: Crew}}]{more}}}}}}}]}}\n"
        );
        let configuration = OperatorConfiguration::from_yaml(&text).unwrap();
        let env = Env::system();
        let registry = Registry::new(&configuration.scheduler, &env).unwrap();
        let written = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let cluster = written.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let path = format!("{} {}", request.method(), request.uri().path());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
                cluster.lock().unwrap().push((path, object.clone()));
                object["metadata"]["uid"] = json!("object-1");
                object["metadata"]["resourceVersion"] = json!("1");
                let body = Body::from(object.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        });
        let client = kube::Client::new(service, "default");
        let writer = Writer::new(client, &env, Leadership::without_election(), "test");
        Self { env, registry, writer, written }
    }

    fn backend(&self) -> &dyn Backend {
        let mut all = self.registry.all();
        all.find(|backend| backend.url().is_some()).unwrap()
    }

    async fn sync(&self, gang: &PodGang) -> Result<(), BackendError> {
        let gang = GangInput {
            object: gang,
            set: None,
            progress: &PodProgress::default(),
            topology: None,
            objects: &Nothing,
        };
        let (fence, outside) = (&Fence::default(), &Outside::default());
        let call = CallContext { writer: &self.writer, fence, outside };
        self.backend().sync_pod_gang(gang, call).await
    }

    /// Reports that the gang `n/g` no longer exists.
    async fn deleted(&self) -> Result<(), BackendError> {
        let (fence, outside) = (&Fence::default(), &Outside::default());
        let call = CallContext { writer: &self.writer, fence, outside };
        self.backend().pod_gang_deleted(&ObjectKey::new("n", "g"), None, call).await
    }

    async fn prepare(&self) -> Result<Value, BackendError> {
        let mut pod = json!({ "metadata": { "namespace": "n", "generateName": "p-" }, "spec": {} });
        let draft = pod.clone();
        let outside = &Outside::default();
        let pods = NewPods { draft: &draft, gang: None, set: None, objects: &Nothing, outside };
        let prepared = self.backend().prepare_pods(pods).await?;
        prepared.apply(0, &mut pod);
        Ok(pod)
    }

    async fn validate(&self) -> Result<Vec<String>, String> {
        let set =
            json!({ "metadata": { "namespace": "n", "name": "s" }, "spec": { "template": {} } });
        let set: PodCliqueSet = serde_json::from_value(set).unwrap();
        self.backend().validate(&set, None, &Nothing).await
    }

    fn written(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.written.lock().unwrap())
    }
}

fn gang(name: &str, uid: &str, generation: i64) -> PodGang {
    serde_json::from_value(json!({
        "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": { "namespace": "n", "name": name, "uid": uid, "generation": generation },
        "spec": {
            "podgroups": [{
                "name": "c", "minReplicas": 2, "podReferences": [],
                "topologyConstraint": { "packConstraint": { "required": "host" } },
            }],
            "topologyConstraint": { "packConstraint": { "required": "zone", "preferred": "rack" } },
            "topologyConstraintGroupConfigs": [{ "name": "s-0", "podGroupNames": ["c"] }],
        },
    }))
    .unwrap()
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    Clock::system().timeout(DEADLINE, what).await.expect("in time")
}

// === what it is asked, and what comes of it ===

#[tokio::test]
async fn the_operator_writes_the_objects_of_the_answer() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/wants"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, "");
    let backend = operator.backend();
    assert_eq!(backend.capabilities(&Nothing).objects, "unknown");
    assert!(backend.acts_on("any/label"), "any label may matter to what has not said what it is");

    operator.sync(&gang("g", "life-1", 4)).await.unwrap();

    let [(path, crew)] = &operator.written()[..] else { panic!("one write") };
    assert_eq!(path, "POST /apis/crew.example.com/v1/namespaces/n/crews");
    assert_eq!(crew["metadata"]["namespace"], "n", "not where the answer says");
    assert_eq!(crew["metadata"]["ownerReferences"][0]["uid"], "life-1");
    assert_eq!(crew["spec"]["generation"], 4);
    let [asked] = &program.asked("SyncPodGang")[..] else { panic!("asked once") };
    assert_eq!(asked["podGangUID"], "life-1");
    assert_eq!(asked["podGangGeneration"], 4);
    assert_eq!(asked["podGang"], serde_json::to_value(gang("g", "life-1", 4)).unwrap());
    let constraint = &asked["podGang"]["spec"]["topologyConstraint"]["packConstraint"];
    assert_eq!(*constraint, json!({ "required": "zone", "preferred": "rack" }));
    assert_eq!(asked["objects"], json!([]));
    assert_eq!(program.asked("Describe").len(), 1, "before anything else");
    assert_eq!(backend.capabilities(&Nothing).objects, "Crew");
    assert!(backend.acts_on("crew/queue") && !backend.acts_on("any/label"));

    let pod = operator.prepare().await.unwrap();
    assert_eq!(pod["spec"]["schedulerName"], "crew");
    assert_eq!(pod["metadata"]["annotations"]["crew"], "c");
    assert_eq!(operator.validate().await, Ok(vec!["slow today".to_owned()]));
    program.behave(Behaviour::Changed(|answer| {
        answer["response"]["allowed"] = json!(false);
        answer["response"]["message"] = json!("no room");
    }));
    assert_eq!(operator.validate().await, Err("no room".to_owned()));
}

#[tokio::test]
async fn a_program_that_writes_itself_answers_without_objects() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/writes"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, "");
    program.behave(Behaviour::Changed(|answer| answer["response"]["objects"] = json!(null)));
    operator.sync(&gang("g", "life-1", 1)).await.unwrap();
    assert_eq!(operator.written(), []);
}

#[tokio::test]
async fn a_deleted_gang_is_reported_once_with_its_uid() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/gone"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, "");
    operator.deleted().await.unwrap();
    assert_eq!(program.asked("PodGangDeleted"), [] as [Value; 0], "it was never reported");

    operator.sync(&gang("g", "life-1", 1)).await.unwrap();
    program.behave(Behaviour::Text(StatusCode::SERVICE_UNAVAILABLE, String::new()));
    operator.deleted().await.unwrap_err();
    program.behave(Behaviour::Good);
    operator.deleted().await.unwrap();
    operator.deleted().await.unwrap();
    let reported = program.asked("PodGangDeleted");
    assert_eq!(reported.len(), 2, "once in vain, once heard");
    assert_eq!(reported[1]["podGangUID"], "life-1");
    assert_eq!(reported[1]["podGang"]["metadata"]["name"], "g");

    // A new gang of the same name before anybody noticed.
    operator.sync(&gang("g", "life-2", 1)).await.unwrap();
    operator.sync(&gang("g", "life-3", 1)).await.unwrap();
    let reported = program.asked("PodGangDeleted");
    assert_eq!(reported.last().unwrap()["podGangUID"], "life-2");
}

// === what can go wrong ===

/// A failure of a sync: its reason, and what it says after the address and the object.
fn reported(error: &BackendError, url: &str) -> (String, String) {
    let text = error.to_string();
    let head = format!("scheduler backend \"crew\": {url}: SyncPodGang PodGang n/g: ");
    let what = text.strip_prefix(&head).unwrap_or_else(|| panic!("{text}"));
    (error.reason().to_string(), what.to_owned())
}

#[tokio::test]
async fn wrong_answers_are_reported_and_the_next_correct_one_is_used() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/wrong"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, "");
    let gang = gang("g", "life-1", 1);
    operator.sync(&gang).await.unwrap();
    let huge = "x".repeat(4 * 1024 * 1024);
    let (unreachable, wrong) = ("SchedulerEndpointUnreachable", "SchedulerEndpointAnswerWrong");
    let text = |code: StatusCode, text: &str| Behaviour::Text(code, text.to_owned());
    let cases = [
        (
            text(StatusCode::OK, "<html>welcome</html>"),
            wrong,
            "answered with what is no JSON (expected value at line 1 column 1): <html>welcome</html>",
        ),
        (
            Behaviour::Changed(|answer| answer["apiVersion"] = json!("backend.grove.io/v1")),
            wrong,
            "answered with apiVersion \"backend.grove.io/v1\" and kind \"BackendReview\" instead of \
             \"backend.grove.io/v1alpha1\" and \"BackendReview\"",
        ),
        (
            Behaviour::Changed(|answer| answer["response"]["uid"] = json!("other")),
            wrong,
            "answered with response.uid \"other\" instead of \"",
        ),
        (
            Behaviour::Changed(|answer| answer["response"]["objects"][0]["kind"] = json!("Secret")),
            wrong,
            "answered with response.objects[0]: crew.example.com/v1 Secret is none of the kinds",
        ),
        (
            text(StatusCode::INTERNAL_SERVER_ERROR, "Traceback:\n  boom"),
            unreachable,
            "answered 500 Internal Server Error: Traceback: boom",
        ),
        (text(StatusCode::FOUND, ""), unreachable, "answered 302 Found"),
        (text(StatusCode::OK, &huge), unreachable, "answered with more than 3145728 bytes"),
        (
            Behaviour::Changed(|answer| {
                answer["response"]["error"] =
                    json!({ "reason": "QueueIsFull", "message": "wait", "retryable": true });
            }),
            "QueueIsFull",
            "answered with error QueueIsFull: wait",
        ),
    ];
    for (behaviour, reason, says) in cases {
        program.behave(behaviour);
        let error = operator.sync(&gang).await.unwrap_err();
        let (found, what) = reported(&error, &program.url);
        assert_eq!(found, reason, "{what}");
        assert!(what.starts_with(says), "{what}");
        assert_eq!(error.class(), Class::Transient, "{what}");
        program.behave(Behaviour::Good);
        operator.written();
        operator.sync(&gang).await.unwrap();
        assert_eq!(operator.written().len(), 1, "{says}");
    }
    program.behave(Behaviour::Changed(|answer| {
        answer["response"]["error"] =
            json!({ "reason": "NoSuchQueue", "message": "make it", "retryable": false });
    }));
    let error = operator.sync(&gang).await.unwrap_err();
    assert_eq!((error.class(), error.reason()), (Class::Invalid, "NoSuchQueue"));
}

#[tokio::test]
async fn a_program_that_is_down_slow_or_unauthenticated_is_reported() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/down"));
    let reserved = ReservedPort::new();
    let port = reserved.number();
    let program = StandIn::start_at(&pki, port).await;
    let url = program.url.clone();
    let gang = gang("g", "life-1", 1);
    let operator = Operator::new(&pki, &url, ", timeout: 300ms");
    operator.sync(&gang).await.unwrap();

    program.behave(Behaviour::Held);
    let error = operator.sync(&gang).await.unwrap_err();
    assert_eq!(reported(&error, &url).1, "no answer within 300ms");
    program.let_go();
    operator.sync(&gang).await.unwrap();

    program.stop().await;
    let error = operator.sync(&gang).await.unwrap_err();
    assert!(reported(&error, &url).1.starts_with("no connection: "), "{error}");
    let program = StandIn::start_at(&pki, port).await;
    operator.sync(&gang).await.unwrap();

    // Another certificate on its side, then the news on ours.
    let other = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/down-other"));
    program.stop().await;
    let program = StandIn::start_at(&other, port).await;
    let error = operator.sync(&gang).await.unwrap_err();
    let expected =
        format!("its certificate is not signed by the authority in {}", pki.path("ca.crt"));
    assert_eq!(reported(&error, &url), ("SchedulerEndpointUnreachable".to_owned(), expected));
    for file in ["ca.crt", "token"] {
        std::fs::copy(other.path(file), pki.path(file)).unwrap();
    }
    operator.sync(&gang).await.unwrap();

    // Another token on its side.
    other.renew();
    std::fs::copy(other.path("ca.crt"), pki.path("ca.crt")).unwrap();
    program.stop().await;
    let _program = StandIn::start_at(&other, port).await;
    let error = operator.sync(&gang).await.unwrap_err();
    assert_eq!(reported(&error, &url).1, "answered 401 Unauthorized: who is there?");
}

#[tokio::test]
async fn a_program_with_another_scheduler_name_is_refused() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/name"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::named("other-scheduler", &pki, &program.url, "");
    let error = operator.sync(&gang("g", "life-1", 1)).await.unwrap_err().to_string();
    let expected = "schedulerName \"crew\", and the profile is \"other-scheduler\"";
    assert!(error.contains(expected), "{error}");
    assert_eq!(operator.written(), []);
}

#[tokio::test]
async fn the_failure_policy_is_for_programs_that_do_not_answer() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/policy"));
    let program = StandIn::start(&pki).await;
    let fails = Operator::new(&pki, &program.url, "");
    let ignores = Operator::new(&pki, &program.url, ", failurePolicy: Ignore");

    // An answer is an answer.
    program.behave(Behaviour::Changed(|answer| {
        answer["response"]["error"] =
            json!({ "reason": "QueueIsFull", "message": "wait", "retryable": true });
    }));
    for operator in [&fails, &ignores] {
        assert!(operator.validate().await.unwrap_err().contains("QueueIsFull"));
        assert_eq!(operator.prepare().await.unwrap_err().reason(), "QueueIsFull");
    }

    program.behave(Behaviour::Text(StatusCode::BAD_GATEWAY, "gone".to_owned()));
    let asked = format!("{}: ValidatePodCliqueSet PodCliqueSet n/s: answered 502", program.url);
    let denied = fails.validate().await.unwrap_err();
    assert!(denied.contains(&asked) && denied.contains("failurePolicy: Fail"), "{denied}");
    let error = fails.prepare().await.unwrap_err();
    assert!(error.to_string().contains("PreparePods Pod n/p-: answered 502"), "{error}");
    let warned = ignores.validate().await.unwrap();
    assert!(warned[0].starts_with("not checked by its scheduler: "), "{warned:?}");
    assert!(warned[0].contains(&asked), "{warned:?}");
    let pod = ignores.prepare().await.unwrap();
    assert_eq!(pod["spec"]["schedulerName"], "crew");
    assert_eq!(pod["metadata"]["annotations"], Value::Null);
    // Not a matter of policy: the condition of the set tells.
    ignores.sync(&gang("g", "life-1", 1)).await.unwrap_err();
}

#[tokio::test]
async fn a_slow_program_gets_a_bounded_number_of_calls_and_delays_no_shutdown() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/bounded"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, ", timeout: 30s");
    program.behave(Behaviour::Held);
    let calls = join_all((0..40).map(|_| operator.prepare()));
    let go = async {
        program.until_held(16).await;
        program.let_go();
    };
    let (calls, ()) = in_time(futures::future::join(calls, go)).await;
    assert!(calls.iter().all(Result::is_ok));
    assert_eq!(program.most(), 16);

    // Reviews that would only wait are answered at once.
    program.behave(Behaviour::Held);
    let reviews = join_all((0..16).map(|_| operator.validate()));
    let one_more = async {
        program.until_held(16).await;
        let busy = operator.validate().await.unwrap_err();
        program.let_go();
        busy
    };
    let (reviews, busy) = in_time(futures::future::join(reviews, one_more)).await;
    assert!(reviews.iter().all(Result::is_ok));
    assert!(busy.contains("not asked: 16 reviews wait for it already; try again"), "{busy}");

    program.behave(Behaviour::Held);
    let stop = async {
        program.until_held(1).await;
        operator.env.shutdown.start();
    };
    let (stopped, ()) = in_time(futures::future::join(operator.prepare(), stop)).await;
    let stopped = stopped.unwrap_err();
    assert_eq!(stopped.class(), Class::Fenced, "{stopped}");
}

#[tokio::test]
async fn recovered_completes_when_the_program_answers_again() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/again"));
    let program = StandIn::start(&pki).await;
    let operator = Operator::new(&pki, &program.url, "");
    program.behave(Behaviour::Text(StatusCode::SERVICE_UNAVAILABLE, String::new()));
    operator.prepare().await.unwrap_err();
    program.behave(Behaviour::Good);
    in_time(operator.backend().recovered()).await;
    operator.prepare().await.unwrap();
}

/// The reference, killed and started again between any two calls: calls are idempotent, and nothing that
/// it gets is lost.
#[tokio::test]
async fn a_restart_of_the_program_loses_nothing() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/restarted"));
    let port = ReservedPort::new();
    let mut program = ReferenceBackend::start(&pki, Credential::Token, port.number());
    let operator = Operator::named("crew-scheduler", &pki, &program.url(), "");
    let mut crews = BTreeMap::new();
    for round in 1..=3_i64 {
        let gang = gang("g", "life-1", round);
        operator.sync(&gang).await.unwrap();
        drop(program);
        let error = operator.sync(&gang).await.unwrap_err();
        assert_eq!(error.class(), Class::Transient, "{error}");
        program = ReferenceBackend::start(&pki, Credential::Token, port.number());
        operator.sync(&gang).await.unwrap();
        for (path, crew) in operator.written() {
            crews.entry(path).or_insert_with(Vec::new).push(crew["spec"]["members"].clone());
        }
    }
    let path = "POST /apis/crew.example.com/v1/namespaces/n/crews".to_owned();
    assert_eq!(crews, BTreeMap::from([(path, vec![json!(2); 6])]));
    operator.deleted().await.unwrap();
}
