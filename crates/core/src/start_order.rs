//! The PodCliques that have to be ready before another one starts.
//!
//! The template orders cliques; each clique exists once per replica of its group. The order applies only inside
//! a gang, because the start-order container watches only the pods of its own gang and would wait for other
//! parents without end.

use grove_api::{
    names,
    pod_clique_set::{CliqueStartupType, PodCliqueTemplate},
};

use crate::layout::{self, Clique, Layout};

/// A PodClique to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Name of the PodClique.
    pub pod_clique: String,
    /// Number of its pods that have to be ready.
    pub min_available: i32,
}

/// The parents of one PodClique: in template order, then by group replica.
pub fn parents(layout: &Layout<'_>, clique: &Clique<'_>) -> Vec<Parent> {
    let templates = parent_templates(layout, clique.template);
    templates.into_iter().flat_map(|parent| resolve(layout, clique, parent)).collect()
}

/// Whether any pod of the set has the start-order container. Otherwise no pod needs the token.
pub fn is_needed(layout: &Layout<'_>) -> bool {
    let mut cliques = layout.template().cliques.iter();
    cliques.any(|clique| !parent_templates(layout, clique).is_empty())
}

/// The cliques of the template directly before the given one.
fn parent_templates<'a>(
    layout: &Layout<'a>,
    clique: &PodCliqueTemplate,
) -> Vec<&'a PodCliqueTemplate> {
    let cliques = &layout.template().cliques;
    match layout.template().clique_startup_type {
        Some(CliqueStartupType::InOrder) => {
            let position = cliques.iter().position(|other| other.name == clique.name);
            let before = position.and_then(|position| position.checked_sub(1));
            before.and_then(|before| cliques.get(before)).into_iter().collect()
        }
        Some(CliqueStartupType::Explicit) => {
            let named = |name: &String| cliques.iter().find(|other| other.name == *name);
            clique.spec.starts_after.iter().filter_map(named).collect()
        }
        Some(CliqueStartupType::AnyOrder | CliqueStartupType::Unknown(_)) | None => Vec::new(),
    }
}

fn resolve(layout: &Layout<'_>, child: &Clique<'_>, parent: &PodCliqueTemplate) -> Vec<Parent> {
    let group = layout.group_of(&parent.name);
    let names = match (&child.base_gang, group) {
        // A scaled gang is one replica of one group: it contains only its own members.
        (Some(_), group) => {
            let own = child.member_of.as_ref();
            let same = own.filter(|own| group.is_some_and(|g| g.template.name == own.group.name));
            let name = |own: &layout::Membership<'_>| {
                names::member_pod_clique(&own.scaling_group, own.replica, &parent.name)
            };
            same.map(name).into_iter().collect()
        }
        (None, Some(group)) => {
            let scaling_group = layout.scaling_group_name(child.set_replica, group);
            let name = |replica| names::member_pod_clique(&scaling_group, replica, &parent.name);
            (0..group.min_available()).map(name).collect()
        }
        (None, None) => {
            let set = layout.set_name();
            vec![names::standalone_pod_clique(set, child.set_replica, &parent.name)]
        }
    };
    let min_available = layout::min_available(parent);
    names.into_iter().map(|pod_clique| Parent { pod_clique, min_available }).collect()
}

#[cfg(test)]
mod tests;
