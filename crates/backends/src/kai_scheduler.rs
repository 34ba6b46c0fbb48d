//! The KAI scheduler: a PodGroup per PodGang, with a subgroup per PodClique, and a Topology per topology
//! of Grove.
//!
//! KAI's own pod grouper would create PodGroups too. A marker annotation makes it ignore our pods and gangs,
//! unless the profile says `createPodGroups: false`: then the pod grouper creates them from the PodGangs, and
//! pods only need the name of the scheduler.

mod pod_group;
mod queue;
mod topology;

use futures::future::BoxFuture;
use grove_api::{PodCliqueSet, PodGang, annotations, labels};
use grove_runtime::converge;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::{Precondition, Verb, Write};
use serde_json::{Value, json};

use self::topology::Topologies;
use crate::contract::{Backend, Capabilities, GangInput, NewPods, Preparation, SchedulerObjects};
use crate::error::BackendError;
use crate::objects::SchedulerObject;
use crate::topology::TopologyPart;

/// Name of the backend.
pub(crate) const NAME: &str = "kai-scheduler";

pub(crate) const POD_GROUPS: Resource =
    Resource::namespaced("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup");
/// Label, and on some objects annotation: name of the queue.
const QUEUE: &str = "kai.scheduler/queue";
/// Label: node pool.
const NODE_POOL: &str = "kai.scheduler/node-pool";
/// Pod annotation: name of the PodGroup.
const POD_GROUP_NAME: &str = "pod-group-name";
/// Pod label: name of the leaf subgroup.
const SUBGROUP_NAME: &str = "kai.scheduler/subgroup-name";
/// Annotation: `"true"` makes KAI's pod grouper ignore the object.
const SKIP_POD_GROUPER: &str = "kai.scheduler/skip-podgrouper";
/// Annotation: name of the topology.
const TOPOLOGY: &str = "kai.scheduler/topology";

/// Reason of a gang that cannot be translated to a PodGroup.
const MAPPING_FAILED: &str = "KAIBackendMappingFailed";

/// The backend.
pub(crate) struct KaiScheduler {
    /// Queue of sets that name none.
    pub(crate) default_queue: Option<String>,
    /// Whether Grove creates the PodGroups.
    pub(crate) creates_pod_groups: bool,
}

impl Backend for KaiScheduler {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self, _: &dyn SchedulerObjects) -> Capabilities {
        let by = if self.creates_pod_groups { "PodGroup" } else { "PodGroup, by its pod grouper" };
        Capabilities {
            objects: by.into(),
            minimum: "enforced".into(),
            gang: "enforced".into(),
            topology: "enforced".into(),
            queue: if self.default_queue.is_some() { "optional" } else { "required" }.into(),
            priority: "yes".into(),
        }
    }

    fn kinds(&self) -> Vec<Resource> {
        if self.creates_pod_groups { vec![POD_GROUPS] } else { Vec::new() }
    }

    fn acts_on(&self, key: &str) -> bool {
        [QUEUE, TOPOLOGY].contains(&key)
    }

    fn plan(&self, gang: &GangInput<'_>) -> Result<Vec<Write>, BackendError> {
        if !self.creates_pod_groups {
            return Ok(Vec::new());
        }
        let failed = |message: String| BackendError::invalid(NAME, MAPPING_FAILED, message);
        let topology = gang.topology.or_else(|| topology_name(gang.object));
        let spec = pod_group::spec(gang.object, topology).map_err(failed)?;
        let set = owner(gang).map_err(failed)?;
        let queue = queue::of(set, self.default_queue.as_deref()).map_err(failed)?;
        gang.objects.require(NAME, &POD_GROUPS)?;
        let key = gang.key();
        let live = gang.objects.get(&POD_GROUPS, &key);
        let desired = pod_group::object(gang.object, spec, &queue, live.as_deref());
        let group = converge::fields(
            POD_GROUPS,
            desired,
            live.as_deref().map(SchedulerObject::parts),
            "the gang has changed",
        );
        Ok(marker(gang.object, key).into_iter().chain(group).collect())
    }

    fn prepare_pods<'a>(
        &'a self,
        pods: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async move {
            if self.creates_pod_groups {
                pods.objects.known(NAME, &POD_GROUPS)?;
            }
            self.prepared(pods.draft)
        })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        _: Option<&'a PodCliqueSet>,
        _: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async { self.accepts(set).map(|()| Vec::new()) })
    }

    fn topology(&self) -> Option<&dyn TopologyPart> {
        Some(&Topologies)
    }
}

