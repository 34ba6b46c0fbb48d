//! Admission, certificates and events on the real API server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grove_runtime::admission::{Admission, Request, Webhooks};
use grove_runtime::certificates::ServingCertificate;
use grove_runtime::certificates::managed::{
    AuthorityName, ManagedCertificate, ManagedConfig, Schedule, Webhook,
};
use grove_runtime::clock::Clock;
use grove_runtime::events::{Occurrence, Severity, Subject, events};
use grove_runtime::lease::{Elector, LeaseConfig};
use grove_runtime::process::{Env, Process};
use grove_runtime::resource::ObjectKey;
use grove_runtime::serve::{ServeConfig, Server};
use grove_runtime::tasks::Shutdown;
use grove_runtime::write::Writer;
use grove_testbed::in_time;
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::{Value, json};
use support::{api_server, client, env, writer};
use tokio::sync::Semaphore;
use xtask::cluster::Cluster;

const NAMESPACE: &str = "hooked";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

// === talking to the API server ===

async fn call(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let content_type =
        if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body)
        .unwrap();
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        error => error.to_string(),
    })
}

async fn get(client: &Client, path: &str) -> Option<Value> {
    call(client, "GET", path, &Value::Null).await.ok()
}

/// Polls until `find` returns a value.
async fn until<T>(
    client: &Client,
    path: &str,
    what: &str,
    find: impl Fn(&Value) -> Option<T>,
) -> T {
    in_time(what, async {
        loop {
            if let Some(found) = get(client, path).await.as_ref().and_then(&find) {
                return found;
            }
            Clock::system().sleep(Duration::from_millis(50)).await;
        }
    })
    .await
}

fn text(object: &Value, key: &str) -> String {
    let value = object["data"][key].clone();
    let bytes: Option<ByteString> = serde_json::from_value(value).ok();
    bytes.map(|bytes| String::from_utf8(bytes.0).unwrap()).unwrap_or_default()
}

fn bundle(configuration: &Value) -> String {
    let value = configuration["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bytes: Option<ByteString> = serde_json::from_value(value).ok();
    bytes.map(|bytes| String::from_utf8(bytes.0).unwrap()).unwrap_or_default()
}

/// Creates a config map as a dry run and returns its labels or the refusal.
async fn admit(client: &Client, name: &str, data: Value) -> Result<Value, String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?dryRun=All");
    let body = json!({"metadata": {"name": name}, "data": data});
    let stored = call(client, "POST", &path, &body).await?;
    Ok(stored["metadata"]["labels"].clone())
}

// === a replica under test ===

struct Setup {
    secret: &'static str,
    configuration: &'static str,
    schedule: Schedule,
}

