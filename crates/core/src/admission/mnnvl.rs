//! Rules about the annotation that puts cliques into an MNNVL group. Its value becomes part of object names
//! and cannot change later.

use std::collections::BTreeMap;

use grove_api::{
    PodCliqueSet,
    annotations::{MNNVL_GROUP, MNNVL_GROUP_NONE},
    field_error::FieldError,
    pod_clique_set::PodCliqueSetTemplate,
};

use super::{Context, syntax};

/// An object that may carry the annotation: path of its annotations, and the annotation.
struct Carrier<'a> {
    path: String,
    group: Option<&'a str>,
}

impl<'a> Carrier<'a> {
    fn new(path: &str, annotations: Option<&'a BTreeMap<String, String>>) -> Self {
        let group = annotations.and_then(|annotations| annotations.get(MNNVL_GROUP));
        let path = format!("{path}.{MNNVL_GROUP}");
        Self { path, group: group.map(String::as_str) }
    }

    fn of_set(set: &'a PodCliqueSet) -> Self {
        Self::new("metadata.annotations", set.metadata.annotations.as_ref())
    }

    /// Cliques and groups with their names.
    fn of_template(template: &'a PodCliqueSetTemplate) -> impl Iterator<Item = (Child<'a>, Self)> {
        let cliques = template.cliques.iter().enumerate().map(|(index, clique)| {
            let path = format!("spec.template.cliques[{index}].annotations");
            (Child::Clique(&clique.name), Self::new(&path, Some(&clique.annotations)))
        });
        let groups = template.pod_clique_scaling_groups.iter().enumerate();
        cliques.chain(groups.map(|(index, group)| {
            let path = format!("spec.template.podCliqueScalingGroups[{index}].annotations");
            (Child::Group(&group.name), Self::new(&path, Some(&group.annotations)))
        }))
    }
}

/// What the old and the new form of a carrier have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Child<'a> {
    Clique(&'a str),
    Group(&'a str),
}

pub(super) fn validate_create(set: &PodCliqueSet, context: &Context, errors: &mut Vec<FieldError>) {
    let children = Carrier::of_template(&set.spec.template).map(|(_, carrier)| carrier);
    for carrier in std::iter::once(Carrier::of_set(set)).chain(children) {
        let Some(group) = carrier.group.filter(|&group| group != MNNVL_GROUP_NONE) else {
            continue;
        };
        if group.is_empty() {
            let detail = "mnnvl-group value must not be empty";
            errors.push(FieldError::invalid(&carrier.path, group, detail));
        } else {
            let faults = syntax::dns_label(group);
            if !faults.is_empty() {
                let detail = format!(
                    "mnnvl-group value {group:?} is not a valid DNS-1123 label: {}",
                    faults.join(", ")
                );
                errors.push(FieldError::invalid(&carrier.path, group, detail));
            }
        }
        if !context.mnnvl_enabled {
            let detail = format!(
                "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or \
                 remove the {MNNVL_GROUP} annotation"
            );
            errors.push(FieldError::invalid(carrier.path, group, detail));
        }
    }
}

pub(super) fn validate_update(
    new: &PodCliqueSet,
    old: &PodCliqueSet,
    errors: &mut Vec<FieldError>,
) {
    let set = Carrier::of_set(new);
    validate_unchanged(&set, Carrier::of_set(old).group, errors);
    let old: BTreeMap<_, _> = Carrier::of_template(&old.spec.template).collect();
    for (child, carrier) in Carrier::of_template(&new.spec.template) {
        // Children that were not there before are refused as such.
        if let Some(old) = old.get(&child) {
            validate_unchanged(&carrier, old.group, errors);
        }
    }
}

fn validate_unchanged(new: &Carrier<'_>, old: Option<&str>, errors: &mut Vec<FieldError>) {
    let path = new.path.as_str();
    match (old, new.group) {
        (None, Some(_)) => {
            let detail = format!("annotation {MNNVL_GROUP} cannot be added after creation");
            errors.push(FieldError::forbidden(path, detail));
        }
        (Some(_), None) => {
            let detail = format!("annotation {MNNVL_GROUP} cannot be removed after creation");
            errors.push(FieldError::forbidden(path, detail));
        }
        (Some(old), Some(new)) if old != new => {
            let detail = format!(
                "annotation {MNNVL_GROUP} is immutable and cannot be changed from {old:?} to {new:?}"
            );
            errors.push(FieldError::invalid(path, new, detail));
        }
        _ => {}
    }
}
