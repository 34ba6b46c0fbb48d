//! A scheduler backend that is a program of its own: the contract over HTTPS, for backends in other languages.
//!
//! The program gets the same calls as a [`Backend`] and can be a pure function as well: for a gang it answers
//! with the desired objects, and the operator writes them. [`rules`] restricts the answers, [`wire`] has the
//! format, and `docs/backends.md` is the page for authors.
//!
//! The program may be slow, wrong or down at any time. Calls are bounded in number, time and size; the caller
//! retries a failed call, and all callers at once when the program answers again.

mod rules;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use grove_api::condition::bounded_text;
use grove_api::config::{BackendEndpoint, BackendKind, FailurePolicy};
use grove_api::{PodCliqueSet, PodGang};
use grove_runtime::backoff::Backoff;
use grove_runtime::clock::Clock;
use grove_runtime::controller::Outside;
use grove_runtime::endpoint::{CallError, Endpoint, EndpointConfig, IdentityFiles};
use grove_runtime::process::Env;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::rng::Rng;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use self::rules::Refused;
pub(crate) use self::rules::preparation as prepared;
use self::wire::{Description, Operation, Response};
use crate::contract::{
    Backend, CallContext, Capabilities, GangInput, NewPods, Preparation, SchedulerObjects,
};
use crate::error::{BackendError, BackendFailure, MESSAGE_MAX};

/// `User-Agent` of the calls.
pub(crate) const AGENT: &str = concat!("grove/", env!("CARGO_PKG_VERSION"));
/// Maximum number of concurrent calls to one program.
pub(crate) const IN_FLIGHT: usize = 16;
/// Maximum number of concurrent reviews. More would take the places of reviews for other schedulers.
const REVIEWS: usize = 16;
/// Timeout of a review: that of the API server is ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum number of warnings of one review, and the longest of them in bytes.
const WARNINGS: usize = 16;
const WARNING_MAX: usize = 1024;

/// A backend that is a program of its own.
pub(crate) struct Remote {
    name: String,
    endpoint: Endpoint,
    timeout: Duration,
    ignores_failures: bool,
    kinds: Vec<Resource>,
    clock: Clock,
    rng: Rng,
    reviews: Semaphore,
    /// The last answer to `Describe`.
    description: Mutex<Option<Description>>,
    /// Whether the last call failed. It is true before the first call, so that the program is probed: the
    /// operator starts without it.
    failing: watch::Sender<bool>,
    /// Number of probes since the last successful call.
    probes: AtomicU32,
    /// The gangs that were handed over.
    handed: Mutex<BTreeMap<ObjectKey, Life>>,
}

/// Which gang of a name was handed over, and its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Life {
    uid: String,
    generation: i64,
}

impl Life {
    fn of(gang: &PodGang) -> Self {
        Self {
            uid: gang.metadata.uid.clone().unwrap_or_default(),
            generation: gang.metadata.generation.unwrap_or_default(),
        }
    }
}

impl Remote {
    /// The program behind the profile of this name. It is not called yet.
    pub(crate) fn new(name: &str, given: &BackendEndpoint, env: &Env) -> Result<Self, String> {
        let url = given.url.parse().map_err(|error| format!("{:?}: {error}", given.url))?;
        let identity = given.cert_file.as_ref().zip(given.key_file.as_ref());
        let config = EndpointConfig {
            url,
            ca_file: Some(given.ca_file.clone().into()),
            identity: identity.map(|(certificate, key)| IdentityFiles {
                certificate: certificate.into(),
                key: key.into(),
            }),
            token_file: given.token_file.as_ref().map(Into::into),
            in_flight: IN_FLIGHT,
        };
        Ok(Self {
            name: name.to_owned(),
            endpoint: Endpoint::new(config, AGENT, env),
            timeout: given.timeout.to_std().unwrap_or_default(),
            ignores_failures: given.failure_policy == FailurePolicy::Ignore,
            kinds: given.kinds.iter().map(resource).collect(),
            clock: env.clock.clone(),
            rng: env.rng.fork(name),
            reviews: Semaphore::new(REVIEWS),
            description: Mutex::default(),
            failing: watch::Sender::new(true),
            probes: AtomicU32::new(0),
            handed: Mutex::default(),
        })
    }

