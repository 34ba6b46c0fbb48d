//! Where pods may run: node selector, affinity, tolerations and spread constraints.

use grove_api::field_error::FieldError;
use serde_json::Value;

use super::part::{Part, faults};
use crate::admission::syntax;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn validate(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    if let Some(selector) = pod.part("nodeSelector") {
        validate_labels(&selector, errors);
    }
    pod.parts("tolerations").for_each(|toleration| validate_toleration(&toleration, errors));
    if let Some(affinity) = pod.part("affinity") {
        if let Some(nodes) = affinity.part("nodeAffinity") {
            validate_node_affinity(&nodes, errors);
        }
        for key in ["podAffinity", "podAntiAffinity"] {
            let Some(pods) = affinity.part(key) else { continue };
            pods.parts(REQUIRED).for_each(|term| validate_pod_term(&term, errors));
            for preferred in pods.parts(PREFERRED) {
                validate_weight(&preferred, errors);
                if let Some(term) = preferred.part("podAffinityTerm") {
                    validate_pod_term(&term, errors);
                }
            }
        }
    }
    validate_spread(pod, errors);
}

fn validate_labels(labels: &Part<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.entries() {
        let value = value.as_str().unwrap_or_default();
        faults(labels.path(), key, syntax::qualified_name(key), errors);
        faults(labels.path(), value, syntax::label_value(value), errors);
    }
}

fn validate_toleration(toleration: &Part<'_>, errors: &mut Vec<FieldError>) {
    let text = |key: &str| toleration.text(key);
    toleration.form("key", syntax::qualified_name, errors);
    toleration.one_of("operator", &["Equal", "Exists", "Lt", "Gt"], errors);
    toleration.one_of("effect", &EFFECTS, errors);
    if text("key").is_empty() && text("operator") != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all \
                      keys\"";
        errors.push(FieldError::invalid(toleration.at("operator"), text("operator"), detail));
    }
    if toleration.has("tolerationSeconds") && text("effect") != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(toleration.at("effect"), text("effect"), detail));
    }
    match text("operator") {
        "" | "Equal" => toleration.form("value", syntax::label_value, errors),
        "Exists" if !text("value").is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(toleration.at("value"), text("value"), detail));
        }
        _ => {}
    }
}

fn validate_node_affinity(affinity: &Part<'_>, errors: &mut Vec<FieldError>) {
    if let Some(required) = affinity.part(REQUIRED) {
        if required.items("nodeSelectorTerms").next().is_none() {
            let detail = "must have at least one node selector term";
            errors.push(FieldError::required(required.at("nodeSelectorTerms"), detail));
        }
        for term in required.parts("nodeSelectorTerms") {
            validate_node_term(&term, true, errors);
        }
    }
    for preferred in affinity.parts(PREFERRED) {
        validate_weight(&preferred, errors);
        if let Some(term) = preferred.part("preference") {
            validate_node_term(&term, false, errors);
        }
    }
}

/// The API server does not check values of preferences.
fn validate_node_term(term: &Part<'_>, values: bool, errors: &mut Vec<FieldError>) {
    for requirement in term.parts("matchExpressions") {
        validate_requirement(&requirement, &["Gt", "Lt"], values, errors);
        if ["Gt", "Lt"].contains(&requirement.text("operator"))
            && requirement.items("values").count() != 1
        {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
    }
    for field in term.parts("matchFields") {
        let operator = field.text("operator");
        if !["In", "NotIn"].contains(&operator) {
            let detail = "not a valid selector operator: use In or NotIn";
            errors.push(FieldError::invalid(field.at("operator"), operator, detail));
        }
        if field.text("key") != "metadata.name" {
            let detail = "not a valid field selector key: use metadata.name";
            errors.push(FieldError::invalid(field.at("key"), field.text("key"), detail));
        }
    }
}

fn validate_requirement(
    requirement: &Part<'_>,
    more_operators: &[&str],
    values: bool,
    errors: &mut Vec<FieldError>,
) {
    let operator = requirement.text("operator");
    let given = requirement.items("values").next().is_some();
    match operator {
        "In" | "NotIn" if !given => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
        "Exists" | "DoesNotExist" if given => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(requirement.at("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other if more_operators.contains(&other) => {}
        other => {
            let detail = "not a valid selector operator: use In, NotIn, Exists or DoesNotExist";
            errors.push(FieldError::invalid(requirement.at("operator"), other, detail));
        }
    }
    let key = requirement.text("key");
    faults(&requirement.at("key"), key, syntax::qualified_name(key), errors);
    if values {
        for (path, value) in requirement.texts("values") {
            faults(&path, value, syntax::label_value(value), errors);
        }
    }
}

fn validate_weight(preferred: &Part<'_>, errors: &mut Vec<FieldError>) {
    let weight = preferred.number("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        errors.push(FieldError::invalid(preferred.at("weight"), weight, detail));
    }
}

fn validate_pod_term(term: &Part<'_>, errors: &mut Vec<FieldError>) {
    for key in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = term.part(key) {
            validate_selector(&selector, errors);
        }
    }
    for (path, namespace) in term.texts("namespaces") {
        faults(&path, namespace, syntax::dns_label(namespace), errors);
    }
    if term.require("topologyKey", "can not be empty", errors) {
        term.form("topologyKey", syntax::qualified_name, errors);
    }
}

fn validate_selector(selector: &Part<'_>, errors: &mut Vec<FieldError>) {
    if let Some(labels) = selector.part("matchLabels") {
        validate_labels(&labels, errors);
    }
    for requirement in selector.parts("matchExpressions") {
        validate_requirement(&requirement, &[], true, errors);
    }
}

fn validate_spread(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for constraint in pod.parts("topologySpreadConstraints") {
        let skew = constraint.number("maxSkew").unwrap_or_default();
        if skew <= 0 {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(constraint.at("maxSkew"), skew, detail));
        }
        constraint.require("topologyKey", "can not be empty", errors);
        let action = constraint.text("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            let path = constraint.at("whenUnsatisfiable");
            let known = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(path, action, &known));
        }
        let pair = (constraint.text("topologyKey"), action);
        if seen.contains(&pair) {
            let value = Value::from(format!("{{{}, {}}}", pair.0, pair.1));
            errors.push(FieldError::duplicate(constraint.path(), value));
        }
        seen.push(pair);
        if let Some(selector) = constraint.part("labelSelector") {
            validate_selector(&selector, errors);
        }
    }
}
