//! ResourceClaims that pods share, from `resourceSharing` of a set, a group or a clique.
//!
//! An entry gives one claim for all replicas of its owner, or one for each. Claims exist whether or not a pod
//! references them; filters only select the pods that do. The spec of a claim comes from a template, inside the
//! set or outside, and is immutable.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::{
    labels::{self, Component},
    names,
    pod_clique_set::{
        CliqueResourceSharing, GroupResourceSharing, GroupSharingFilter, PodCliqueSetTemplate,
        ResourceSharingScope, SetResourceSharing, SetSharingFilter,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

use super::claim_reference;
use crate::layout::{Clique, Group, Layout};

/// A desired claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Name.
    pub name: String,
    /// The labels that the operator sets.
    pub labels: BTreeMap<String, String>,
    /// The template of its spec.
    pub template: ClaimTemplate,
}

/// The template of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimTemplate {
    /// A template of the set.
    Internal {
        /// Its name in the set.
        name: String,
    },
    /// A ResourceClaimTemplate.
    External {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl ResourceClaim {
    /// The object to create. Labels and annotations of the template are copied, as Kubernetes does.
    pub fn object(
        &self,
        namespace: &str,
        owner: &OwnerReference,
        template_spec: &Map<String, Value>,
    ) -> Value {
        let of_template = |field: &str| {
            let metadata = template_spec.get("metadata")?;
            metadata.get(field)?.as_object().cloned()
        };
        let mut labels = of_template("labels").unwrap_or_default();
        labels.extend(self.labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        let mut metadata = json!({
            "name": self.name, "namespace": namespace, "labels": labels, "ownerReferences": [owner],
        });
        if let Some(annotations) = of_template("annotations") {
            metadata["annotations"] = annotations.into();
        }
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": template_spec.get("spec"),
        })
    }
}

/// The claims for all replicas of a set.
pub fn of_set(layout: &Layout<'_>) -> Vec<ResourceClaim> {
    Owner::set(layout).shared(layout, entries(&layout.template().resource_sharing))
}

/// The claims of one replica of a set.
pub fn of_set_replica(layout: &Layout<'_>, set_replica: u32) -> Vec<ResourceClaim> {
    let entries = entries(&layout.template().resource_sharing);
    Owner::set(layout).of_replicas(layout, entries, [set_replica])
}

/// The claims of a group with this many replicas: those for all replicas, then those of each.
pub fn of_group(
    layout: &Layout<'_>,
    set_replica: u32,
    group: &Group<'_>,
    replicas: u32,
) -> Vec<ResourceClaim> {
    let owner = Owner::group(layout.scaling_group_name(set_replica, group));
    let sharing = &group.template.resource_sharing;
    let mut claims = owner.shared(layout, entries(sharing));
    claims.extend(owner.of_replicas(layout, entries(sharing), 0..replicas));
    claims
}

/// The claims of a clique: those for all pods, then those of the pods with these indices.
pub fn of_clique(
    layout: &Layout<'_>,
    clique: &Clique<'_>,
    indices: impl IntoIterator<Item = u32>,
) -> Vec<ResourceClaim> {
    let owner = Owner::clique(clique.name.clone());
    let sharing = &clique.template.resource_sharing;
    let mut claims = owner.shared(layout, entries(sharing));
    claims.extend(owner.of_replicas(layout, entries(sharing), indices));
    claims
}

/// Whether a set shares claims at any level.
pub fn is_used(template: &PodCliqueSetTemplate) -> bool {
    !template.resource_sharing.is_empty()
        || template.cliques.iter().any(|clique| !clique.resource_sharing.is_empty())
        || template.pod_clique_scaling_groups.iter().any(|group| !group.resource_sharing.is_empty())
}

/// Namespaces and names of the ResourceClaimTemplates outside the set that it refers to, at any level.
pub fn external_templates(layout: &Layout<'_>) -> BTreeSet<(String, String)> {
    let template = layout.template();
    let cliques = template.cliques.iter().flat_map(|clique| entries(&clique.resource_sharing));
    let groups = template.pod_clique_scaling_groups.iter();
    let groups = groups.flat_map(|group| entries(&group.resource_sharing));
    entries(&template.resource_sharing)
        .chain(groups)
        .chain(cliques)
        .filter_map(|entry| match entry.template(layout) {
            ClaimTemplate::Internal { .. } => None,
            ClaimTemplate::External { namespace, name } => Some((namespace, name)),
        })
        .collect()
}

