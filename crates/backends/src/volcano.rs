//! The Volcano scheduler: a PodGroup per PodGang, with a subgroup policy per PodClique.

mod queue;

use futures::future::BoxFuture;
use grove_api::condition::bounded_text;
use grove_api::{PodCliqueSet, PodGang, annotations, labels};
use grove_runtime::clock::Clock;
use grove_runtime::converge;
use grove_runtime::resource::Resource;
use grove_runtime::view::View as _;
use grove_runtime::write::Write;
use kube::Client;
use serde_json::{Map, Value, json};

use crate::contract::{Backend, Capabilities, GangInput, NewPods, Preparation, SchedulerObjects};
use crate::error::BackendError;
use crate::objects::{SchedulerObject, owner};
use crate::topology;

/// Name of the backend.
pub(crate) const NAME: &str = "volcano";

pub(crate) const POD_GROUPS: Resource =
    Resource::namespaced("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup");
/// Pod annotation: name of the PodGroup.
const GROUP_NAME: &str = "scheduling.volcano.sh/group-name";
/// Pod annotation: name of the PodGroup, in the spelling of older versions.
const LEGACY_GROUP_NAME: &str = "scheduling.k8s.io/group-name";

/// Longest message of an event.
const EVENT_MESSAGE_MAX: usize = 1024;

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh";

/// The backend.
pub(crate) struct Volcano {
    pub(crate) clock: Clock,
}

impl Backend for Volcano {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self, _: &dyn SchedulerObjects) -> Capabilities {
        Capabilities {
            objects: "PodGroup".into(),
            minimum: "enforced".into(),
            gang: "enforced".into(),
            topology: "refused".into(),
            queue: "optional, must be open".into(),
            priority: "yes".into(),
        }
    }

    fn kinds(&self) -> Vec<Resource> {
        vec![POD_GROUPS, queue::QUEUES]
    }

    fn acts_on(&self, key: &str) -> bool {
        key == annotations::VOLCANO_QUEUE
    }

    /// Fails if Volcano is too old. A missing Volcano is no error: it may be installed later.
    fn init<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let request = http::Request::get(CRD).body(Vec::new());
            let request = request.expect("the path of a CRD is a valid URL");
            let (uid, checked) = match client.request::<Value>(request).await {
                Ok(crd) => (crd["metadata"]["uid"].clone(), has_sub_groups(&crd)),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    (Value::Null, not_installed())
                }
                Err(error) => {
                    let message = format!("cannot read the CustomResourceDefinition: {error}");
                    return Err(BackendError::invalid(NAME, UNAVAILABLE, message));
                }
            };
            if let Err(error) = &checked {
                self.emit_event(client, &uid, &error.message()).await;
            }
            checked.or_else(|error| if uid.is_null() { Ok(()) } else { Err(error) })
        })
    }

    fn plan(&self, gang: &GangInput<'_>) -> Result<Vec<Write>, BackendError> {
        gang.objects.require(NAME, &POD_GROUPS)?;
        let live = gang.objects.get(&POD_GROUPS, &gang.key());
        if let Some(live) = live.as_deref().filter(|live| !lost_its_owner(live, gang)) {
            live.may_change(NAME, &POD_GROUPS, gang)?;
        }
        let desired = pod_group(gang, live.as_deref());
        let write = converge::fields(
            POD_GROUPS,
            desired,
            live.as_deref().map(SchedulerObject::parts),
            "the gang has changed",
        );
        Ok(write.into_iter().collect())
    }

    fn prepare_pods<'a>(
        &'a self,
        pods: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async move {
            pods.objects.known(NAME, &POD_GROUPS)?;
            prepared(pods.draft)
        })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        _: Option<&'a PodCliqueSet>,
        objects: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async { accepts(set, objects).map(|()| Vec::new()) })
    }
}

