use std::collections::BTreeMap;
use std::sync::Mutex;

use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::process::Process;
use crate::queue::Priority;
use crate::resource::{ObjectKey, Resource};
use crate::store::{Store, StoreBuilder};
use crate::view::{Labels, MetaView};
use crate::wake::WakeTable;
use crate::watch::Selection;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Failure(Class, Due);

impl Classed for Failure {
    fn class(&self) -> Class {
        self.0
    }

    fn due(&self) -> Due {
        self.1
    }
}

/// Runs a controller over string keys; a script answers each run, which is logged with its time. Keys that
/// begin with `slow` wait outside for ever.
struct World {
    env: Env,
    queue: Queue<&'static str>,
    store: Store<MetaView>,
    process: Process,
    ran: Arc<Mutex<Vec<(&'static str, Duration)>>>,
}

type Script = BTreeMap<&'static str, Vec<Result<Duration, Class>>>;

/// A controller that is not running, with the cache of the kind that it writes.
struct Parts {
    env: Env,
    process: Process,
    store: Store<MetaView>,
    queue: Queue<&'static str>,
    controller: Controller<&'static str>,
}

/// A client whose requests never end.
fn unreachable_client() -> Client {
    Client::new(
        tower::service_fn(|_: http::Request<Body>| async {
            std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>().await
        }),
        "default",
    )
}

fn parts() -> Parts {
    let env = Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1);
    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let mut caches = Caches::new(unreachable_client(), &env, process.stage("caches"));
    let store = StoreBuilder::<MetaView>::new(PODS, env.metrics.clone()).build();
    caches.adopt_for_test(Selection::all(PODS), store.clone());
    let queue = Queue::new(env.clock.clone());
    let controller =
        Controller::new("test", queue.clone(), 2, &env, &caches, Leadership::without_election());
    Parts { env, process, store, queue, controller }
}

fn written(mark: Mark, labels: &[(&str, &str)]) -> Written {
    let labels: Labels = labels.iter().copied().collect();
    Written { resource: PODS, namespace: "n".into(), labels, mark }
}

fn world(script: Script, writes: u64) -> World {
    let Parts { env, mut process, store, queue, controller } = parts();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let (log, clock) = (ran.clone(), env.clock.clone());
    let script = Mutex::new(script);
    process.stage("controllers").spawn(|shutdown| {
        controller.run(shutdown, move |attempt: Attempt<&'static str>| {
            log.lock().unwrap().push((attempt.key, clock.now().since(Instant::START)));
            let mut script = script.lock().unwrap();
            let answers = script.get_mut(attempt.key);
            let answer =
                answers.and_then(|answers| (!answers.is_empty()).then(|| answers.remove(0)));
            if writes > 0 {
                attempt.fence.note(written(Mark::Version(writes), &[]));
            }
            let now = clock.now();
            async move {
                if attempt.key.starts_with("slow") {
                    attempt.outside.wait(std::future::pending::<()>()).await;
                }
                match answer {
                    None => Ok(None),
                    Some(Ok(due)) => Ok(Some(now + due)),
                    Some(Err(Class::Bug)) => panic!("a bug"),
                    Some(Err(class)) => Err(Failure(class, None)),
                }
            }
        })
    });
    World { env, queue, store, process, ran }
}

impl World {
    fn ran(&self) -> Vec<(&'static str, Duration)> {
        self.ran.lock().unwrap().clone()
    }

