//! The state of one replica of a scaling group or of a set, from the status of its parts.
//!
//! The results are small and can be kept and added up, so that a change costs only one replica.

use std::collections::BTreeMap;

use grove_api::condition::{self, min_available as breach};
use grove_api::{PodClique, PodCliqueScalingGroup};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::condition::find;
use crate::hash::template_hash_label;
use crate::layout::{Clique, Layout};
use crate::minimum::{is_available, is_scheduled, min_available};
use crate::termination;

/// The hashes that an up-to-date PodClique has.
#[derive(Clone, Copy, Debug)]
pub struct TargetHashes<'a> {
    /// Hash of its clique template.
    pub template_hash: &'a str,
    /// `status.currentGenerationHash` of the set; absent before the set's first status.
    pub generation_hash: Option<&'a str>,
}

/// What one replica of a group contributes to the status of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent answers, each counted")]
pub struct GroupReplica {
    /// Every member has its minimum scheduled.
    pub scheduled: bool,
    /// Scheduled, and every member has its minimum ready.
    pub available: bool,
    /// Available, and every member is up to date.
    pub updated: bool,
    /// Every member exists and none reports a breach.
    pub healthy: bool,
    /// Every member exists and reports that there is no breach; unlike for `healthy`, an absent condition does not count.
    pub reports_healthy: bool,
    /// Every member exists and once had its minimum.
    pub reached: bool,
    /// Every member exists, has the label of the target template and has reported its hashes.
    pub current: bool,
}

/// The state of one replica of a group. `member` finds a PodClique by name; `template_hashes` has the hash of
/// each clique of the template.
pub fn group_replica<'a>(
    members: &[Clique<'_>],
    member: impl Fn(&str) -> Option<&'a PodClique>,
    template_hashes: &BTreeMap<String, String>,
    generation_hash: Option<&str>,
) -> GroupReplica {
    let mut result = GroupReplica {
        scheduled: true,
        available: true,
        updated: true,
        healthy: true,
        reports_healthy: true,
        reached: true,
        current: true,
    };
    for place in members {
        let stored = member(&place.name).filter(|stored| !is_deleting(&stored.metadata));
        let (Some(stored), Some(template_hash)) =
            (stored, template_hashes.get(place.template.name.as_str()))
        else {
            return GroupReplica::default();
        };
        let is = |type_| stored.status.as_ref().and_then(|status| find(&status.conditions, type_));
        result.scheduled &= is_scheduled(stored);
        result.available &= is_available(stored);
        result.updated &= is_updated(stored, TargetHashes { template_hash, generation_hash });
        result.healthy &= is(breach::BREACHED) != Some(condition::TRUE);
        result.reports_healthy &= is(breach::BREACHED) == Some(condition::FALSE);
        result.reached &= is(breach::REACHED) == Some(condition::TRUE);
        result.current &=
            template_hash_label(stored) == Some(template_hash) && has_reported_hashes(stored);
    }
    result.available &= result.scheduled;
    result.updated &= result.available;
    result
}

fn has_reported_hashes(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| {
        status.current_pod_template_hash.is_some()
            && status.current_pod_clique_set_generation_hash.is_some()
    })
}

/// What one replica of a set contributes to the status of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent answers")]
pub struct SetReplica {
    /// Its standalone cliques and its groups are all available.
    pub available: bool,
    /// Available, and all its cliques and groups are up to date.
    pub updated: bool,
    /// Updated, and all its pods are up to date.
    pub renewed: bool,
    /// Some of its pods are scheduled.
    pub scheduled: bool,
    /// A clique or group in it has lost its minimum.
    pub breached: bool,
    /// A clique or group in it reports another template.
    pub outdated: bool,
    /// Its standalone cliques.
    pub cliques: Number,
    /// Its scaling groups.
    pub groups: Number,
}

/// Number of up-to-date parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number {
    /// Up-to-date parts.
    pub updated: u32,
    /// All parts.
    pub total: u32,
}

impl Number {
    fn add(&mut self, updated: bool) {
        self.updated += u32::from(updated);
        self.total += 1;
    }
}

/// The state of one replica of a set. `clique` and `group` find objects by name, so objects outside the layout
/// are ignored.
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
        result.cliques.add(is_updated(stored, TargetHashes { template_hash, generation_hash }));
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

/// Whether a PodClique is up to date and has its minimum.
pub(crate) fn is_updated(clique: &PodClique, target: TargetHashes<'_>) -> bool {
    let Some(status) = &clique.status else {
        return false;
    };
    let hash = Some(target.template_hash);
    target.generation_hash.is_some()
        && template_hash_label(clique) == hash
        && status.current_pod_template_hash.as_deref() == hash
        && status.current_pod_clique_set_generation_hash.as_deref() == target.generation_hash
        && status.updated_replicas >= min_available(clique)
        && is_available(clique)
}

pub(crate) fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}
