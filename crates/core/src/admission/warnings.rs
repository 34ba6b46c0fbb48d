//! Warnings about accepted settings that have no effect or may fail later.

use std::collections::BTreeMap;

use grove_api::PodCliqueSet;
use serde_json::Value;

/// The warning for a clique with a restart policy other than the default. The stored default looks like a value
/// of the user, so it gets no warning.
pub const RESTART_POLICY_IGNORED: &str = "restartPolicy will be ignored, it will be set to Always";

/// The warnings about a set, in template order.
pub(super) fn of(set: &PodCliqueSet) -> Vec<String> {
    let template = &set.spec.template;
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut warnings = Vec::new();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        warnings.push(format!(
            "metadata.name: {name:?} starts with a digit: the Service made from it may be refused"
        ));
    }
    let mut dots = |path: &str, name: &str| {
        if name.contains('.') {
            warnings.push(format!(
                "{path}: {name:?} contains a dot: host names made from it are no DNS labels and will be \
                 refused"
            ));
        }
    };
    dots("metadata.name", name);
    for (index, clique) in template.cliques.iter().enumerate() {
        dots(&format!("spec.template.cliques[{index}].name"), &clique.name);
    }
    for (index, group) in template.pod_clique_scaling_groups.iter().enumerate() {
        dots(&format!("spec.template.podCliqueScalingGroups[{index}].name"), &group.name);
    }
    for (index, clique) in template.cliques.iter().enumerate() {
        let gates = clique.spec.pod_spec.get("schedulingGates").and_then(Value::as_array);
        if gates.is_some_and(|gates| !gates.is_empty()) {
            warnings.push(format!(
                "spec.template.cliques[{index}].spec.podSpec.schedulingGates: ignored, Grove sets the \
                 scheduling gates of its pods itself; remove the field (clique {:?})",
                clique.name
            ));
        }
    }
    let cliques = template.cliques.iter();
    let with_policy = cliques.filter(|clique| clique.spec.pod_spec.may_succeed());
    warnings.extend(with_policy.map(|_| RESTART_POLICY_IGNORED.to_owned()));
    warnings
}

/// The priority classes that a set names, each with the first field that names it.
pub fn priority_classes(set: &PodCliqueSet) -> BTreeMap<&str, String> {
    let template = &set.spec.template;
    let mut classes = BTreeMap::new();
    let of_template = template.priority_class_name.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = of_template {
        classes.insert(name, "spec.template.priorityClassName".to_owned());
    }
    for (index, clique) in template.cliques.iter().enumerate() {
        if let Some(name) = clique.spec.pod_spec.priority_class_name() {
            let path = format!("spec.template.cliques[{index}].spec.podSpec.priorityClassName");
            classes.entry(name).or_insert(path);
        }
    }
    classes
}

/// The warning about a priority class that does not exist. It may still be created, so the set is stored.
pub fn missing_priority_class(path: &str, name: &str) -> String {
    format!(
        "{path}: PriorityClass {name:?} not found; pods are refused until it exists: create it or correct \
         the name"
    )
}
