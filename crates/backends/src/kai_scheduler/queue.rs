//! The KAI queue of a set.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodCliqueSet;

use super::QUEUE;

type Strings = BTreeMap<String, String>;

/// The queue of a set. The set and its cliques may name one, but only one; without any it is
/// `default`.
pub(super) fn of(set: &PodCliqueSet, default: Option<&str>) -> Result<String, String> {
    let metadata = &set.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let who = format!("PodCliqueSet {}/{name}", metadata.namespace.as_deref().unwrap_or_default());
    let cliques = set.spec.template.cliques.iter();
    let of_cliques = cliques.filter_map(|clique| {
        Some((&clique.name, named(Some(&clique.labels), Some(&clique.annotations))?))
    });
    if let Some(queue) = named(metadata.labels.as_ref(), metadata.annotations.as_ref()) {
        for (clique, other) in of_cliques {
            if other != queue {
                return Err(format!(
                    "KAI queue on {who} is {queue:?} but PodClique template {clique:?} resolves to \
                     {other:?}"
                ));
            }
        }
        return Ok(queue.to_owned());
    }
    let queues: BTreeSet<&str> = of_cliques.map(|(_, queue)| queue).collect();
    let mut all = queues.iter();
    match (all.next(), all.next()) {
        (Some(queue), None) => Ok((*queue).to_owned()),
        (Some(_), Some(_)) => {
            let queues: Vec<_> = queues.into_iter().collect();
            let queues = queues.join(" ");
            Err(format!("conflicting KAI queues on {who} PodClique templates: [{queues}]"))
        }
        (None, _) => default.map(str::to_owned).ok_or_else(|| {
            format!("no KAI queue is configured on {who} or its PodClique templates")
        }),
    }
}

/// The queue that a label or, without one, an annotation names.
fn named<'a>(labels: Option<&'a Strings>, annotations: Option<&'a Strings>) -> Option<&'a str> {
    let queue = |strings: Option<&'a Strings>| {
        strings?.get(QUEUE).map(String::as_str).filter(|queue| !queue.is_empty())
    };
    queue(labels).or_else(|| queue(annotations))
}
