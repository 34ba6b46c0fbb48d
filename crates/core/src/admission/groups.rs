//! Rules about scaling groups, one by one and together.

use std::collections::BTreeSet;

use grove_api::{
    PodCliqueSet, field_error::FieldError, names, pod_clique_set::ScalingGroupTemplate,
};

use super::{cliques::too_long, duplicates, sharing, syntax};

const PATH: &str = "spec.template.podCliqueScalingGroups";

pub(super) fn validate(set: &PodCliqueSet, errors: &mut Vec<FieldError>) {
    let template = &set.spec.template;
    let groups = &template.pod_clique_scaling_groups;
    let known: BTreeSet<_> = template.cliques.iter().map(|clique| clique.name.as_str()).collect();
    for (index, group) in groups.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        validate_names(&path, group, set, &known, errors);
        validate_numbers(&path, group, errors);
        sharing::validate_group(&path, group, template, errors);
    }
    for name in duplicates(groups.iter().map(|group| group.name.as_str())) {
        errors.push(FieldError::duplicate(format!("{PATH}.name"), name));
    }
    let members = || groups.iter().flat_map(|group| &group.clique_names).map(String::as_str);
    for name in duplicates(members()) {
        errors.push(FieldError::duplicate(format!("{PATH}.cliqueNames"), name));
    }
    let members: BTreeSet<_> = members().collect();
    for clique in &template.cliques {
        if clique.spec.auto_scaling_config.is_some() && members.contains(clique.name.as_str()) {
            let detail = "AutoScalingConfig is not allowed to be defined for PodClique that is part of \
                          scaling group";
            errors.push(FieldError::invalid(PATH, clique.name.as_str(), detail));
        }
    }
}

fn validate_names(
    path: &str,
    group: &ScalingGroupTemplate,
    set: &PodCliqueSet,
    known: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    if !syntax::dns_subdomain(&group.name).is_empty() {
        let detail = "invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain";
        errors.push(FieldError::invalid(format!("{path}.name"), group.name.as_str(), detail));
    }
    let unknown = group.clique_names.iter().map(String::as_str);
    let unknown: Vec<_> = unknown.filter(|name| !known.contains(name)).collect();
    if !unknown.is_empty() {
        let detail = "unidentified PodClique names found";
        errors.push(FieldError::invalid(format!("{path}.cliqueNames"), unknown.join(", "), detail));
    }
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    for (index, clique) in group.clique_names.iter().enumerate() {
        let length = names::combined_length(set_name, Some(&group.name), clique);
        if length <= names::MAX_COMBINED_LENGTH {
            continue;
        }
        let parts = format!(
            "PodCliqueSet '{set_name}', PodCliqueScalingGroup '{}', or PodClique '{clique}'",
            group.name
        );
        let detail = too_long(length, &parts);
        for (path, value) in [
            (format!("{path}.cliqueNames[{index}].name"), clique.as_str()),
            (format!("{path}.name"), clique),
            ("metadata.name".to_owned(), set_name),
        ] {
            errors.push(FieldError::invalid(path, value, detail.clone()));
        }
    }
}

/// Absent numbers get 1 from the schema.
fn validate_numbers(path: &str, group: &ScalingGroupTemplate, errors: &mut Vec<FieldError>) {
    let replicas = group.replicas.unwrap_or(1);
    if replicas <= 0 {
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(format!("{path}.replicas"), replicas, detail));
    }
    let min = group.min_available.unwrap_or(1);
    let min_path = format!("{path}.minAvailable");
    if min <= 0 {
        errors.push(FieldError::invalid(min_path, min, "must be greater than 0"));
    } else if min > replicas {
        let detail = "minAvailable must not be greater than replicas";
        errors.push(FieldError::invalid(min_path, min, detail));
    }
    let Some(scaling) = &group.scale_config else { return };
    let Some(lower) = scaling.min_replicas else { return };
    let path = format!("{path}.scaleConfig");
    if lower < min {
        let detail = "scaleConfig.minReplicas must be greater than or equal to minAvailable";
        errors.push(FieldError::invalid(format!("{path}.minReplicas"), lower, detail));
    }
    let upper = scaling.max_replicas;
    if upper < lower {
        let detail =
            format!("must be greater than or equal to scaleConfig.minReplicas, which is {lower}");
        errors.push(FieldError::invalid(format!("{path}.maxReplicas"), upper, detail));
    }
}
