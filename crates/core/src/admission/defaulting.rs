//! Defaults that the operator sets before it checks a set.
//!
//! Defaults of the schema (start order, group replicas, …) are already set. Defaulting is idempotent. On raw
//! JSON the result is a patch of the changed fields only, so keys of other versions stay as they are.

use grove_api::{
    PodCliqueSet,
    duration::GoDuration,
    pod_clique_set::{HeadlessServiceConfig, PodCliqueTemplate, ScalingGroupTemplate},
};
use serde_json::{Value, json};

/// Termination delay of a set that specifies none.
pub const DEFAULT_TERMINATION_DELAY: GoDuration = GoDuration::from_secs(4 * 3600);

/// JSON that is not a PodCliqueSet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct DecodeError {
    /// Path, for example `spec.template.cliques[0].spec.replicas`. Empty for the object itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// Sets the defaults.
pub fn default(set: &mut PodCliqueSet) {
    let namespace = set.metadata.namespace.get_or_insert_default();
    if namespace.is_empty() {
        "default".clone_into(namespace);
    }
    let template = &mut set.spec.template;
    template.cliques.iter_mut().for_each(default_clique);
    template.pod_clique_scaling_groups.iter_mut().for_each(default_group);
    template.termination_delay.get_or_insert(DEFAULT_TERMINATION_DELAY);
    template.headless_service_config.get_or_insert_with(HeadlessServiceConfig::default);
}

fn default_clique(clique: &mut PodCliqueTemplate) {
    let spec = &mut clique.spec;
    let pod = &mut spec.pod_spec;
    let restart_policy = pod.entry("restartPolicy").or_insert(Value::Null);
    if restart_policy.is_null() || restart_policy == "" {
        *restart_policy = json!("Always");
    }
    let grace_period = pod.entry("terminationGracePeriodSeconds").or_insert(Value::Null);
    if grace_period.is_null() {
        *grace_period = json!(30);
    }
    // Both default to the submitted number: without replicas the minimum becomes 0 and is refused, so that a
    // gang of one is always intended.
    spec.min_available.get_or_insert(spec.replicas);
    if let Some(scaling) = &mut spec.auto_scaling_config {
        scaling.min_replicas.get_or_insert(spec.replicas);
    }
    if spec.replicas == 0 {
        spec.replicas = 1;
    }
}

fn default_group(group: &mut ScalingGroupTemplate) {
    if let (Some(scaling), Some(replicas)) = (&mut group.scale_config, group.replicas) {
        scaling.min_replicas.get_or_insert(replicas);
    }
}

/// Decodes a set. Keys with the value `null` count as absent.
pub fn decode(raw: &Value) -> Result<PodCliqueSet, DecodeError> {
    let mut raw = raw.clone();
    remove_nulls(&mut raw);
    serde_path_to_error::deserialize(&raw).map_err(|error| {
        let path = error.path().to_string();
        // The root has no path.
        let path = if path == "." { String::new() } else { path };
        let message = in_kubernetes_words(&error.into_inner().to_string(), value_at(&raw, &path));
        DecodeError { path, message }
    })
}

/// The value at a path such as `spec.cliques[0].name`; nothing for the object itself.
fn value_at<'a>(raw: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return None;
    }
    let path = path.replace('[', ".").replace(']', "");
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    steps.try_fold(raw, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

/// Translates a decoder error into the words of the API server.
fn in_kubernetes_words(message: &str, value: Option<&Value>) -> String {
    let of_type = ["invalid type: ", "invalid value: "];
    let mismatch = of_type.iter().find_map(|prefix| message.strip_prefix(prefix));
    let expected = mismatch.and_then(|text| text.rsplit_once(", expected ")).map(|(_, last)| last);
    let detail = match expected {
        None => message.to_owned(),
        Some(expected) => {
            let kind = match expected {
                "i32" | "u32" => "integer (int32)",
                "i64" | "u64" => "integer",
                "a string" => "string",
                "a boolean" => "boolean",
                "a sequence" => "array",
                text if text == "a map" || text.starts_with("struct ") => "object",
                other => other,
            };
            format!("must be of type {kind}")
        }
    };
    match value {
        Some(value) => format!("Invalid value: {value}: {detail}"),
        None => detail,
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Returns the changes that defaulting makes to a submitted set.
///
/// Besides the defaults these are the zero values of absent keys that the schema requires (a clique without
/// `roleName` is accepted), and durations in canonical form. Absent lists stay absent.
pub fn default_patch(raw: &Value) -> Result<json_patch::Patch, DecodeError> {
    let mut set = decode(raw)?;
    default(&mut set);
    let namespace = json!(set.metadata.namespace);
    let spec = serde_json::to_value(&set.spec)
        .map_err(|error| DecodeError { path: "spec".to_owned(), message: error.to_string() })?;
    let mut completed = raw.clone();
    complete(&mut completed, &json!({ "metadata": { "namespace": namespace }, "spec": spec }));
    Ok(json_patch::diff(raw, &completed))
}

/// Adds what `typed` has to `raw`, which may have more.
fn complete(raw: &mut Value, typed: &Value) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            for (key, value) in typed {
                match raw.get_mut(key).filter(|present| !present.is_null()) {
                    Some(present) => complete(present, value),
                    None if value.as_array().is_some_and(Vec::is_empty) => {}
                    None => {
                        raw.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            raw.iter_mut().zip(typed).for_each(|(raw, typed)| complete(raw, typed));
        }
        (raw, typed) => raw.clone_from(typed),
    }
}
