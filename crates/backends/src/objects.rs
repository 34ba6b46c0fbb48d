//! The objects of schedulers: as the caches show them, and the writes that converge them.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::PodGang;
use grove_runtime::cache::Caches;
use grove_runtime::resource::{ObjectKey, Resource, Uid};
use grove_runtime::store::{Index, Presence, Store};
use grove_runtime::view::{Meta, View};
use grove_runtime::watch::Selection;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::contract::{GangInput, SchedulerObjects};
use crate::error::{BackendError, BackendFailure};
use crate::registry::Registry;

/// An object of a scheduler, as it is stored.
#[derive(Debug)]
pub struct SchedulerObject {
    meta: Meta,
    /// The object, without `metadata.managedFields`.
    pub object: Value,
}

impl<'de> Deserialize<'de> for SchedulerObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        let meta = Meta::deserialize(&object["metadata"]).map_err(serde::de::Error::custom)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok(Self { meta, object })
    }
}

impl View for SchedulerObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl SchedulerObject {
    /// The gang that owns the object.
    pub fn gang(&self) -> Option<ObjectKey> {
        gang_of(&self.meta)
    }

    /// Whether this gang owns the object, rather than an earlier gang of the same name.
    pub fn is_of(&self, gang: &PodGang) -> bool {
        let uid = gang.metadata.uid.as_deref();
        uid.is_some_and(|uid| self.meta.is_controlled_by(&uid.into()))
    }

    /// Fails unless a backend may change the object for a gang. Objects of other owners are never changed.
    pub(crate) fn may_change(
        &self,
        backend: &str,
        kind: &Resource,
        gang: &GangInput<'_>,
    ) -> Result<(), BackendError> {
        if self.is_of(gang.object) {
            return Ok(());
        }
        let object = format!("{} {}", kind.kind, self.meta.key);
        if self.gang() == Some(gang.key()) {
            let message = format!("{object} of an earlier gang of the same name is still there");
            return Err(BackendError::not_yet(backend, message));
        }
        Err(BackendError::new(backend, BackendFailure::NameTaken { object, gang: gang.key() }))
    }

    /// Metadata and object, as [`converge`](grove_runtime::converge) takes them.
    pub fn parts(&self) -> (&Meta, &Value) {
        (&self.meta, &self.object)
    }

    /// The fields that backends read. The status belongs to the scheduler, which changes it often.
    pub fn without_status(&self) -> (Uid, Value, [Value; 4]) {
        let metadata = ["labels", "annotations", "ownerReferences", "deletionTimestamp"];
        let metadata = metadata.map(|field| self.object["metadata"][field].clone());
        (self.meta.uid.clone(), self.object["spec"].clone(), metadata)
    }
}

fn gang_of(meta: &Meta) -> Option<ObjectKey> {
    let owner = meta.controller.as_ref().filter(|owner| *owner.kind == *PodGang::KIND)?;
    Some(ObjectKey::new(&meta.key.namespace, &owner.name))
}

/// A cache for each of [`Registry::kinds`], with an index of objects by gang.
#[derive(Clone, Default)]
pub struct SchedulerCaches(Arc<BTreeMap<Resource, (Store<SchedulerObject>, Index)>>);

impl SchedulerCaches {
    /// Starts the caches.
    pub fn start(caches: &mut Caches, backends: &Registry) -> Self {
        let mut start = |resource: Resource| {
            let mut declared = caches.declare(Selection::all(resource.clone())).optional();
            let by_gang = declared.index(|meta| gang_of(meta).map(|gang| gang.to_string()));
            (resource, (caches.start(declared), by_gang))
        };
        Self(Arc::new(backends.kinds().into_iter().map(&mut start).collect()))
    }

    /// The cache of one kind.
    pub fn store(&self, resource: &Resource) -> Option<&Store<SchedulerObject>> {
        self.0.get(resource).map(|(store, _)| store)
    }

    /// The caches.
    pub fn stores(&self) -> impl Iterator<Item = &Store<SchedulerObject>> {
        self.0.values().map(|(store, _)| store)
    }
}

impl SchedulerObjects for SchedulerCaches {
    fn get(&self, resource: &Resource, key: &ObjectKey) -> Option<Arc<SchedulerObject>> {
        self.0.get(resource)?.0.get(key)
    }

    fn of_gang(&self, resource: &Resource, gang: &ObjectKey) -> Vec<Arc<SchedulerObject>> {
        let kind = self.0.get(resource);
        kind.map(|(store, index)| store.by(*index, &gang.to_string())).unwrap_or_default()
    }

    fn presence(&self, resource: &Resource) -> Presence {
        self.0.get(resource).map_or(Presence::Absent, |(store, _)| store.presence())
    }
}

/// The owner reference to the gang that controls an object.
pub fn owner(gang: &PodGang) -> Value {
    json!({
        "apiVersion": PodGang::API_VERSION,
        "kind": PodGang::KIND,
        "name": gang.metadata.name,
        "uid": gang.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
pub(crate) mod testkit {
    use super::*;

    /// Objects of a test.
    #[derive(Default)]
    pub(crate) struct Given {
        pub(crate) objects: BTreeMap<(Resource, ObjectKey), Arc<SchedulerObject>>,
        pub(crate) absent: Vec<Resource>,
        pub(crate) unknown: Vec<Resource>,
    }

    impl Given {
        /// Adds an object, as the API server would store it.
        pub(crate) fn with(mut self, resource: Resource, mut object: Value) -> Self {
            object["metadata"]["uid"] = json!("u");
            object["metadata"]["resourceVersion"] = json!("7");
            let object: SchedulerObject = serde_json::from_value(object).unwrap();
            self.objects.insert((resource, object.meta.key.clone()), Arc::new(object));
            self
        }
    }

    impl SchedulerObjects for Given {
        fn get(&self, resource: &Resource, key: &ObjectKey) -> Option<Arc<SchedulerObject>> {
            self.objects.get(&(resource.clone(), key.clone())).cloned()
        }

        fn of_gang(&self, resource: &Resource, gang: &ObjectKey) -> Vec<Arc<SchedulerObject>> {
            let all = self.objects.iter().filter(|((kind, _), _)| kind == resource);
            all.filter(|(_, object)| object.gang().as_ref() == Some(gang))
                .map(|(_, object)| object.clone())
                .collect()
        }

        fn presence(&self, resource: &Resource) -> Presence {
            if self.absent.contains(resource) {
                Presence::Absent
            } else if self.unknown.contains(resource) {
                Presence::Unknown
            } else {
                Presence::Served
            }
        }
    }
}
