//! What the metadata and conditions of objects say.

use grove_api::condition::Condition;
use grove_api::{PodClique, PodCliqueSet, annotations};
use grove_core::hash;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether the user holds the updates of a set.
pub(crate) fn is_paused(set: &ObjectMeta) -> bool {
    let annotation = set.annotations.as_ref().and_then(|all| all.get(annotations::ROLLOUT_PAUSED));
    annotation.is_some_and(|value| value == "true")
}

/// Whether the user holds an update that has not begun. Only the operator that knows the annotation is asked,
/// because others compute other hashes.
pub(crate) fn holds_back(set: &PodCliqueSet) -> bool {
    let running = set.status.as_ref().and_then(|status| status.current_generation_hash.as_ref());
    is_paused(&set.metadata)
        && running.is_some_and(|running| *running != hash::generation_hash(set))
}

/// How many pods of a clique are enough.
pub(super) fn minimum(clique: &PodClique) -> i32 {
    clique.spec.min_available.unwrap_or(clique.spec.replicas)
}

pub(super) fn condition<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

pub(super) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

pub(super) fn label<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// The index that a label says.
pub(super) fn index(meta: &ObjectMeta, key: &str) -> Option<u32> {
    label(meta, key)?.parse().ok()
}

pub(super) fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub(super) fn created(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.creation_timestamp.as_ref().map(|time| time.0)
}
