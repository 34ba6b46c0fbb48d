//! Narrow views: what a process keeps of an object.
//!
//! A cache of complete typed pods costs tens of kilobytes each; a view is a struct with the fields
//! its reader needs, decoded straight from the API server's JSON (everything else is skipped while
//! parsing). Every view carries a [`Meta`]; the rest is up to the reader.
//!
//! Views are for reading only. Writing one back would drop what it left out; writes are patches
//! (see [`crate::write`]).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::resource::{ObjectKey, Uid};

/// Something that can be cached.
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// Who the object is.
    fn meta(&self) -> &Meta;
}

/// The part of `metadata` that controllers need of every object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawMeta")]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The life of the object.
    pub uid: Uid,
    /// Version, comparable as a number.
    pub resource_version: u64,
    /// Counts changes of the spec; 0 for kinds that have none.
    pub generation: i64,
    /// When it was created; absent in what was never stored.
    pub created: Option<Timestamp>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// When it should be gone, grace period included, if it is being deleted.
    pub gone_by: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// The owner that controls the object.
    pub controller: Option<Box<Owner>>,
}

impl Meta {
    /// Which life of its owner controls the object.
    pub fn owner_uid(&self) -> Option<&Uid> {
        self.controller.as_ref().map(|owner| &owner.uid)
    }
}

/// The same from typed metadata, for kinds that are kept whole.
impl From<&ObjectMeta> for Meta {
    fn from(typed: &ObjectMeta) -> Self {
        let controller = typed.owner_references.iter().flatten();
        let controller = controller.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            key: ObjectKey::new(
                typed.namespace.as_deref().unwrap_or_default(),
                typed.name.as_deref().unwrap_or_default(),
            ),
            uid: typed.uid.as_deref().unwrap_or_default().into(),
            resource_version: typed
                .resource_version
                .as_deref()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default(),
            generation: typed.generation.unwrap_or_default(),
            created: typed.creation_timestamp.as_ref().map(|time| time.0),
            deleting: typed.deletion_timestamp.is_some(),
            gone_by: typed.deletion_timestamp.as_ref().map(|time| time.0),
            labels: typed.labels.iter().flatten().collect(),
            controller: controller.map(|owner| {
                Box::new(Owner {
                    api_version: owner.api_version.as_str().into(),
                    kind: owner.kind.as_str().into(),
                    name: owner.name.as_str().into(),
                    uid: owner.uid.as_str().into(),
                })
            }),
        }
    }
}

/// A view of metadata alone, for kinds of which nothing else is needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MetaView {
    /// Who the object is.
    pub metadata: Meta,
}

impl View for MetaView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The controlling entry of `ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name, in the namespace of the owned object (or cluster-scoped).
    pub name: Box<str>,
    /// The life of the owner.
    pub uid: Uid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: Uid,
    #[serde(default, deserialize_with = "version")]
    resource_version: u64,
    #[serde(default)]
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    owner_references: Vec<RawOwner>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Uid,
    #[serde(default)]
    controller: bool,
}

impl From<RawOwner> for Owner {
    fn from(raw: RawOwner) -> Self {
        let RawOwner { api_version, kind, name, uid, controller: _ } = raw;
        Self { api_version, kind, name, uid }
    }
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl From<RawMeta> for Meta {
    fn from(raw: RawMeta) -> Self {
        let controller = raw.owner_references.into_iter().find(|owner| owner.controller);
        Self {
            key: ObjectKey::new(&raw.namespace, &raw.name),
            uid: raw.uid,
            resource_version: raw.resource_version,
            generation: raw.generation,
            created: raw.creation_timestamp,
            deleting: raw.deletion_timestamp.is_some(),
            gone_by: raw.deletion_timestamp,
            labels: raw.labels,
            controller: controller.map(|raw| Box::new(raw.into())),
        }
    }
}

/// Labels in one allocation: `key NUL value NUL …`, sorted by key. A pod has about ten of them, so
/// scanning beats hashing, and one string beats twenty by a kilobyte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

impl Labels {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }
}

impl<K: AsRef<str> + Ord, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let sorted: BTreeMap<K, V> = labels.into_iter().collect();
        let mut text = String::new();
        for (key, value) in &sorted {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                text.push('\0');
            }
        }
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = Option::<BTreeMap<String, String>>::deserialize(deserializer)?;
        Ok(labels.unwrap_or_default().into_iter().collect())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_and_everything_else_skipped() {
        let pod = r#"{
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "team-a", "uid": "u", "resourceVersion": "12",
                "creationTimestamp": "2025-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"b": "2", "a": ""},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"},
                    {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "p",
                     "uid": "y", "controller": true, "blockOwnerDeletion": true}
                ],
                "managedFields": [{"manager": "someone"}]
            },
            "spec": {"containers": []}
        }"#;

        let meta = serde_json::from_str::<MetaView>(pod).unwrap().metadata;
        let typed: k8s_openapi::api::core::v1::Pod = serde_json::from_str(pod).unwrap();
        assert_eq!(Meta::from(&typed.metadata), meta);

        assert_eq!(meta.key, ObjectKey::new("team-a", "a"));
        assert_eq!((meta.resource_version, meta.generation, meta.deleting), (12, 0, true));
        assert_eq!(meta.gone_by, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(meta.labels.iter().collect::<Vec<_>>(), [("a", ""), ("b", "2")]);
        assert_eq!(meta.labels.get("b"), Some("2"));
        assert_eq!(meta.labels.get("c"), None);
        assert_eq!(meta.controller.unwrap().uid, "y".into());
    }

    #[test]
    fn a_version_that_is_no_number_is_an_error() {
        let error = serde_json::from_str::<MetaView>(r#"{"metadata": {"resourceVersion": "x"}}"#);
        assert!(error.is_err());
    }
}
