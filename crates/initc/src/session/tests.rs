use std::convert::Infallible;
use std::io;
use std::sync::Mutex;

use grove_runtime::clock::{Clock, Instant};
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::parent::Parent;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects the log of this thread.
    fn collect() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(crate::LOG_FILTER)
            .without_time()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let strip = |line: &str| line.trim().replace("grove_initc::session: ", "");
        text.lines().map(strip).collect()
    }
}

fn refusal(code: u16, reason: &str) -> (u16, String) {
    (code, json!({"kind": "Status", "code": code, "reason": reason, "message": "no"}).to_string())
}

/// A complete list with these cliques, one ready pod each.
fn ready(cliques: &[&str]) -> (u16, String) {
    let pod = |(index, clique): (usize, &&str)| {
        let labels = json!({"grove.io/podclique": clique});
        let metadata =
            json!({"name": format!("p{index}"), "resourceVersion": "5", "labels": labels});
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        json!({"type": "ADDED", "object": {"metadata": metadata, "status": status}})
    };
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"name": "", "resourceVersion": "9", "annotations": annotations});
    let end = json!({"type": "BOOKMARK", "object": {"metadata": metadata}});
    let lines = cliques.iter().enumerate().map(pod).chain([end]);
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    (200, lines.join("\n") + "\n")
}

/// A server that answers by time and sends nothing after a list, and a wait for `x-0-a` and `x-0-b`.
fn wait(answer: impl Fn(u64) -> (u16, String) + Send + Clone + 'static) -> (Wait, Client) {
    let env = Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1);
    let clock = env.clock.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (status, body) = answer(clock.now().since(Instant::START).as_secs());
        let response = http::Response::builder().status(status);
        let response = response.body(Body::from(body.into_bytes())).unwrap();
        let lists = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents"));
        async move {
            if !lists {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let info = PodInfo { namespace: "default".to_owned(), pod_gang: "x-0".to_owned() };
    let parents = ["x-0-a:1", "x-0-b:1"].map(|text| text.parse::<Parent>().unwrap());
    let wait = Wait::new(env, info, parents.into_iter().collect());
    (wait, Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn a_lasting_problem_is_logged_at_doubling_intervals_and_its_end_once() {
    let (log, _guard) = Log::collect();
    let (mut wait, client) = wait(|second| match second {
        0..1000 => refusal(403, "Forbidden"),
        _ => ready(&["x-0-a", "x-0-b"]),
    });

    let ended = wait.session(client, &mut 0).await.unwrap();

    assert!(matches!(ended, Ended::Done));
    let problem = "WARN not allowed to watch pods, the RoleBinding may be missing; retrying \
                     cause=403 Forbidden: no";
    let mut expected = vec![problem; 6];
    expected.extend(["INFO pods can be watched now", "INFO done: all parents are ready"]);
    assert_eq!(log.lines(), expected, "logged after 0, 30, 90, 210, 450 and 930 seconds");
}

#[tokio::test(start_paused = true)]
async fn one_ready_parent_of_two_is_not_enough_and_is_logged_once() {
    let (log, _guard) = Log::collect();
    let (mut wait, client) = wait(|_| ready(&["x-0-a", "x-0-a", "x-0-ab"]));
    let clock = wait.env.clock.clone();

    let ended = clock.timeout(Duration::from_secs(20), wait.session(client, &mut 0)).await;

    assert!(ended.is_none());
    let waiting: Vec<String> =
        log.lines().into_iter().filter(|line| line.contains("waiting")).collect();
    assert_eq!(waiting, ["INFO waiting: x-0-a done, x-0-b 0/1 ready"]);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_read_again() {
    let (_log, _guard) = Log::collect();
    let (mut wait, client) = wait(|_| refusal(401, "Unauthorized"));

    let ended = wait.session(client, &mut 0).await.unwrap();

    assert!(matches!(ended, Ended::CredentialsRefused));
    assert_eq!(wait.env.clock.now(), Instant::START, "without waiting");
}
