//! A program that answers as the contract says, or wrongly, as a test asks for.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use grove_runtime::certificates::ServingCertificate;
use grove_runtime::process::{Env, Process};
use grove_runtime::serve::{ServeConfig, Server};
use serde_json::{Value, json};
use tokio::sync::Notify;

use grove_testbed::reference_backend::Pki;

/// What it does with a call.
#[derive(Clone)]
pub enum Behaviour {
    Good,
    /// Changes the good answer.
    Changed(fn(&mut Value)),
    /// Another answer altogether.
    Text(StatusCode, String),
    /// Waits until it is released.
    Held,
}

/// The program, and what it saw.
pub struct StandIn {
    pub url: String,
    shared: Arc<Shared>,
    certificate: ServingCertificate,
    env: Env,
    process: Process,
}

struct Shared {
    token: Mutex<String>,
    behaviour: Mutex<Behaviour>,
    asked: Mutex<Vec<Value>>,
    running: AtomicUsize,
    most: AtomicUsize,
    go: Notify,
    begun: Notify,
}

impl StandIn {
    pub async fn start(pki: &Pki) -> Self {
        Self::start_at(pki, 0).await
    }

    pub async fn start_at(pki: &Pki, port: u16) -> Self {
        let env = Env::system();
        let certificate = ServingCertificate::new(&env.readiness);
        let shared = Arc::new(Shared {
            token: Mutex::default(),
            behaviour: Mutex::new(Behaviour::Good),
            asked: Mutex::default(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            go: Notify::new(),
            begun: Notify::new(),
        });
        let server = Server::bind(ServeConfig::new("stand-in", "127.0.0.1", port)).await.unwrap();
        let url = format!("https://{}/review", server.address());
        let answering = shared.clone();
        let answer = move |headers: HeaderMap, body: Bytes| {
            let shared = answering.clone();
            async move { shared.answer(&headers, &body).await }
        };
        let router = Router::new().route("/review", post(answer));
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        let stage = process.stage("stand-in");
        let (shown, connections) = (certificate.clone(), stage.clone());
        let env_of_server = env.clone();
        stage.spawn(|_| server.run(router, Some(shown), env_of_server, connections));
        let stand_in = Self { url, shared, certificate, env, process };
        stand_in.show(pki);
        stand_in
    }

    /// Serves the certificate of a directory from now on, and wants its token.
    pub fn show(&self, pki: &Pki) {
        let (chain, key) = (pki.read("server.crt"), pki.read("server.key"));
        self.certificate.install(chain.as_bytes(), key.as_bytes()).unwrap();
        *self.shared.token.lock().unwrap() = format!("Bearer {}", pki.read("token").trim());
    }

    pub fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Answers the calls that are held, and all that come.
    pub fn let_go(&self) {
        self.behave(Behaviour::Good);
        self.shared.go.notify_waiters();
    }

    /// Waits until this many calls are held.
    pub async fn until_held(&self, count: usize) {
        while self.shared.running.load(Ordering::SeqCst) < count {
            self.shared.begun.notified().await;
        }
    }

    /// Most calls that were there at once.
    pub fn most(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }

    /// The requests so far, of one operation.
    pub fn asked(&self, operation: &str) -> Vec<Value> {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|one| one["operation"] == operation).cloned().collect()
    }

    /// Ends it; it no longer listens afterwards.
    pub async fn stop(self) {
        self.env.shutdown.start();
        self.process.run().await.unwrap();
    }
}

impl Shared {
    async fn answer(&self, headers: &HeaderMap, body: &[u8]) -> Response {
        let shown = headers.get("authorization").and_then(|value| value.to_str().ok());
        if shown != Some(self.token.lock().unwrap().as_str()) {
            return (StatusCode::UNAUTHORIZED, "who is there?").into_response();
        }
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        // Before the behaviour is looked at: whoever lets go afterwards finds us waiting.
        let mut go = std::pin::pin!(self.go.notified());
        go.as_mut().enable();
        let review: Value = serde_json::from_slice(body).unwrap_or_default();
        self.asked.lock().unwrap().push(review["request"].clone());
        let behaviour = self.behaviour.lock().unwrap().clone();
        let mut answer = good(&review["request"]);
        let answer = match behaviour {
            Behaviour::Good => axum::Json(answer).into_response(),
            Behaviour::Changed(change) => {
                change(&mut answer);
                axum::Json(answer).into_response()
            }
            Behaviour::Text(code, text) => (code, text).into_response(),
            Behaviour::Held => {
                self.begun.notify_one();
                go.await;
                axum::Json(answer).into_response()
            }
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

fn good(request: &Value) -> Value {
    let words = json!({
        "objects": "Crew", "minimum": "enforced", "gang": "enforced", "topology": "required levels",
        "queue": "none", "priority": "yes",
    });
    let description =
        json!({ "schedulerName": "crew", "capabilities": words, "actsOn": ["crew/queue"] });
    let crew = json!({
        "apiVersion": "crew.example.com/v1", "kind": "Crew",
        "metadata": { "name": request["podGang"]["metadata"]["name"], "namespace": "elsewhere" },
        "spec": { "generation": request["podGangGeneration"] },
    });
    let mut response = match request["operation"].as_str().unwrap_or_default() {
        "Describe" => json!({ "description": description }),
        "SyncPodGang" => json!({ "objects": [crew] }),
        "PreparePods" => json!({ "patch": { "metadata": { "annotations": { "crew": "c" } } } }),
        "ValidatePodCliqueSet" => json!({ "allowed": true, "warnings": ["slow today"] }),
        _ => json!({}),
    };
    response["uid"] = request["uid"].clone();
    json!({ "apiVersion": "backend.grove.io/v1alpha1", "kind": "BackendReview", "response": response })
}