/// A claim template of the set, as a `ResourceClaimTemplateSpec`.
pub fn internal_template<'a>(layout: &Layout<'a>, name: &str) -> Option<&'a Map<String, Value>> {
    let mut templates = layout.template().resource_claim_templates.iter();
    templates.find(|template| template.name == name).map(|template| &template.template_spec)
}

// === what pods name ===

/// The claims that the pods of one PodClique reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodClaims {
    /// The same for all pods.
    shared: Vec<String>,
    /// Name of the PodClique.
    clique: String,
    /// Templates with one claim per pod.
    per_pod: Vec<String>,
}

impl PodClaims {
    /// The claims of a PodClique's pods, in the order of their references.
    pub fn of(layout: &Layout<'_>, clique: &Clique<'_>) -> Self {
        let name = clique.template.name.as_str();
        let group = clique.member_of.as_ref().map(|member| member.group);
        let of_set = layout.template().resource_sharing.iter();
        let of_set = of_set.filter(|entry| {
            let of_group = group.map(|group| group.name.as_str());
            entry.filter.as_ref().is_none_or(|filter| lets_pass(filter, name, of_group))
        });
        let mut shared = both(of_set, layout.set_name(), clique.set_replica);
        if let Some(member) = &clique.member_of {
            let of_group = member.group.resource_sharing.iter();
            let of_group = of_group.filter(|entry| {
                let lets_pass = |filter: &GroupSharingFilter| has(&filter.child_clique_names, name);
                entry.filter.as_ref().is_none_or(lets_pass)
            });
            shared.extend(both(of_group, &member.scaling_group, member.replica));
        }
        let own = || entries(&clique.template.resource_sharing);
        let for_all = own().filter(|entry| *entry.scope == ResourceSharingScope::AllReplicas);
        shared.extend(for_all.map(|entry| names::shared_resource_claim(&clique.name, entry.name)));
        let for_each = own().filter(|entry| *entry.scope == ResourceSharingScope::PerReplica);
        let per_pod = for_each.map(|entry| entry.name.to_owned()).collect();
        Self { shared, clique: clique.name.clone(), per_pod }
    }

    /// Whether the pods reference none.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.per_pod.is_empty()
    }

    /// The claims of the pod with this index.
    pub fn names(&self, pod_index: u32) -> Vec<String> {
        let own =
            |template: &String| names::replica_resource_claim(&self.clique, pod_index, template);
        self.shared.iter().cloned().chain(self.per_pod.iter().map(own)).collect()
    }

    /// Adds the claims of a pod to the pod and all its containers.
    pub fn add_to(&self, pod_index: u32, pod: &mut Value) {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
        for name in self.names(pod_index) {
            let claim = json!({ "name": name, "resourceClaimName": name });
            claim_reference::add(spec, claim, |_| true);
        }
    }
}

fn lets_pass(filter: &SetSharingFilter, clique: &str, group: Option<&str>) -> bool {
    has(&filter.child_clique_names, clique)
        || group.is_some_and(|group| has(&filter.child_scaling_group_names, group))
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one == name)
}

/// Names of the claims that one replica of an owner uses: shared ones, then its own.
fn both<'a, E: 'a>(sharing: impl Iterator<Item = &'a E>, owner: &str, replica: u32) -> Vec<String>
where
    Entry<'a>: From<&'a E>,
{
    let entries: Vec<Entry<'_>> = sharing.map(Entry::from).collect();
    let of = |scope| entries.iter().filter(move |entry| *entry.scope == scope);
    let shared = of(ResourceSharingScope::AllReplicas)
        .map(|entry| names::shared_resource_claim(owner, entry.name));
    let own = of(ResourceSharingScope::PerReplica)
        .map(|entry| names::replica_resource_claim(owner, replica, entry.name));
    shared.chain(own).collect()
}

// === entries and owners ===

/// The common part of the entries of all three levels.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    scope: &'a ResourceSharingScope,
}

