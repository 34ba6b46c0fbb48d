//! The admission webhooks: reviews in, responses out. The rules are in `grove_core::admission`; this module
//! passes them the review, the configuration and the cached sets.

pub(crate) mod registration;
mod topologies;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use grove_api::field_error::FieldError;
use grove_api::{ClusterTopologyBinding, PodCliqueSet, labels};
use grove_backends::{Registry, SchedulerCaches};
use grove_core::admission::{self, Authorization, Context, Guards, ManagedRequest, Protection};
use grove_core::topology::{SetTopology, constraints, topology_name};
use grove_runtime::admission::{Admission, Request, Webhooks};
use grove_runtime::clock::Clock;
use grove_runtime::object::Object;
use grove_runtime::process::Env;
use grove_runtime::resource::ObjectKey;
use grove_runtime::store::Store;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ListParams;
use kube::core::admission::Operation;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::caches::Stores;
use crate::caches::views::Set;
use crate::options::Options;
use registration::{AUTHORIZER, DEFAULTING, TOPOLOGIES, VALIDATING};

/// Reviews that run at once.
const CONCURRENCY: usize = 64;
/// How long a review waits for one object that it looks up.
const LOOKUP: Duration = Duration::from_secs(2);

/// All webhooks, the authorizer if it is enabled. The operator acts as `users`.
pub(crate) fn webhooks(
    options: &Options,
    env: &Env,
    stores: &Stores,
    backends: &Registry,
    client: &Client,
    users: &[String],
) -> Webhooks {
    let context = Arc::new(Context::from(&options.configuration));
    let schedulers = Arc::new(Schedulers {
        backends: backends.clone(),
        objects: stores.scheduler_objects.clone(),
    });
    let lookups = Arc::new(Lookups {
        classes: Api::all(client.clone()),
        bindings: Api::all(client.clone()),
        cached_bindings: stores.topologies.bindings.clone(),
        clock: env.clock.clone(),
    });
    let reviews = Arc::new(topologies::Reviews {
        context: context.clone(),
        backends: backends.clone(),
        operators: users.to_vec(),
    });
    let topologies = stores.topologies.clone();
    let webhooks = Webhooks::new(env, CONCURRENCY)
        .route(DEFAULTING.path, DEFAULTING.name, |request| async move { default(&request) })
        .route(VALIDATING.path, VALIDATING.name, move |request| {
            let (context, schedulers) = (context.clone(), schedulers.clone());
            let (lookups, topologies) = (lookups.clone(), topologies.clone());
            async move {
                let topology = |set: &PodCliqueSet| topologies.of(set);
                validate(&request, &context, topology, &schedulers, Some(&lookups)).await
            }
        })
        .route(TOPOLOGIES.path, TOPOLOGIES.name, move |request| {
            let reviews = reviews.clone();
            async move { reviews.answer(&request) }
        });
    if !options.configuration.authorizer.enabled {
        return webhooks;
    }
    let sets = stores.sets.clone();
    let exempt = &options.configuration.authorizer.exempt_service_account_user_names;
    let guards = Arc::new(Guards {
        operator: options.identity.user_name(),
        exempt: exempt.iter().chain(users).cloned().collect(),
    });
    webhooks.route(AUTHORIZER.path, AUTHORIZER.name, move |request| {
        let (guards, sets) = (guards.clone(), sets.clone());
        async move { authorize(&request, &guards, &sets) }
    })
}

/// The scheduler backends, which validate sets too.
struct Schedulers {
    backends: Registry,
    objects: SchedulerCaches,
}

fn default(request: &Request) -> Admission {
    let raw = match decode::<Value>(request.object.as_deref()) {
        Ok(raw) => raw,
        Err(response) => return *response,
    };
    match admission::default_patch(&raw) {
        Ok(patch) => Admission::patch(patch),
        Err(error) => Admission::undecodable(error.to_string()),
    }
}

/// What reviews read from the cluster, in rare cases.
struct Lookups {
    classes: Api<PriorityClass>,
    bindings: Api<ClusterTopologyBinding>,
    cached_bindings: Store<Object<ClusterTopologyBinding>>,
    clock: Clock,
}

impl Lookups {
    /// Whether there is a binding that the cache lacked, and has now: users create it together with the set
    /// that names it.
    async fn has_binding(&self, name: &str) -> bool {
        let one = ListParams::default().fields(&format!("metadata.name={name}"));
        let appears = async {
            let found = self.bindings.list(&one).await.ok()?.items.pop()?;
            let version = found.metadata.resource_version?.parse().ok()?;
            let (seen, observed) = oneshot::channel();
            self.cached_bindings.when_observed(version, move || {
                // Nobody waits any more after the timeout.
                let _ = seen.send(());
            });
            observed.await.ok()
        };
        self.clock.timeout(LOOKUP, appears).await.flatten().is_some()
    }

    /// The warnings about classes that do not exist. Without an answer in time, or without the right to
    /// read them, there are none.
    async fn missing_classes(&self, set: &PodCliqueSet) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, path) in admission::priority_classes(set) {
            let found = self.clock.timeout(LOOKUP, self.classes.get_metadata_opt(name)).await;
            if matches!(found, Some(Ok(None))) {
                warnings.push(admission::missing_priority_class(&path, name));
            }
        }
        warnings
    }
}

