//! Rules about the cliques of a set, one by one and together.

use std::collections::BTreeSet;

use grove_api::{
    PodCliqueSet,
    field_error::FieldError,
    names,
    pod_clique::{AutoScalingConfig, PodCliqueSpec},
    pod_clique_set::{CliqueStartupType, PodCliqueSetTemplate, PodCliqueTemplate},
};

use super::{Context, Occasion, cycles, duplicates, metadata, pod_spec, sharing, syntax};

const PATH: &str = "spec.template.cliques";

pub(super) fn validate(
    set: &PodCliqueSet,
    context: &Context,
    occasion: Occasion<'_>,
    errors: &mut Vec<FieldError>,
) {
    let template = &set.spec.template;
    if template.cliques.is_empty() {
        errors.push(FieldError::required(PATH, "at least one PodClique must be defined"));
        return;
    }
    let explicit = template.clique_startup_type == Some(CliqueStartupType::Explicit);
    let adds_claims = adds_claims(template, context);
    for (index, clique) in template.cliques.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        validate_name(&path, clique, set, errors);
        metadata::validate_labels(&format!("{path}.labels"), &clique.labels, errors);
        metadata::validate_annotations(&format!("{path}.annotations"), &clique.annotations, errors);
        sharing::validate_clique(&path, clique, template, errors);
        if explicit {
            validate_starts_after(&path, clique, errors);
        }
        validate_numbers(&format!("{path}.spec"), &clique.spec, errors);
        pod_spec::validate(&format!("{path}.spec"), clique, occasion, adds_claims, errors);
    }
    validate_uniqueness(template, errors);
    validate_scheduler(template, context, errors);
    if explicit {
        validate_dependencies(template, errors);
    }
}

/// Whether the operator adds resource claims to pods of the set.
fn adds_claims(template: &PodCliqueSetTemplate, context: &Context) -> bool {
    let groups = &template.pod_clique_scaling_groups;
    context.mnnvl_enabled
        || !template.resource_sharing.is_empty()
        || template.cliques.iter().any(|clique| !clique.resource_sharing.is_empty())
        || groups.iter().any(|group| !group.resource_sharing.is_empty())
}

fn validate_name(
    path: &str,
    clique: &PodCliqueTemplate,
    set: &PodCliqueSet,
    errors: &mut Vec<FieldError>,
) {
    let path = format!("{path}.name");
    let name = clique.name.as_str();
    if name.is_empty() {
        errors.push(FieldError::required(path, "field cannot be empty"));
        return;
    }
    if !syntax::dns_subdomain(name).is_empty() {
        let detail = "invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain";
        errors.push(FieldError::invalid(&path, name, detail));
    }
    let mut groups = set.spec.template.pod_clique_scaling_groups.iter();
    if groups.any(|group| group.clique_names.contains(&clique.name)) {
        // The length limit includes the name of the group and is reported there.
        return;
    }
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let length = names::combined_length(set_name, None, name);
    if length > names::MAX_COMBINED_LENGTH {
        let parts = format!("PodCliqueSet '{set_name}' or PodClique '{name}'");
        let detail = too_long(length, &parts);
        errors.push(FieldError::invalid(path, name, detail.clone()));
        errors.push(FieldError::invalid("metadata.name", set_name, detail));
    }
}

/// How to shorten names that are too long together.
pub(super) fn too_long(length: usize, parts: &str) -> String {
    format!(
        "combined resource name length {length} exceeds {}-character limit required for pod naming. \
         Consider shortening: {parts}",
        names::MAX_COMBINED_LENGTH
    )
}

fn validate_starts_after(path: &str, clique: &PodCliqueTemplate, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.spec.startsAfter");
    for parent in &clique.spec.starts_after {
        if parent.is_empty() {
            errors.push(FieldError::required(&path, "clique dependency must not be empty"));
        } else if *parent == clique.name {
            let detail = "clique dependency cannot refer to itself";
            errors.push(FieldError::invalid(&path, parent.as_str(), detail));
        }
    }
    for parent in duplicates(clique.spec.starts_after.iter().map(String::as_str)) {
        errors.push(FieldError::duplicate(&path, parent));
    }
}

