//! Narrow views: the part of an object that a process keeps in memory.
//!
//! A cached typed pod costs tens of kilobytes. A view is a struct with the fields that its readers need,
//! decoded directly from the API server's JSON; the parser skips all other fields. Every view has a
//! [`Meta`].
//!
//! Views are read-only: writing one back would drop the skipped fields. Writes are patches (see
//! [`crate::write`]).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::resource::{ObjectKey, Uid};

/// An object that can be cached.
pub trait View: DeserializeOwned + Send + Sync + 'static {
    /// Metadata of the object.
    fn meta(&self) -> &Meta;
}

/// The part of `metadata` that controllers need.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawMeta")]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Uid.
    pub uid: Uid,
    /// Version, comparable as a number.
    pub resource_version: u64,
    /// Generation of the spec; 0 for kinds without one.
    pub generation: i64,
    /// Creation time; absent in objects that were never stored.
    pub created: Option<Timestamp>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// Deletion timestamp, which includes the grace period.
    pub gone_by: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// The owner that controls the object.
    pub controller: Option<Box<Owner>>,
}

impl Meta {
    /// Whether the owner with this uid controls the object.
    pub fn is_controlled_by(&self, owner: &Uid) -> bool {
        self.owner_uid() == Some(owner)
    }

    /// The uid of the owner that controls the object.
    pub fn owner_uid(&self) -> Option<&Uid> {
        self.controller.as_ref().map(|owner| &owner.uid)
    }
}

/// The same from typed metadata, for kinds that are cached completely.
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

/// A view of metadata alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MetaView {
    /// Metadata.
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
    /// Uid.
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

/// Labels in one allocation: `key NUL value NUL …`, sorted by key. A pod has about ten labels, so scanning
/// is faster than hashing, and one string saves a kilobyte over twenty.
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
        deserializer.deserialize_any(LabelsVisitor)
    }
}

/// Decodes labels directly into their allocation.
struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_unit<E>(self) -> Result<Labels, E> {
        Ok(Labels::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut text = String::new();
        while map.next_key_seed(Append(&mut text))?.is_some() {
            map.next_value_seed(Append(&mut text))?;
        }
        let labels = Labels(text.into());
        // The API server sorts them; other writers may not.
        let sorted = labels.iter().is_sorted_by(|one, next| one.0 < next.0);
        Ok(if sorted { labels } else { labels.iter().collect() })
    }
}

/// Appends a string and a NUL to a text.
struct Append<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for Append<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Append<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        self.0.push('\0');
        Ok(())
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
    fn a_view_decodes_metadata_and_skips_unknown_fields() {
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
    fn labels_are_sorted_after_decoding() {
        let read = |text: &str| serde_json::from_str::<Labels>(text).unwrap();
        let sorted = read(r#"{"a": "\u00e4", "b": "2", "c": ""}"#);
        assert_eq!(read(r#"{"c": "", "a": "\u00e4", "b": "2"}"#), sorted);
        assert_eq!(sorted.iter().collect::<Vec<_>>(), [("a", "ä"), ("b", "2"), ("c", "")]);
        let value: serde_json::Value = serde_json::from_str(r#"{"a": "ä"}"#).unwrap();
        assert_eq!(serde_json::from_value::<Labels>(value).unwrap().get("a"), Some("ä"));
        assert_eq!(read(r#"{"a": "1", "a": "2"}"#).iter().collect::<Vec<_>>(), [("a", "2")]);
        assert_eq!(read("null"), Labels::default());
        assert!(serde_json::from_str::<Labels>(r#"{"a": 1}"#).is_err());
    }

    #[test]
    fn a_resource_version_must_be_a_number() {
        let error = serde_json::from_str::<MetaView>(r#"{"metadata": {"resourceVersion": "x"}}"#);
        assert!(error.is_err());
    }
}
