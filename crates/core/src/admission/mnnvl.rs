//! Rules about the annotations that put cliques into an MNNVL group. They become part of object names and pods,
//! and are immutable.

use std::collections::BTreeMap;

use grove_api::{
    PodCliqueSet,
    annotations::{
        AUTO_MNNVL, AUTO_MNNVL_DISABLED, AUTO_MNNVL_ENABLED, MNNVL_GROUP, MNNVL_GROUP_NONE,
    },
    field_error::FieldError,
    pod_clique_set::PodCliqueSetTemplate,
};

use super::{Context, syntax};

/// An object that may have the annotations: path and annotations.
struct Carrier<'a> {
    path: String,
    annotations: Option<&'a BTreeMap<String, String>>,
}

impl<'a> Carrier<'a> {
    fn new(path: &str, annotations: Option<&'a BTreeMap<String, String>>) -> Self {
        Self { path: path.to_owned(), annotations }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.annotations.and_then(|annotations| annotations.get(key)).map(String::as_str)
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

/// Identifies a carrier in the old and the new form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Child<'a> {
    Clique(&'a str),
    Group(&'a str),
}

pub(super) fn validate_create(set: &PodCliqueSet, context: &Context, errors: &mut Vec<FieldError>) {
    let children = Carrier::of_template(&set.spec.template).map(|(_, carrier)| carrier);
    for carrier in std::iter::once(Carrier::of_set(set)).chain(children) {
        validate_group(&carrier, context, errors);
        validate_switch(&carrier, context, errors);
    }
}

fn validate_group(carrier: &Carrier<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    let path = format!("{}.{MNNVL_GROUP}", carrier.path);
    let Some(group) = carrier.get(MNNVL_GROUP).filter(|&group| group != MNNVL_GROUP_NONE) else {
        return;
    };
    if group.is_empty() {
        let detail = "mnnvl-group value must not be empty";
        errors.push(FieldError::invalid(&path, group, detail));
    } else {
        let faults = syntax::dns_label(group);
        if !faults.is_empty() {
            let detail = format!(
                "mnnvl-group value {group:?} is not a valid DNS-1123 label: {}",
                faults.join(", ")
            );
            errors.push(FieldError::invalid(&path, group, detail));
        }
    }
    if !context.mnnvl_enabled {
        errors.push(not_enabled(&path, MNNVL_GROUP, group));
    }
}

fn validate_switch(carrier: &Carrier<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    let path = format!("{}.{AUTO_MNNVL}", carrier.path);
    match carrier.get(AUTO_MNNVL) {
        None | Some(AUTO_MNNVL_DISABLED) => {}
        Some(AUTO_MNNVL_ENABLED) if context.mnnvl_enabled => {}
        Some(AUTO_MNNVL_ENABLED) => {
            errors.push(not_enabled(&path, AUTO_MNNVL, AUTO_MNNVL_ENABLED));
        }
        Some(other) => {
            let detail = format!("must be {AUTO_MNNVL_ENABLED:?} or {AUTO_MNNVL_DISABLED:?}");
            errors.push(FieldError::invalid(&path, other, detail));
        }
    }
}

fn not_enabled(path: &str, key: &str, value: &str) -> FieldError {
    let detail = format!(
        "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or remove \
         the {key} annotation"
    );
    FieldError::invalid(path, value, detail)
}

pub(super) fn validate_update(
    new: &PodCliqueSet,
    old: &PodCliqueSet,
    errors: &mut Vec<FieldError>,
) {
    validate_unchanged(&Carrier::of_set(new), &Carrier::of_set(old), errors);
    let old: BTreeMap<_, _> = Carrier::of_template(&old.spec.template).collect();
    for (child, carrier) in Carrier::of_template(&new.spec.template) {
        // New children are refused by other rules.
        if let Some(old) = old.get(&child) {
            validate_unchanged(&carrier, old, errors);
        }
    }
}

fn validate_unchanged(new: &Carrier<'_>, old: &Carrier<'_>, errors: &mut Vec<FieldError>) {
    for key in [MNNVL_GROUP, AUTO_MNNVL] {
        let path = format!("{}.{key}", new.path);
        match (old.get(key), new.get(key)) {
            (None, Some(_)) => {
                let detail = format!("annotation {key} cannot be added after creation");
                errors.push(FieldError::forbidden(path, detail));
            }
            (Some(_), None) => {
                let detail = format!("annotation {key} cannot be removed after creation");
                errors.push(FieldError::forbidden(path, detail));
            }
            (Some(old), Some(new)) if old != new => {
                let detail = format!(
                    "annotation {key} is immutable and cannot be changed from {old:?} to {new:?}"
                );
                errors.push(FieldError::invalid(path, new, detail));
            }
            _ => {}
        }
    }
}
