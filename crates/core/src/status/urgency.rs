//! Which changes of a status must be written without delay.
//!
//! While pods start and stop, counters change many times, and only the last value matters. Other changes are
//! urgent: available, breached, failed, and each step of an update.

use grove_api::condition::{Condition, min_available as breach};
use grove_api::pod_clique::{PodCliqueStatus, PodsSelectedToUpdate};
use grove_api::pod_clique_scaling_group::{PodCliqueScalingGroupStatus, ReplicasSelectedToUpdate};
use grove_api::{PodClique, PodCliqueScalingGroup};

use crate::condition::find;
use crate::minimum::{min_available, reached::is_reached};

/// Whether the next status of a PodClique has to be written without delay: it became available or unavailable,
/// all its pods became ready or one stopped being ready, a breach started or ended, its update made a step, or
/// its errors changed.
pub fn is_urgent_for_clique(clique: &PodClique, next: &PodCliqueStatus) -> bool {
    let stored = clique.status.as_ref();
    let ready = (stored.map_or(0, |stored| stored.ready_replicas), next.ready_replicas);
    let breached = stored.and_then(|stored| find(&stored.conditions, breach::BREACHED));
    crosses(ready, min_available(clique))
        || crosses(ready, clique.spec.replicas)
        || turns(breached, find(&next.conditions, breach::BREACHED))
        || is_first_reached(stored.map(|stored| &*stored.conditions), &next.conditions)
        || goes_on(clique_step(stored), clique_step(Some(next)))
        || stored.map_or(&[][..], |stored| &stored.last_errors) != next.last_errors
}

/// The same for a group, which counts replicas that are available.
pub fn is_urgent_for_group(
    group: &PodCliqueScalingGroup,
    next: &PodCliqueScalingGroupStatus,
) -> bool {
    let stored = group.status.as_ref();
    let available = (stored.map_or(0, |stored| stored.available_replicas), next.available_replicas);
    let breached = stored.and_then(|stored| find(&stored.conditions, breach::BREACHED));
    crosses(available, group.spec.min_available.unwrap_or(1))
        || crosses(available, group.spec.replicas)
        || turns(breached, find(&next.conditions, breach::BREACHED))
        || is_first_reached(stored.map(|stored| &*stored.conditions), &next.conditions)
        || goes_on(group_step(stored), group_step(Some(next)))
        || turns(current_hash(stored), current_hash(Some(next)))
        || stored.map_or(&[][..], |stored| &stored.last_errors) != next.last_errors
}

/// Whether the minimum was reached for the first time.
fn is_first_reached(before: Option<&[Condition]>, after: &[Condition]) -> bool {
    is_reached(after) && !before.is_some_and(is_reached)
}

fn crosses((before, after): (i32, i32), line: i32) -> bool {
    (before >= line) != (after >= line)
}

/// The first value of a condition is not a change.
fn turns(before: Option<&str>, after: Option<&str>) -> bool {
    before.is_some() && before != after
}

/// A step of an update: its hash, whether it has ended, and what is being replaced.
type Step<'a, T> = (&'a str, bool, Option<&'a T>);

/// Whether an update made a step. The update of a new object has none: it ends when it starts.
fn goes_on<T: PartialEq>(before: Option<Step<'_, T>>, after: Option<Step<'_, T>>) -> bool {
    before != after && (before.is_some() || after.is_some_and(|(_, is_over, _)| !is_over))
}

fn clique_step(status: Option<&PodCliqueStatus>) -> Option<Step<'_, PodsSelectedToUpdate>> {
    let progress = status?.update_progress.as_ref()?;
    let selected = progress.ready_pods_selected_to_update.as_ref();
    let is_over = progress.update_ended_at.is_some();
    Some((&progress.pod_clique_set_generation_hash, is_over, selected))
}

fn group_step(
    status: Option<&PodCliqueScalingGroupStatus>,
) -> Option<Step<'_, ReplicasSelectedToUpdate>> {
    let progress = status?.update_progress.as_ref()?;
    let selected = progress.ready_replica_indices_selected_to_update.as_ref();
    let is_over = progress.update_ended_at.is_some();
    Some((&progress.pod_clique_set_generation_hash, is_over, selected))
}

fn current_hash(status: Option<&PodCliqueScalingGroupStatus>) -> Option<&str> {
    status?.current_pod_clique_set_generation_hash.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(ready: i32, breached: Option<&str>) -> Value {
        let condition = breached.map(|status| {
            json!({ "type": breach::BREACHED, "status": status, "reason": "r", "message": "" })
        });
        json!({ "replicas": 3, "readyReplicas": ready, "conditions": Vec::from_iter(condition) })
    }

    fn updating(hash: &str, is_over: bool, pod: Option<&str>) -> Value {
        let ended = is_over.then_some("2026-08-01T10:00:00Z");
        let selected = pod.map(|pod| json!({ "current": pod }));
        json!({ "updateProgress": {
            "podCliqueSetGenerationHash": hash, "podTemplateHash": "t", "updateEndedAt": ended,
            "readyPodsSelectedToUpdate": selected,
        } })
    }

    #[test]
    fn only_changes_that_users_wait_for_are_urgent() {
        let failed = json!({ "lastErrors": [{ "code": "ERR", "description": "d" }] });
        let cases = [
            ("first", Value::Null, status(0, Some("True")), false),
            ("below the minimum", status(0, None), status(1, None), false),
            ("available", status(1, None), status(2, None), true),
            ("whole", status(2, None), status(3, None), true),
            ("not whole any more", status(3, None), status(2, None), true),
            ("breached", status(3, Some("False")), status(3, Some("True")), true),
            ("recovered", status(3, Some("True")), status(3, Some("False")), true),
            ("an update that ends when it starts", json!({}), updating("a", true, None), false),
            ("an update", json!({}), updating("a", false, None), true),
            ("its next pod", updating("a", false, None), updating("a", false, Some("p")), true),
            ("its end", updating("a", false, None), updating("a", true, None), true),
            ("another update", updating("a", true, None), updating("b", true, None), true),
            ("failed", json!({}), failed.clone(), true),
            ("as before", failed.clone(), failed, false),
        ];
        for (what, stored, next, urgent) in cases {
            let clique: PodClique = serde_json::from_value(json!({
                "metadata": { "name": "a" },
                "spec": { "replicas": 3, "minAvailable": 2 },
                "status": stored,
            }))
            .unwrap();
            let next = serde_json::from_value(next).unwrap();
            assert_eq!(is_urgent_for_clique(&clique, &next), urgent, "{what}");
        }
    }

    #[test]
    fn the_urgency_of_a_group_depends_on_available_replicas() {
        for (before, after, urgent) in [(0, 1, true), (1, 2, false), (2, 3, true), (3, 3, false)] {
            let group: PodCliqueScalingGroup = serde_json::from_value(json!({
                "metadata": { "name": "a" },
                "spec": { "replicas": 3, "minAvailable": 1, "cliqueNames": [] },
                "status": { "availableReplicas": before },
            }))
            .unwrap();
            let next = serde_json::from_value(json!({ "availableReplicas": after })).unwrap();
            assert_eq!(is_urgent_for_group(&group, &next), urgent, "{before} -> {after}");
        }
    }
}
