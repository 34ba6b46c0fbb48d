//! The kinds that a cluster with Grove serves.

use std::collections::BTreeMap;
use std::rc::Rc;

use grove_api::{crd, schema::Structural};

/// Schemas of our kinds, by `apiVersion` and kind.
pub(super) struct Kinds(BTreeMap<(String, String), Rc<Structural>>);

/// What is known about a kind.
pub(super) enum Lookup {
    /// One of ours, with its name.
    Ours(String, Rc<Structural>),
    /// In one of our groups, but not served; with the message to show.
    Unknown(String),
    /// Of another project.
    Foreign,
}

impl Kinds {
    pub(super) fn new() -> Self {
        let kinds = crd::one_by_one().map(|crd| {
            let spec = &crd.object["spec"];
            let text = |pointer: &str| {
                spec.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
            };
            let api_version = format!("{}/{}", text("/group"), text("/versions/0/name"));
            ((api_version, text("/names/kind").to_owned()), Rc::new(Structural::of(&crd)))
        });
        Self(kinds.collect())
    }

    pub(super) fn get(&self, api_version: &str, kind: &str) -> Lookup {
        // kubectl knows every kind in lower case too.
        let is_meant = |known: &str| known == kind || known.to_lowercase() == kind;
        let found =
            self.0.iter().find(|((version, known), _)| version == api_version && is_meant(known));
        if let Some(((_, kind), schema)) = found {
            return Lookup::Ours(kind.clone(), schema.clone());
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if group != grove_api::GROUP && !group.ends_with(&format!(".{}", grove_api::GROUP)) {
            return Lookup::Foreign;
        }
        let known: Vec<_> =
            self.0.keys().map(|(version, kind)| format!("{version} {kind}")).collect();
        Lookup::Unknown(format!(
            "no matches for kind {kind:?} in version {api_version:?}; the cluster serves {}",
            known.join(", ")
        ))
    }
}