impl Setup {
    fn secret_path(&self) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/secrets/{}", self.secret)
    }

    fn labels() -> BTreeMap<String, String> {
        [("app.kubernetes.io/managed-by".to_owned(), "tests".to_owned())].into()
    }

    fn managed(&self) -> ManagedConfig {
        ManagedConfig {
            secret: ObjectKey::new(NAMESPACE, self.secret),
            labels: Self::labels(),
            names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            authority: AuthorityName {
                common_name: "Tests-CA".into(),
                organization: "Tests".into(),
            },
            webhooks: vec![
                Webhook::Validating(self.configuration.to_owned()),
                Webhook::Mutating(self.configuration.to_owned()),
            ],
            schedule: self.schedule,
        }
    }

    /// Registers the validating webhook of one replica and the mutating one of another.
    async fn register(&self, client: &Client, validating: &Replica, mutating: &Replica) {
        for (path, replica, kind, hook) in [
            (VALIDATING, validating, "ValidatingWebhookConfiguration", "validate"),
            (MUTATING, mutating, "MutatingWebhookConfiguration", "mutate"),
        ] {
            let body = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": self.configuration},
                "webhooks": [{
                    "name": format!("{hook}.hooks.example.com"),
                    "clientConfig": {"url": format!("https://127.0.0.1:{}/{hook}", replica.port)},
                    "rules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "scope": "Namespaced",
                    }],
                    "namespaceSelector": {"matchLabels": {"hooks": self.configuration}},
                    "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
                    "admissionReviewVersions": ["v1"],
                }],
            });
            call(client, "POST", path, &body).await.unwrap();
        }
        let label = json!({"metadata": {"labels": {"hooks": self.configuration}}});
        call(client, "PATCH", &format!("/api/v1/namespaces/{NAMESPACE}"), &label).await.unwrap();
    }

    /// Waits until both configurations carry the Secret's CAs and the API server uses them.
    async fn settled(&self, client: &Client) {
        for path in [VALIDATING, MUTATING] {
            let path = format!("{path}/{}", self.configuration);
            until(client, &path, "the bundle arrives", |configuration| {
                (!bundle(configuration).is_empty()).then_some(())
            })
            .await;
        }
        in_time("the API server trusts the webhooks", async {
            while admit(client, "first", Value::Null).await.is_err() {
                Clock::system().sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    }
}

/// A process that serves webhooks with a managed certificate and takes part in an election.
struct Replica {
    port: u16,
    env: Env,
    _process: Process,
}

impl Replica {
    async fn start(client: &Client, setup: &Setup, identity: &str) -> Self {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        let lease = ObjectKey::new(NAMESPACE, setup.secret);
        let elector =
            Elector::new(client.clone(), &env, LeaseConfig::new(lease, identity.to_owned()));
        let leadership = elector.leadership();
        process.stage("lease").spawn(|shutdown| elector.run(shutdown));
        let serving = ServingCertificate::new(&env.readiness);
        let stage = process.stage("certificates");
        let writer = Writer::new(client.clone(), &env, leadership.clone(), "tests");
        let managed = ManagedCertificate::new(
            setup.managed(),
            client,
            &env,
            &stage,
            &writer,
            leadership,
            serving.clone(),
        );
        stage.spawn(|shutdown| managed.run(shutdown));
        // Short-lived connections, so that the API server often meets the newest certificate.
        let config = ServeConfig {
            max_age: Duration::from_millis(100),
            ..ServeConfig::new("webhooks", "127.0.0.1", 0)
        };
        let server = Server::bind(config).await.unwrap();
        let port = server.address().port();
        let router = webhooks(&env);
        let stage = process.stage("webhooks");
        let (own_env, own_stage) = (env.clone(), stage.clone());
        stage.spawn(|_| server.run(router, Some(serving), own_env, own_stage));
        Self { port, env, _process: process }
    }

    /// Connections by result of their handshake.
    fn connections(&self, result: &str) -> u64 {
        let line = format!("grove_connections_total{{server=\"webhooks\",result=\"{result}\"}} ");
        let text = self.env.metrics.encode();
        let count = text.lines().find_map(|l| l.strip_prefix(&line));
        count.map_or(0, |count| count.parse().unwrap())
    }
}

fn webhooks(env: &Env) -> axum::Router {
    Webhooks::new(env, 64)
        .route("/validate", "validate.hooks.example.com", |request: Request| async move {
            let object: Value = serde_json::from_str(request.object.unwrap().get()).unwrap();
            match object["data"]["response"].as_str() {
                Some("deny") => Admission::deny("data.response: Invalid value: \"deny\""),
                Some("panic") => panic!("out of luck"),
                _ => Admission::allow().warn(["reviewed".to_owned()]),
            }
        })
        .route("/mutate", "mutate.hooks.example.com", |_| async {
            let patch =
                json!([{"op": "add", "path": "/metadata/labels", "value": {"mutated": "yes"}}]);
            Admission::patch(serde_json::from_value(patch).unwrap())
        })
        .into_router()
}

async fn hooked(cluster: &Cluster) -> Client {
    let client = client(cluster).await;
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    call(&client, "POST", "/api/v1/namespaces", &namespace).await.unwrap();
    client
}

/// Sends 100 requests a second until `stop`; returns their number and the refusals.
async fn drive(client: Client, stop: Arc<AtomicBool>) -> (u64, Vec<String>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    // A slow machine falls behind instead of queueing without limit.
    let in_flight = Arc::new(Semaphore::new(100));
    let mut running = tokio::task::JoinSet::new();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        sent += 1;
        let place = in_flight.clone().acquire_owned().await.unwrap();
        let client = client.clone();
        running.spawn(async move {
            let _place = place;
            let labels =
                admit(&client, &format!("load-{sent}"), json!({"n": sent.to_string()})).await?;
            if labels["mutated"] == "yes" { Ok(()) } else { Err(format!("not mutated: {labels}")) }
        });
    }
    let outcomes = running.join_all().await;
    (sent, outcomes.into_iter().filter_map(Result::err).collect())
}

// === tests ===

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn certificates_rotate_under_a_hundred_reviews_a_second_and_none_is_refused() {
    let cluster = api_server();
    runtime().block_on(async {
        let client = hooked(&cluster).await;
        let setup = Setup {
            secret: "rotating",
            configuration: "rotating",
            schedule: Schedule {
                leaf_valid_for: Duration::from_secs(3600),
                leaf_renew_after: Duration::from_millis(1200),
                ca_valid_for: Duration::from_secs(24 * 3600),
                ca_renew_after: Duration::from_secs(3),
                overlap: Duration::from_secs(2),
                retire_after: Duration::from_secs(2),
            },
        };
        let leader = Replica::start(&client, &setup, "leader").await;
        in_time("the leader is ready", leader.env.readiness.until_ready()).await;
        let follower = Replica::start(&client, &setup, "follower").await;
        in_time("the follower is ready", follower.env.readiness.until_ready()).await;
        setup.register(&client, &leader, &follower).await;
        setup.settled(&client).await;

        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(drive(client.clone(), stop.clone()));
        let (mut leaves, mut signers) = (BTreeSet::new(), BTreeSet::new());
        let clock = Clock::system();
        let started = clock.now();
        in_time("the CA rotates three times", async {
            while signers.len() < 4 || leaves.len() < 10 {
                let secret = get(&client, &setup.secret_path()).await.unwrap();
                leaves.insert(text(&secret, "tls.crt"));
                signers.insert(text(&secret, "ca.key"));
                clock.sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        let elapsed = clock.now().since(started);
        stop.store(true, Ordering::Relaxed);
        let (sent, refused) = load.await.unwrap();

        let connections = [&leader, &follower].map(|replica| replica.connections("accepted"));
        println!(
            "{sent} requests in {elapsed:.1?}, connections {connections:?}, {} serving \
             certificates, {} CAs, {} refused",
            leaves.len(),
            signers.len(),
            refused.len()
        );
        assert_eq!(refused, [""; 0]);
        for replica in [&leader, &follower] {
            assert!(replica.connections("accepted") >= 50, "{connections:?}");
            assert_eq!(replica.connections("refused"), 0, "handshakes that the server refused");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_wiped_bundle_and_a_deleted_secret_are_repaired_during_reviews() {
    let cluster = api_server();
    runtime().block_on(async {
        let client = hooked(&cluster).await;
        let setup = Setup {
            secret: "repaired",
            configuration: "repaired",
            schedule: Schedule { overlap: Duration::from_secs(2), ..Schedule::default() },
        };
        // A placeholder with our labels is filled, not replaced.
        let placeholder = json!({
            "metadata": {"name": setup.secret, "labels": Setup::labels()},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": "", "tls.key": "", "ca.crt": ""},
        });
        let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let placeholder = call(&client, "POST", &secrets, &placeholder).await.unwrap();
        let replica = Replica::start(&client, &setup, "only").await;
        in_time("ready", replica.env.readiness.until_ready()).await;
        setup.register(&client, &replica, &replica).await;
        setup.settled(&client).await;
        let filled = get(&client, &setup.secret_path()).await.unwrap();
        assert_eq!(filled["metadata"]["uid"], placeholder["metadata"]["uid"]);
        let old_ca = text(&filled, "ca.crt");

        let wipe = format!("{VALIDATING}/{}", setup.configuration);
        let mut configuration = get(&client, &wipe).await.unwrap();
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
        call(&client, "PUT", &wipe, &configuration).await.unwrap();
        until(&client, &wipe, "the bundle is put back", |configuration| {
            (bundle(configuration) == old_ca).then_some(())
        })
        .await;
        setup.settled(&client).await;

        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(drive(client.clone(), stop.clone()));
        call(&client, "DELETE", &setup.secret_path(), &Value::Null).await.unwrap();
        let new_ca = until(&client, &setup.secret_path(), "the secret comes back", |secret| {
            // The new CA signs once it has been published for the overlap.
            let signing =
                !text(secret, "ca.key").is_empty() && secret["data"]["ca-next.key"].is_null();
            signing.then(|| text(secret, "ca.crt"))
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        let (sent, refused) = load.await.unwrap();

        println!("{sent} requests while the secret was deleted, {} refused", refused.len());
        assert_eq!(refused, [""; 0]);
        assert!(new_ca.ends_with(&old_ca), "the former CA stays trusted");
        assert_ne!(new_ca, old_ca);
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn verdicts_reach_the_user_and_a_foreign_secret_is_not_changed() {
    let cluster = api_server();
    runtime().block_on(async {
        let client = hooked(&cluster).await;
        let setup =
            Setup { secret: "mine", configuration: "verdicts", schedule: Schedule::default() };
        let replica = Replica::start(&client, &setup, "only").await;
        in_time("ready", replica.env.readiness.until_ready()).await;
        setup.register(&client, &replica, &replica).await;
        setup.settled(&client).await;

        let denied = admit(&client, "x", json!({"response": "deny"})).await.unwrap_err();
        let panicked = admit(&client, "x", json!({"response": "panic"})).await.unwrap_err();
        let allowed = admit(&client, "x", json!({"response": "allow"})).await.unwrap();

        let webhook = "admission webhook \"validate.hooks.example.com\" denied the request";
        let deny = "data.response: Invalid value: \"deny\"";
        assert_eq!(denied, format!("403 {webhook}: {deny}"));
        let failed = "the webhook failed on this object; see its log";
        assert_eq!(panicked, format!("500 {webhook}: {failed}"));
        assert_eq!(allowed, json!({"mutated": "yes"}));

        let foreign = json!({
            "metadata": {"name": "foreign"}, "type": "kubernetes.io/tls",
            "data": {"tls.crt": "", "tls.key": ""},
        });
        let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let before = call(&client, "POST", &secrets, &foreign).await.unwrap();
        let setup =
            Setup { secret: "foreign", configuration: "nobody", schedule: Schedule::default() };
        let replica = Replica::start(&client, &setup, "only").await;
        let problem = in_time("the foreign secret is reported", async {
            loop {
                let missing = replica.env.readiness.missing();
                let problem = missing.into_iter().find(|(_, reason)| reason.contains("not ours"));
                if let Some((part, reason)) = problem {
                    return format!("{part}: {reason}");
                }
                replica.env.clock.sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!(
            problem,
            "serving certificate: secret hooked/foreign exists without the label \
             app.kubernetes.io/managed-by=tests: it is not ours; delete it, label it or choose \
             another name"
        );
        let after = get(&client, &setup.secret_path()).await.unwrap();
        assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn a_repeated_event_is_one_object_with_a_count() {
    let cluster = api_server();
    runtime().block_on(async {
        let client = hooked(&cluster).await;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let body = json!({"metadata": {"name": "subject"}});
        let subject = call(&client, "POST", &path, &body).await.unwrap();
        let metadata = &subject["metadata"];
        let about = Subject {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: "subject".to_owned(),
            uid: metadata["uid"].as_str().unwrap().into(),
            resource_version: metadata["resourceVersion"].as_str().unwrap().parse().unwrap(),
        };
        let env = env();
        let (recorder, sender) =
            events("tests-controller", "here".to_owned(), &env, writer(client.clone(), &env));
        let occurrence = |message: &str| {
            recorder.record(Occurrence {
                about: about.clone(),
                severity: Severity::Warning,
                reason: "TestFailed".into(),
                action: "Test",
                message: message.to_owned(),
            });
        };

        (0..3).for_each(|_| occurrence("it did not work"));
        occurrence(&"long ".repeat(1000));
        let shutdown = Shutdown::new();
        shutdown.start();
        sender.run(shutdown).await;

        let list = get(&client, &format!("/api/v1/namespaces/{NAMESPACE}/events")).await.unwrap();
        let mut counts: Vec<(i64, String)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| {
                assert_eq!(event["reportingComponent"], "tests-controller");
                assert_eq!(event["involvedObject"]["uid"], metadata["uid"]);
                let message = event["message"].as_str().unwrap().chars().take(15).collect();
                (event["count"].as_i64().unwrap(), message)
            })
            .collect();
        counts.sort();
        assert_eq!(counts, [(1, "long long long ".into()), (3, "it did not work".into())]);
        let args = ["describe", "configmap", "subject", "-n", NAMESPACE];
        let described = cluster.kubectl(&args).unwrap();
        assert!(described.contains("(x3 over"), "{described}");
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
