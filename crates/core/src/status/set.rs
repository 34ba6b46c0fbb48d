//! Status of a PodCliqueSet, from the cliques and groups of its replicas.

use std::collections::BTreeMap;

use grove_api::{
    PodClique, PodCliqueScalingGroup, PodCliqueSet,
    condition::{FALSE, TRUE, pod_clique_set as condition},
    labels,
    pod_clique_set::PodCliqueSetStatus,
};
use jiff::Timestamp;

use super::condition::{Observation, Trouble, observe, observe_trouble};
use super::{Outcome, Target, clique::wire_count, is_available, is_deleting, is_updated};
use crate::layout::Layout;
use crate::{termination, update};

/// What one replica of a set contributes to the status of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent answers")]
pub struct SetReplica {
    /// Its standalone cliques and its groups are all available.
    pub available: bool,
    /// Available, and everything in it is on the target template.
    pub updated: bool,
    /// Updated, down to the last pod.
    pub renewed: bool,
    /// Some of its pods are scheduled.
    pub scheduled: bool,
    /// Something in it has lost its minimum.
    pub breached: bool,
    /// Something in it reports another template.
    pub outdated: bool,
    /// Its standalone cliques.
    pub cliques: Number,
    /// Its scaling groups.
    pub groups: Number,
}

/// How many of them are on the target template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number {
    /// Those that are.
    pub updated: u32,
    /// All of them.
    pub total: u32,
}

impl Number {
    fn add(&mut self, updated: bool) {
        self.updated += u32::from(updated);
        self.total += 1;
    }
}

/// Judges one replica of a set. `clique` and `group` find objects by name, so whatever the layout does
/// not name is not looked at.
pub fn set_replica<'a>(
    layout: &Layout<'_>,
    set_replica: u32,
    clique: impl Fn(&str) -> Option<&'a PodClique>,
    group: impl Fn(&str) -> Option<&'a PodCliqueScalingGroup>,
    template_hashes: &BTreeMap<String, String>,
    generation_hash: Option<&str>,
) -> SetReplica {
    let mut result = SetReplica { available: true, renewed: true, ..SetReplica::default() };
    for place in layout.standalone_cliques(set_replica) {
        let stored = clique(&place.name).filter(|stored| !is_deleting(&stored.metadata));
        let (Some(stored), Some(template_hash)) =
            (stored, template_hashes.get(place.template.name.as_str()))
        else {
            result.available = false;
            result.cliques.add(false);
            continue;
        };
        result.available &= is_available(stored);
        result.cliques.add(is_updated(stored, Target { template_hash, generation_hash }));
        if let Some(status) = &stored.status {
            result.renewed &= status.updated_replicas >= status.replicas;
            result.scheduled |= status.scheduled_replicas > 0;
            let hash = status.current_pod_clique_set_generation_hash.as_deref();
            result.outdated |= hash.is_some() && hash != generation_hash;
        }
        result.breached |= termination::clique_breached_since(stored).is_some();
    }
    for place in layout.groups() {
        let name = layout.scaling_group_name(set_replica, place);
        let Some(stored) = group(&name).filter(|stored| !is_deleting(&stored.metadata)) else {
            result.available = false;
            result.groups.add(false);
            continue;
        };
        let status = stored.status.as_ref();
        let available = status.map_or(0, |status| status.available_replicas);
        let hash = status.and_then(|s| s.current_pod_clique_set_generation_hash.as_deref());
        result.available &= available >= stored.spec.min_available.unwrap_or(1);
        result.groups.add(hash.is_some() && hash == generation_hash);
        result.outdated |= hash.is_some() && hash != generation_hash;
        result.scheduled |= status.is_some_and(|status| status.scheduled_replicas > 0);
        result.breached |= termination::group_breached_since(stored).is_some();
    }
    let all = |number: Number| number.updated == number.total;
    result.updated = result.available && all(result.cliques) && all(result.groups);
    result.renewed &= result.updated;
    result
}

/// What the scheduler of a set makes of it, each a reason and a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulerState<'a> {
    /// Why its objects do not say what the gangs say.
    pub problem: Option<(&'a str, &'a str)>,
    /// What it does only in part.
    pub limit: Option<(&'a str, &'a str)>,
}

/// Says what the scheduler makes of a set. Sets that never had anything to say about it have no such
/// conditions.
pub fn scheduler(
    status: &mut PodCliqueSetStatus,
    generation: Option<i64>,
    state: SchedulerState<'_>,
    now: Timestamp,
) {
    let in_sync =
        (condition::SCHEDULER_OBJECTS_IN_SYNC, "The scheduler knows all gangs of the set");
    let unlimited =
        (condition::NO_SCHEDULER_LIMITS, "The scheduler does all that the set asks for");
    let rows = [
        (condition::SCHEDULER_BACKEND_READY, state.problem, FALSE, in_sync),
        (condition::SCHEDULER_LIMITS, state.limit, TRUE, unlimited),
    ];
    for (type_, bad, when_bad, good) in rows {
        let trouble = Trouble { type_, bad, when_bad, good };
        observe_trouble(&mut status.conditions, &trouble, generation, now);
    }
}

/// The status of a set. `replicas` are the judgements of its replicas `0..spec.replicas`.
/// `generation_hash` is that of its present template.
pub fn pod_clique_set(
    set: &PodCliqueSet,
    generation_hash: &str,
    replicas: &[SetReplica],
    outcome: Outcome<'_>,
    now: Timestamp,
) -> PodCliqueSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    outcome.record(&mut status.observed_generation, &mut status.last_errors);
    let number = |is: fn(&SetReplica) -> bool| {
        wire_count(replicas.iter().filter(|replica| is(replica)).count())
    };
    status.replicas = set.spec.replicas;
    status.available_replicas = number(|replica| replica.available);
    status.updated_replicas = number(|replica| replica.updated);
    let name = set.metadata.name.as_deref().unwrap_or_default();
    status.hpa_pod_selector = Some(labels::set_pod_selector(name));
    observe_ready(&mut status, set.metadata.generation, now);
    update::set::record(set, generation_hash, replicas, &mut status, now);
    status
}

/// Whether the set is available, and where to look if it is not.
fn observe_ready(status: &mut PodCliqueSetStatus, generation: Option<i64>, now: Timestamp) {
    let (available, all) = (status.available_replicas, status.replicas);
    let available_text = format!("{available} of {all} replicas are available");
    let message = match &*status.last_errors {
        [] => available_text,
        [one] => format!("{available_text}; {}", one.description),
        [first, more @ ..] => {
            let more = more.len();
            let first = &first.description;
            format!("{available_text}; {first} (and {more} more errors, see status.lastErrors)")
        }
    };
    let (holds, reason) = match (available >= all, !status.last_errors.is_empty()) {
        (true, false) => (TRUE, condition::ALL_REPLICAS_AVAILABLE),
        (true, true) => (TRUE, condition::AVAILABLE_WITH_ERRORS),
        (false, false) => (FALSE, condition::REPLICAS_UNAVAILABLE),
        (false, true) => (FALSE, condition::RECONCILE_ERROR),
    };
    let type_ = condition::READY;
    observe(
        &mut status.conditions,
        Observation { type_, status: holds, reason, message, generation },
        now,
    );
}
