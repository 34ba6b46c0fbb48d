//! Rules about `resourceSharing`, which occurs at the set, its groups and its cliques.

use std::collections::BTreeSet;

use grove_api::{
    field_error::FieldError,
    pod_clique_set::{
        PodCliqueSetTemplate, PodCliqueTemplate, ResourceSharingScope, ScalingGroupTemplate,
    },
};

/// The common part of the entries of all three levels.
struct Reference<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    scope: &'a ResourceSharingScope,
}

pub(super) fn validate_set(template: &PodCliqueSetTemplate, errors: &mut Vec<FieldError>) {
    let path = "spec.template.resourceSharing";
    let cliques = template.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let groups =
        template.pod_clique_scaling_groups.iter().map(|group| group.name.as_str()).collect();
    let mut entries = Entries::new(path, template);
    for (index, entry) in template.resource_sharing.iter().enumerate() {
        let reference = Reference {
            name: &entry.name,
            namespace: entry.namespace.as_deref(),
            scope: &entry.scope,
        };
        entries.validate(index, &reference, errors);
        let Some(filter) = &entry.filter else { continue };
        let path = format!("{path}[{index}].filter");
        if filter.child_clique_names.is_empty() && filter.child_scaling_group_names.is_empty() {
            let detail = "filter must specify at least one childCliqueNames or childScalingGroupNames \
                          entry";
            errors.push(FieldError::required(&path, detail));
        }
        let names = format!("{path}.childCliqueNames");
        validate_children(&names, &filter.child_clique_names, &cliques, errors);
        let names = format!("{path}.childScalingGroupNames");
        validate_children(&names, &filter.child_scaling_group_names, &groups, errors);
    }
}

pub(super) fn validate_group(
    path: &str,
    group: &ScalingGroupTemplate,
    template: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    let path = format!("{path}.resourceSharing");
    let members = group.clique_names.iter().map(String::as_str).collect();
    let mut entries = Entries::new(&path, template);
    for (index, entry) in group.resource_sharing.iter().enumerate() {
        let reference = Reference {
            name: &entry.name,
            namespace: entry.namespace.as_deref(),
            scope: &entry.scope,
        };
        entries.validate(index, &reference, errors);
        let Some(filter) = &entry.filter else { continue };
        let path = format!("{path}[{index}].filter");
        if filter.child_clique_names.is_empty() {
            let detail = "filter must specify at least one childCliqueNames entry";
            errors.push(FieldError::required(&path, detail));
        }
        let names = format!("{path}.childCliqueNames");
        validate_children(&names, &filter.child_clique_names, &members, errors);
    }
}

pub(super) fn validate_clique(
    path: &str,
    clique: &PodCliqueTemplate,
    template: &PodCliqueSetTemplate,
    errors: &mut Vec<FieldError>,
) {
    let path = format!("{path}.resourceSharing");
    let mut entries = Entries::new(&path, template);
    for (index, entry) in clique.resource_sharing.iter().enumerate() {
        let reference = Reference {
            name: &entry.name,
            namespace: entry.namespace.as_deref(),
            scope: &entry.scope,
        };
        entries.validate(index, &reference, errors);
    }
}

/// Checks the entries of one list.
struct Entries<'a> {
    path: &'a str,
    internal: BTreeSet<&'a str>,
    seen: BTreeSet<String>,
}

impl<'a> Entries<'a> {
    fn new(path: &'a str, template: &'a PodCliqueSetTemplate) -> Self {
        let templates = template.resource_claim_templates.iter();
        let internal = templates.map(|template| template.name.as_str()).collect();
        Self { path, internal, seen: BTreeSet::new() }
    }

    fn validate(&mut self, index: usize, entry: &Reference<'_>, errors: &mut Vec<FieldError>) {
        let path = format!("{}[{index}]", self.path);
        if entry.name.is_empty() {
            let detail = "reference name is required";
            errors.push(FieldError::required(format!("{path}.name"), detail));
        } else if !self.seen.insert(entry.name.to_owned()) {
            errors.push(FieldError::duplicate(format!("{path}.name"), entry.name));
        }
        let namespace = entry.namespace.unwrap_or_default();
        if !namespace.is_empty() && self.internal.contains(entry.name) {
            let detail =
                "namespace must be empty when name matches an internal resourceClaimTemplate";
            errors.push(FieldError::invalid(format!("{path}.namespace"), namespace, detail));
        }
        if let ResourceSharingScope::Unknown(scope) = entry.scope {
            let path = format!("{path}.scope");
            let known = ResourceSharingScope::KNOWN;
            errors.push(FieldError::not_supported(path, scope.as_str(), known));
        }
    }
}

fn validate_children(
    path: &str,
    names: &[String],
    known: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    for (index, name) in names.iter().enumerate() {
        if !known.contains(name.as_str()) {
            errors.push(FieldError::not_found(format!("{path}[{index}]"), name.as_str()));
        }
    }
}