impl KaiScheduler {
    fn prepared(&self, draft: &Value) -> Result<Preparation, BackendError> {
        if !self.creates_pod_groups {
            return Ok(Preparation::merge(json!({ "spec": { "schedulerName": NAME } })));
        }
        let label = |key: &str| {
            let value = draft["metadata"]["labels"][key].as_str();
            value.filter(|value| !value.is_empty()).ok_or_else(|| {
                let message = format!("the pod has no label {key}, which names its group");
                BackendError::invalid(NAME, MAPPING_FAILED, message)
            })
        };
        let (gang, clique) = (label(labels::POD_GANG)?, label(labels::POD_CLIQUE)?);
        Ok(Preparation::merge(json!({
            "metadata": {
                "annotations": { SKIP_POD_GROUPER: "true", POD_GROUP_NAME: gang },
                "labels": { SUBGROUP_NAME: clique },
            },
            "spec": { "schedulerName": NAME },
        })))
    }

    fn accepts(&self, set: &PodCliqueSet) -> Result<(), String> {
        let template = &set.spec.template;
        let cliques = template.cliques.iter().map(|clique| ("PodClique", clique.name.as_str()));
        let groups = template.pod_clique_scaling_groups.iter();
        let groups = groups.map(|group| ("PodCliqueScalingGroup", group.name.as_str()));
        let set_name = set.metadata.name.as_deref().unwrap_or_default();
        let names = [("PodCliqueSet", set_name)].into_iter().chain(cliques).chain(groups);
        for (kind, name) in names {
            if name.contains('.') {
                return Err(format!(
                    "KAI cannot use the name {name:?} of {kind}: its subgroups may have lower-case \
                     letters, digits and dashes, but no dots"
                ));
            }
        }
        if self.creates_pod_groups {
            queue::of(set, self.default_queue.as_deref())?;
        }
        Ok(())
    }
}

/// The set that controls a gang.
fn owner<'a>(gang: &GangInput<'a>) -> Result<&'a PodCliqueSet, String> {
    let metadata = &gang.object.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let who = format!("podgang {namespace}/{}", metadata.name.as_deref().unwrap_or_default());
    let owners = metadata.owner_references.iter().flatten();
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    let controller = controller.ok_or_else(|| format!("{who} has no controlling PodCliqueSet"))?;
    if controller.api_version != PodCliqueSet::API_VERSION || controller.kind != PodCliqueSet::KIND
    {
        let (version, kind) = (&controller.api_version, &controller.kind);
        return Err(format!("{who} is controlled by {version} {kind:?}, expected PodCliqueSet"));
    }
    let name = &controller.name;
    gang.set.ok_or_else(|| format!("get controlling PodCliqueSet {namespace}/{name}: not found"))
}

/// The write that makes KAI's pod grouper ignore the gang, if it is missing.
fn marker(gang: &PodGang, key: ObjectKey) -> Option<Write> {
    let annotations = gang.metadata.annotations.as_ref();
    let marked = annotations.and_then(|annotations| annotations.get(SKIP_POD_GROUPER));
    if marked.is_some_and(|value| value == "true") {
        return None;
    }
    let uid = gang.metadata.uid.as_deref().unwrap_or_default();
    Some(Write {
        resource: Resource::of::<PodGang>(),
        key,
        verb: Verb::Merge {
            patch: json!({ "metadata": { "annotations": { SKIP_POD_GROUPER: "true" } } }),
            only_if: Precondition::uid(&uid.into()),
            subresource: None,
        },
        reason: "Grove creates the PodGroup",
    })
}

/// Name of the topology that the constraints of a gang refer to.
fn topology_name(gang: &PodGang) -> Option<&str> {
    let annotations = gang.metadata.annotations.as_ref()?;
    let name = |key| annotations.get(key).map(String::as_str).filter(|name| !name.is_empty());
    name(annotations::TOPOLOGY_NAME).or_else(|| name(TOPOLOGY))
}

#[cfg(test)]
mod tests;
