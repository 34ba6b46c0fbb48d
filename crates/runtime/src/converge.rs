//! From the desired state of an object to the write that makes it so.
//!
//! Of objects of our own kinds we own spec, labels and annotations as a whole ([`whole`]): what is no longer
//! desired is removed. Finalizers and owner references are shared: ours are added, those of other owners
//! stay. Of other objects we own only the fields that the desired state names ([`fields`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::core::object::HasSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::merge;
use crate::object::Object;
use crate::resource::{ObjectKey, Resource};
use crate::view::Meta;
use crate::write::{Precondition, Propagation, Verb, Write};

/// A kind that [`whole`] can write.
pub trait OwnKind:
    kube::Resource<DynamicType = (), Scope: 'static> + HasSpec<Spec: PartialEq> + Serialize
{
}

impl<K> OwnKind for K where
    K: kube::Resource<DynamicType = (), Scope: 'static> + HasSpec<Spec: PartialEq> + Serialize
{
}

/// Creates an object of one of our own kinds, or changes what differs.
pub fn whole<K: OwnKind>(
    desired: &K,
    live: Option<&Object<K>>,
    reason: &'static str,
) -> Option<Write> {
    if live.is_some_and(|live| has_all(&live.object, desired)) {
        return None;
    }
    let live = live.map(|live| (&live.meta, json!(live.object)));
    let live = live.as_ref().map(|(meta, object)| (*meta, object));
    write(Resource::of::<K>(), json!(desired), live, difference, reason)
}

/// Whether a live object has everything that is desired: the usual case, and much cheaper to find out than
/// the difference.
fn has_all<K: OwnKind>(live: &K, desired: &K) -> bool {
    fn contains<T: PartialEq>(live: Option<&Vec<T>>, desired: Option<&Vec<T>>) -> bool {
        let mut desired = desired.into_iter().flatten();
        desired.all(|one| live.is_some_and(|live| live.contains(one)))
    }
    let (is, to_be) = (live.meta(), desired.meta());
    live.spec() == desired.spec()
        && is.labels == to_be.labels
        && is.annotations == to_be.annotations
        && contains(is.finalizers.as_ref(), to_be.finalizers.as_ref())
        && contains(is.owner_references.as_ref(), to_be.owner_references.as_ref())
}

/// Creates an object, or changes the fields that `desired` names where they differ. A `null` removes a
/// field.
pub fn fields(
    resource: Resource,
    desired: Value,
    live: Option<(&Meta, &Value)>,
    reason: &'static str,
) -> Option<Write> {
    write(resource, desired, live, merge::missing, reason)
}

fn write(
    resource: Resource,
    mut desired: Value,
    live: Option<(&Meta, &Value)>,
    difference: fn(&Value, &Value) -> Option<Value>,
    reason: &'static str,
) -> Option<Write> {
    let text = |field: &str| desired["metadata"][field].as_str().unwrap_or_default();
    let key = ObjectKey::new(text("namespace"), text("name"));
    let verb = match live {
        None => {
            without_nulls(&mut desired);
            Verb::Create { body: desired }
        }
        Some((meta, live)) => Verb::Merge {
            patch: difference(live, &desired)?,
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: None,
        },
    };
    Some(Write { resource, key, verb, reason })
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Writes a status that differs from the stored one. What we no longer report is removed: the status is
/// ours.
pub fn status<S: Serialize + PartialEq>(
    resource: Resource,
    meta: &Meta,
    stored: Option<&S>,
    desired: &S,
) -> Option<Write> {
    if stored == Some(desired) {
        return None;
    }
    let stored = stored.map_or_else(|| json!({}), |stored| json!(stored));
    let patch = replacement(&stored, &json!(desired))?;
    // Lists are written whole, and other controllers add conditions to some of them.
    let only_if = Precondition::version(&meta.uid, meta.resource_version);
    let patch = json!({ "status": patch });
    let verb = Verb::Merge { patch, only_if, subresource: Some("status") };
    Some(Write { resource, key: meta.key.clone(), verb, reason: "report the state" })
}

/// Restores labels that differ.
pub fn labels<'a>(
    resource: Resource,
    meta: &Meta,
    desired: impl IntoIterator<Item = (&'a str, &'a str)>,
    reason: &'static str,
) -> Option<Write> {
    let differs = |(key, value): &(&str, &str)| meta.labels.get(key) != Some(*value);
    let changed: BTreeMap<&str, &str> = desired.into_iter().filter(differs).collect();
    let patch = json!({ "metadata": { "labels": changed } });
    let patch = || patch_object(resource, meta, patch, Precondition::uid(&meta.uid), reason);
    (!changed.is_empty()).then(patch)
}

