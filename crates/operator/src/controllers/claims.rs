//! ResourceClaims of sets, groups and cliques, as far as the three have them in common: the observed claims of
//! an owner, which of them are missing or surplus, and which keys a change wakes.
//!
//! `grove_core::children::resource_claims` computes the desired claims. The spec of a claim is immutable; labels
//! and the owner are restored. Clusters without the API have no claims: only sets that share some report it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api::condition::pod_clique_set as condition;
use grove_api::error_code::ErrorCode;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, labels};
use grove_core::children::resource_claims::{self, ClaimTemplate, ResourceClaim};
use grove_core::layout::Layout;
use grove_runtime::cache::Caches;
use grove_runtime::queue::Key;
use grove_runtime::queue::Priority::ChildChange;
use grove_runtime::resource::{ObjectKey, Resource, Uid};
use grove_runtime::store::{Index, Store};
use grove_runtime::view::{Labels, Meta, View};
use grove_runtime::wake::{WakeTable, by};
use grove_runtime::watch::Selection;
use grove_runtime::write::{Precondition, Verb, Write};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::error::ReconcileError;
use crate::caches::views::Set;
use crate::caches::{ByName, BySet, by_name, indexed, managed, owner_of, set_of};
use grove_runtime::converge;
use grove_runtime::presence::{Absence, absence};

pub(crate) const RESOURCE_CLAIMS: Resource =
    Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
pub(crate) const RESOURCE_CLAIM_TEMPLATES: Resource = Resource::namespaced(
    "resource.k8s.io",
    "v1",
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
);

/// What to do on clusters that do not have the API.
const ADVICE: &str = "Kubernetes 1.34 and newer have it; on others, create the set without \
                      resourceSharing";

// === observe ===

/// The fields of a claim that its owner reads.
#[derive(Debug)]
pub(crate) struct Claim {
    meta: Meta,
    /// All entries of `ownerReferences`.
    owners: Vec<Value>,
}

impl<'de> Deserialize<'de> for Claim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Narrow {
            metadata: Value,
        }
        let Narrow { mut metadata } = Narrow::deserialize(deserializer)?;
        let meta = Meta::deserialize(&metadata).map_err(serde::de::Error::custom)?;
        let owners = match metadata["ownerReferences"].take() {
            Value::Array(owners) => owners,
            _ => Vec::new(),
        };
        Ok(Self { meta, owners })
    }
}

impl View for Claim {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// A ResourceClaimTemplate.
#[derive(Debug, Deserialize)]
pub(crate) struct Template {
    metadata: Meta,
    spec: Map<String, Value>,
}

impl View for Template {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The caches of claims and of templates. Templates are cached only once a set names one: there may be many
/// that no set uses.
#[derive(Clone)]
pub(crate) struct ClaimCaches {
    claims: BySet<Claim>,
    by_owner: Index,
    templates: Store<Template>,
}

/// The claims of one owner.
#[derive(Debug, Default)]
pub(crate) struct ObservedClaims {
    /// The claims that should exist.
    pub(crate) desired: Vec<ResourceClaim>,
    /// The claims of the owner, and those that have the name of a desired one.
    pub(crate) live: ByName<Claim>,
    /// Templates of missing claims.
    templates: BTreeMap<(String, String), Arc<Template>>,
    /// The caches are not filled yet.
    pending: bool,
    /// Why the cluster cannot have claims.
    pub(crate) absence: Option<Absence>,
}

impl ObservedClaims {
    /// Whether no claims exist and none are desired.
    pub(crate) fn is_empty(&self) -> bool {
        self.desired.is_empty() && self.live.is_empty()
    }
}

impl ClaimCaches {
    /// Starts the caches.
    pub(crate) fn start(caches: &mut Caches, sets: &Store<Set>) -> Self {
        let mut claims = caches.declare::<Claim>(managed(RESOURCE_CLAIMS)).optional();
        let by_owner =
            claims.index(|claim| claim.controller.as_ref().map(|owner| owner.uid.to_string()));
        let claims = indexed(caches, claims);
        let templates = Selection::all(RESOURCE_CLAIM_TEMPLATES);
        let templates = caches.declare(templates).optional().on_demand();
        let templates = caches.start(templates);
        let desired: Store<Template> = templates.clone();
        sets.on_change(move |change| {
            if change.new.is_some_and(|set| !external_templates(set).is_empty()) {
                desired.demand();
            }
        });
        Self { claims, by_owner, templates }
    }

