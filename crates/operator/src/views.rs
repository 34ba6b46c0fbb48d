//! What the operator keeps of the objects it watches and reviews.

use std::collections::BTreeMap;

use grove_api::labels;
use grove_runtime::view::{Meta, View};
use serde::Deserialize;

/// A PodCliqueSet, as far as the authorizer asks for it.
#[derive(Debug, Deserialize)]
pub(crate) struct SetView {
    metadata: SetMeta,
}

#[derive(Debug, Deserialize)]
struct SetMeta {
    #[serde(flatten)]
    meta: Meta,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl SetView {
    pub(crate) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.metadata.annotations
    }
}

impl View for SetView {
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// Any managed object in a review.
#[derive(Debug, Deserialize)]
pub(crate) struct ManagedObject {
    metadata: ManagedMeta,
}

#[derive(Debug, Deserialize)]
struct ManagedMeta {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl ManagedObject {
    /// Name of the set it belongs to.
    pub(crate) fn part_of(&self) -> Option<&str> {
        self.metadata.labels.get(labels::PART_OF).map(String::as_str)
    }
}
