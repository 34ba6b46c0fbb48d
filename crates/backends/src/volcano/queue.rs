//! The Volcano queue of a set.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodCliqueSet;
use grove_api::annotations::VOLCANO_QUEUE;
use grove_api::field_error::FieldError;
use grove_core::admission::syntax::dns_subdomain;
use grove_runtime::resource::{ObjectKey, Resource};

use crate::contract::{GangInput, SchedulerObjects};

pub(super) const QUEUES: Resource =
    Resource::cluster("scheduling.volcano.sh", "v1beta1", "queues", "Queue");
/// Queue of workloads that name none.
const DEFAULT_QUEUE: &str = "default";
/// `status.state` of a queue that accepts workloads.
const QUEUE_OPEN: &str = "Open";

type Strings = BTreeMap<String, String>;

/// The queue of a gang: that of its set, that of the cliques of the set, or the default one.
pub(super) fn of(gang: &GangInput<'_>) -> String {
    let own = || named(gang.object.metadata.annotations.as_ref());
    let of_set = gang.set.and_then(|set| {
        let of_cliques =
            || set.spec.template.cliques.iter().find_map(|one| of_clique(&one.annotations));
        named(set.metadata.annotations.as_ref()).or_else(of_cliques)
    });
    of_set.or_else(own).unwrap_or(DEFAULT_QUEUE).to_owned()
}

fn named(annotations: Option<&Strings>) -> Option<&str> {
    annotations?.get(VOLCANO_QUEUE).map(|queue| queue.trim()).filter(|queue| !queue.is_empty())
}

fn of_clique(annotations: &Strings) -> Option<&str> {
    named(Some(annotations))
}

/// Fails unless a set resolves to one queue that accepts workloads.
pub(super) fn check(set: &PodCliqueSet, objects: &dyn SchedulerObjects) -> Result<(), String> {
    let of_set = named(set.metadata.annotations.as_ref());
    if let Some(queue) = of_set {
        valid(format!("metadata.annotations[{VOLCANO_QUEUE}]"), queue)?;
    }
    let cliques = &set.spec.template.cliques;
    for (index, clique) in cliques.iter().enumerate() {
        let Some(queue) = of_clique(&clique.annotations) else { continue };
        valid(format!("spec.template.cliques[{index}].annotations[{VOLCANO_QUEUE}]"), queue)?;
        if let Some(of_set) = of_set.filter(|of_set| *of_set != queue) {
            return Err(format!(
                "conflicting volcano queue annotations: PodCliqueSet has {of_set:?}, PodClique has \
                 {queue:?}"
            ));
        }
    }
    let otherwise = of_set.unwrap_or(DEFAULT_QUEUE);
    let resolved: BTreeSet<&str> =
        cliques.iter().map(|clique| of_clique(&clique.annotations).unwrap_or(otherwise)).collect();
    if resolved.len() > 1 {
        return Err(
            "all PodCliques in a PodCliqueSet using volcano scheduler must resolve to the \
                    same queue"
                .to_owned(),
        );
    }
    let queue = resolved.first().copied().unwrap_or(otherwise);
    let found = objects.get(&QUEUES, &ObjectKey::new("", queue));
    match found {
        None => Err(format!("volcano queue {queue:?} does not exist")),
        Some(found) if found.object["status"]["state"] != QUEUE_OPEN => {
            Err(format!("volcano queue {queue:?} is not Open"))
        }
        Some(_) => Ok(()),
    }
}

fn valid(path: String, queue: &str) -> Result<(), String> {
    match dns_subdomain(queue).first() {
        None => Ok(()),
        Some(fault) => Err(FieldError::invalid(path, queue, fault).to_string()),
    }
}
