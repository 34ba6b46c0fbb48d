//! Immutable parts of a stored set: its cliques and groups, and all fields that identify running gangs.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::{
    PodCliqueSet,
    field_error::FieldError,
    pod_clique_set::{CliqueStartupType, PodCliqueSetTemplate},
};
use serde::Serialize;
use serde_json::Value;

const TEMPLATE: &str = "spec.template";
const CLIQUES: &str = "spec.template.cliques";
const GROUPS: &str = "spec.template.podCliqueScalingGroups";

pub(super) fn validate(new: &PodCliqueSet, old: &PodCliqueSet, errors: &mut Vec<FieldError>) {
    let (new, old) = (&new.spec.template, &old.spec.template);
    validate_clique_composition(new, old, errors);
    validate_cliques(new, old, errors);
    let path = |key: &str| format!("{TEMPLATE}.{key}");
    immutable(
        path("cliqueStartupType"),
        &new.clique_startup_type,
        &old.clique_startup_type,
        errors,
    );
    immutable(
        path("resourceClaimTemplates"),
        &new.resource_claim_templates,
        &old.resource_claim_templates,
        errors,
    );
    immutable(path("resourceSharing"), &new.resource_sharing, &old.resource_sharing, errors);
    validate_groups(new, old, errors);
}

fn validate_clique_composition(
    new: &PodCliqueSetTemplate,
    old: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    if new.cliques.len() != old.cliques.len() {
        errors.push(FieldError::forbidden(CLIQUES, "not allowed to change clique composition"));
    }
    let known: BTreeSet<_> = old.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let mut same_names = new.cliques.len() == old.cliques.len();
    for clique in new.cliques.iter().filter(|clique| !known.contains(clique.name.as_str())) {
        same_names = false;
        let detail = format!(
            "not allowed to change clique composition, new clique name '{}' is not allowed",
            clique.name
        );
        errors.push(FieldError::forbidden(format!("{CLIQUES}.name"), detail));
    }
    let ordered = matches!(
        old.clique_startup_type,
        Some(CliqueStartupType::InOrder | CliqueStartupType::Explicit)
    );
    if !(ordered && same_names) {
        return;
    }
    let mut pairs = new.cliques.iter().zip(&old.cliques).enumerate();
    // Report only the first difference: the others follow from it.
    if let Some((position, (got, expected))) = pairs.find(|(_, (new, old))| new.name != old.name) {
        let detail = format!(
            "clique order cannot be changed when StartupType is InOrder or Explicit. Expected '{}' at \
             position {position}, got '{}'",
            expected.name, got.name
        );
        errors.push(FieldError::invalid(CLIQUES, got.name.as_str(), detail));
    }
}

fn validate_cliques(
    new: &PodCliqueSetTemplate,
    old: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    let stored: BTreeMap<_, _> =
        old.cliques.iter().map(|clique| (clique.name.as_str(), clique)).collect();
    for (index, clique) in new.cliques.iter().enumerate() {
        let Some(stored) = stored.get(clique.name.as_str()) else { continue };
        let path = |key: &str| format!("{CLIQUES}.spec.{key}");
        let (new, old) = (&clique.spec, &stored.spec);
        immutable(path("roleName"), &new.role_name, &old.role_name, errors);
        immutable(path("minAvailable"), &new.min_available, &old.min_available, errors);
        immutable(path("startsAfter"), &new.starts_after, &old.starts_after, errors);
        immutable(
            path("podSpec.schedulerName"),
            new.pod_spec.scheduler_name().unwrap_or_default(),
            old.pod_spec.scheduler_name().unwrap_or_default(),
            errors,
        );
        immutable(
            format!("{CLIQUES}[{index}].resourceSharing"),
            &clique.resource_sharing,
            &stored.resource_sharing,
            errors,
        );
    }
}

fn validate_groups(
    new: &PodCliqueSetTemplate,
    old: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    let (new, old) = (&new.pod_clique_scaling_groups, &old.pod_clique_scaling_groups);
    if new.len() != old.len() {
        let detail = "not allowed to add or remove PodCliqueScalingGroupConfigs";
        errors.push(FieldError::forbidden(GROUPS, detail));
        return;
    }
    let stored: BTreeMap<_, _> = old.iter().map(|group| (group.name.as_str(), group)).collect();
    for group in new {
        let Some(stored) = stored.get(group.name.as_str()) else {
            let detail = format!(
                "not allowed to change scaling group composition, new scaling group name '{}' is not \
                 allowed",
                group.name
            );
            errors.push(FieldError::forbidden(format!("{GROUPS}.name"), detail));
            continue;
        };
        let path = |key: &str| format!("{GROUPS}.{key}");
        immutable(path("cliqueNames"), &group.clique_names, &stored.clique_names, errors);
        immutable(path("minAvailable"), &group.min_available, &stored.min_available, errors);
        immutable(
            path("resourceSharing"),
            &group.resource_sharing,
            &stored.resource_sharing,
            errors,
        );
    }
}

fn immutable<T: PartialEq + Serialize + ?Sized>(
    path: String,
    new: &T,
    old: &T,
    errors: &mut Vec<FieldError>,
) {
    if new != old {
        let value = serde_json::to_value(new).unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, value, "field is immutable"));
    }
}