macro_rules! entry_from {
    ($($sharing:ident),*) => {
        $(impl<'a> From<&'a $sharing> for Entry<'a> {
            fn from(entry: &'a $sharing) -> Self {
                let namespace = entry.namespace.as_deref().filter(|namespace| !namespace.is_empty());
                Self { name: &entry.name, namespace, scope: &entry.scope }
            }
        })*
    };
}

entry_from!(SetResourceSharing, GroupResourceSharing, CliqueResourceSharing);

fn entries<'a, E>(sharing: &'a [E]) -> impl Iterator<Item = Entry<'a>>
where
    Entry<'a>: From<&'a E>,
{
    sharing.iter().map(Entry::from)
}

impl Entry<'_> {
    fn template(&self, layout: &Layout<'_>) -> ClaimTemplate {
        let name = self.name.to_owned();
        if self.namespace.is_none() && internal_template(layout, self.name).is_some() {
            return ClaimTemplate::Internal { name };
        }
        let namespace = self.namespace.unwrap_or_else(|| layout.namespace()).to_owned();
        ClaimTemplate::External { namespace, name }
    }
}

/// The owner of claims.
struct Owner {
    name: String,
    /// Label with its name; none for a set, whose name is in all labels.
    name_label: Option<&'static str>,
    /// Label of claims of one replica.
    index_label: &'static str,
}

impl Owner {
    fn set(layout: &Layout<'_>) -> Self {
        let index_label = labels::POD_CLIQUE_SET_REPLICA_INDEX;
        Self { name: layout.set_name().to_owned(), name_label: None, index_label }
    }

    fn group(name: String) -> Self {
        let index_label = labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX;
        Self { name, name_label: Some(labels::POD_CLIQUE_SCALING_GROUP), index_label }
    }

    fn clique(name: String) -> Self {
        let index_label = labels::POD_CLIQUE_POD_INDEX;
        Self { name, name_label: Some(labels::POD_CLIQUE), index_label }
    }

    fn shared<'a>(
        &self,
        layout: &Layout<'_>,
        entries: impl Iterator<Item = Entry<'a>>,
    ) -> Vec<ResourceClaim> {
        let shared = entries.filter(|entry| *entry.scope == ResourceSharingScope::AllReplicas);
        let claim = |entry: Entry<'_>| {
            let name = names::shared_resource_claim(&self.name, entry.name);
            self.claim(layout, &entry, name, None)
        };
        shared.map(claim).collect()
    }

    fn of_replicas<'a>(
        &self,
        layout: &Layout<'_>,
        entries: impl Iterator<Item = Entry<'a>>,
        indices: impl IntoIterator<Item = u32>,
    ) -> Vec<ResourceClaim> {
        let own = entries.filter(|entry| *entry.scope == ResourceSharingScope::PerReplica);
        let own: Vec<Entry<'_>> = own.collect();
        // Most of many replicas have no claims.
        if own.is_empty() {
            return Vec::new();
        }
        let claim = |index: u32, entry: &Entry<'_>| {
            let name = names::replica_resource_claim(&self.name, index, entry.name);
            self.claim(layout, entry, name, Some(index))
        };
        let of_replica = |index| own.iter().map(move |entry| claim(index, entry));
        indices.into_iter().flat_map(of_replica).collect()
    }

    fn claim(
        &self,
        layout: &Layout<'_>,
        entry: &Entry<'_>,
        name: String,
        index: Option<u32>,
    ) -> ResourceClaim {
        let mut labels = labels::managed(layout.set_name(), Component::ResourceClaim, &name);
        let mut put = |key: &str, value: String| labels.insert(key.to_owned(), value);
        if let Some(key) = self.name_label {
            put(key, self.name.clone());
        }
        if let Some(index) = index {
            put(self.index_label, index.to_string());
        }
        ResourceClaim { name, labels, template: entry.template(layout) }
    }
}

#[cfg(test)]
mod tests;
