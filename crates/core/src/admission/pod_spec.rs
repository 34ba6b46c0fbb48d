//! Rules about pod templates. The schema checks their form; these are the fields that Grove decides
//! itself, and names of environment variables.

use grove_api::{field_error::FieldError, pod_clique::PodCliqueSpec};
use serde_json::Value;

use super::{Occasion, duplicates, syntax};

/// `path` is that of the pod spec, with the second `spec` that these messages have.
pub(super) fn validate(
    path: &str,
    clique: &PodCliqueSpec,
    occasion: Occasion,
    errors: &mut Vec<FieldError>,
) {
    let spec = &clique.pod_spec;
    if occasion == Occasion::Create {
        if let Some(value) = spec.get("topologySpreadConstraints").filter(|value| !value.is_null())
        {
            let path = format!("{path}.topologySpreadConstraints");
            errors.push(FieldError::invalid(path, value.clone(), "must not be set"));
        }
        if let Some(name) = text(spec.get("nodeName")).filter(|name| !name.is_empty()) {
            errors.push(FieldError::invalid(format!("{path}.nodeName"), name, "must not be set"));
        }
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, container) in containers.enumerate() {
            validate_env(&format!("{path}.{list}[{index}].env"), container, errors);
        }
    }
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
