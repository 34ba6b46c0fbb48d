//! Rules about pod templates.
//!
//! There are two kinds of rules: those of Grove, about fields that it sets itself and names of environment
//! variables, and those of the API server for every pod ([`pod`]). A set that violates one of the latter would
//! be stored, and the API server would refuse each of its pods.

use grove_api::{field_error::FieldError, pod_clique_set::PodCliqueTemplate, pod_spec::PodSpec};
use serde_json::Value;

use super::{Occasion, duplicates, syntax};
use part::Part;

mod containers;
mod environment;
mod handlers;
mod part;
mod pod;
mod resources;
mod scheduling;
mod security;
#[cfg(test)]
mod tests;
mod volumes;

/// Checks the pod template of a clique; `path` is that of the clique's spec.
///
/// A stored template is not checked again: a stricter rule must not prevent changes of other fields.
pub(super) fn validate(
    path: &str,
    clique: &PodCliqueTemplate,
    occasion: Occasion<'_>,
    adds_claims: bool,
    errors: &mut Vec<FieldError>,
) {
    let spec = &clique.spec.pod_spec;
    // Messages of Grove's own rules have a second `spec`.
    let own_path = format!("{path}.podSpec.spec");
    let spread_path = format!("{own_path}.topologySpreadConstraints");
    if matches!(occasion, Occasion::Create)
        && let Some(value) = spec.get("topologySpreadConstraints").filter(|value| !value.is_null())
    {
        errors.push(FieldError::invalid(spread_path.as_str(), value.clone(), "must not be set"));
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, container) in containers.enumerate() {
            validate_env(&format!("{own_path}.{list}[{index}].env"), container, errors);
        }
    }
    if occasion.stored(&clique.name).is_some_and(|stored| stored.spec.pod_spec == *spec) {
        return;
    }
    if let Some(name) = text(spec.get("nodeName")).filter(|name| !name.is_empty()) {
        errors.push(FieldError::invalid(format!("{own_path}.nodeName"), name, "must not be set"));
    }
    let refused = errors.iter().any(|error| error.path == spread_path);
    for mut error in pod_errors(&format!("{path}.podSpec"), spec, adds_claims) {
        if refused && error.path.contains(".podSpec.topologySpreadConstraints[") {
            continue;
        }
        error.detail = match error.detail.as_str() {
            "" => format!("in clique {:?}", clique.name),
            detail => format!("{detail} (clique {:?})", clique.name),
        };
        errors.push(error);
    }
}

/// Returns why the API server refuses every pod with this spec.
///
/// With `adds_claims` the operator adds resource claims to the pods, so that containers may name claims that
/// the spec does not have.
pub fn pod_errors(path: &str, spec: &PodSpec, adds_claims: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    pod::validate(&Part::new(path, spec), adds_claims, &mut errors);
    errors
}
fn validate_env(path: &str, container: &Value, errors: &mut Vec<FieldError>) {
    let variables = container.get("env").and_then(Value::as_array);
    let variables = variables.map(Vec::as_slice).unwrap_or_default();
    let name = |variable: &'_ Value| text(variable.get("name")).unwrap_or_default().to_owned();
    let names: Vec<String> = variables.iter().map(name).collect();
    for (index, name) in names.iter().enumerate() {
        for fault in syntax::env_name(name) {
            errors.push(FieldError::invalid(format!("{path}[{index}].name"), name.as_str(), fault));
        }
    }
    let repeated = duplicates(names.iter().map(String::as_str));
    if !repeated.is_empty() {
        errors.push(FieldError::duplicate(path, repeated));
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}