    /// The claims that all replicas of a set share.
    pub(crate) fn of_set(&self, layout: &Layout<'_>) -> ObservedClaims {
        self.observe(layout, Vec::new(), resource_claims::of_set(layout))
    }

    /// The claims of one replica of a set. A surplus replica has no desired claims.
    pub(crate) fn of_set_replica(&self, set: &Set, index: u32) -> ObservedClaims {
        let layout = Layout::of(&set.object);
        let mut owned = self.claims.of_replica(&set.meta.key, index);
        owned.retain(|claim| claim.meta.is_controlled_by(&set.meta.uid));
        let is_desired = index < layout.replicas();
        let desired = is_desired.then(|| resource_claims::of_set_replica(&layout, index));
        self.observe(&layout, owned, desired.unwrap_or_default())
    }

    /// The claims of a group or a clique.
    pub(crate) fn of_owner(
        &self,
        layout: &Layout<'_>,
        owner: &Uid,
        desired: Vec<ResourceClaim>,
    ) -> ObservedClaims {
        self.observe(layout, self.owned_by(owner), desired)
    }

    /// Whether a claim of this name exists and is not being deleted.
    pub(crate) fn exists(&self, namespace: &str, name: &str) -> bool {
        self.claims.get(namespace, name).is_some_and(|claim| !claim.meta.deleting)
    }

    /// All claims in a set, also those of its groups and cliques.
    pub(crate) fn all_of_set(&self, set: &ObjectKey) -> Vec<Arc<Claim>> {
        self.claims.of(set)
    }

    /// The existing claims of a group or clique, without desired ones.
    pub(crate) fn left_of(&self, owner: &Uid) -> ObservedClaims {
        let absence = absence(&self.claims.store, ADVICE);
        ObservedClaims { live: by_name(self.owned_by(owner)), absence, ..ObservedClaims::default() }
    }

    fn owned_by(&self, owner: &Uid) -> Vec<Arc<Claim>> {
        self.claims.store.by(self.by_owner, &owner.to_string())
    }

    fn observe(
        &self,
        layout: &Layout<'_>,
        owned: Vec<Arc<Claim>>,
        desired: Vec<ResourceClaim>,
    ) -> ObservedClaims {
        let (live, pending) = (by_name(owned), !self.claims.store.is_listed());
        let mut observed = ObservedClaims { desired, live, pending, ..ObservedClaims::default() };
        observed.absence = absence(&self.claims.store, ADVICE);
        for claim in &observed.desired {
            if observed.live.contains_key(&claim.name) {
                continue;
            }
            if let Some(live) = self.claims.get(layout.namespace(), &claim.name) {
                observed.live.insert(claim.name.clone(), live);
            } else if let ClaimTemplate::External { namespace, name } = &claim.template {
                observed.pending |= !self.templates.is_listed();
                if observed.absence.is_none() {
                    observed.absence = absence(&self.templates, ADVICE);
                }
                let template = self.templates.get(&ObjectKey::new(namespace, name));
                let key = (namespace.clone(), name.clone());
                observed.templates.extend(template.map(|template| (key, template)));
            }
        }
        observed
    }

