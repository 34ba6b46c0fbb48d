//! Cached objects: a typed object ([`Object`]), or the JSON of one ([`JsonObject`]), with its metadata in
//! the form that caches index.
//!
//! A kind of which a controller reads nearly everything is cached as one of these. A kind with many
//! objects gets a narrow [`View`] of its own.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::view::{Meta, View};

/// A typed object.
#[derive(Debug)]
pub struct Object<K> {
    /// Its metadata, as caches and preconditions use it.
    pub meta: Meta,
    /// The object.
    pub object: K,
}

impl<K: kube::Resource> Object<K> {
    /// The finalizers of the object.
    pub fn finalizers(&self) -> &[String] {
        self.object.meta().finalizers.as_deref().unwrap_or_default()
    }

    /// Whether the object has a finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|one| one == finalizer)
    }
}

impl<K: kube::Resource> From<K> for Object<K> {
    fn from(object: K) -> Self {
        Self { meta: Meta::from(object.meta()), object }
    }
}

impl<'de, K> Deserialize<'de> for Object<K>
where
    K: Clone + DeserializeOwned + kube::Resource,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = K::deserialize(deserializer)?;
        object.meta_mut().managed_fields = None;
        // Lists that were read have spare capacity, a copy has none.
        Ok(object.clone().into())
    }
}

impl<K: Clone + DeserializeOwned + kube::Resource + Send + Sync + 'static> View for Object<K> {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// An object of which a controller owns a few fields. The status is not kept.
#[derive(Debug)]
pub struct JsonObject {
    meta: Meta,
    /// As text, which takes a fifth of the memory of the parsed object and is rarely read.
    text: Box<str>,
}

impl JsonObject {
    /// The object, without status and version.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The same before it is parsed, to find out whether it changed.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        let meta = Meta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        Ok(Self { meta, text: object.to_string().into() })
    }
}

impl View for JsonObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}
