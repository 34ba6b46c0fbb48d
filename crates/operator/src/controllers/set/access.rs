//! What the start-order container needs to watch pods: a ServiceAccount with a token Secret, and a Role
//! with a RoleBinding.
//!
//! Each object is created when it is missing. An object of another owner is never changed: a Role or
//! RoleBinding is used as it is if it grants what the container needs, and everything else is reported.
//! A ServiceAccount of another owner gets neither a token nor a role from the operator.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use grove_api::error_code::{ErrorCode, LastError};
use grove_api::{PodCliqueSet, labels, names};
use grove_core::children;
use grove_core::layout::Layout;
use grove_core::start_order;
use grove_runtime::events::{Occurrence, Severity};
use grove_runtime::fence::Fence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::Meta;
use grove_runtime::write::Write;
use jiff::Timestamp;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;

use crate::caches::views::{Set, TokenSecret};
use crate::caches::{ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, Stores};
use crate::controllers::context::Context;
use crate::controllers::error::ReconcileError;
use crate::controllers::events;
use grove_runtime::converge;
use grove_runtime::object::Object;

const REASON: &str = "for the start-order container";
/// How long Kubernetes may take to fill in the token before the wait is reported.
const TOKEN_DELAY: Duration = Duration::from_secs(30);

/// The objects of a set, as the caches show them: those that are labelled as the operator's.
#[derive(Default)]
pub(super) struct ObservedAccess {
    pub(super) service_account: Option<Meta>,
    pub(super) role: Option<Meta>,
    pub(super) role_binding: Option<Meta>,
    pub(super) secret: Option<Arc<TokenSecret>>,
    /// The Secret that older versions created.
    pub(super) legacy_secret: Option<Arc<TokenSecret>>,
    /// Whether a pod of the set mounts the legacy Secret.
    pub(super) legacy_is_mounted: bool,
}

pub(super) fn observe(stores: &Stores, set: &ObjectKey) -> ObservedAccess {
    let named = |name: String| ObjectKey::new(&set.namespace, &name);
    let meta =
        |view: Option<Arc<grove_runtime::view::MetaView>>| view.map(|view| view.metadata.clone());
    let legacy_secret = stores.secrets.get(&named(names::legacy_token_secret(&set.name)));
    let mounts = |_: &Arc<TokenSecret>| {
        let mut cliques = stores.cliques.of(set).into_iter();
        cliques.any(|one| stores.pods_of(&one.meta.uid).iter().any(|pod| pod.mounts_legacy_token))
    };
    ObservedAccess {
        service_account: meta(
            stores.service_accounts.get(&named(names::service_account(&set.name))),
        ),
        role: meta(stores.roles.get(&named(names::role(&set.name)))),
        role_binding: meta(stores.role_bindings.get(&named(names::role_binding(&set.name)))),
        secret: stores.secrets.get(&named(names::token_secret(&set.name))),
        legacy_is_mounted: legacy_secret.as_ref().is_some_and(mounts),
        legacy_secret,
    }
}

impl ObservedAccess {
    /// The objects with their kinds.
    pub(super) fn all(&self) -> impl Iterator<Item = (Resource, &Meta)> {
        let secrets = [&self.secret, &self.legacy_secret].into_iter().flatten();
        let others = [
            (SERVICE_ACCOUNTS, &self.service_account),
            (ROLES, &self.role),
            (ROLE_BINDINGS, &self.role_binding),
        ];
        let others = others.into_iter().filter_map(|(kind, meta)| Some((kind, meta.as_ref()?)));
        others.chain(secrets.map(|secret| (SECRETS, &secret.meta)))
    }
}

// === decisions ===

/// Whether start-order containers have their token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// It exists, or no clique of the set starts after another one.
    Settled,
    /// Kubernetes has not filled it in, and has until then to do so without a report.
    Awaited { until: Option<Timestamp> },
    /// Kubernetes has not filled it in for too long.
    Late,
}