    /// Calls `Describe` and keeps the answer.
    async fn describe(&self) -> Result<(), BackendError> {
        let response = self.call(Operation::Describe, "", self.timeout, || json!({})).await?;
        let checked = match response.description {
            None => Err("answered without response.description".to_owned()),
            Some(description) if description.scheduler_name != self.name => Err(format!(
                "answered with response.description.schedulerName {:?}, and the profile is {:?}",
                description.scheduler_name, self.name
            )),
            Some(description) => Ok(description),
        };
        let description = checked.map_err(|wrong| self.wrong(Operation::Describe, "", &wrong))?;
        *lock(&self.description) = Some(description);
        Ok(())
    }

    /// Completes when it answers for the first time, or again after a call failed.
    async fn answers_again(&self) {
        // The sender lives in `self`.
        let _ = self.failing.subscribe().wait_for(|failing| *failing).await;
        loop {
            let probes = self.probes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            self.clock.sleep(Backoff::ABSENT.after(probes, &self.rng)).await;
            let Err(error) = self.describe().await else { break };
            // Many failures in a row do not need a line each.
            if probes.is_power_of_two() {
                tracing::warn!(%error, probes, "the scheduler backend is asked again");
            }
        }
        let (scheduler, url) = (&self.name, self.endpoint.url());
        tracing::info!(scheduler, %url, "the scheduler backend answers");
    }

    async fn deleted(
        &self,
        gang: &ObjectKey,
        life: &Life,
        outside: &Outside,
    ) -> Result<(), BackendError> {
        let fields = || {
            json!({
                "podGang": {
                    "apiVersion": PodGang::API_VERSION,
                    "kind": PodGang::KIND,
                    "metadata": {
                        "namespace": &*gang.namespace, "name": &*gang.name,
                        "uid": life.uid, "generation": life.generation,
                    },
                },
                "podGangUID": life.uid,
                "podGangGeneration": life.generation,
            })
        };
        let object = format!("PodGang {gang}");
        outside.wait(self.call(Operation::PodGangDeleted, &object, self.timeout, fields)).await?;
        let mut handed = lock(&self.handed);
        if handed.get(gang).is_some_and(|known| known.uid == life.uid) {
            handed.remove(gang);
        }
        Ok(())
    }

    async fn call(
        &self,
        operation: Operation,
        object: &str,
        timeout: Duration,
        fields: impl FnOnce() -> Value,
    ) -> Result<Response, BackendError> {
        let uid = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let body = || wire::request(&uid, operation.as_str(), fields()).to_string().into_bytes();
        let answer = self.endpoint.post(timeout, body).await.map_err(|error| {
            let message = self.message(operation, object, &error);
            if matches!(error, CallError::Stopping) {
                return self.error(BackendFailure::Stopping(message));
            }
            self.failing.send_replace(true);
            self.error(BackendFailure::Unreachable(message))
        })?;
        let response =
            wire::response(&uid, &answer).map_err(|wrong| self.wrong(operation, object, &wrong))?;
        self.failing.send_replace(false);
        if operation != Operation::Describe {
            self.probes.store(0, Ordering::Relaxed);
        }
        let Some(wire::Refusal { reason, message, retryable }) = response.error else {
            return Ok(response);
        };
        let answered = format!("answered with error {reason}: {message}");
        let message = self.message(operation, object, &answered);
        Err(self.error(BackendFailure::Refused { reason, message, retryable }))
    }

    /// An answer that breaks the contract.
    fn wrong(&self, operation: Operation, object: &str, wrong: &str) -> BackendError {
        self.failing.send_replace(true);
        self.error(BackendFailure::WrongAnswer(self.message(operation, object, wrong)))
    }

