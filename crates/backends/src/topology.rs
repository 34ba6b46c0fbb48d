//! Where sets ask for a place in the topology.

use grove_api::PodCliqueSet;

/// The parts of a set that have a topology constraint, as messages name them.
pub(crate) fn constrained(set: &PodCliqueSet) -> Vec<String> {
    let template = &set.spec.template;
    let whole = template.topology_constraint.as_ref().map(|_| "PodCliqueSet".to_owned());
    let cliques = template.cliques.iter().filter(|clique| clique.topology_constraint.is_some());
    let groups = template.pod_clique_scaling_groups.iter();
    let groups = groups.filter(|group| group.topology_constraint.is_some());
    whole
        .into_iter()
        .chain(cliques.map(|clique| format!("PodClique {:?}", clique.name)))
        .chain(groups.map(|group| format!("PodCliqueScalingGroup {:?}", group.name)))
        .collect()
}