/// Whether a group of the gang only lacks its owner reference, which is then restored.
fn lost_its_owner(live: &SchedulerObject, gang: &GangInput<'_>) -> bool {
    let meta = live.meta();
    let labels = gang.object.metadata.labels.iter().flatten();
    let mut ours =
        labels.filter(|(key, _)| [labels::MANAGED_BY, labels::PART_OF].contains(&&***key));
    meta.controller.is_none()
        && meta.labels.get(labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
        && ours.all(|(key, value)| meta.labels.get(key) == Some(value.as_str()))
}

/// Reason of the event and the condition for a Volcano without subgroups.
const UNAVAILABLE: &str = "VolcanoCapabilityUnavailable";

impl Volcano {
    /// Emits an event about the CRD. Its name is the same for all starts, so that repeated restarts emit it
    /// once. There is no leader yet, so it does not go through the writer.
    async fn emit_event(&self, client: &Client, uid: &Value, message: &str) {
        let time = self.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = unavailable(uid, message, &time);
        let request = http::Request::post("/api/v1/namespaces/default/events")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(event.to_string().into_bytes());
        let request = request.expect("the path of events is a valid URL");
        match client.request::<Value>(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => tracing::warn!(%error, message, "event not recorded"),
        }
    }
}

/// The event about a CRD without subgroups.
fn unavailable(uid: &Value, message: &str, time: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": "podgroups.scheduling.volcano.sh.grove-operator", "namespace": "default" },
        "involvedObject": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "name": "podgroups.scheduling.volcano.sh",
            "uid": uid,
        },
        "type": "Warning",
        "reason": UNAVAILABLE,
        "action": "Init",
        "message": bounded_text(message, EVENT_MESSAGE_MAX),
        "source": { "component": "grove-operator" },
        "reportingComponent": "grove-operator",
        "reportingInstance": "grove-operator",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

fn not_installed() -> Result<(), BackendError> {
    let message = "podgroups.scheduling.volcano.sh is not installed: gangs of Volcano wait until Volcano \
                   1.14 or newer is";
    Err(BackendError::invalid(NAME, UNAVAILABLE, message))
}

/// Whether the served PodGroup has `spec.subGroupPolicy`.
fn has_sub_groups(crd: &Value) -> Result<(), BackendError> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let mut versions = versions.filter(|one| one["name"] == "v1beta1" && one["served"] == true);
    let schema = "/schema/openAPIV3Schema/properties/spec/properties/subGroupPolicy";
    if versions.any(|version| version.pointer(schema).is_some()) {
        return Ok(());
    }
    let message = "podgroups.scheduling.volcano.sh serves no v1beta1 with spec.subGroupPolicy: \
                   install Volcano 1.14 or newer, or remove the profile";
    Err(BackendError::invalid(NAME, UNAVAILABLE, message))
}

fn prepared(draft: &Value) -> Result<Preparation, BackendError> {
    let gang = draft["metadata"]["labels"][labels::POD_GANG].as_str().unwrap_or_default();
    if gang.is_empty() {
        let message = format!("the pod has no label {}, which names its group", labels::POD_GANG);
        return Err(BackendError::invalid(NAME, "VolcanoMappingFailed", message));
    }
    let annotations = json!({ GROUP_NAME: gang, LEGACY_GROUP_NAME: gang });
    Ok(Preparation::merge(json!({
        "metadata": { "annotations": annotations },
        "spec": { "schedulerName": NAME },
    })))
}

fn accepts(set: &PodCliqueSet, objects: &dyn SchedulerObjects) -> Result<(), String> {
    if let Some(place) = topology::constrained(set).first() {
        return Err(format!(
            "volcano scheduler backend does not support topologyConstraint on {place}"
        ));
    }
    queue::check(set, objects)
}

fn pod_group(gang: &GangInput<'_>, live: Option<&SchedulerObject>) -> Value {
    let PodGang { metadata, spec, .. } = gang.object;
    let mut fields = Map::new();
    fields.insert("queue".to_owned(), json!(queue::of(gang)));
    fields.insert("priorityClassName".to_owned(), json!(spec.priority_class_name));
    let stored = live.map_or(&Value::Null, |live| &live.object["spec"]);
    let constrained = !stored["minMember"].is_null() || !stored["subGroupPolicy"].is_null();
    // A gang without minima changes no stored minimum.
    if !constrained || spec.pod_groups.iter().any(|clique| clique.min_replicas > 0) {
        let all = spec.pod_groups.iter().map(|clique| clique.min_replicas).sum::<i32>();
        let policies: Vec<Value> = spec
            .pod_groups
            .iter()
            .map(|clique| {
                json!({
                    "name": clique.name,
                    "labelSelector": { "matchLabels": { labels::POD_CLIQUE: clique.name } },
                    "matchLabelKeys": [labels::POD_CLIQUE],
                    "subGroupSize": clique.min_replicas.max(1),
                    "minSubGroups": 1,
                })
            })
            .collect();
        fields.insert("minMember".to_owned(), json!(all.max(1)));
        fields.insert("subGroupPolicy".to_owned(), Value::Array(policies));
    }
    json!({
        "apiVersion": POD_GROUPS.api_version(),
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels,
            "ownerReferences": [owner(gang.object)],
        },
        "spec": fields,
    })
}

#[cfg(test)]
mod tests;