/// Sets annotations of exactly this version of an object; `null` removes one.
pub fn annotations(
    resource: Resource,
    meta: &Meta,
    desired: &Value,
    reason: &'static str,
) -> Write {
    let patch = json!({ "metadata": { "annotations": desired } });
    let only_if = Precondition::version(&meta.uid, meta.resource_version);
    patch_object(resource, meta, patch, only_if, reason)
}

fn patch_object(
    resource: Resource,
    meta: &Meta,
    patch: Value,
    only_if: Precondition,
    reason: &'static str,
) -> Write {
    let verb = Verb::Merge { patch, only_if, subresource: None };
    Write { resource, key: meta.key.clone(), verb, reason }
}

/// Deletes exactly this object; the garbage collector deletes what it owns.
pub fn delete(resource: Resource, meta: &Meta, reason: &'static str) -> Write {
    delete_if(resource, meta, Precondition::uid(&meta.uid), reason)
}

/// Deletes an object because its owner is deleted, if it has not changed since it was read. A user may have
/// deleted the owner alone: the garbage collector then removes the owner reference first, which the cache
/// may not show yet.
pub fn delete_with_owner(resource: Resource, meta: &Meta, reason: &'static str) -> Write {
    delete_if(resource, meta, Precondition::version(&meta.uid, meta.resource_version), reason)
}

fn delete_if(
    resource: Resource,
    meta: &Meta,
    only_if: Precondition,
    reason: &'static str,
) -> Write {
    let propagation = Propagation::Background;
    let verb = Verb::Delete { only_if, propagation, grace_seconds: None };
    Write { resource, key: meta.key.clone(), verb, reason }
}

/// Adds a finalizer that is missing.
pub fn add_finalizer<K: OwnKind>(
    live: &Object<K>,
    finalizer: &str,
    reason: &'static str,
) -> Option<Write> {
    let all = [live.finalizers(), &[finalizer.to_owned()]].concat();
    (!live.has_finalizer(finalizer)).then(|| finalizers(live, &all, reason))
}

/// Removes a finalizer. Those of other controllers stay.
pub fn remove_finalizer<K: OwnKind>(
    live: &Object<K>,
    finalizer: &str,
    reason: &'static str,
) -> Option<Write> {
    let others = live.finalizers().iter().filter(|one| *one != finalizer).cloned();
    let others: Vec<String> = others.collect();
    live.has_finalizer(finalizer).then(|| finalizers(live, &others, reason))
}

/// Replaces the list of finalizers that was read at this version.
fn finalizers<K: OwnKind>(live: &Object<K>, all: &[String], reason: &'static str) -> Write {
    let mut metadata = json!({ "finalizers": all });
    if live.meta.deleting && all.is_empty() {
        // This write removes the object, so the API server need not work out who owns which field.
        metadata["managedFields"] = json!([{}]);
    }
    let only_if = Precondition::version(&live.meta.uid, live.meta.resource_version);
    let patch = json!({ "metadata": metadata });
    patch_object(Resource::of::<K>(), &live.meta, patch, only_if, reason)
}

/// The merge patch from a live object of ours to the desired one.
fn difference(live: &Value, desired: &Value) -> Option<Value> {
    let (live_metadata, metadata) = (&live["metadata"], &desired["metadata"]);
    let mut changed = Map::new();
    for field in ["labels", "annotations"] {
        let (from, to) = (or_empty(&live_metadata[field]), or_empty(&metadata[field]));
        changed.extend(replacement(&from, &to).map(|change| (field.to_owned(), change)));
    }
    for field in ["finalizers", "ownerReferences"] {
        let with_ours = union(&live_metadata[field], &metadata[field]);
        changed.extend(with_ours.map(|all| (field.to_owned(), all)));
    }
    let mut patch = Map::new();
    if !changed.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(changed));
    }
    let spec = replacement(&or_empty(&live["spec"]), &or_empty(&desired["spec"]));
    patch.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn or_empty(value: &Value) -> Cow<'_, Value> {
    if value.is_null() { Cow::Owned(json!({})) } else { Cow::Borrowed(value) }
}

