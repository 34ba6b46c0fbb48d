//! The pod template of a clique.
//!
//! Kept as plain JSON: a typed core/v1 `PodSpec` would drop every field that is newer than the client
//! library, and Grove passes the template on far more often than it reads it. The CRD embeds the
//! complete schema, so that the API server still validates stored templates.
//!
//! Copies of a template share its memory, and caches may let equal templates do so. A change copies the
//! template first.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema;

/// A core/v1 `PodSpec` as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec(pub Arc<Map<String, Value>>);

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(|template| Self(Arc::new(template)))
    }
}

impl Serialize for PodSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl Deref for PodSpec {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for PodSpec {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl PodSpec {
    /// `schedulerName`; empty counts as not set.
    pub fn scheduler_name(&self) -> Option<&str> {
        self.get("schedulerName").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// `priorityClassName`; empty counts as not set.
    pub fn priority_class_name(&self) -> Option<&str> {
        self.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// Whether a pod may succeed, by `restartPolicy`.
    pub fn may_succeed(&self) -> bool {
        self.get("restartPolicy").is_some_and(|policy| policy != "Always")
    }

    /// Names of the containers, in order.
    pub fn container_names(&self) -> impl Iterator<Item = &str> {
        self.get("containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|container| container.get("name").and_then(Value::as_str))
    }
}

impl JsonSchema for PodSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PodSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema::kubernetes("io.k8s.api.core.v1.PodSpec")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accessors_read_plain_json() {
        let spec: PodSpec = serde_json::from_value(json!({
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "a"}, {"name": "b"}],
        }))
        .unwrap();

        assert_eq!(spec.scheduler_name(), Some("kai-scheduler"));
        assert_eq!(spec.container_names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(PodSpec::default().scheduler_name(), None);
        assert_eq!(PodSpec::default().container_names().count(), 0);
    }

    #[test]
    fn copies_share_a_template_until_one_of_them_is_changed() {
        let mut one = PodSpec::default();
        let other = one.clone();
        assert!(Arc::ptr_eq(&one.0, &other.0));

        one.insert("hostNetwork".to_owned(), json!(true));
        assert_eq!(other, PodSpec::default());
    }
}