fn validate_numbers(path: &str, spec: &PodCliqueSpec, errors: &mut Vec<FieldError>) {
    if spec.replicas <= 0 {
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(format!("{path}.replicas"), spec.replicas, detail));
    }
    let min_path = format!("{path}.minAvailable");
    match spec.min_available {
        None => errors.push(FieldError::required(min_path, "field is required")),
        Some(min) if min <= 0 => {
            errors.push(FieldError::invalid(min_path, min, "must be greater than 0"));
        }
        Some(min) if min > spec.replicas => {
            let detail = "minAvailable must not be greater than replicas";
            errors.push(FieldError::invalid(min_path, min, detail));
        }
        Some(_) => {}
    }
    if let Some(scaling) = &spec.auto_scaling_config {
        validate_auto_scaling(&format!("{path}.autoScalingConfig"), scaling, spec, errors);
    }
}

fn validate_auto_scaling(
    path: &str,
    scaling: &AutoScalingConfig,
    spec: &PodCliqueSpec,
    errors: &mut Vec<FieldError>,
) {
    let min_path = format!("{path}.minReplicas");
    match scaling.min_replicas {
        None => errors.push(FieldError::required(min_path, "field is required")),
        Some(min) if spec.min_available.is_some_and(|available| min < available) => {
            let detail = "must be greater than or equal to podCliqueSpec.minAvailable";
            errors.push(FieldError::invalid(min_path, min, detail));
        }
        Some(_) => {}
    }
    let max = scaling.max_replicas;
    let max_path = format!("{path}.maxReplicas");
    if scaling.min_replicas.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to podCliqueSpec.minReplicas";
        errors.push(FieldError::invalid(&max_path, max, detail));
    }
    if max < spec.replicas {
        let detail = "must be greater than or equal to replicas";
        errors.push(FieldError::invalid(max_path, max, detail));
    }
}

fn validate_uniqueness(template: &PodCliqueSetTemplate, errors: &mut Vec<FieldError>) {
    // Missing names have their own error; a missing role counts like any other.
    let names = template.cliques.iter().map(|clique| clique.name.as_str());
    for name in duplicates(names.filter(|name| !name.is_empty())) {
        errors.push(FieldError::duplicate(format!("{PATH}.name"), name));
    }
    for role in duplicates(template.cliques.iter().map(|clique| clique.spec.role_name.as_str())) {
        let same = template.cliques.iter().filter(|clique| clique.spec.role_name == role);
        let same: Vec<_> = same.map(|clique| format!("{:?}", clique.name)).collect();
        let mut error = FieldError::duplicate(format!("{PATH}.roleName"), role);
        error.detail = match role {
            "" => format!("cliques {} have no roleName; give each its own", same.join(", ")),
            _ => format!("cliques {} have the same roleName; give each its own", same.join(", ")),
        };
        errors.push(error);
    }
}

/// All pods of a gang must have the same backend.
fn validate_scheduler(
    template: &PodCliqueSetTemplate,
    context: &Context,
    errors: &mut Vec<FieldError>,
) {
    let path = format!("{PATH}.spec.podSpec.schedulerName");
    let mut chosen: Vec<&str> = Vec::new();
    for clique in &template.cliques {
        let name = clique.spec.pod_spec.scheduler_name().unwrap_or(&context.default_scheduler);
        if !chosen.contains(&name) {
            chosen.push(name);
        }
    }
    if chosen.len() > 1 {
        let detail = "the schedulerName for all pods have to be the same";
        errors.push(FieldError::invalid(&path, chosen.join(", "), detail));
    }
    for name in chosen.into_iter().filter(|&name| !context.enabled_schedulers.contains(name)) {
        let detail = "schedulerName must be an enabled scheduler backend; this scheduler is not \
                      enabled in OperatorConfiguration";
        errors.push(FieldError::invalid(&path, name, detail));
    }
}

fn validate_dependencies(template: &PodCliqueSetTemplate, errors: &mut Vec<FieldError>) {
    let known: BTreeSet<_> = template.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let parents = template.cliques.iter().flat_map(|clique| &clique.spec.starts_after);
    let mut unknown: Vec<&str> = Vec::new();
    for parent in parents.map(String::as_str) {
        if !parent.is_empty() && !known.contains(parent) && !unknown.contains(&parent) {
            unknown.push(parent);
        }
    }
    if !unknown.is_empty() {
        let detail =
            "unknown clique names found, all clique dependencies must be defined as cliques";
        let path = format!("{PATH}.startsAfter");
        errors.push(FieldError::invalid(path, unknown.join(", "), detail));
    }
    let cycles = cycles::of(&template.cliques);
    if !cycles.is_empty() {
        let detail = "clique must not have circular dependencies";
        errors.push(FieldError::invalid(PATH, cycles, detail));
    }
}