pub(super) fn token(set: &Set, observed: &ObservedAccess, now: Timestamp) -> Token {
    if !start_order::is_needed(&Layout::of(&set.object)) {
        return Token::Settled;
    }
    let owned = |one: &&Arc<TokenSecret>| one.meta.owner_uid() == Some(&set.meta.uid);
    let Some(secret) = observed.secret.as_ref().filter(owned) else {
        return Token::Awaited { until: None };
    };
    let until = secret.meta.created.and_then(|created| created.checked_add(TOKEN_DELAY).ok());
    match until {
        _ if secret.has_token => Token::Settled,
        Some(until) if until <= now => Token::Late,
        until => Token::Awaited { until },
    }
}

/// The report of a token that Kubernetes does not fill in.
pub(super) fn late(set: &Set) -> ReconcileError {
    let key = &set.meta.key;
    let message = format!(
        "Secret {}/{} has no token {} s after it was created, and PodCliques that start after others \
         are created when it has one: check that kube-controller-manager runs its token controller \
         (--service-account-private-key-file)",
        key.namespace,
        names::token_secret(&key.name),
        TOKEN_DELAY.as_secs()
    );
    ReconcileError::rule(ErrorCode::GetSecret, message)
}

/// The report of an operator that was started without an image for the start-order container.
pub(super) fn no_image(set: &Set, image: Option<&str>) -> Option<ReconcileError> {
    let is_needed = image.is_none() && start_order::is_needed(&Layout::of(&set.object));
    is_needed.then(|| {
        let message = "cliques start after others, and the operator has no image for the container that \
                       waits: start it with --init-image or GROVE_INIT_CONTAINER_IMAGE";
        ReconcileError::rule(ErrorCode::InitContainerEnvironmentVariableMissing, message)
    })
}

/// Deletes the Secret that older versions created, when the new one has its token and no pod of the set
/// mounts the old one.
fn legacy_removal(set: &Set, observed: &ObservedAccess) -> Option<Write> {
    let owned = |one: &&Arc<TokenSecret>| one.meta.owner_uid() == Some(&set.meta.uid);
    let has_token = observed.secret.as_ref().filter(owned).is_some_and(|secret| secret.has_token);
    let is_unused = has_token && !observed.legacy_is_mounted;
    let legacy = observed.legacy_secret.as_ref().filter(owned);
    let legacy = legacy.filter(|one| is_unused && !one.meta.deleting)?;
    Some(converge::delete(SECRETS, &legacy.meta, "another Secret has replaced it"))
}

/// Ownership of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The set controls it, or controlled it before the set was deleted without its parts.
    Ours,
    /// It is being deleted, or will be because its set no longer exists.
    Leaving,
    /// Another owner's.
    Foreign,
}

