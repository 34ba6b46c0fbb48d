//! Labels and annotations of the set that its gangs copy, for schedulers.
//!
//! A key that is removed from the set is removed from the gang, while keys of other owners on the gang stay. So
//! an annotation of the gang records the mirrored keys; only those are ever removed. Keys with our own prefix
//! are not mirrored: on a set they are switches for the operator. Neither is the manifest that kubectl keeps in
//! an annotation, which would multiply its size by the number of gangs.
//!
//! A set with hundreds of gangs would cost hundreds of writes for each changed annotation. So a change of
//! mirrored keys alone, which the scheduler does not act on, waits for the next write.

use std::collections::BTreeMap;

use grove_api::{GROUP, annotations::MIRRORED_KEYS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

type Strings = BTreeMap<String, String>;

/// The content of [`MIRRORED_KEYS`].
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Memory {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
}

/// Metadata of a gang.
pub(super) struct Mirrored {
    pub(super) labels: Strings,
    pub(super) annotations: Option<Strings>,
}

/// Combines the metadata of the live gang, of the set, and the labels that the operator manages.
pub(super) fn apply(set: &ObjectMeta, live: Option<&ObjectMeta>, managed: Strings) -> Mirrored {
    let live_labels = live.and_then(|live| live.labels.as_ref());
    let live_annotations = live.and_then(|live| live.annotations.as_ref());
    let before = remembered(live_annotations);

    let mut from_set = mirrorable(set.labels.as_ref());
    from_set.retain(|key, _| !managed.contains_key(key));
    let mut memory = Memory { labels: from_set.keys().cloned().collect(), ..Memory::default() };
    let mut labels = without(live_labels, &before.labels);
    labels.extend(from_set);
    labels.extend(managed);

    let from_set = mirrorable(set.annotations.as_ref());
    memory.annotations = from_set.keys().cloned().collect();
    let mut annotations = without(live_annotations, &before.annotations);
    annotations.extend(from_set);
    annotations.remove(MIRRORED_KEYS);
    if !memory.labels.is_empty() || !memory.annotations.is_empty() {
        let text = serde_json::to_string(&memory).expect("lists of texts can be written as JSON");
        annotations.insert(MIRRORED_KEYS.to_owned(), text);
    }
    Mirrored { labels, annotations: (!annotations.is_empty()).then_some(annotations) }
}

/// Whether only mirrored keys differ, and `acted_on` is false for all of them.
pub(super) fn can_wait(
    live: &ObjectMeta,
    desired: &ObjectMeta,
    acted_on: impl Fn(&str) -> bool,
) -> bool {
    let before = remembered(live.annotations.as_ref());
    let after = remembered(desired.annotations.as_ref());
    let same = |live: Option<&Strings>, desired: Option<&Strings>, mirrored: [&[String]; 2]| {
        let counts = |key: &str| {
            key != MIRRORED_KEYS
                && (acted_on(key) || !mirrored.iter().any(|keys| keys.iter().any(|one| one == key)))
        };
        let of = |strings: Option<&Strings>| -> Strings {
            let counting = strings.into_iter().flatten().filter(|(key, _)| counts(key));
            counting.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        of(live) == of(desired)
    };
    same(live.labels.as_ref(), desired.labels.as_ref(), [&before.labels, &after.labels])
        && same(
            live.annotations.as_ref(),
            desired.annotations.as_ref(),
            [&before.annotations, &after.annotations],
        )
}

/// The keys that were mirrored last time. An unreadable record counts as empty: rather keep a key too many than
/// remove a foreign one.
fn remembered(annotations: Option<&Strings>) -> Memory {
    let text = annotations.and_then(|annotations| annotations.get(MIRRORED_KEYS));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn mirrorable(strings: Option<&Strings>) -> Strings {
    let is_own = |key: &str| key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
    let mut all = strings.cloned().unwrap_or_default();
    all.retain(|key, _| !is_own(key) && key != LAST_APPLIED);
    all
}

fn without(strings: Option<&Strings>, keys: &[String]) -> Strings {
    let mut rest = strings.cloned().unwrap_or_default();
    rest.retain(|key, _| !keys.contains(key));
    rest
}
