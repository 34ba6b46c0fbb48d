//! The objects of a namespace without values that differ between runs: uids, times, versions, random names and
//! nodes. Two runs that should end with the same state have equal normalized objects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::mirror::text;

/// Normalized objects by kind and name; pods by kind and host name.
pub type Normalized = BTreeMap<String, Value>;

/// Normalizes the objects of a namespace, without events and what Kubernetes puts into every namespace.
pub fn normalize<'a>(
    namespace: &str,
    objects: impl Iterator<Item = &'a Arc<Value>> + Clone,
) -> Normalized {
    let mask = Mask {
        namespace,
        titles: objects.clone().map(|object| (text(uid(object)), title(object))).collect(),
        hosts: objects.clone().filter_map(|object| Some((name(object), host(object)?))).collect(),
    };
    let mut normalized = Normalized::new();
    let of_kubernetes = |object: &Value| ["default", "kubernetes"].contains(&name(object));
    let shown = |object: &Value| !of_kubernetes(object) && object["kind"] != "Event";
    for object in objects.filter(|object| shown(object)) {
        let title = title(object);
        let twins = (2..).map(|number| format!("{title} ({number})"));
        let free = std::iter::once(title.clone()).chain(twins);
        let key = free.into_iter().find(|key| !normalized.contains_key(key));
        normalized.extend(key.map(|key| (key, mask.object(object))));
    }
    normalized
}

/// The objects without the annotation of cliques that replace deleted ones, their only difference.
pub fn without_recreated_marks(mut normalized: Normalized) -> Normalized {
    for object in normalized.values_mut() {
        let Some(metadata) = object["metadata"].as_object_mut() else { continue };
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let removed = annotations.and_then(|all| all.remove("grove.io/recreated").map(|_| all));
        if removed.is_some_and(|all| all.is_empty()) {
            metadata.remove("annotations");
        }
    }
    normalized
}

/// How objects differ from the expected ones, line by line.
pub fn difference(expected: &Normalized, actual: &Normalized) -> String {
    let mut text = String::new();
    for (key, object) in expected {
        match actual.get(key) {
            None => writeln!(text, "  {key}: missing").unwrap(),
            Some(actual) if actual != object => {
                let changes = json_patch::diff(object, actual);
                writeln!(text, "  {key}: {}", json!(changes)).unwrap();
            }
            Some(_) => {}
        }
    }
    for key in actual.keys().filter(|key| !expected.contains_key(*key)) {
        writeln!(text, "  {key}: not expected").unwrap();
    }
    text
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// The host name of a pod.
fn host(object: &Value) -> Option<&str> {
    (object["kind"] == "Pod").then(|| text(&object["spec"]["hostname"]))
}

fn title(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), host(object).unwrap_or_else(|| name(object)))
}

struct Mask<'a> {
    namespace: &'a str,
    /// Titles by uid.
    titles: BTreeMap<&'a str, String>,
    /// Host names of pods by name.
    hosts: BTreeMap<&'a str, &'a str>,
}

impl Mask<'_> {
    fn object(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let generation = object["metadata"]["generation"].clone();
        self.metadata(object["metadata"].as_object_mut().unwrap());
        match text(&object["kind"]) {
            "Pod" => pod(&mut object),
            "PodGang" => self.gang(&mut object),
            "Secret" => {
                let keys = object["data"].as_object().into_iter().flat_map(Map::keys);
                object["data"] = keys.cloned().collect();
            }
            // The status of an autoscaler depends on when it sampled; the scheduler chooses the device of a
            // claim and the pods that use it.
            "HorizontalPodAutoscaler" | "ResourceClaim" => object["status"] = Value::Null,
            _ => {}
        }
        if let Some(status) = object.get_mut("status") {
            mask_status(status, &generation);
        }
        let whole = object.to_string().replace(self.namespace, "NAMESPACE");
        serde_json::from_str(&whole).unwrap()
    }

    fn metadata(&self, metadata: &mut Map<String, Value>) {
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(key);
        }
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            if let Some(value) = metadata.get_mut(key) {
                *value = json!("set");
            }
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubernetes.io/service-account.uid");
        }
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            let known = self.titles.get(text(&owner["uid"]));
            owner["uid"] = match known {
                Some(title) => format!("of {title}").into(),
                None => "of something that is not there".into(),
            };
        }
    }

    fn gang(&self, gang: &mut Value) {
        for group in gang["spec"]["podgroups"].as_array_mut().into_iter().flatten() {
            let references = group["podReferences"].as_array_mut();
            let Some(references) = references else { continue };
            for reference in references.iter_mut() {
                let host = self.hosts.get(text(&reference["name"]));
                reference["name"] = json!(host.unwrap_or(&"something that is not there"));
            }
            references.sort_by_key(Value::to_string);
        }
        // Depends on which write of the references completed the gang.
        let conditions = gang["status"]["conditions"].as_array_mut().into_iter().flatten();
        for condition in conditions.filter_map(Value::as_object_mut) {
            condition.remove("observedGeneration");
        }
    }
}

fn pod(pod: &mut Value) {
    pod["metadata"]["name"] = Value::Null;
    let on_node = !pod["spec"]["nodeName"].is_null();
    pod["spec"]["nodeName"] = json!(on_node);
    let mounts = "kube-api-access-";
    let rename = |item: &mut Value| {
        if text(&item["name"]).starts_with(mounts) {
            item["name"] = json!(mounts);
        }
    };
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten().for_each(rename);
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.get_mut("volumeMounts").and_then(Value::as_array_mut);
            mounts.into_iter().flatten().for_each(rename);
        }
    }
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let conditions: Map<String, Value> =
        conditions.map(|one| (text(&one["type"]).to_owned(), one["status"].clone())).collect();
    pod["status"] = json!({ "phase": pod["status"]["phase"], "conditions": conditions });
}

/// A generation counts writes, and how many it takes may differ; being up to date may not.
fn mask_status(status: &mut Value, generation: &Value) {
    let current = |place: &mut Value| {
        let observed = place.get_mut("observedGeneration").filter(|it| *it == generation);
        if let Some(observed) = observed {
            *observed = json!("current");
        }
    };
    current(status);
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        current(condition);
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
    }
    let progress = status.get_mut("updateProgress").and_then(Value::as_object_mut);
    for (_, time) in progress.into_iter().flatten().filter(|(key, _)| key.ends_with("At")) {
        *time = json!("a time");
    }
    for error in status.get_mut("lastErrors").and_then(Value::as_array_mut).into_iter().flatten() {
        error["observedAt"] = json!("a time");
    }
}
