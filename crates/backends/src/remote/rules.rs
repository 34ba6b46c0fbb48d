//! What an answer may contain, and the writes that follow from it. The operator acts on the answers of another
//! program with its own permissions, so it restricts them: objects have a kind that the profile lists, are in
//! the namespace of the gang and owned by it, and pods keep the labels and the gate of Grove.

use std::collections::BTreeSet;

use grove_runtime::converge;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::View;
use grove_runtime::write::Write;
use serde_json::{Map, Value, json};

use crate::contract::{GangInput, Preparation};
use crate::error::BackendError;
use crate::objects::{SchedulerObject, owner};

/// Why the operator does not act on an answer.
#[derive(Debug)]
pub(super) enum Refused {
    /// The answer breaks a rule.
    Answer(String),
    /// The state of the cluster does not allow the writes.
    Cluster(BackendError),
}

/// The writes that leave a gang with exactly these objects.
pub(super) fn writes(
    backend: &str,
    kinds: &[Resource],
    gang: &GangInput<'_>,
    wanted: Vec<Value>,
) -> Result<Vec<Write>, Refused> {
    let mut names = BTreeSet::new();
    let mut writes = Vec::new();
    for (index, object) in wanted.into_iter().enumerate() {
        let (kind, key, object) = own(kinds, gang, object)
            .map_err(|wrong| Refused::Answer(format!("response.objects[{index}]{wrong}")))?;
        gang.objects.require(backend, kind).map_err(Refused::Cluster)?;
        let live = gang.objects.get(kind, &key);
        if let Some(live) = &live {
            live.may_change(backend, kind, gang).map_err(Refused::Cluster)?;
        }
        if !names.insert((kind, key.clone())) {
            let wrong = format!("response.objects[{index}]: {} {key} is there twice", kind.kind);
            return Err(Refused::Answer(wrong));
        }
        // A terminating object is recreated when it is gone.
        if live.as_ref().is_none_or(|live| !live.meta().deleting) {
            let live = live.as_deref().map(SchedulerObject::parts);
            writes.extend(converge::fields(kind.clone(), object, live, "the backend lists it"));
        }
    }
    for kind in kinds {
        let owned = gang.objects.of_gang(kind, &gang.key()).into_iter();
        let unwanted = owned.filter(|live| live.is_of(gang.object) && !live.meta().deleting);
        let unwanted = unwanted.filter(|live| !names.contains(&(kind, live.meta().key.clone())));
        writes.extend(unwanted.map(|live| {
            converge::delete(kind.clone(), live.meta(), "the backend no longer lists it")
        }));
    }
    Ok(writes)
}

/// The object to write: the fields that a program may set, owned by the gang.
fn own<'k>(
    kinds: &'k [Resource],
    gang: &GangInput<'_>,
    object: Value,
) -> Result<(&'k Resource, ObjectKey, Value), String> {
    let Value::Object(mut fields) = object else {
        return Err(": is no object".to_owned());
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (text(fields.get("apiVersion")), text(fields.get("kind")));
    let known = kinds.iter().find(|one| one.api_version() == version && one.kind == kind);
    let Some(known) = known else {
        return Err(format!(
            ": {version} {kind} is none of the kinds that config.endpoint.kinds of the profile lists"
        ));
    };
    let metadata = fields.remove("metadata").unwrap_or_default();
    let name = text(metadata.get("name"));
    if name.is_empty() {
        return Err(".metadata.name: is missing".to_owned());
    }
    let key = ObjectKey::new(&gang.key().namespace, &name);
    let mut own = Map::new();
    own.insert("name".to_owned(), json!(name));
    own.insert("namespace".to_owned(), json!(&*key.namespace));
    own.insert("ownerReferences".to_owned(), json!([owner(gang.object)]));
    for field in ["labels", "annotations"] {
        own.extend(metadata.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    // It belongs to the scheduler.
    fields.remove("status");
    fields.insert("metadata".to_owned(), Value::Object(own));
    Ok((known, key, Value::Object(fields)))
}

/// The preparation that a patch describes, if it keeps the rules.
pub(crate) fn preparation(
    backend: &str,
    draft: &Value,
    patch: Option<Value>,
) -> Result<Preparation, String> {
    let mut patch = patch.unwrap_or_else(|| json!({}));
    only(&patch, "response.patch", &["metadata", "spec"])?;
    only(&patch["metadata"], "response.patch.metadata", &["labels", "annotations"])?;
    let labels = patch["metadata"]["labels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        if let Some(set) = draft["metadata"]["labels"].get(key).filter(|set| *set != value) {
            return Err(format!(
                "response.patch.metadata.labels: {key} is {set} and cannot become {value}"
            ));
        }
    }
    let scheduler = &patch["spec"]["schedulerName"];
    if !scheduler.is_null() && scheduler != backend {
        return Err(format!(
            "response.patch.spec.schedulerName: is {scheduler}, and pods of this profile have \
             {backend:?}"
        ));
    }
    patch["spec"]["schedulerName"] = json!(backend);
    Ok(Preparation::merge(patch))
}

/// Fails unless a part of a patch is an object with these fields only, each of them an object.
fn only(part: &Value, path: &str, allowed: &[&str]) -> Result<(), String> {
    let fields = match part {
        // A field that the patch does not have; `null` as its value does not get here.
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("{path}: is no object")),
    };
    for (key, value) in fields {
        if !allowed.contains(&key.as_str()) {
            let allowed = allowed.join(" and ");
            return Err(format!("{path}.{key}: cannot be changed, only {allowed} can"));
        }
        if !value.is_object() {
            return Err(format!("{path}.{key}: is no object"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