fn standing(set: &Set, kind: &Resource, meta: &Meta) -> Standing {
    let Some(owner) = &meta.controller else {
        let is = |key: &str, value: &str| meta.labels.get(key) == Some(value);
        let left_by_us = is(labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
            && is(labels::PART_OF, &set.meta.key.name);
        return match () {
            () if meta.deleting => Standing::Leaving,
            // A Secret without our owner may be from a user: its token is not used.
            () if left_by_us && *kind != SECRETS => Standing::Ours,
            () => Standing::Foreign,
        };
    };
    let former = *owner.kind == *PodCliqueSet::KIND && *owner.name == *set.meta.key.name;
    match owner.uid == set.meta.uid {
        _ if meta.deleting => Standing::Leaving,
        true => Standing::Ours,
        false if former => Standing::Leaving,
        false => Standing::Foreign,
    }
}

/// Restores the labels of one of our objects.
fn relabel(kind: &Resource, meta: &Meta, desired: &Value) -> Option<Write> {
    let labels = desired["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    converge::labels(kind.clone(), meta, labels, REASON)
}

/// Whether an object of another owner grants what the container needs, or the error to report.
fn usable(set: &Set, kind: &Resource, live: &Value) -> Result<(), ReconcileError> {
    let layout = Layout::of(&set.object);
    let metadata = Meta::deserialize(&live["metadata"]).ok();
    let owner = metadata.as_ref().and_then(|meta| meta.controller.as_ref());
    let owner = owner.map_or_else(
        || "has no owner".to_owned(),
        |owner| format!("belongs to {} {}", owner.kind, owner.name),
    );
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let key = &set.meta.key;
    let object = format!("{} {}/{name} already exists and {owner}", kind.kind, key.namespace);
    let (code, what) = if *kind == ROLES {
        if children::role_grants_pods(live) {
            return Ok(());
        }
        let what = "does not grant get, list and watch on pods, which start-order containers need: \
                    add the rule, or delete the Role and the operator creates it";
        (ErrorCode::SyncRole, what)
    } else if *kind == ROLE_BINDINGS {
        if children::binding_grants_role(&layout, live) {
            return Ok(());
        }
        let what = "does not bind the Role of the same name to the ServiceAccount of the set: delete \
                    it and the operator creates it";
        (ErrorCode::SyncRoleBinding, what)
    } else if *kind == SERVICE_ACCOUNTS {
        let what = "gets no token and no role: delete it, or give the set another name";
        (ErrorCode::SyncServiceAccount, what)
    } else {
        let what = format!("is not controlled by PodCliqueSet {key}: delete or rename it");
        return Err(ReconcileError::taken(
            ErrorCode::SecretConflict,
            format!("{object}, and {what}"),
        ));
    };
    Err(ReconcileError::taken(code, format!("{object}, and {what}")))
}

/// Events about errors that the set does not report yet.
pub(super) fn refusals(
    set: &Object<PodCliqueSet>,
    errors: &[ReconcileError],
    known: &[LastError],
) -> Vec<Occurrence> {
    let lasting = errors.iter().filter_map(ReconcileError::lasting);
    let new = lasting.filter(|text| !known.iter().any(|known| known.description.contains(*text)));
    let occurrence = |text: &str| {
        let (reason, action) = ("StartOrderAccessFailed", "GrantAccess");
        events::occurrence(set, Severity::Warning, reason, action, text.to_owned())
    };
    new.map(occurrence).collect()
}

// === acting ===

/// The result of writing all objects.
#[derive(Default)]
pub(super) struct Synced {
    pub(super) has_written: bool,
    pub(super) errors: Vec<ReconcileError>,
}

/// The result of writing one object.
#[derive(Default)]
struct Part {
    /// Other objects may refer to it.
    is_usable: bool,
    has_written: bool,
    error: Option<ReconcileError>,
}

impl Part {
    fn failed(error: ReconcileError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

/// Creates the missing objects of a set that is not being deleted, and reports conflicts.
pub(super) async fn sync(
    context: &Context,
    fence: &Fence,
    set: &Set,
    observed: &ObservedAccess,
) -> Synced {
    let layout = Layout::of(&set.object);
    let one = |kind, live, desired| sync_one(context, fence, set, kind, live, desired);
    let account = children::service_account(&layout);
    let account = one(SERVICE_ACCOUNTS, observed.service_account.as_ref(), account);
    let role = one(ROLES, observed.role.as_ref(), children::role(&layout));
    let (account, role) = join(account, role).await;
    let mut parts = Vec::new();
    if account.is_usable {
        let secret = observed.secret.as_ref().map(|secret| &secret.meta);
        let secret = one(SECRETS, secret, children::token_secret(&layout));
        let binding = async {
            // The API server looks up the Role before it accepts a binding to it.
            if !role.is_usable {
                return Part::default();
            }
            one(ROLE_BINDINGS, observed.role_binding.as_ref(), children::role_binding(&layout))
                .await
        };
        parts.extend(<[Part; 2]>::from(join(secret, binding).await));
    }
    parts.extend([account, role]);
    if let Some(write) = legacy_removal(set, observed) {
        parts.push(execute(context, fence, &write, ErrorCode::DeleteSecret).await);
    }
    Synced {
        has_written: parts.iter().any(|part| part.has_written),
        errors: parts.into_iter().filter_map(|part| part.error).collect(),
    }
}

async fn execute(context: &Context, fence: &Fence, write: &Write, code: ErrorCode) -> Part {
    match context.writer.execute(fence, write).await {
        Ok(_) => Part { is_usable: true, has_written: true, error: None },
        Err(error) => Part::failed(ReconcileError::failed(code, &error)),
    }
}

/// Creates one object or repairs its labels. One that the cache does not show, or that has another owner,
/// is read from the API server.
async fn sync_one(
    context: &Context,
    fence: &Fence,
    set: &Set,
    kind: Resource,
    live: Option<&Meta>,
    desired: Value,
) -> Part {
    let there = Part { is_usable: true, ..Part::default() };
    let Some(live) = live else {
        let Some(write) = converge::fields(kind, desired, None, REASON) else { return there };
        return match context.writer.execute(fence, &write).await {
            Ok(_) => Part { has_written: true, ..there },
            Err(error) if error.is_already_exists() => {
                let unseen = ReconcileError::failed(super::code(&write), &error);
                inspect(context, fence, set, &write, unseen).await
            }
            Err(error) => Part::failed(ReconcileError::failed(super::code(&write), &error)),
        };
    };
    match standing(set, &kind, live) {
        Standing::Leaving => Part::default(),
        Standing::Ours => match relabel(&kind, live, &desired) {
            Some(write) => execute(context, fence, &write, super::code(&write)).await,
            None => there,
        },
        Standing::Foreign => {
            let Some(write) = converge::fields(kind, desired, None, REASON) else { return there };
            let gone = ReconcileError::taken(super::code(&write), "it has just been deleted");
            inspect(context, fence, set, &write, gone).await
        }
    }
}

/// Repairs or reports the object that has the name of one to create; `unclear` is the error if it cannot be read.
async fn inspect(
    context: &Context,
    fence: &Fence,
    set: &Set,
    create: &Write,
    unclear: ReconcileError,
) -> Part {
    let (kind, key) = (&create.resource, &create.key);
    let live = match read(&context.client, kind, key).await {
        Ok(Some(live)) => live,
        Ok(None) => return Part::failed(unclear),
        Err(error) => {
            tracing::warn!(%error, "cannot read {kind} {key}, which is in the way");
            return Part::failed(unclear);
        }
    };
    let Ok(meta) = Meta::deserialize(&live["metadata"]) else { return Part::failed(unclear) };
    match standing(set, kind, &meta) {
        Standing::Leaving => Part::failed(unclear),
        Standing::Ours => {
            let desired = match &create.verb {
                grove_runtime::write::Verb::Create { body } => body,
                _ => &Value::Null,
            };
            match relabel(kind, &meta, desired) {
                Some(write) => execute(context, fence, &write, super::code(&write)).await,
                // The cache has not shown it yet.
                None => Part { is_usable: true, has_written: true, error: None },
            }
        }
        Standing::Foreign => {
            let error = usable(set, kind, &live).err();
            // A binding may name a Role of any owner; a ServiceAccount has to be ours.
            Part { is_usable: error.is_none() || *kind == ROLES, has_written: false, error }
        }
    }
}

/// Reads an object; of ServiceAccounts and Secrets the metadata alone.
async fn read(
    client: &Client,
    kind: &Resource,
    key: &ObjectKey,
) -> Result<Option<Value>, kube::Error> {
    let request = Request::new(kind.path(&key.namespace));
    let params = GetParams::default();
    let request = if [SERVICE_ACCOUNTS, SECRETS].contains(kind) {
        request.get_metadata(&key.name, &params)
    } else {
        request.get(&key.name, &params)
    };
    match client.request(request.map_err(kube::Error::BuildRequest)?).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