/// The live list with the desired items that it lacks, if it lacks some.
fn union(live: &Value, desired: &Value) -> Option<Value> {
    let mut all = live.as_array().cloned().unwrap_or_default();
    let before = all.len();
    for item in desired.as_array().into_iter().flatten() {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    (all.len() > before).then_some(Value::Array(all))
}

/// The merge patch from one object to another.
fn replacement(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (key, value) in to {
        if let Some(change) = replacement(from.get(key).unwrap_or(&Value::Null), value) {
            patch.insert(key.clone(), change);
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use grove_api::PodGang;

    use super::*;

    #[test]
    fn whole_removes_what_is_no_longer_desired_and_keeps_finalizers_and_owners_of_others() {
        let live = json!({
            "metadata": {
                "labels": {"ours": "1", "old": "x"},
                "finalizers": ["ours", "theirs"],
                "ownerReferences": [{"uid": "theirs"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"a": "1", "b": "2"}}, "replicas": 3},
        });
        let desired = json!({
            "metadata": {
                "name": "a",
                "labels": {"ours": "1"},
                "finalizers": ["ours"],
                "ownerReferences": [{"uid": "ours"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"a": "1"}}, "replicas": 3},
        });

        let patch = difference(&live, &desired).unwrap();

        let expected = json!({
            "metadata": {
                "labels": {"old": null},
                "ownerReferences": [{"uid": "theirs"}, {"uid": "ours"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"b": null}}},
        });
        assert_eq!(patch, expected);
        assert_eq!(difference(&desired, &desired), None);
    }

    #[test]
    fn whole_writes_every_difference_and_nothing_else() {
        type Change = fn(&mut Value);
        let object = |change: Change| {
            let mut object = json!({
                "metadata": {
                    "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
                    "labels": {"a": "1"},
                    "finalizers": ["ours", "theirs"],
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "o"},
                    ],
                },
                "spec": {"podgroups": [], "priorityClassName": "high"},
                "status": {"phase": "Running"},
            });
            change(&mut object);
            object
        };
        let cases: [(&str, Change, bool); 8] = [
            ("nothing", |_| {}, false),
            ("status", |it| it["status"] = Value::Null, false),
            ("fewer finalizers", |it| it["metadata"]["finalizers"] = json!(["ours"]), false),
            ("finalizer", |it| it["metadata"]["finalizers"] = json!(["new"]), true),
            ("owner", |it| it["metadata"]["ownerReferences"][0]["uid"] = json!("new"), true),
            ("label", |it| it["metadata"]["labels"] = json!({}), true),
            ("annotation", |it| it["metadata"]["annotations"] = json!({"a": "1"}), true),
            ("spec", |it| it["spec"]["priorityClassName"] = json!("low"), true),
        ];
        let live: Object<PodGang> = serde_json::from_value(object(|_| {})).unwrap();
        for (what, change, differs) in cases {
            let desired: PodGang = serde_json::from_value(object(change)).unwrap();
            assert_eq!(whole(&desired, Some(&live), "test").is_some(), differs, "{what}");
            assert_eq!(has_all(&live.object, &desired), !differs, "{what}");
        }
    }

    fn gang(deleting: bool, finalizers: &[&str]) -> Object<PodGang> {
        let mut object = json!({
            "metadata": {"name": "a", "resourceVersion": "1", "finalizers": finalizers}, "spec": {},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(object).unwrap()
    }

    fn patched_metadata(write: Option<Write>) -> Option<Value> {
        let Verb::Merge { mut patch, .. } = write?.verb else { panic!("a patch") };
        Some(patch["metadata"].take())
    }

    #[test]
    fn finalizers_are_added_and_removed_beside_those_of_others() {
        let add = |live: Object<PodGang>| patched_metadata(add_finalizer(&live, "ours", "test"));
        assert_eq!(add(gang(false, &["ours"])), None);
        assert_eq!(add(gang(false, &["theirs"])), Some(json!({"finalizers": ["theirs", "ours"]})));
        let remove =
            |live: Object<PodGang>| patched_metadata(remove_finalizer(&live, "ours", "test"));
        assert_eq!(remove(gang(true, &["theirs"])), None);
        assert_eq!(
            remove(gang(true, &["ours", "theirs"])),
            Some(json!({"finalizers": ["theirs"]}))
        );
    }

    #[test]
    fn only_the_write_that_removes_an_object_resets_its_managed_fields() {
        let remove =
            |live: Object<PodGang>| patched_metadata(remove_finalizer(&live, "ours", "test"));
        let last = json!({"finalizers": [], "managedFields": [{}]});
        assert_eq!(remove(gang(true, &["ours"])), Some(last));
        assert_eq!(remove(gang(false, &["ours"])), Some(json!({"finalizers": []})));
    }

    #[test]
    fn a_status_loses_what_is_no_longer_reported() {
        let from = json!({"a": 1, "b": {"c": 2, "d": 3}});
        let to = json!({"b": {"c": 2}, "e": []});

        let patch = replacement(&from, &to).unwrap();

        assert_eq!(patch, json!({"a": null, "b": {"d": null}, "e": []}));
        let mut patched = from;
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, to);
        assert_eq!(replacement(&to, &to), None);
    }
}