    /// The message of a failed call: URL, operation, object, and what is wrong.
    fn message(&self, operation: Operation, object: &str, wrong: impl std::fmt::Display) -> String {
        let space = if object.is_empty() { "" } else { " " };
        format!("{}: {operation}{space}{object}: {wrong}", self.endpoint.url())
    }

    fn error(&self, failure: BackendFailure) -> BackendError {
        BackendError::new(&self.name, failure)
    }

    async fn sync(&self, gang: &GangInput<'_>, call: CallContext<'_>) -> Result<(), BackendError> {
        if lock(&self.description).is_none() {
            call.outside.wait(self.describe()).await?;
        }
        let (key, life) = (gang.key(), Life::of(gang.object));
        let earlier = lock(&self.handed).insert(key.clone(), life.clone());
        if let Some(earlier) = earlier.filter(|earlier| earlier.uid != life.uid) {
            self.deleted(&key, &earlier, call.outside).await.inspect_err(|_| {
                lock(&self.handed).insert(key.clone(), earlier);
            })?;
        }
        let fields = || {
            json!({
                "podGang": gang.object,
                "podGangUID": life.uid,
                "podGangGeneration": life.generation,
                "podCliqueSet": gang.set,
                "objects": self.objects_of(gang),
            })
        };
        let (operation, object) = (Operation::SyncPodGang, format!("PodGang {key}"));
        let asked = self.call(operation, &object, self.timeout, fields);
        let response = call.outside.wait(asked).await?;
        let Some(wanted) = response.objects else { return Ok(()) };
        let writes =
            rules::writes(&self.name, &self.kinds, gang, wanted).map_err(
                |refused| match refused {
                    Refused::Answer(wrong) => {
                        self.wrong(operation, &object, &format!("answered with {wrong}"))
                    }
                    Refused::Cluster(error) => error,
                },
            )?;
        call.execute(&self.name, writes).await
    }

    /// The objects of the profile's kinds that a gang owns.
    fn objects_of(&self, gang: &GangInput<'_>) -> Vec<Value> {
        let key = gang.key();
        let owned = self.kinds.iter().flat_map(|kind| {
            let owned = gang.objects.of_gang(kind, &key).into_iter();
            let owned = owned.filter(|object| object.is_of(gang.object));
            owned.map(|object| {
                let mut object = object.object.clone();
                // Items of lists lack these fields.
                object["apiVersion"] = json!(kind.api_version());
                object["kind"] = json!(kind.kind);
                object
            })
        });
        owned.collect()
    }

    async fn prepare(&self, pods: &NewPods<'_>) -> Result<Preparation, BackendError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pods.draft["metadata"];
        let name = text(&metadata["generateName"]);
        let object = format!("Pod {}/{name}", text(&metadata["namespace"]));
        let gang = pods.gang.map(Life::of);
        let fields = || {
            json!({
                "pod": pods.draft,
                "podGang": pods.gang,
                "podGangUID": gang.as_ref().map(|gang| &gang.uid),
                "podGangGeneration": gang.as_ref().map(|gang| gang.generation),
                "podCliqueSet": pods.set,
            })
        };
        let operation = Operation::PreparePods;
        let asked = self.call(operation, &object, self.timeout, fields);
        let response = pods.outside.wait(asked).await?;
        rules::preparation(&self.name, pods.draft, response.patch)
            .map_err(|wrong| self.wrong(operation, &object, &format!("answered with {wrong}")))
    }

