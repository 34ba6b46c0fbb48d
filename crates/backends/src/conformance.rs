//! Checks whether a backend that is a program of its own keeps the contract: `grove backend check`.
//!
//! The checks make the calls of an operator: the life of a gang in its usual order, calls that are repeated,
//! late or concurrent, and calls that the program has to refuse. Each check is a sentence that is true or
//! false; a failed one reports the request, the answer and what the contract requires. Nothing is written to
//! a cluster.

mod fixtures;

use std::time::Duration;

use grove_runtime::endpoint::{CallError, Endpoint, EndpointConfig, beginning};
use grove_runtime::process::Env;
use grove_runtime::rng::Rng;
use http::StatusCode;
use serde_json::{Value, json};

use self::fixtures::{Fixtures, stored};
use crate::remote::wire::{self, Description, Operation, Response};
use crate::remote::{AGENT, prepared};

/// Number of concurrent calls.
const TOGETHER: usize = 8;

/// One rule of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule.
    pub name: &'static str,
    /// How the program broke it, if it did.
    pub broken: Option<Broken>,
}

/// How a program broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What was sent.
    pub sent: String,
    /// What came back.
    pub came: String,
    /// What the contract requires.
    pub wants: String,
}

/// The result of all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// All checks, in their order.
    pub checks: Vec<Check>,
    /// `apiVersion Kind` of the objects in the answers, which the profile has to list.
    pub kinds: Vec<String>,
}

impl Report {
    /// Whether the program keeps the contract.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.broken.is_none())
    }
}

/// Checks the program behind `config`.
pub async fn check(config: &EndpointConfig, timeout: Duration, env: &Env) -> Report {
    let driver = Driver {
        endpoint: Endpoint::new(config.clone(), AGENT, env),
        anybody: Endpoint::new(anybody(config), AGENT, env),
        timeout,
        rng: env.rng.fork("conformance"),
    };
    driver.run().await
}

/// The same endpoint, called without credentials.
fn anybody(config: &EndpointConfig) -> EndpointConfig {
    EndpointConfig { identity: None, token_file: None, ..config.clone() }
}

struct Driver {
    endpoint: Endpoint,
    anybody: Endpoint,
    timeout: Duration,
    rng: Rng,
}

/// A request and its outcome.
struct Call {
    sent: String,
    came: Result<Response, String>,
}

impl Call {
    fn broken(&self, wants: impl Into<String>) -> Broken {
        let came = match &self.came {
            Ok(response) => shown(response),
            Err(wrong) => wrong.clone(),
        };
        Broken { sent: self.sent.clone(), came, wants: wants.into() }
    }

    /// The answer, which must exist and must not be an error.
    fn answer(&self, wants: &str) -> Result<&Response, Broken> {
        match &self.came {
            Ok(response) if response.error.is_none() => Ok(response),
            _ => Err(self.broken(wants)),
        }
    }
}

