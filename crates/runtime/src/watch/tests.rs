use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use serde_json::json;

use super::*;
use crate::clock::Instant;
use crate::process::Env;
use crate::store::StoreBuilder;
use crate::view::MetaView;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// One answer of the scripted server.
struct Answer {
    status: u16,
    chunks: Vec<String>,
    /// Whether the connection stays open and silent after the last chunk.
    hangs: bool,
}

fn ends(lines: Vec<String>) -> Answer {
    Answer { status: 200, chunks: lines, hangs: false }
}

fn hangs(lines: Vec<String>) -> Answer {
    Answer { status: 200, chunks: lines, hangs: true }
}

fn refuses(status: u16, reason: &str) -> Answer {
    let body = json!({"kind": "Status", "status": "Failure", "code": status, "reason": reason});
    Answer { status, chunks: vec![body.to_string()], hangs: false }
}

fn object(name: &str, version: u64) -> serde_json::Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}})
}

fn line(kind: &str, object: &serde_json::Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn list_end(version: u64) -> String {
    let mut bookmark = object("", version);
    bookmark["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    line("BOOKMARK", &bookmark)
}

fn page(objects: &[(&str, u64)], version: u64, next: &str) -> Answer {
    let items: Vec<_> = objects.iter().map(|(name, version)| object(name, *version)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    ends(vec![json!({"metadata": metadata, "items": items}).to_string()])
}

struct World {
    store: Store<MetaView>,
    env: Env,
    requests: Arc<Mutex<Vec<String>>>,
    _task: crate::tasks::Tasks,
}

/// A watcher on a server that gives these answers, one per request, and then hangs.
fn world(answers: Vec<Answer>) -> World {
    world_of(answers, false, false)
}

fn world_of(answers: Vec<Answer>, optional: bool, on_demand: bool) -> World {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::new(Mutex::new(VecDeque::from(answers)));
    let log = requests.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let parameters = ["sendInitialEvents", "resourceVersion", "continue", "limit"];
        let query: Vec<&str> = query
            .split('&')
            .filter(|part| parameters.iter().any(|want| part.split('=').next() == Some(want)))
            .collect();
        let is_discovery = request.uri().path() == PODS.discovery_path();
        let query = if is_discovery { "discovery".to_owned() } else { query.join("&") };
        log.lock().unwrap().push(query);
        let answer = script.lock().unwrap().pop_front().unwrap_or_else(|| hangs(vec![]));
        let chunks = answer.chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
        let chunks = futures::stream::iter(chunks);
        let body: UnsyncBoxBody<Bytes, Infallible> = if answer.hangs {
            StreamBody::new(chunks.chain(futures::stream::pending())).boxed_unsync()
        } else {
            StreamBody::new(chunks).boxed_unsync()
        };
        let response = http::Response::builder().status(answer.status).body(body).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let env = Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1);
    let store = StoreBuilder::<MetaView>::new(PODS, env.metrics.clone()).build();
    let watcher = Watcher {
        client: Client::new(service, "default"),
        clock: env.clock.clone(),
        rng: env.rng.fork("test"),
        metrics: env.metrics.clone(),
        selection: Selection::all(PODS),
        config: WatchConfig::default(),
        store: store.clone(),
        optional,
        on_demand,
        readiness: env.readiness.part("cache pods"),
    };
    let task = crate::tasks::Tasks::new();
    task.spawner().spawn(watcher.run());
    World { store, env, requests, _task: task }
}

impl World {
    async fn observed(&self, version: u64) {
        let (send, receive) = tokio::sync::oneshot::channel::<()>();
        self.store.when_observed(version, move || drop(send));
        let _ = receive.await;
    }

    fn names(&self) -> Vec<String> {
        self.store.all().iter().map(|view| view.metadata.key.name.to_string()).collect()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The answer of discovery with these resources.
fn discovered(resources: &[&str]) -> Answer {
    let resources: Vec<_> = resources.iter().map(|name| json!({ "name": name })).collect();
    ends(vec![json!({ "kind": "APIResourceList", "resources": resources }).to_string()])
}

fn list_of_a() -> Vec<String> {
    vec![line("ADDED", &object("a", 3)), list_end(9)]
}

impl World {
    async fn becomes(&self, presence: Presence) {
        let mut changes = self.store.presence_changes();
        changes.wait_for(|now| *now == presence).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_discovery_does_not_list_is_absent_until_it_is_served() {
    type Case = (u16, fn() -> Answer);
    let cases: [Case; 4] = [
        (404, || refuses(404, "NotFound")),
        (404, || discovered(&["pods/status", "podtemplates"])),
        (403, || refuses(404, "NotFound")),
        (403, || discovered(&[])),
    ];
    for (refusal, discovery) in cases {
        let mut answers = vec![refuses(refusal, "no"), discovery(), refuses(refusal, "no")];
        if refusal == 403 {
            answers.push(discovery());
        }
        answers.push(refuses(500, "broken"));
        answers.push(hangs(list_of_a()));
        let requests = answers.len();
        let w = world_of(answers, true, false);

        w.store.synced().await;
        w.becomes(Presence::Absent).await;
        assert!(w.names().is_empty() && !w.store.is_listed());
        assert_eq!(w.env.readiness.missing(), []);
        w.becomes(Presence::Served).await;
        assert_eq!(w.names(), ["a"], "served means listed");
        assert_eq!(w.requests().len(), requests, "{:?}", w.requests());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_kind_keeps_its_objects_while_discovery_does_not_confirm_that_it_is_gone() {
    type Case = (u16, fn() -> Answer);
    let cases: [Case; 5] = [
        (403, || discovered(&["pods"])),
        (404, || discovered(&["pods"])),
        (403, || refuses(403, "Forbidden")),
        (404, || refuses(503, "ServiceUnavailable")),
        (404, || ends(vec!["not JSON".to_owned()])),
    ];
    for (refusal, discovery) in cases {
        let w = world_of(
            vec![
                ends(list_of_a()),
                refuses(refusal, "no"),
                discovery(),
                refuses(refusal, "no"),
                discovery(),
                hangs(vec![line("ADDED", &object("b", 15))]),
            ],
            true,
            false,
        );

        w.becomes(Presence::Unknown).await;
        assert_eq!((w.names(), w.store.is_listed()), (vec!["a".to_owned()], true));
        assert!(!w.store.is_served());
        w.becomes(Presence::Served).await;
        w.observed(15).await;
        assert_eq!(w.names(), ["a", "b"]);
        let requests = w.requests();
        let resumed = ["resourceVersion=9", "discovery", "resourceVersion=9"];
        assert_eq!(requests[3..], resumed, "it resumes where it stopped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_served_kind_is_emptied_when_discovery_confirms_that_it_is_gone() {
    for refusal in [403, 404] {
        let w = world_of(
            vec![
                ends(list_of_a()),
                refuses(refusal, "no"),
                discovered(&["pods"]),
                refuses(refusal, "no"),
                discovered(&[]),
            ],
            true,
            false,
        );

        w.becomes(Presence::Absent).await;
        assert!(w.names().is_empty() && !w.store.is_listed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_unknown_from_the_start_until_it_is_listed() {
    let w = world_of(
        vec![
            refuses(403, "no"),
            discovered(&["pods"]),
            ends(vec![line("ADDED", &object("b", 3))]),
            hangs(list_of_a()),
        ],
        true,
        false,
    );

    w.store.synced().await;
    w.becomes(Presence::Unknown).await;
    assert_eq!((w.env.readiness.missing(), w.store.is_listed()), (vec![], false));
    w.becomes(Presence::Served).await;
    assert_eq!(w.names(), ["a"], "half a list does not count");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_demand_is_not_listed() {
    let filled = hangs(vec![line("ADDED", &object("a", 3)), list_end(9)]);
    let w = world_of(vec![filled], false, true);

    w.store.synced().await;
    assert!(w.store.is_served() && !w.store.is_listed() && w.names().is_empty());
    assert_eq!((w.env.readiness.missing(), w.requests()), (vec![], vec![]));

    w.store.demand();
    w.store.demand();
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    w.store.when_listed(move || drop(send));
    let _ = receive.await;
    assert!(w.store.is_listed());
    assert_eq!(w.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_fills_the_store_and_continues_as_a_watch() {
    let w = world(vec![hangs(vec![
        line("ADDED", &object("a", 3)),
        line("ADDED", &object("b", 5)),
        list_end(9),
        line("DELETED", &object("a", 10)),
        line("MODIFIED", &object("b", 11)),
    ])]);

    w.observed(11).await;

    assert_eq!(w.names(), ["b"]);
    assert_eq!(w.requests(), ["sendInitialEvents=true&resourceVersion="]);
    assert!(w.env.readiness.ready());
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_list_does_not_change_the_store() {
    let w = world(vec![
        ends(vec![line("ADDED", &object("a", 3))]),
        hangs(vec![line("ADDED", &object("b", 5)), list_end(9)]),
    ]);

    w.observed(9).await;

    assert_eq!(w.names(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_is_listed_in_pages() {
    let w = world(vec![
        refuses(422, "Invalid"),
        page(&[("a", 3)], 9, "more"),
        page(&[("b", 5)], 9, ""),
        hangs(vec![line("ADDED", &object("c", 10))]),
    ]);

    w.observed(10).await;

    assert_eq!(w.names(), ["a", "b", "c"]);
    assert_eq!(
        w.requests(),
        [
            "sendInitialEvents=true&resourceVersion=",
            "limit=500",
            "limit=500&continue=more",
            "resourceVersion=9"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_a_lost_connection() {
    let w = world(vec![
        ends(vec![line("ADDED", &object("a", 3)), list_end(9)]),
        ends(vec![line("MODIFIED", &object("a", 12)), "{\"type\":\"MODI".to_owned()]),
        hangs(vec![line("ADDED", &object("b", 15))]),
    ]);

    w.observed(15).await;

    assert_eq!(w.requests()[1..], ["resourceVersion=9", "resourceVersion=12"]);
    assert_eq!(w.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_list_finds_deletes_that_fell_into_a_gap() {
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    for expired in [ends(vec![line("ERROR", &gone)]), refuses(410, "Expired")] {
        let w = world(vec![
            ends(vec![line("ADDED", &object("a", 3)), line("ADDED", &object("b", 4)), list_end(9)]),
            expired,
            hangs(vec![line("ADDED", &object("b", 4)), list_end(50)]),
        ]);

        w.observed(50).await;

        assert_eq!(w.names(), ["b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_after_the_idle_timeout() {
    let w = world(vec![
        hangs(vec![line("ADDED", &object("a", 3)), list_end(9)]),
        hangs(vec![line("ADDED", &object("b", 12))]),
    ]);

    w.observed(12).await;

    let waited = w.env.clock.now().since(Instant::START);
    assert!(waited >= Duration::from_secs(90) && waited < Duration::from_secs(91), "{waited:?}");
    assert_eq!(w.requests()[1], "resourceVersion=9");
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_named_until_it_is_served() {
    let w = world(vec![refuses(404, "NotFound"), hangs(vec![list_end(9)])]);
    while w.requests().is_empty() || w.env.readiness.missing().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    let missing = w.env.readiness.missing();
    assert_eq!(missing[0].0, "cache pods");
    assert!(missing[0].1.contains("does not serve pods"), "{missing:?}");

    w.observed(9).await;

    assert!(w.env.readiness.ready());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_keeps_its_last_view_and_hides_no_other() {
    let mut broken = object("a", 12);
    broken["metadata"]["labels"] = json!({"x": 7});
    let w = world(vec![
        ends(vec![line("ADDED", &object("a", 3)), list_end(9), line("MODIFIED", &broken)]),
        ends(vec![line("ERROR", &json!({"kind": "Status", "code": 410}))]),
        hangs(vec![line("ADDED", &broken), line("ADDED", &object("b", 13)), list_end(20)]),
    ]);

    w.observed(20).await;

    assert_eq!(w.names(), ["a", "b"]);
    let a = w.store.get(&ObjectKey::cluster("a")).unwrap();
    assert_eq!(a.metadata.resource_version, 3);
}

#[tokio::test(start_paused = true)]
async fn a_requested_resync_lists_again() {
    let w = world(vec![
        hangs(vec![line("ADDED", &object("a", 3)), list_end(9)]),
        hangs(vec![list_end(30)]),
    ]);
    w.observed(9).await;

    w.store.request_resync();
    w.observed(30).await;

    assert!(w.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn trouble_is_reported_until_the_server_answers() {
    let w = world(vec![
        refuses(403, "Forbidden"),
        hangs(vec![line("ADDED", &object("a", 3)), list_end(9)]),
        refuses(401, "Unauthorized"),
        hangs(vec![line("ADDED", &object("b", 15))]),
    ]);
    let mut trouble = w.store.trouble();
    let mut troubles = Vec::new();
    while troubles.len() < 5 {
        trouble.changed().await.unwrap();
        let now = trouble.borrow_and_update().clone();
        troubles.push(now.map(|trouble| (trouble.code, trouble.message)));
    }

    let says = |code, message: &str| Some((code, message.to_owned()));
    assert_eq!(
        troubles,
        [
            says(Some(403), "403 Forbidden: "),
            None,
            says(None, "nothing arrived for 90 s, not even a bookmark"),
            says(Some(401), "401 Unauthorized: "),
            None,
        ]
    );
    w.observed(15).await;
    assert_eq!(w.names(), ["a", "b"], "the contents outlive the trouble");
}
