//! From an object as it should be to the write that makes it so.
//!
//! Of objects of our own kinds the spec, labels and annotations are ours as a whole: what is no
//! longer wanted goes. Finalizers and owner references are shared: ours are added, those of others
//! stay. Of objects of core kinds only the fields that we name are ours.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_runtime::merge;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::{Meta, View};
use grove_runtime::write::{Precondition, Propagation, Verb, Write};
use kube::core::object::HasSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::objects::{Object, Raw};

/// Creates an object of one of our own kinds, or changes it where it differs.
pub(crate) fn own<K>(wanted: &K, live: Option<&Object<K>>, reason: &'static str) -> Option<Write>
where
    K: kube::Resource<DynamicType = ()> + HasSpec<Spec: PartialEq> + Serialize,
    K::Scope: 'static,
{
    if live.is_some_and(|live| says_all(&live.object, wanted)) {
        return None;
    }
    let live = live.map(|live| (&live.meta, json!(live.object)));
    let live = live.as_ref().map(|(meta, object)| (*meta, object));
    write(Resource::of::<K>(), json!(wanted), live, difference_of_own, reason)
}

/// Whether a live object is as wanted already, which it is most of the time: much cheaper to say than
/// what the difference is.
fn says_all<K: kube::Resource + HasSpec<Spec: PartialEq>>(live: &K, wanted: &K) -> bool {
    fn contains<T: PartialEq>(live: Option<&Vec<T>>, wanted: Option<&Vec<T>>) -> bool {
        let mut wanted = wanted.into_iter().flatten();
        wanted.all(|one| live.is_some_and(|live| live.contains(one)))
    }
    let (is, to_be) = (live.meta(), wanted.meta());
    live.spec() == wanted.spec()
        && is.labels == to_be.labels
        && is.annotations == to_be.annotations
        && contains(is.finalizers.as_ref(), to_be.finalizers.as_ref())
        && contains(is.owner_references.as_ref(), to_be.owner_references.as_ref())
}

/// Creates an object of a core kind, or changes the fields that are ours where they differ.
pub(crate) fn part(
    resource: Resource,
    wanted: Value,
    live: Option<&Raw>,
    reason: &'static str,
) -> Option<Write> {
    let live = live.map(|live| (live.meta(), live.object()));
    let live = live.as_ref().map(|(meta, object)| (*meta, object));
    write(resource, wanted, live, merge::missing, reason)
}

fn write(
    resource: Resource,
    wanted: Value,
    live: Option<(&Meta, &Value)>,
    difference: fn(&Value, &Value) -> Option<Value>,
    reason: &'static str,
) -> Option<Write> {
    let text = |field: &str| wanted["metadata"][field].as_str().unwrap_or_default();
    let key = ObjectKey::new(text("namespace"), text("name"));
    let verb = match live {
        None => Verb::Create { body: wanted },
        Some((meta, live)) => Verb::Merge {
            patch: difference(live, &wanted)?,
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: None,
        },
    };
    Some(Write { resource, key, verb, reason })
}

/// Writes a status that differs from the stored one.
pub(crate) fn status<S: Serialize + PartialEq>(
    resource: Resource,
    meta: &Meta,
    stored: Option<&S>,
    wanted: &S,
) -> Option<Write> {
    if stored == Some(wanted) {
        return None;
    }
    let stored = stored.map_or_else(|| json!({}), |stored| json!(stored));
    // Unlike for other fields, what we no longer say goes away: the status is ours.
    let patch = replacement(&stored, &json!(wanted))?;
    Some(Write {
        resource,
        key: meta.key.clone(),
        verb: Verb::Merge {
            patch: json!({ "status": patch }),
            // Lists are written whole, and others add conditions to some of them.
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: Some("status"),
        },
        reason: "report the state",
    })
}

/// Puts labels back where they differ.
pub(crate) fn labels<'a>(
    resource: Resource,
    meta: &Meta,
    wanted: impl IntoIterator<Item = (&'a str, &'a str)>,
    reason: &'static str,
) -> Option<Write> {
    let differs = |(key, value): &(&str, &str)| meta.labels.get(key) != Some(*value);
    let changed: BTreeMap<&str, &str> = wanted.into_iter().filter(differs).collect();
    (!changed.is_empty()).then(|| Write {
        resource,
        key: meta.key.clone(),
        verb: Verb::Merge {
            patch: json!({ "metadata": { "labels": changed } }),
            only_if: Precondition::uid(&meta.uid),
            subresource: None,
        },
        reason,
    })
}

/// Deletes exactly this object; what it owns follows.
pub(crate) fn delete(resource: Resource, meta: &Meta, reason: &'static str) -> Write {
    delete_if(resource, meta, Precondition::uid(&meta.uid), reason)
}

