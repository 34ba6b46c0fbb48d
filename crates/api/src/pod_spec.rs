//! The pod template of a clique.
//!
//! Kept as plain JSON: a typed core/v1 `PodSpec` would drop every field that is newer than the client
//! library, and Grove passes the template on far more often than it looks inside. The CRD embeds the
//! complete schema, so what is stored is still checked by the API server.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// A core/v1 `PodSpec` as JSON.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PodSpec(pub Map<String, Value>);

impl PodSpec {
    /// `schedulerName`; empty counts as not set.
    pub fn scheduler_name(&self) -> Option<&str> {
        self.0.get("schedulerName").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// `priorityClassName`; empty counts as not set.
    pub fn priority_class_name(&self) -> Option<&str> {
        self.0.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// Names of the containers, in order.
    pub fn container_names(&self) -> impl Iterator<Item = &str> {
        self.0
            .get("containers")
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

    use super::PodSpec;

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
}