fn shown(response: &Response) -> String {
    let Response { description, objects, patch, allowed, message, warnings, error } = response;
    let parts = [
        error.as_ref().map(|error| format!("error {}: {}", error.reason, error.message)),
        description.as_ref().map(|one| format!("description {one:?}")),
        objects.as_ref().map(|objects| format!("objects {}", json!(objects))),
        patch.as_ref().map(|patch| format!("patch {patch}")),
        allowed.map(|allowed| format!("allowed {allowed}")),
        message.as_ref().map(|message| format!("message {message:?}")),
        warnings.as_ref().map(|warnings| format!("warnings {warnings:?}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "an empty response".to_owned() } else { beginning(&parts.join(", ")) }
}

/// Checks so far.
#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    /// Records the result of a check and returns its value.
    fn note<T>(&mut self, name: &'static str, outcome: Result<T, Broken>) -> Option<T> {
        let (found, broken) = match outcome {
            Ok(found) => (Some(found), None),
            Err(broken) => (None, Some(broken)),
        };
        self.0.push(Check { name, broken });
        found
    }
}

impl Driver {
    async fn run(self) -> Report {
        let mut checks = Checks::default();
        let described = self.describes().await;
        let Some(description) = checks.note("Describe says what the scheduler is", described)
        else {
            // All other checks would fail as well.
            return Report { checks: checks.0, kinds: Vec::new() };
        };
        checks.note("Describe says the same again", self.describes_the_same(&description).await);
        checks.note("a caller that shows nothing is turned away", self.turns_away().await);
        let fixtures = Fixtures { scheduler: description.scheduler_name.clone() };
        checks.note("a new set is decided on", self.decides(&fixtures, false).await);
        checks.note("a changed set is decided on", self.decides(&fixtures, true).await);

        let name = "SyncPodGang answers for a gang without pods";
        let first = checks.note(name, self.syncs(&fixtures, 1, None, "a new gang").await);
        let objects = first.unwrap_or_default();
        let kinds = kinds(&objects);
        checks.note(
            "SyncPodGang answers the same for the same generation",
            self.syncs_the_same(&fixtures, &objects, None).await,
        );
        checks.note(
            "SyncPodGang answers the same when its objects are there",
            self.syncs_the_same(&fixtures, &objects, Some(&objects)).await,
        );
        checks.note(
            "SyncPodGang answers for a gang with pods",
            self.syncs(&fixtures, 2, Some(&objects), "the next generation of it").await,
        );
        checks.note(
            "SyncPodGang answers for a generation that comes late",
            self.syncs(&fixtures, 1, Some(&objects), "generation 1 again").await,
        );
        checks.note("SyncPodGang answers for a thousand pods", self.syncs_many(&fixtures).await);
        checks.note(
            "a set that has to be packed is refused, or its gang is synced",
            self.packs(&fixtures, &description).await,
        );

        let patch = checks.note("PreparePods says what pods need", self.prepares(&fixtures).await);
        checks.note(
            "PreparePods says the same again",
            self.prepares_the_same(&fixtures, patch.as_ref()).await,
        );

        checks.note("PodGangDeleted is acknowledged", self.forgets(&fixtures, "1").await);
        checks.note("PodGangDeleted is acknowledged again", self.forgets(&fixtures, "1").await);
        let unknown = self.forgets(&fixtures, "never-seen").await;
        checks.note("PodGangDeleted is acknowledged for a gang it never saw", unknown);
        let again = self.syncs_another_life(&fixtures).await;
        checks.note("SyncPodGang answers for a new gang of the same name", again);

        checks.note("fields of a newer operator are ignored", self.ignores_news().await);
        checks.note("an unknown operation is refused with an error", self.refuses_unknown().await);
        checks.note("another apiVersion is refused", self.refuses_version().await);
        checks.note("a body that is no JSON is refused", self.refuses_garbage().await);
        checks
            .note("calls that come together get their own answers", self.together(&fixtures).await);
        Report { checks: checks.0, kinds }
    }

    // === calls ===

    async fn ask(&self, operation: Operation, about: &str, fields: Value) -> Call {
        let uid = format!("check-{:016x}", self.rng.next_u64());
        let body = wire::request(&uid, operation.as_str(), fields);
        let space = if about.is_empty() { "" } else { ": " };
        let sent = format!("{operation}{space}{about}");
        let came = match self.endpoint.post(self.timeout, || body.to_string().into_bytes()).await {
            Ok(answer) => wire::response(&uid, &answer),
            Err(error) => Err(error.to_string()),
        };
        Call { sent, came }
    }

    async fn sync(
        &self,
        gang: &Value,
        fixtures: &Fixtures,
        live: Option<&[Value]>,
        about: &str,
    ) -> Call {
        let metadata = &gang["metadata"];
        let live = live.map(|objects| stored(objects, gang)).unwrap_or_default();
        let fields = json!({
            "podGang": gang, "podGangUID": metadata["uid"],
            "podGangGeneration": metadata["generation"],
            "podCliqueSet": fixtures.set(), "objects": live,
        });
        self.ask(Operation::SyncPodGang, about, fields).await
    }

    // === checks ===

    async fn describes(&self) -> Result<Description, Broken> {
        let call = self.ask(Operation::Describe, "", json!({})).await;
        let wants = "response.description with schedulerName and capabilities (objects, minimum, gang, \
                     topology, queue, priority)";
        let response = call.answer(wants)?;
        let description = response.description.clone().ok_or_else(|| call.broken(wants))?;
        if description.scheduler_name.is_empty() {
            return Err(call.broken("a schedulerName that is not empty"));
        }
        Ok(description)
    }

    async fn describes_the_same(&self, before: &Description) -> Result<(), Broken> {
        let again = self.describes().await?;
        if again == *before {
            return Ok(());
        }
        Err(Broken {
            sent: "Describe, for the second time".to_owned(),
            came: format!("{again:?}"),
            wants: format!("the same as the first time: {before:?}"),
        })
    }

    async fn turns_away(&self) -> Result<(), Broken> {
        let body = wire::request("check", Operation::Describe.as_str(), json!({}));
        let came = self.anybody.post(self.timeout, || body.to_string().into_bytes()).await;
        let came = match came {
            Err(
                CallError::Connection(_)
                | CallError::Status {
                    code: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, ..
                },
            ) => return Ok(()),
            Err(other) => other.to_string(),
            Ok(answer) => {
                format!("an answer: {}", beginning(&String::from_utf8_lossy(&answer)))
            }
        };
        Err(Broken {
            sent: "Describe, without client certificate and without token".to_owned(),
            came,
            wants: "401, 403, or no TLS connection: who asks has to be known".to_owned(),
        })
    }

    async fn decides(&self, fixtures: &Fixtures, changed: bool) -> Result<(), Broken> {
        let old = if changed { fixtures.set() } else { Value::Null };
        let fields = json!({ "podCliqueSet": fixtures.set(), "oldPodCliqueSet": old });
        let about = if changed { "an update of a set" } else { "a new set" };
        let call = self.ask(Operation::ValidatePodCliqueSet, about, fields).await;
        let wants = "response.allowed, and response.message when it is false";
        let response = call.answer(wants)?;
        let said = response.message.as_ref().is_some_and(|message| !message.is_empty());
        match response.allowed {
            Some(true) => Ok(()),
            Some(false) if said => Ok(()),
            _ => Err(call.broken(wants)),
        }
    }

    /// A program that calls topology refused must not allow what it cannot keep.
    async fn packs(&self, fixtures: &Fixtures, said: &Description) -> Result<(), Broken> {
        let fields = json!({ "podCliqueSet": fixtures.packed_set() });
        let about = "a new set with a topology constraint";
        let call = self.ask(Operation::ValidatePodCliqueSet, about, fields).await;
        let wants = "response.allowed";
        let allowed = call.answer(wants)?.allowed.ok_or_else(|| call.broken(wants))?;
        if !allowed {
            return Ok(());
        }
        if said.capabilities.topology == "refused" {
            return Err(call.broken("response.allowed false, as capabilities.topology says"));
        }
        let about = "a gang with a topology constraint";
        let call = self.sync(&fixtures.packed_gang(), fixtures, None, about).await;
        objects(&call).map(|_| ())
    }

    async fn syncs(
        &self,
        fixtures: &Fixtures,
        generation: i64,
        live: Option<&[Value]>,
        about: &str,
    ) -> Result<Vec<Value>, Broken> {
        let gang = fixtures.gang("1", generation, if generation == 1 { 0 } else { 2 });
        let call = self.sync(&gang, fixtures, live, about).await;
        objects(&call)
    }

    async fn syncs_the_same(
        &self,
        fixtures: &Fixtures,
        before: &[Value],
        live: Option<&[Value]>,
    ) -> Result<(), Broken> {
        let gang = fixtures.gang("1", 1, 0);
        let about =
            if live.is_some() { "the same gang, with its objects" } else { "the same gang" };
        let call = self.sync(&gang, fixtures, live, about).await;
        if objects(&call)? == before {
            return Ok(());
        }
        Err(call.broken(format!(
            "the same as the first time: {}",
            beginning(&json!(before).to_string())
        )))
    }

    async fn syncs_many(&self, fixtures: &Fixtures) -> Result<(), Broken> {
        let gang = fixtures.gang("1", 3, 1000);
        let call = self.sync(&gang, fixtures, None, "a gang with 1000 references").await;
        objects(&call).map(|_| ())
    }

    async fn syncs_another_life(&self, fixtures: &Fixtures) -> Result<(), Broken> {
        let gang = fixtures.gang("2", 1, 0);
        let call = self.sync(&gang, fixtures, None, "a gang with another uid").await;
        objects(&call).map(|_| ())
    }

    async fn prepare(&self, fixtures: &Fixtures) -> Call {
        let gang = fixtures.gang("1", 2, 2);
        let fields = json!({
            "pod": fixtures.pod(), "podGang": gang, "podGangUID": gang["metadata"]["uid"],
            "podGangGeneration": gang["metadata"]["generation"], "podCliqueSet": fixtures.set(),
        });
        self.ask(Operation::PreparePods, "a pod of the gang", fields).await
    }

    async fn prepares(&self, fixtures: &Fixtures) -> Result<Value, Broken> {
        let call = self.prepare(fixtures).await;
        let wants = "response.patch, a JSON merge patch of metadata.labels, metadata.annotations and spec \
                     that keeps the labels of the pod, or none";
        let patch = call.answer(wants)?.patch.clone();
        match prepared(&fixtures.scheduler, &fixtures.pod(), patch.clone()) {
            Ok(_) => Ok(patch.unwrap_or_default()),
            Err(wrong) => Err(call.broken(format!("{wants}; {wrong}"))),
        }
    }

    async fn prepares_the_same(
        &self,
        fixtures: &Fixtures,
        before: Option<&Value>,
    ) -> Result<(), Broken> {
        let call = self.prepare(fixtures).await;
        let wants = "the same patch as the first time";
        let again = call.answer(wants)?.patch.clone().unwrap_or_default();
        if before == Some(&again) { Ok(()) } else { Err(call.broken(wants)) }
    }

    async fn forgets(&self, fixtures: &Fixtures, life: &str) -> Result<(), Broken> {
        let mut gang = fixtures.gang(life, 2, 0);
        gang.as_object_mut().map(|gang| gang.remove("spec"));
        let metadata = &gang["metadata"];
        let fields = json!({
            "podGang": gang, "podGangUID": metadata["uid"],
            "podGangGeneration": metadata["generation"],
        });
        let about = format!("the gang with uid {}", metadata["uid"]);
        let call = self.ask(Operation::PodGangDeleted, &about, fields).await;
        call.answer("an answer without error").map(|_| ())
    }

    async fn ignores_news(&self) -> Result<(), Broken> {
        let fields = json!({ "fieldOfTheFuture": { "a": [1] } });
        let call = self.ask(Operation::Describe, "with a field that does not exist", fields).await;
        call.answer("the answer to Describe").map(|_| ())
    }

    /// Sends a body that no operator of this version sends.
    async fn provoke(
        &self,
        body: Vec<u8>,
        uid: &str,
    ) -> Result<Result<Response, String>, CallError> {
        let answer = self.endpoint.post(self.timeout, || body).await?;
        Ok(wire::response(uid, &answer))
    }

    async fn refuses_unknown(&self) -> Result<(), Broken> {
        let body = wire::request("check", "DescribeTheFuture", json!({})).to_string();
        let came = match self.provoke(body.into_bytes(), "check").await {
            Ok(Ok(Response { error: Some(error), .. })) if !error.retryable => return Ok(()),
            Ok(Ok(response)) => shown(&response),
            Ok(Err(wrong)) => wrong,
            Err(error) => error.to_string(),
        };
        Err(Broken {
            sent: "operation DescribeTheFuture".to_owned(),
            came,
            wants: "200 and response.error with retryable: false: operators may be newer"
                .to_owned(),
        })
    }

    async fn refuses_version(&self) -> Result<(), Broken> {
        let mut body = wire::request("check", Operation::Describe.as_str(), json!({}));
        body["apiVersion"] = json!("backend.grove.io/v0");
        let sent = "Describe with apiVersion backend.grove.io/v0".to_owned();
        self.refuses(sent, body.to_string().into_bytes()).await
    }

    async fn refuses_garbage(&self) -> Result<(), Broken> {
        self.refuses("the bytes {\"apiVersion\":".to_owned(), b"{\"apiVersion\":".to_vec()).await
    }

    async fn refuses(&self, sent: String, body: Vec<u8>) -> Result<(), Broken> {
        let came = match self.provoke(body, "check").await {
            Err(CallError::Status { code: StatusCode::BAD_REQUEST, .. }) => return Ok(()),
            Err(error) => error.to_string(),
            Ok(Err(wrong)) => wrong,
            Ok(Ok(response)) => shown(&response),
        };
        Err(Broken { sent, came, wants: "400".to_owned() })
    }

    async fn together(&self, fixtures: &Fixtures) -> Result<(), Broken> {
        let gangs: Vec<Value> =
            (0..TOGETHER).map(|index| fixtures.gang(&format!("many-{index}"), 1, 0)).collect();
        let calls = gangs.iter().map(|gang| self.sync(gang, fixtures, None, "one of eight gangs"));
        for call in futures::future::join_all(calls).await {
            objects(&call)?;
        }
        Ok(())
    }
}

/// The objects of an answer, which must be manifests.
fn objects(call: &Call) -> Result<Vec<Value>, Broken> {
    let wants = "response.objects, a list of manifests with apiVersion, kind and metadata.name, each of \
                 them once, or none";
    let objects = call.answer(wants)?.objects.clone().unwrap_or_default();
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let mut names = Vec::new();
    for object in &objects {
        let name = [&object["apiVersion"], &object["kind"], &object["metadata"]["name"]];
        if !name.iter().all(|part| text(part)) || names.contains(&name) {
            return Err(call.broken(wants));
        }
        names.push(name);
    }
    Ok(objects)
}

fn kinds(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind =
        |object: &Value| format!("{} {}", text(&object["apiVersion"]), text(&object["kind"]));
    let mut kinds: Vec<String> = objects.iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}
