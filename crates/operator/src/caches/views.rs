//! Narrow views of the objects that the operator caches.
//!
//! Sets, cliques, groups and gangs are cached whole ([`Object`]): the rules work on the typed objects, and
//! there is at most one of each per gang. Of pods, only the facts that the rules read are cached.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use grove_api::pod_spec::PodSpec;
use grove_api::{PodCliqueSet, annotations, finalizers, labels, names};
use grove_core::hash;
use grove_core::pods::{ObservedPod, Phase, index_of};
use grove_core::revision;
use grove_runtime::object::Object;
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::{Meta, View};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A PodCliqueSet, with the hashes of its templates.
#[derive(Debug)]
pub(crate) struct Set {
    object: Object<PodCliqueSet>,
    hashes: OnceLock<Hashes>,
}

/// Hashes of templates: costly to compute, needed by everything below a set.
#[derive(Debug)]
pub(crate) struct Hashes {
    /// By clique name.
    pub(crate) templates: BTreeMap<String, String>,
    pub(crate) generation: String,
}

impl Set {
    /// Computed on first use.
    pub(crate) fn hashes(&self) -> &Hashes {
        self.hashes.get_or_init(|| Hashes {
            templates: hash::pod_template_hashes(&self.object.object.spec.template),
            generation: hash::generation_hash(&self.object.object),
        })
    }

    /// The pod templates of the cliques.
    pub(crate) fn pod_specs(&mut self) -> impl Iterator<Item = &mut PodSpec> {
        let cliques = self.object.object.spec.template.cliques.iter_mut();
        cliques.map(|clique| &mut clique.spec.pod_spec)
    }

    /// The annotation that a user changes to reconcile the set and all its parts.
    pub(crate) fn reconcile_trigger(&self) -> Option<String> {
        let annotations = self.object.object.metadata.annotations.as_ref();
        annotations?.get(annotations::RECONCILE_TRIGGER).cloned()
    }

    /// A set with this trigger.
    #[cfg(test)]
    pub(crate) fn with_reconcile_trigger(value: &str) -> Self {
        let annotations = serde_json::json!({ annotations::RECONCILE_TRIGGER: value });
        let set = serde_json::json!({
            "metadata": { "name": "a", "namespace": "n", "annotations": annotations },
            "spec": {},
        });
        Self::deserialize(set).expect("a set")
    }
}

impl From<Object<PodCliqueSet>> for Set {
    fn from(object: Object<PodCliqueSet>) -> Self {
        Self { object, hashes: OnceLock::new() }
    }
}

impl Deref for Set {
    type Target = Object<PodCliqueSet>;

    fn deref(&self) -> &Self::Target {
        &self.object
    }
}

impl<'de> Deserialize<'de> for Set {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(Self::from)
    }
}

impl View for Set {
    fn meta(&self) -> &Meta {
        &self.object.meta
    }
}

/// A revision of a set's template. The template itself is not kept.
#[derive(Debug)]
pub(crate) struct Revision {
    pub(crate) meta: Meta,
    pub(crate) observed: revision::Revision,
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let metadata = &object["metadata"];
        let meta = Meta::deserialize(metadata).map_err(serde::de::Error::custom)?;
        let cause = &metadata["annotations"][annotations::CHANGE_CAUSE];
        let observed = revision::Revision {
            name: meta.key.name.to_string(),
            number: object["revision"].as_i64().unwrap_or_default(),
            change_cause: cause.as_str().map(str::to_owned),
            orphaned: metadata["ownerReferences"].as_array().is_none_or(Vec::is_empty),
        };
        Ok(Self { meta, observed })
    }
}