    async fn review(
        &self,
        set: &PodCliqueSet,
        old: Option<&PodCliqueSet>,
    ) -> Result<Result<Vec<String>, String>, BackendError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let metadata = &set.metadata;
        let object = format!("PodCliqueSet {}/{}", text(&metadata.namespace), text(&metadata.name));
        let operation = Operation::ValidatePodCliqueSet;
        let Ok(_place) = self.reviews.try_acquire() else {
            let what = format!("not asked: {REVIEWS} reviews wait for it already; try again");
            let message = self.message(operation, &object, what);
            return Err(self.error(BackendFailure::Unreachable(message)));
        };
        let fields = || json!({ "podCliqueSet": set, "oldPodCliqueSet": old });
        let timeout = self.timeout.min(REVIEW_TIMEOUT);
        let response = self.call(operation, &object, timeout, fields).await?;
        match response.allowed {
            Some(true) => Ok(Ok(bounded_warnings(&response.warnings.unwrap_or_default()))),
            Some(false) => {
                let message = response.message.filter(|message| !message.is_empty());
                let message = message.unwrap_or_else(|| format!("{} refuses it", self.name));
                Ok(Err(bounded_text(&message, MESSAGE_MAX).into_owned()))
            }
            None => Err(self.wrong(operation, &object, "answered without response.allowed")),
        }
    }
}

/// The first warnings, each cut to a readable length.
fn bounded_warnings(warnings: &[String]) -> Vec<String> {
    let bounded = |warning: &String| bounded_text(warning, WARNING_MAX).into_owned();
    warnings.iter().take(WARNINGS).map(bounded).collect()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resource(kind: &BackendKind) -> Resource {
    Resource {
        group: kind.group.clone().into(),
        version: kind.version.clone().into(),
        plural: kind.plural.clone().into(),
        kind: kind.kind.clone().into(),
        namespaced: true,
    }
}

impl Backend for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self, _: &dyn SchedulerObjects) -> Capabilities {
        let words = lock(&self.description).as_ref().map(|one| one.capabilities.clone());
        let word = |word: fn(&wire::Words) -> &String| {
            words.as_ref().map_or_else(|| "unknown".into(), |words| word(words).clone().into())
        };
        Capabilities {
            objects: word(|words| &words.objects),
            minimum: word(|words| &words.minimum),
            gang: word(|words| &words.gang),
            topology: word(|words| &words.topology),
            queue: word(|words| &words.queue),
            priority: word(|words| &words.priority),
        }
    }

    fn kinds(&self) -> Vec<Resource> {
        self.kinds.clone()
    }

    /// Every key may matter until the program has described itself.
    fn acts_on(&self, key: &str) -> bool {
        let description = lock(&self.description);
        description.as_ref().is_none_or(|one| one.acts_on.iter().any(|known| known == key))
    }

    fn url(&self) -> Option<String> {
        Some(self.endpoint.url().to_string())
    }

    fn check(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(self.describe())
    }

    fn recovered(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.answers_again())
    }

    fn sync_pod_gang<'a>(
        &'a self,
        gang: GangInput<'a>,
        call: CallContext<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move { self.sync(&gang, call).await })
    }

    /// A gang that no longer exists is reported if it was handed over. An operator that was restarted
    /// meanwhile does not remember.
    fn pod_gang_deleted<'a>(
        &'a self,
        gang: &'a ObjectKey,
        object: Option<&'a PodGang>,
        call: CallContext<'a>,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        let life = object.map(Life::of).or_else(|| lock(&self.handed).get(gang).cloned());
        Box::pin(async move {
            match life {
                Some(life) => self.deleted(gang, &life, call.outside).await,
                None => Ok(()),
            }
        })
    }

    fn prepare_pods<'a>(
        &'a self,
        pods: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async move {
            for kind in &self.kinds {
                pods.objects.known(&self.name, kind)?;
            }
            match self.prepare(&pods).await {
                Err(error) if self.ignores_failures && error.is_unanswered() => {
                    let named = json!({ "spec": { "schedulerName": self.name } });
                    Ok(Preparation::merge(named))
                }
                prepared => prepared,
            }
        })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
        _: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            match self.review(set, old).await {
                Ok(verdict) => verdict,
                Err(error) if !error.is_unanswered() => Err(error.to_string()),
                Err(error) if self.ignores_failures => {
                    Ok(vec![format!("not checked by its scheduler: {error}")])
                }
                Err(error) => Err(format!(
                    "{error}; sets of this scheduler are refused until it answers (failurePolicy: Fail)"
                )),
            }
        })
    }
}
