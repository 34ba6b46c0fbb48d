//! What is accepted although it will not work as its author may think.

use grove_api::PodCliqueSet;

/// Said for every clique that has a restart policy, which after defaulting is every clique.
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
    let cliques = template.cliques.iter();
    let with_policy = cliques.filter(|clique| clique.spec.pod_spec.contains_key("restartPolicy"));
    warnings.extend(with_policy.map(|_| RESTART_POLICY_IGNORED.to_owned()));
    warnings
}
