//! Event objects (`core/v1`, the shape that kubectl and dashboards read).

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::json;

use super::correlate::StoredEvent;
use super::{EVENTS, Queued};
use crate::resource::ObjectKey;
use crate::write::{Precondition, Verb, Write};

/// The API server's limit.
const MAX_MESSAGE_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 253;
/// Namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns the write that creates an event.
pub(super) fn create(queued: &Queued, instance: &str, random: u64) -> Write {
    let occurrence = &queued.occurrence;
    let about = &occurrence.about;
    let namespace =
        if about.namespace.is_empty() { DEFAULT_NAMESPACE } else { about.namespace.as_str() };
    let key = ObjectKey::new(namespace, &name(&about.name, random));
    let mut involved = json!({
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
    });
    if !about.namespace.is_empty() {
        involved["namespace"] = json!(about.namespace);
    }
    if about.resource_version != 0 {
        involved["resourceVersion"] = json!(about.resource_version.to_string());
    }
    let body = json!({
        "apiVersion": EVENTS.api_version(),
        "kind": EVENTS.kind,
        "metadata": { "name": &*key.name, "namespace": namespace },
        "involvedObject": involved,
        "type": occurrence.severity.as_str(),
        "reason": occurrence.reason,
        "action": occurrence.action,
        "message": cut(&occurrence.message),
        "source": { "component": queued.component },
        "reportingComponent": queued.component,
        "reportingInstance": instance,
        "firstTimestamp": seconds(queued.at),
        "lastTimestamp": seconds(queued.at),
        "count": 1,
    });
    Write { resource: EVENTS, key, verb: Verb::Create { body }, reason: "create the event" }
}

/// Returns the write that sets the count of an event.
pub(super) fn repeat(event: &StoredEvent, queued: &Queued, count: u32) -> Write {
    let patch = json!({ "count": count, "lastTimestamp": seconds(queued.at) });
    let only_if = Precondition::uid(&event.uid);
    Write {
        resource: EVENTS,
        key: event.key.clone(),
        verb: Verb::Merge { patch, only_if, subresource: None },
        reason: "count a repetition",
    }
}

/// Unique, and sorts next to the name of its object.
fn name(object: &str, random: u64) -> String {
    let suffix = format!(".{random:016x}");
    let mut end = object.len().min(MAX_NAME_BYTES - suffix.len());
    while !object.is_char_boundary(end) {
        end -= 1;
    }
    // A label of a DNS name must end with a letter or digit.
    let stem = object[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{stem}{suffix}")
}

fn cut(message: &str) -> String {
    const ELLIPSIS: char = '…';
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let mut end = MAX_MESSAGE_BYTES - ELLIPSIS.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &message[..end])
}

fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(0)).timestamp_to_string(&time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_between_characters() {
        let cases = [
            ("a".repeat(1024), 1024),
            ("a".repeat(1025), 1024),
            // Two-byte characters do not fill the space before the ellipsis evenly.
            ("ä".repeat(600), 1023),
        ];
        for (message, bytes) in cases {
            let cut = cut(&message);
            assert_eq!(cut.len(), bytes);
            assert_eq!(cut.ends_with('…'), message.len() > 1024);
        }
    }

    #[test]
    fn names_are_valid_and_keep_the_object_in_front() {
        assert_eq!(name("web-0", 0xab), "web-0.00000000000000ab");
        let long = format!("{}.{}", "a".repeat(235), "b".repeat(15));
        let cut = name(&long, u64::MAX);
        assert_eq!(cut, format!("{}.ffffffffffffffff", "a".repeat(235)));
    }
}
