//! The pod template of a clique.
//!
//! Kept as plain JSON: a typed core/v1 `PodSpec` would drop every field that is newer than the client
//! library, and Grove passes the template on far more often than it looks inside. The CRD embeds the
//! complete schema, so what is stored is still checked by the API server.
//!
//! Equal templates that are read are one in memory: all the cliques of one role in a set have the
//! same, and it is by far the largest part of them. A change makes a copy first.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::schema;

/// A core/v1 `PodSpec` as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec(Arc<Map<String, Value>>);

/// The templates that were read and are still in use.
#[derive(Default)]
struct Known {
    templates: HashSet<Arc<Map<String, Value>>>,
    /// With so many of them it is time to forget those that nobody uses.
    sweep_at: usize,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Known {
    fn share(&mut self, template: Map<String, Value>) -> Arc<Map<String, Value>> {
        if let Some(known) = self.templates.get(&template) {
            return known.clone();
        }
        if self.templates.len() >= self.sweep_at {
            self.templates.retain(|template| Arc::strong_count(template) > 1);
            // Sweeping each time that their number has doubled costs little per template.
            self.sweep_at = 2 * self.templates.len() + 16;
        }
        let template = Arc::new(template);
        self.templates.insert(template.clone());
        template
    }
}

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let template = Map::deserialize(deserializer)?;
        Ok(Self(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).share(template)))
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

    /// Whether a pod may end well, by `restartPolicy`.
    pub fn may_end(&self) -> bool {
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
    fn equal_templates_are_one_until_one_of_them_is_changed() {
        let read = |name: &str| -> PodSpec {
            serde_json::from_value(json!({ "containers": [{ "name": name }] })).unwrap()
        };
        let (mut one, same, other) = (read("one"), read("one"), read("other"));
        assert!(Arc::ptr_eq(&one.0, &same.0));
        assert_ne!(one, other);

        one.insert("hostNetwork".to_owned(), json!(true));
        assert_ne!(one, same);
        assert_eq!(same, read("one"));
    }

    #[test]
    fn templates_that_nobody_uses_are_forgotten() {
        let mut known = Known::default();
        let template = |number: usize| Map::from_iter([("number".to_owned(), json!(number))]);
        let kept = known.share(template(0));
        for number in 1..1000 {
            known.share(template(number));
        }
        assert!(known.templates.len() < 40, "{}", known.templates.len());
        assert!(Arc::ptr_eq(&kept, &known.share(template(0))));
    }
}