async fn validate(
    request: &Request,
    context: &Context,
    topology_of: impl Fn(&PodCliqueSet) -> SetTopology,
    schedulers: &Schedulers,
    lookups: Option<&Lookups>,
) -> Admission {
    let new = match decode_set(request.object.as_deref()) {
        Ok(set) => set,
        Err(response) => return *response,
    };
    let old = match request.operation {
        Operation::Create => None,
        Operation::Update => match decode_set(request.old_object.as_deref()) {
            Ok(old) => Some(old),
            Err(response) => return *response,
        },
        Operation::Delete | Operation::Connect => return Admission::allow(),
    };
    let mut topology = topology_of(&new);
    if topology == SetTopology::NotFound
        && let (Some(lookups), Some(name)) = (lookups, topology_name(&new))
        && lookups.has_binding(name).await
    {
        topology = topology_of(&new);
    }
    if topology == SetTopology::Unknown && depends_on_topology(&new, old.as_ref()) {
        let name = topology_name(&new).unwrap_or_default();
        return Admission::failed(format!(
            "the operator cannot read ClusterTopologyBinding {name:?} at the moment; try again"
        ));
    }
    let mut validation = match &old {
        None => admission::validate_create(&new, context, &topology),
        Some(old) => admission::validate_update(&new, old, context, &topology),
    };
    if validation.is_allowed() && new.metadata.deletion_timestamp.is_none() {
        match ask_backend(&new, old.as_ref(), schedulers).await {
            Ok(warnings) => {
                validation.warnings.extend(warnings);
                if let Some(lookups) = lookups {
                    validation.warnings.extend(lookups.missing_classes(&new).await);
                }
            }
            Err(detail) => {
                validation.errors.push(FieldError::invalid("spec", &*request.name, detail));
            }
        }
    }
    let answer = validation.message().map_or_else(Admission::allow, Admission::deny);
    answer.warn(validation.warnings)
}

/// Whether the decision about a set depends on its topology: not if it keeps its constraints, or is being deleted.
fn depends_on_topology(new: &PodCliqueSet, old: Option<&PodCliqueSet>) -> bool {
    let is_kept = old.is_some_and(|old| constraints(new).eq(constraints(old)));
    !is_kept && new.metadata.deletion_timestamp.is_none()
}

/// Validates a set with the backend of its scheduler. All its cliques have the same scheduler.
async fn ask_backend(
    new: &PodCliqueSet,
    old: Option<&PodCliqueSet>,
    schedulers: &Schedulers,
) -> Result<Vec<String>, String> {
    let first = new.spec.template.cliques.first();
    let name = first.and_then(|clique| clique.spec.pod_spec.scheduler_name());
    let backend = schedulers.backends.for_pods(name).ok_or_else(|| {
        format!("scheduler {:?} is no active scheduler backend", name.unwrap_or_default())
    })?;
    backend.validate(new, old, &schedulers.objects).await
}

fn authorize(request: &Request, guards: &Guards, sets: &Store<Set>) -> Admission {
    if request.operation == Operation::Connect {
        return Admission::allow();
    }
    let object = request.old_object.as_deref().or(request.object.as_deref());
    let object = match decode::<ManagedObject>(object) {
        Ok(object) => object,
        Err(response) => return *response,
    };
    if !sets.is_synced() {
        return Admission::failed("the operator has not read the PodCliqueSets yet; try again");
    }
    let managed = ManagedRequest {
        operation: operation(request),
        user: request.user_info.username.as_deref().unwrap_or_default(),
        is_pod: request.kind.group.is_empty() && request.kind.kind == "Pod",
        namespace: &request.namespace,
        name: &request.name,
        part_of: object.part_of(),
    };
    let lookup = |set: &str| {
        let set = sets.get(&ObjectKey::new(&request.namespace, set));
        let protection = set.map(|set| Protection::of(set.object.metadata.annotations.as_ref()));
        Ok::<_, std::convert::Infallible>(protection)
    };
    let Ok(decision) = admission::authorize(&managed, guards, lookup);
    match decision {
        Authorization::Allow { warnings } => Admission::allow().warn(warnings),
        Authorization::Deny { message } => Admission::deny(message),
    }
}

fn operation(request: &Request) -> admission::Operation {
    match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
        Operation::Connect => admission::Operation::Connect,
    }
}

/// Any managed object in a review.
#[derive(Debug, Deserialize)]
struct ManagedObject {
    metadata: ManagedMeta,
}

#[derive(Debug, Deserialize)]
struct ManagedMeta {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl ManagedObject {
    /// Name of the set it belongs to.
    fn part_of(&self) -> Option<&str> {
        self.metadata.labels.get(labels::PART_OF).map(String::as_str)
    }
}

/// Decodes a part of a review, or returns the response about one that cannot be decoded.
fn decode<T: serde::de::DeserializeOwned>(object: Option<&RawValue>) -> Result<T, Box<Admission>> {
    let object =
        object.ok_or_else(|| Box::new(Admission::undecodable("the review has no object")))?;
    serde_json::from_str(object.get())
        .map_err(|error| Box::new(Admission::undecodable(error.to_string())))
}

fn decode_set(object: Option<&RawValue>) -> Result<PodCliqueSet, Box<Admission>> {
    let raw = decode::<Value>(object)?;
    admission::decode(&raw).map_err(|error| Box::new(Admission::undecodable(error.to_string())))
}

#[cfg(test)]
mod tests;