/// Deletes an object because its owner goes, if it still is as it was seen. A user may have deleted the
/// owner alone: then the garbage collector takes the owner reference away before the owner goes, which
/// the cache may not show yet.
pub(crate) fn delete_with_owner(resource: Resource, meta: &Meta, reason: &'static str) -> Write {
    delete_if(resource, meta, Precondition::version(&meta.uid, meta.resource_version), reason)
}

fn delete_if(
    resource: Resource,
    meta: &Meta,
    only_if: Precondition,
    reason: &'static str,
) -> Write {
    Write {
        resource,
        key: meta.key.clone(),
        verb: Verb::Delete { only_if, propagation: Propagation::Background, grace_seconds: None },
        reason,
    }
}

/// Replaces the list of finalizers that was read at this version.
pub(crate) fn finalizers(
    resource: Resource,
    meta: &Meta,
    finalizers: &[String],
    reason: &'static str,
) -> Write {
    let mut metadata = json!({ "finalizers": finalizers });
    if meta.deleting && finalizers.is_empty() {
        // The object goes with this write. Nobody will ask any more who wrote which of its fields, and
        // the API server need not work it out.
        metadata["managedFields"] = json!([{}]);
    }
    Write {
        resource,
        key: meta.key.clone(),
        verb: Verb::Merge {
            patch: json!({ "metadata": metadata }),
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: None,
        },
        reason,
    }
}

/// The merge patch from a live object of ours to the wanted one.
fn difference_of_own(live: &Value, wanted: &Value) -> Option<Value> {
    let (live_metadata, metadata) = (&live["metadata"], &wanted["metadata"]);
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
    let spec = replacement(&or_empty(&live["spec"]), &or_empty(&wanted["spec"]));
    patch.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn or_empty(value: &Value) -> Cow<'_, Value> {
    if value.is_null() { Cow::Owned(json!({})) } else { Cow::Borrowed(value) }
}

/// The live list with what is missing of the wanted one, if anything is.
fn union(live: &Value, wanted: &Value) -> Option<Value> {
    let mut all = live.as_array().cloned().unwrap_or_default();
    let before = all.len();
    for item in wanted.as_array().into_iter().flatten() {
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
    fn our_own_objects_lose_what_is_no_longer_wanted_but_nothing_of_others_that_is_shared() {
        let live = json!({
            "metadata": {
                "labels": {"ours": "1", "old": "x"},
                "finalizers": ["ours", "theirs"],
                "ownerReferences": [{"uid": "theirs"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"a": "1", "b": "2"}}, "replicas": 3},
        });
        let wanted = json!({
            "metadata": {
                "name": "a",
                "labels": {"ours": "1"},
                "finalizers": ["ours"],
                "ownerReferences": [{"uid": "ours"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"a": "1"}}, "replicas": 3},
        });

        let patch = difference_of_own(&live, &wanted).unwrap();

        let expected = json!({
            "metadata": {
                "labels": {"old": null},
                "ownerReferences": [{"uid": "theirs"}, {"uid": "ours"}],
            },
            "spec": {"podSpec": {"nodeSelector": {"b": null}}},
        });
        assert_eq!(patch, expected);
        assert_eq!(difference_of_own(&wanted, &wanted), None);
    }

    #[test]
    fn an_object_that_is_as_wanted_is_left_alone_and_every_difference_is_seen() {
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
            let wanted: PodGang = serde_json::from_value(object(change)).unwrap();
            assert_eq!(own(&wanted, Some(&live), "test").is_some(), differs, "{what}");
            assert_eq!(says_all(&live.object, &wanted), !differs, "{what}");
        }
    }

    #[test]
    fn only_the_write_that_an_object_goes_with_gives_up_who_wrote_its_fields() {
        let metadata = |deleting: bool, left: &[&str]| {
            let mut object = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {}});
            if deleting {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let live: Object<PodGang> = serde_json::from_value(object).unwrap();
            let left: Vec<String> = left.iter().map(|&one| one.to_owned()).collect();
            let write = finalizers(Resource::of::<PodGang>(), &live.meta, &left, "test");
            let Verb::Merge { patch, .. } = write.verb else { panic!("a patch") };
            patch["metadata"].clone()
        };
        assert_eq!(metadata(true, &[]), json!({"finalizers": [], "managedFields": [{}]}));
        assert_eq!(metadata(true, &["theirs"]), json!({"finalizers": ["theirs"]}));
        assert_eq!(metadata(false, &[]), json!({"finalizers": []}));
    }

    #[test]
    fn a_status_loses_what_it_no_longer_says() {
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
