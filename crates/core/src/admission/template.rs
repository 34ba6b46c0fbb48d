//! Rules about the set as a whole: replicas, start order, claim templates, termination delay.

use grove_api::{
    PodCliqueSet,
    duration::GoDuration,
    field_error::FieldError,
    pod_clique_set::{CliqueStartupType, PodCliqueSetTemplate, ResourceClaimTemplate},
};
use serde_json::Value;

use super::{duplicates, sharing};

pub(super) fn validate(set: &PodCliqueSet, errors: &mut Vec<FieldError>) {
    let template = &set.spec.template;
    if set.spec.replicas < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", set.spec.replicas, detail));
    }
    validate_startup_type(template, errors);
    validate_claim_templates(&template.resource_claim_templates, errors);
    sharing::validate_set(template, errors);
}

fn validate_startup_type(template: &PodCliqueSetTemplate, errors: &mut Vec<FieldError>) {
    let path = "spec.template.cliqueStartupType";
    match &template.clique_startup_type {
        None => errors.push(FieldError::required(path, "field is required")),
        Some(CliqueStartupType::Unknown(text)) => {
            let detail = format!("can only be one of {}", CliqueStartupType::KNOWN.join(", "));
            errors.push(FieldError::invalid(path, text.as_str(), detail));
        }
        Some(_) => {}
    }
}

fn validate_claim_templates(templates: &[ResourceClaimTemplate], errors: &mut Vec<FieldError>) {
    let path = "spec.template.resourceClaimTemplates";
    for (index, template) in templates.iter().enumerate() {
        if template.name.is_empty() {
            let path = format!("{path}[{index}].name");
            errors.push(FieldError::required(path, "template name is required"));
        }
        if !has_device_requests(template) {
            let path = format!("{path}[{index}].templateSpec.spec.devices.requests");
            errors.push(FieldError::required(path, "at least one device request is required"));
        }
    }
    // Missing names have their own error.
    let names = templates.iter().map(|template| template.name.as_str());
    for name in duplicates(names.filter(|name| !name.is_empty())) {
        errors.push(FieldError::duplicate(format!("{path}.name"), name));
    }
}

fn has_device_requests(template: &ResourceClaimTemplate) -> bool {
    template
        .template_spec
        .get("spec")
        .and_then(|spec| spec.pointer("/devices/requests"))
        .and_then(Value::as_array)
        .is_some_and(|requests| !requests.is_empty())
}

pub(super) fn validate_termination_delay(
    template: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    let path = "spec.template.terminationDelay";
    match template.termination_delay {
        None => errors.push(FieldError::required(path, "terminationDelay is required")),
        Some(delay) if delay <= GoDuration::default() => {
            let detail = "terminationDelay must be greater than 0";
            errors.push(FieldError::invalid(path, delay.to_string(), detail));
        }
        Some(_) => {}
    }
}