    /// Advances virtual time while the process runs.
    async fn pass(&self, duration: Duration) {
        self.env.clock.sleep(duration).await;
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_caches_are_filled() {
    let w = world(Script::new(), 0);
    w.queue.want("a", Priority::UserChange);
    w.pass(seconds(100)).await;
    assert!(w.ran().is_empty());

    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    w.pass(seconds(1)).await;

    assert_eq!(w.ran(), [("a", seconds(100))]);
}

#[tokio::test(start_paused = true)]
async fn outcomes_decide_when_a_key_runs_again() {
    let script = Script::from([
        ("due", vec![Ok(seconds(30))]),
        ("conflict", vec![Err(Class::Conflict)]),
        ("invalid", vec![Err(Class::Invalid)]),
        ("denied", vec![Err(Class::Denied)]),
        ("bug", vec![Err(Class::Bug)]),
    ]);
    let w = world(script, 0);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    for key in ["due", "conflict", "invalid", "denied", "bug"] {
        w.queue.want(key, Priority::UserChange);
    }

    w.pass(seconds(120)).await;

    let second_run = |key| {
        let runs: Vec<Duration> =
            w.ran().into_iter().filter(|(k, _)| *k == key).map(|(_, at)| at).collect();
        assert!(runs.len() <= 2, "{key} ran {} times", runs.len());
        runs.get(1).copied()
    };
    assert_eq!(second_run("due"), Some(seconds(30)));
    assert!(second_run("conflict").unwrap() <= Duration::from_millis(6));
    assert_eq!(second_run("invalid"), None, "waits for a change");
    let denied = second_run("denied").unwrap();
    assert!(denied >= Duration::from_millis(300) && denied < seconds(1), "{denied:?}");
    let bug = second_run("bug").unwrap();
    assert!(bug >= seconds(30) && bug <= seconds(60), "{bug:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_fenced_by_the_lease_is_kept_and_yields_the_thread() {
    let refused = vec![Err(Class::Fenced); 1000];
    let w = world(Script::from([("a", refused)]), 0);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    w.queue.want("a", Priority::UserChange);

    // On one thread this timer fires only if the controller yields.
    w.pass(Duration::from_millis(1)).await;

    assert_eq!(w.ran().len(), 1001, "tried again until it could write");
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_outside_do_not_count_against_the_limit() {
    let w = world(Script::new(), 0);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    for key in ["slow 1", "slow 2", "slow 3", "a"] {
        w.queue.want(key, Priority::UserChange);
    }

    w.pass(seconds(1)).await;

    let ran: Vec<_> = w.ran().into_iter().map(|(key, _)| key).collect();
    assert_eq!(ran, ["slow 1", "slow 2", "slow 3", "a"], "two may run at once");
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_cache_has_observed_its_write() {
    let w = world(Script::new(), 7);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    w.queue.want("a", Priority::UserChange);
    w.pass(seconds(1)).await;
    w.queue.want("a", Priority::UserChange);
    w.pass(seconds(1)).await;
    assert_eq!(w.ran().len(), 1, "held by the fence");

    w.store.upsert(serde_json::from_value(json!({"metadata": {"resourceVersion": "7"}})).unwrap());
    w.pass(seconds(1)).await;

    assert_eq!(w.ran(), [("a", seconds(0)), ("a", seconds(2))]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_does_not_catch_up_is_listed_again() {
    let w = world(Script::new(), 7);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    w.queue.want("a", Priority::UserChange);

    w.store.resync_requested().await;

    assert_eq!(w.env.clock.now().since(Instant::START), FENCE_TIMEOUT);
    assert!(w.env.metrics.encode().contains("grove_fence_expiries_total{controller=\"test\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn observed_writes_are_forgotten() {
    let Parts { env, store, mut controller, .. } = parts();
    for version in 1..=100 {
        let written = [written(Mark::Version(version), &[])];
        controller.hold(&"a", Ended::Done { due: None }, &written, env.clock.now());
        assert_eq!(controller.unseen.len(), 1, "of {version}");
        store.bookmark(version);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_process_stops_the_controller() {
    let w = world(Script::new(), 0);
    w.store.replace(vec![], &std::collections::BTreeSet::new(), 1);
    let World { env, queue, process, ran, .. } = w;

    drop(process);
    queue.want("a", Priority::UserChange);
    env.clock.sleep(seconds(100)).await;

    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_the_due_time_of_its_run() {
    let parts = parts();
    let (controller, now) = (&parts.controller, parts.env.clock.now());
    let due = now + seconds(7);
    let ended = |class, due| {
        let failed = Failed { class, retry_after: None, due };
        controller.next(Err(failed), 20, now)
    };
    assert_eq!(ended(Class::Invalid, Some(due)), Ended::Done { due: Some(due) });
    assert_eq!(ended(Class::Invalid, None), Ended::Done { due: None });
    assert_eq!(ended(Class::Denied, Some(due)), Ended::Failed { retry_at: due });
    let Ended::Failed { retry_at } = ended(Class::Transient, Some(now + seconds(600))) else {
        panic!("it is retried")
    };
    assert!(retry_at < due + seconds(60), "the backoff is sooner");
}

#[tokio::test]
async fn a_key_waits_only_for_caches_that_select_what_it_wrote() {
    let Parts { env, mut process, .. } = parts();
    let mut caches = Caches::new(unreachable_client(), &env, process.stage("caches"));
    let selections = [
        Selection::all(PODS),
        Selection::all(PODS).labels("team=a"),
        Selection::all(PODS).labels("team=b,tier!=x"),
        Selection::all(PODS).namespace("other"),
    ];
    for selection in selections {
        let store = StoreBuilder::<MetaView>::new(PODS, env.metrics.clone()).build();
        caches.adopt_for_test(selection, store);
    }
    let behind = |writes: &[Written]| -> Vec<Mark> {
        caches.progress().behind(writes).into_iter().map(|(_, mark)| mark).collect()
    };
    let version = |version, team| written(Mark::Version(version), &[("team", team)]);
    let (two, three) = (Mark::Version(2), Mark::Version(3));
    assert_eq!(behind(&[version(2, "a")]), [two.clone(), two.clone()]);
    assert_eq!(behind(&[version(2, "a"), version(3, "b")]), [three.clone(), two, three]);
    let gone = Mark::Gone(ObjectKey::new("n", "x"), "u".into());
    assert_eq!(behind(&[written(gone, &[])]), [], "no cache has it");
}

/// Runs one key of a controller whose table has a row for pods, and that reads from a store.
async fn run_with_table(reads: Resource) -> Result<(), crate::process::ProcessError> {
    let Parts { env, mut process, store: pods, .. } = parts();
    let store = StoreBuilder::<MetaView>::new(reads, env.metrics.clone()).build();
    let stage = process.stage("controllers");
    let mut table = WakeTable::new(&env, &stage);
    table.on(&pods, "a pod changed", Priority::ChildChange, |_, _| true, |_| vec!["a"]);
    let queue = table.into_queue();
    queue.want("a", Priority::UserChange);
    let caches = Caches::new(unreachable_client(), &env, process.stage("caches"));
    let leadership = Leadership::without_election();
    let controller = Controller::new("test", queue, 1, &env, &caches, leadership);
    stage.spawn(|shutdown| {
        controller.run(shutdown, move |_| {
            let count = store.all().len();
            async move { Ok::<Due, Failure>((count > 0).then_some(Instant::START)) }
        })
    });
    let shutdown = env.shutdown.clone();
    let stop = async {
        env.clock.sleep(seconds(1)).await;
        shutdown.start();
    };
    futures::future::join(process.run(), stop).await.0
}

#[tokio::test(start_paused = true)]
async fn a_run_that_reads_a_kind_without_a_row_ends_the_process() {
    assert!(run_with_table(PODS).await.is_ok());
    let nodes = Resource::cluster("", "v1", "nodes", "Node");
    let error = run_with_table(nodes).await.unwrap_err().to_string();
    assert!(error.contains("test has no row for a kind that it uses"), "{error}");
}
