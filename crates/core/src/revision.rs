//! The history of a set's templates: one ControllerRevision per generation hash.
//!
//! As with StatefulSets, the object contains the template, and its number orders the templates by when each was
//! last new: a template that is used again gets its former object with a new highest number. The ten newest
//! templates are kept, and all that pods still use. No rule depends on a revision; it is for users.

use std::collections::BTreeSet;

use grove_api::{PodCliqueSet, annotations, labels::Component, names};
use serde_json::{Map, Value, json};

use crate::{
    children::{metadata_of_set, owner},
    layout::Layout,
};

/// How many revisions are kept beside those in use.
const LIMIT: usize = 10;

/// The facts of a stored revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Name.
    pub name: String,
    /// Number of the template.
    pub number: i64,
    /// The change cause that the user gave.
    pub change_cause: Option<String>,
    /// Whether it has no owner: a former set of this name was deleted without its children.
    pub orphaned: bool,
}

/// A change of the history.
#[derive(Clone, Debug, PartialEq)]
pub enum RevisionChange {
    /// Create this object.
    Create(Value),
    /// Merge this into the object of this name.
    Patch(String, Value),
    /// Delete the object of this name.
    Delete(String),
}

/// Whether the history of a set has more former templates than are kept.
pub fn is_long<'a>(
    set: &PodCliqueSet,
    generation_hash: &str,
    live: impl IntoIterator<Item = &'a Revision>,
) -> bool {
    let current = names::revision(Layout::of(set).set_name(), generation_hash);
    live.into_iter().filter(|revision| revision.name != current).count() > LIMIT
}

/// Brings the history of a set up to date. `in_use` are the generation hashes that children of the set still
/// have; it matters only when the history [is long](is_long).
pub fn changes(
    set: &PodCliqueSet,
    generation_hash: &str,
    live: &[Revision],
    in_use: &BTreeSet<String>,
) -> Vec<RevisionChange> {
    let layout = Layout::of(set);
    let name = names::revision(layout.set_name(), generation_hash);
    let highest = live.iter().map(|revision| revision.number).max().unwrap_or(0);
    let mut changes = Vec::new();
    if !live.iter().any(|revision| revision.name == name) {
        changes.push(RevisionChange::Create(object(&layout, &name, highest + 1)));
    }
    changes.extend(live.iter().filter_map(|revision| {
        let newest = (revision.name == name).then_some(highest);
        patch(set, revision, newest)
            .map(|patch| RevisionChange::Patch(revision.name.clone(), patch))
    }));
    let mut former: Vec<_> = live.iter().filter(|revision| revision.name != name).collect();
    if former.len() > LIMIT {
        let in_use: BTreeSet<_> =
            in_use.iter().map(|hash| names::revision(layout.set_name(), hash)).collect();
        former.retain(|revision| !in_use.contains(&revision.name));
        former.sort_by_key(|revision| revision.number);
        let surplus = former.len().saturating_sub(LIMIT);
        let oldest = former.into_iter().take(surplus);
        changes.extend(oldest.map(|revision| RevisionChange::Delete(revision.name.clone())));
    }
    changes
}

/// The patch that a revision needs. The current template has the highest number, which is given, and the last
/// change cause of the user; an absent change cause removes none.
fn patch(set: &PodCliqueSet, revision: &Revision, newest: Option<i64>) -> Option<Value> {
    let mut metadata = Map::new();
    let mut patch = Map::new();
    if revision.orphaned {
        metadata.insert("ownerReferences".to_owned(), json!([owner::of_set(set)]));
    }
    if let Some(highest) = newest {
        if revision.number < highest {
            patch.insert("revision".to_owned(), json!(highest + 1));
        }
        let cause =
            change_cause(set).filter(|cause| revision.change_cause.as_deref() != Some(cause));
        if let Some(cause) = cause {
            let changed = json!({ annotations::CHANGE_CAUSE: cause });
            metadata.insert("annotations".to_owned(), changed);
        }
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The change cause of the current template.
pub fn change_cause(set: &PodCliqueSet) -> Option<&str> {
    let all = set.metadata.annotations.as_ref()?;
    all.get(annotations::CHANGE_CAUSE).map(String::as_str)
}

fn object(layout: &Layout<'_>, name: &str, number: i64) -> Value {
    let mut metadata = metadata_of_set(layout, Component::Revision, name.to_owned());
    metadata.annotations = change_cause(layout.set())
        .map(|cause| [(annotations::CHANGE_CAUSE.to_owned(), cause.to_owned())].into());
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": number,
        "data": data(layout.set()),
    })
}

/// The part of a set that its generation hash covers, at its place in the set.
fn data(set: &PodCliqueSet) -> Value {
    let template = &set.spec.template;
    let cliques = template.cliques.iter().map(|clique| {
        let mut kept = json!({
            "name": clique.name,
            "spec": { "podSpec": clique.spec.pod_spec },
        });
        for (key, map) in [("labels", &clique.labels), ("annotations", &clique.annotations)] {
            if !map.is_empty() {
                kept[key] = json!(map);
            }
        }
        kept
    });
    let mut kept = json!({ "cliques": cliques.collect::<Value>() });
    if let Some(class) = template.priority_class_name.as_deref().filter(|name| !name.is_empty()) {
        kept["priorityClassName"] = json!(class);
    }
    json!({ "spec": { "template": kept } })
}

#[cfg(test)]
mod tests;