impl View for Revision {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// A Secret with a service account token, of which the cache keeps only whether the token exists.
#[derive(Debug, Deserialize)]
#[serde(from = "RawSecret")]
pub(crate) struct TokenSecret {
    pub(crate) meta: Meta,
    pub(crate) has_token: bool,
}

#[derive(Deserialize)]
struct RawSecret {
    metadata: Meta,
    data: Option<RawSecretData>,
}

#[derive(Deserialize)]
struct RawSecretData {
    token: Option<String>,
}

impl From<RawSecret> for TokenSecret {
    fn from(raw: RawSecret) -> Self {
        let token = raw.data.and_then(|data| data.token);
        Self { meta: raw.metadata, has_token: token.is_some_and(|token| !token.is_empty()) }
    }
}

impl View for TokenSecret {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// A pod.
#[derive(Debug, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct Pod {
    meta: Meta,
    pub(crate) observed: ObservedPod,
    /// Position of our gate in the list: removing it keeps the other gates.
    pub(crate) gate_position: Option<usize>,
    /// Name of its scheduler.
    pub(crate) scheduler: Box<str>,
    /// Whether it mounts the token Secret that older versions created for its set.
    pub(crate) mounts_legacy_token: bool,
}

/// The gang in the label of a pod.
pub(crate) fn gang_of(pod: &Meta) -> Option<ObjectKey> {
    Some(ObjectKey::new(&pod.key.namespace, pod.labels.get(labels::POD_GANG)?))
}

impl Pod {
    /// The gang in its label.
    pub(crate) fn gang(&self) -> Option<ObjectKey> {
        gang_of(&self.meta)
    }

    /// Name of the PodClique in its label.
    pub(crate) fn clique_name(&self) -> Option<&str> {
        self.meta.labels.get(labels::POD_CLIQUE)
    }
}

impl View for Pod {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[derive(Deserialize)]
struct RawPod {
    metadata: Meta,
    #[serde(default)]
    spec: RawPodSpec,
    #[serde(default)]
    status: RawPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodSpec {
    hostname: String,
    scheduler_name: String,
    node_name: Option<String>,
    scheduling_gates: Vec<RawGate>,
    volumes: Vec<RawVolume>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawVolume {
    secret: Option<RawSecretVolume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSecretVolume {
    secret_name: String,
}

#[derive(Deserialize)]
struct RawGate {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodStatus {
    phase: String,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainer>,
    init_container_statuses: Vec<RawContainer>,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainer {
    ready: bool,
    started: Option<bool>,
    last_state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    terminated: Option<RawTermination>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTermination {
    exit_code: i32,
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod { metadata: meta, spec, status } = raw;
        let condition = |kind: &str| status.conditions.iter().find(|one| one.kind == kind);
        let is_true = |kind| condition(kind).is_some_and(|one| one.status == "True");
        let failed = |container: &RawContainer| {
            container.last_state.terminated.as_ref().is_some_and(|ended| ended.exit_code != 0)
        };
        let containers = status.container_statuses.iter();
        let gate_position =
            spec.scheduling_gates.iter().position(|gate| gate.name == finalizers::SCHEDULING_GATE);
        let label = |key: &str| meta.labels.get(key).map(Arc::from);
        let clique = meta.controller.as_ref().map(|owner| &*owner.name);
        let clique = clique.or_else(|| meta.labels.get(labels::POD_CLIQUE)).unwrap_or_default();
        let observed = ObservedPod {
            name: meta.key.name.clone(),
            deleting: meta.deleting,
            created: meta.created,
            on_node: spec.node_name.is_some_and(|node| !node.is_empty()),
            phase: Phase::from(status.phase.as_str()),
            ready: is_true("Ready"),
            scheduled: is_true("PodScheduled"),
            schedule_gated: condition("PodScheduled")
                .is_some_and(|one| one.status == "False" && one.reason == "SchedulingGated"),
            has_gate: gate_position.is_some(),
            erroneous: containers.clone().chain(&status.init_container_statuses).any(failed),
            started_not_ready: containers
                .clone()
                .any(|container| container.started == Some(true) && !container.ready),
            index: index_of(clique, &spec.hostname),
            template_hash: label(labels::POD_TEMPLATE_HASH),
            gang: label(labels::POD_GANG),
        };
        let legacy_token = meta.labels.get(labels::PART_OF).map(names::legacy_token_secret);
        let mut secrets = spec.volumes.iter().filter_map(|volume| volume.secret.as_ref());
        let mounts_legacy_token =
            secrets.any(|secret| Some(&secret.secret_name) == legacy_token.as_ref());
        let scheduler = spec.scheduler_name.into_boxed_str();
        Self { meta, observed, gate_position, scheduler, mounts_legacy_token }
    }
}