    /// Why claims of a set cannot be created, as reason and message of its condition.
    pub(crate) fn problem(&self, set: &PodCliqueSet) -> Option<(&'static str, String)> {
        if !resource_claims::is_used(&set.spec.template) {
            return None;
        }
        if let Some(absence) = absence(&self.claims.store, ADVICE) {
            return Some((absence.reason, absence.message));
        }
        let named = resource_claims::external_templates(&Layout::of(set));
        if named.is_empty() {
            return None;
        }
        if let Some(absence) = absence(&self.templates, ADVICE) {
            return Some((absence.reason, absence.message));
        }
        let is_missing = |(namespace, name): &(String, String)| {
            self.templates.get(&ObjectKey::new(namespace, name)).is_none()
        };
        let missing: Vec<_> = named.into_iter().filter(is_missing).collect();
        if missing.is_empty() || !self.templates.is_listed() {
            return None;
        }
        let missing: Vec<_> =
            missing.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        let message = format!(
            "resourceSharing of the set names ResourceClaimTemplates that do not exist: {}; create \
             them",
            missing.join(", ")
        );
        Some((condition::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND, message))
    }
}

fn external_templates(set: &Set) -> BTreeSet<(String, String)> {
    // Most sets share nothing.
    if !resource_claims::is_used(&set.object.spec.template) {
        return BTreeSet::new();
    }
    resource_claims::external_templates(&Layout::of(&set.object))
}

// === decide ===

/// What to do about the claims of one owner.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) writes: Vec<Write>,
    /// A claim has to be deleted, or a cache to be filled, first.
    pub(crate) waits: bool,
    /// What a user has to change.
    pub(crate) problem: Option<ReconcileError>,
}

/// Creates, deletes and repairs the claims of an owner.
pub(crate) fn decide(
    observed: &ObservedClaims,
    layout: &Layout<'_>,
    owner: &OwnerReference,
    code: &ErrorCode,
) -> Decision {
    if observed.is_empty() {
        return Decision::default();
    }
    let uid = Uid::from(owner.uid.as_str());
    let mut decision = Decision { writes: surplus(observed, &uid), ..Decision::default() };
    if observed.desired.is_empty() {
        return decision;
    }
    if let Some(absence) = &observed.absence {
        decision.problem = Some(ReconcileError::rule(code.clone(), &absence.message));
        return decision;
    }
    for desired in &observed.desired {
        let written = match observed.live.get(&desired.name) {
            None if !observed.pending => create(observed, layout, desired, owner).map(Some),
            Some(live) if !live.meta.deleting => keep(layout, desired, live, owner, &uid),
            _ => {
                decision.waits = true;
                continue;
            }
        };
        match written {
            Ok(write) => decision.writes.extend(write),
            Err(text) => {
                let problem = || ReconcileError::rule(code.clone(), text);
                decision.problem.get_or_insert_with(problem);
            }
        }
    }
    decision
}

/// Deletes claims of the owner that are not desired any more.
fn surplus(observed: &ObservedClaims, owner: &Uid) -> Vec<Write> {
    let desired: BTreeSet<_> = observed.desired.iter().map(|claim| claim.name.as_str()).collect();
    let surplus = observed.live.iter().filter(|(name, claim)| {
        !desired.contains(name.as_str())
            && claim.meta.is_controlled_by(owner)
            && !claim.meta.deleting
    });
    surplus
        .map(|(_, claim)| {
            converge::delete(RESOURCE_CLAIMS, &claim.meta, "its replica is not there any more")
        })
        .collect()
}

/// Deletes the claims of an owner that is being deleted. Without the API they are left to the garbage collector:
/// the owner must not wait for permissions.
pub(crate) fn remove_with_owner(observed: &ObservedClaims, owner: &Uid) -> Vec<Write> {
    if observed.absence.is_some() {
        return Vec::new();
    }
    let staying = observed
        .live
        .values()
        .filter(|claim| claim.meta.is_controlled_by(owner) && !claim.meta.deleting);
    staying
        .map(|claim| {
            converge::delete_with_owner(RESOURCE_CLAIMS, &claim.meta, "its owner is being deleted")
        })
        .collect()
}

fn create(
    observed: &ObservedClaims,
    layout: &Layout<'_>,
    desired: &ResourceClaim,
    owner: &OwnerReference,
) -> Result<Write, String> {
    let template = match &desired.template {
        ClaimTemplate::Internal { name } => resource_claims::internal_template(layout, name),
        ClaimTemplate::External { namespace, name } => {
            let found = observed.templates.get(&(namespace.clone(), name.clone()));
            found.map(|template| &template.spec)
        }
    };
    let template = template.ok_or_else(|| missing_template(layout, desired))?;
    Ok(Write {
        resource: RESOURCE_CLAIMS,
        key: ObjectKey::new(layout.namespace(), &desired.name),
        verb: Verb::Create { body: desired.object(layout.namespace(), owner, template) },
        reason: "what resourceSharing says",
    })
}

fn missing_template(layout: &Layout<'_>, desired: &ResourceClaim) -> String {
    let (namespace, name) = match &desired.template {
        ClaimTemplate::Internal { name } => (layout.namespace(), name),
        ClaimTemplate::External { namespace, name } => (namespace.as_str(), name),
    };
    format!(
        "ResourceClaimTemplate {namespace}/{name} not found: ResourceClaim {}/{} is made from it, as \
         resourceSharing of PodCliqueSet {} says; create it",
        layout.namespace(),
        desired.name,
        layout.set_name()
    )
}

/// Restores the labels and the owner of an existing claim.
fn keep(
    layout: &Layout<'_>,
    desired: &ResourceClaim,
    live: &Claim,
    owner: &OwnerReference,
    uid: &Uid,
) -> Result<Option<Write>, String> {
    let labels = desired.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let reason = "restore labels and owner";
    if live.meta.is_controlled_by(uid) {
        return Ok(converge::labels(RESOURCE_CLAIMS, &live.meta, labels, reason));
    }
    let key = &live.meta.key;
    if let Some(other) = &live.meta.controller {
        return Err(format!(
            "ResourceClaim {key} belongs to {} {} (uid {}), not to {} {} (uid {}); rename one of the two",
            other.kind, other.name, other.uid, owner.kind, owner.name, owner.uid
        ));
    }
    if live.meta.labels.get(labels::PART_OF) != Some(layout.set_name()) {
        return Err(format!(
            "ResourceClaim {key} belongs to nobody and is not labelled {}={}, so it is left alone: \
             delete or rename it",
            labels::PART_OF,
            layout.set_name()
        ));
    }
    let owners: Vec<Value> = live.owners.iter().cloned().chain([json!(owner)]).collect();
    let patch = json!({ "metadata": { "ownerReferences": owners, "labels": desired.labels } });
    let only_if = Precondition::version(&live.meta.uid, live.meta.resource_version);
    Ok(Some(Write {
        resource: RESOURCE_CLAIMS,
        key: key.clone(),
        verb: Verb::Merge { patch, only_if, subresource: None },
        reason,
    }))
}

// === wake ===

/// What owners read of a claim.
fn facts(claim: &Claim) -> (Uid, bool, Labels, Option<Uid>) {
    let meta = &claim.meta;
    let owner = meta.controller.as_ref().map(|owner| owner.uid.clone());
    (meta.uid.clone(), meta.deleting, meta.labels.clone(), owner)
}

/// The set, if the claim is its own and not that of a group or clique.
pub(crate) fn set_of_claim(meta: &Meta) -> Option<ObjectKey> {
    let labels = [labels::POD_CLIQUE, labels::POD_CLIQUE_SCALING_GROUP];
    let is_lower =
        meta.controller.is_none() && labels.iter().any(|label| meta.labels.get(label).is_some());
    let owner = meta.controller.as_ref();
    let of_other = owner.is_some_and(|owner| *owner.kind != *PodCliqueSet::KIND);
    set_of(meta).filter(|_| !is_lower && !of_other)
}

/// The group that a claim belongs to, or belonged to before its owner reference was removed.
pub(crate) fn group_of_claim(meta: &Meta) -> Option<ObjectKey> {
    lower_owner(meta, PodCliqueScalingGroup::KIND, labels::POD_CLIQUE_SCALING_GROUP)
}

/// The clique that a claim belongs to, likewise.
pub(crate) fn clique_of_claim(meta: &Meta) -> Option<ObjectKey> {
    lower_owner(meta, PodClique::KIND, labels::POD_CLIQUE)
}

fn lower_owner(meta: &Meta, kind: &str, label: &str) -> Option<ObjectKey> {
    let name = owner_of(meta, kind).or_else(|| meta.labels.get(label))?;
    Some(ObjectKey::new(&meta.key.namespace, name))
}

impl ClaimCaches {
    /// Claims wake their owners, and templates wake everything in the sets that name them. Sets that share
    /// claims are woken when the cluster starts or stops to serve either kind.
    pub(crate) fn wake<K: Key>(
        &self,
        table: &mut WakeTable<'_, K>,
        sets: &Store<Set>,
        owner: impl Fn(&Meta) -> Vec<K> + Send + Sync + 'static,
        in_set: impl Fn(&Set) -> Vec<K> + Clone + Send + Sync + 'static,
    ) {
        let (claims, templates) = (&self.claims.store, &self.templates);
        let why = "a claim changed, also by other controllers";
        table.on(claims, why, ChildChange, by(facts), move |claim| owner(&claim.meta));
        let (all, naming) = (sets.clone(), in_set.clone());
        let why = "a template exists, from which claims are created";
        let spec = |template: &Template| template.spec.clone();
        table.on(templates, why, ChildChange, by(spec), move |template| {
            let key = &template.metadata.key;
            let name = (key.namespace.to_string(), key.name.to_string());
            let sets = all.all().into_iter();
            let sets = sets.filter(|set| external_templates(set).contains(&name));
            sets.flat_map(|set| naming(&set)).collect()
        });
        let all = sets.clone();
        let sharing = move || {
            let sets = all.all().into_iter();
            let sets = sets.filter(|set| resource_claims::is_used(&set.object.spec.template));
            sets.flat_map(|set| in_set(&set)).collect()
        };
        let why = "claims can be created, or no longer";
        table.on_presence(claims, why, sharing.clone());
        table.on_presence(templates, why, sharing);
    }
}

#[cfg(test)]
mod tests;
