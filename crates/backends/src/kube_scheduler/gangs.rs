//! Gangs as objects of the Kubernetes scheduler.
//!
//! A gang becomes a Workload, which only describes it, and the groups that the scheduler reads, in the
//! [`Form`] that the cluster supports.
//!
//! The Workload is created first, because the groups name it as an owner. The root of a tree is created last,
//! when the gates of the pods are removed: the scheduler evaluates the whole tree for each pod that is added to
//! it, which would take minutes for some hundred pods; without the root it does not try. PodGroups are never
//! deleted to change them: they would keep terminating as long as they have pods. Composites can be recreated.

use grove_api::{PodCliqueSet, PodGang, labels};
use grove_runtime::converge;
use grove_runtime::resource::ObjectKey;
use grove_runtime::view::View;
use grove_runtime::write::{Precondition, Propagation, Verb, Write};
use serde_json::{Value, json};

use super::NAME;
use super::api::{Api, composites};
use super::shape::{Composite, Form, Group, Shape, TEMPLATES};
use crate::contract::GangInput;
use crate::error::BackendError;
use crate::objects::{SchedulerObject, owner};

const REASON: &str = "the gang has changed";

/// The priority class of a gang, which its groups and pods must share.
pub(super) fn priority_class<'a>(
    gang: Option<&'a PodGang>,
    set: Option<&'a PodCliqueSet>,
) -> Option<&'a str> {
    let named = |name: Option<&'a String>| name.map(String::as_str).filter(|name| !name.is_empty());
    let of_gang = gang.and_then(|gang| named(gang.spec.priority_class_name.as_ref()));
    let template = set.map(|set| &set.spec.template);
    let of_set = template.and_then(|template| named(template.priority_class_name.as_ref()));
    let of_cliques = || {
        let mut cliques = template?.cliques.iter();
        cliques.find_map(|clique| clique.spec.pod_spec.priority_class_name())
    };
    of_gang.or(of_set).or_else(of_cliques)
}

/// The missing writes. A step waits until the cache has observed the previous one, so a plan may be partial.
/// What cannot be done is reported when everything else is done.
pub(super) fn plan(gang: &GangInput<'_>, api: Api) -> Result<Vec<Write>, BackendError> {
    if Form::of(gang.object, api, gang.objects) == Form::Unreported {
        let message = format!(
            "PodGang {} had pods before gangs were told to the scheduler: they are let go together and \
             may be placed one by one. Delete the PodCliqueSet and create it again to have whole gangs",
            gang.key()
        );
        return Err(BackendError::invalid(NAME, "GangBegunWithoutGroups", message));
    }
    let shape = Shape::of(gang.object, api, gang.objects);
    let builder = Builder { gang, api, priority: priority_class(Some(gang.object), gang.set) };
    let key = gang.key();
    let Some(workload) = gang.objects.get(&api.workloads(), &key) else {
        let body = builder.workload(&shape);
        return Ok(converge::fields(api.workloads(), body, None, REASON).into_iter().collect());
    };
    builder.check_owner(&workload)?;
    let described = builder.changed_workload(&shape, &workload);
    let shape = if api.has_mutable_minima() {
        shape.without_succeeded(gang.object, &gang.progress.succeeded)
    } else {
        shape
    };
    let groups = shape.groups.iter().map(|group| {
        let key = ObjectKey::new(&key.namespace, &group.name);
        let live = gang.objects.get(&api.pod_groups(), &key);
        builder.group(group, &workload, live.as_deref())
    });
    let composites = shape.composites.iter().map(|composite| {
        let key = ObjectKey::new(&key.namespace, &composite.name);
        let live = gang.objects.get(&composites(), &key);
        builder.composite(composite, &workload, live.as_deref())
    });
    let mut writes: Vec<_> = described.into_iter().collect();
    let mut wrong = Ok(());
    for outcome in groups.chain(composites) {
        match outcome {
            Ok(write) => writes.extend(write),
            Err(error) => wrong = wrong.and(Err(error)),
        }
    }
    if writes.is_empty() { wrong.map(|()| writes) } else { Ok(writes) }
}

struct Builder<'a> {
    gang: &'a GangInput<'a>,
    api: Api,
    priority: Option<&'a str>,
}

impl Builder<'_> {
    fn metadata(&self, name: &str, workload: Option<&SchedulerObject>) -> Value {
        let key = self.gang.key();
        let given = self.gang.object.metadata.labels.as_ref();
        let part_of = given.and_then(|labels| labels.get(labels::PART_OF));
        let mut owners = vec![owner(self.gang.object)];
        owners.extend(workload.map(|workload| {
            json!({
                "apiVersion": workload.object["apiVersion"],
                "kind": "Workload",
                "name": &*workload.meta().key.name,
                "uid": workload.meta().uid.to_string(),
            })
        }));
        json!({
            "name": name,
            "namespace": &*key.namespace,
            "labels": {
                labels::MANAGED_BY: labels::MANAGED_BY_VALUE,
                labels::PART_OF: part_of,
                labels::POD_GANG: &*key.name,
            },
            "ownerReferences": owners,
        })
    }

    /// The fields that templates and groups have in common.
    fn terms(&self, policy: &Value, key: Option<&String>, together: bool) -> Value {
        let constraints = key.map(|key| json!({ "topology": [{ "key": key }] }));
        json!({
            "schedulingPolicy": policy,
            "schedulingConstraints": constraints,
            "disruptionMode": together.then(|| self.api.all_at_once()),
            "priorityClassName": self.priority,
        })
    }

    fn group_terms(&self, group: &Group) -> Value {
        let gang = group.min_count > 0;
        let policy = if gang {
            json!({ "gang": { "minCount": group.min_count } })
        } else {
            json!({ "basic": {} })
        };
        self.terms(&policy, group.topology_key.as_ref(), gang)
    }

    fn composite_terms(&self, composite: &Composite) -> Value {
        let policy = json!({ "gang": { "minGroupCount": composite.min_group_count } });
        self.terms(&policy, composite.topology_key.as_ref(), true)
    }

    /// Templates of the groups below one parent.
    fn templates(&self, shape: &Shape, parent: Option<&str>) -> Vec<Value> {
        let mut templates: Vec<Value> = Vec::new();
        for group in shape.groups.iter().filter(|group| group.parent.as_deref() == parent) {
            let Some(name) = &group.template else { continue };
            if templates.iter().all(|one| one["name"] != **name) {
                let mut template = self.group_terms(group);
                template["name"] = json!(name);
                templates.push(template);
            }
        }
        // Only a gang that was a tree has more, and the scheduler does not read them.
        templates.truncate(TEMPLATES);
        templates
    }

    fn composite_templates(&self, shape: &Shape, parent: Option<&str>) -> Vec<Value> {
        let mut templates: Vec<Value> = Vec::new();
        for composite in shape.composites.iter().filter(|one| one.parent.as_deref() == parent) {
            if templates.iter().all(|one| one["name"] != *composite.template) {
                let mut template = self.composite_terms(composite);
                let name = Some(composite.name.as_str());
                template["name"] = json!(composite.template);
                template["podGroupTemplates"] = list(&self.templates(shape, name));
                template["compositePodGroupTemplates"] =
                    list(&self.composite_templates(shape, name));
                templates.push(template);
            }
        }
        templates
    }

    fn workload(&self, shape: &Shape) -> Value {
        let owners = self.gang.object.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let controller = controller.map(|owner| {
            let group = owner.api_version.split_once('/').map(|(group, _)| group);
            json!({ "apiGroup": group, "kind": owner.kind, "name": owner.name })
        });
        let mut spec = json!({ "controllerRef": controller });
        if shape.composites.is_empty() {
            spec["podGroupTemplates"] = json!(self.templates(shape, None));
        } else {
            spec["compositePodGroupTemplates"] = json!(self.composite_templates(shape, None));
        }
        let resource = self.api.workloads();
        json!({
            "apiVersion": resource.api_version(),
            "kind": "Workload",
            "metadata": self.metadata(&self.gang.key().name, None),
            "spec": spec,
        })
    }

    /// The write for a changed minimum. Templates of an existing Workload cannot be added or removed.
    fn changed_workload(&self, shape: &Shape, live: &SchedulerObject) -> Option<Write> {
        if !self.api.has_mutable_minima() {
            return None;
        }
        let wanted = &self.workload(shape)["spec"];
        let mut patch = json!({ "spec": {} });
        for list in LISTS {
            let mut templates = live.object["spec"][list].clone();
            set_minima(&mut templates, &wanted[list]);
            if templates != live.object["spec"][list] {
                patch["spec"][list] = templates;
            }
        }
        let only_if = Precondition::version(&live.meta().uid, live.meta().resource_version);
        (patch != json!({ "spec": {} })).then(|| Write {
            resource: self.api.workloads(),
            key: live.meta().key.clone(),
            verb: Verb::Merge { patch, only_if, subresource: None },
            reason: "the minimum has changed",
        })
    }

    fn group(
        &self,
        group: &Group,
        workload: &SchedulerObject,
        live: Option<&SchedulerObject>,
    ) -> Result<Option<Write>, BackendError> {
        let resource = self.api.pod_groups();
        if let Some(live) = live {
            return self.changed_group(group, live);
        }
        let mut spec = self.group_terms(group);
        if let Some(template) = &group.template {
            let workload = &workload.meta().key.name;
            let (field, reference) = self.api.template_reference(workload, template);
            spec[field] = reference;
        }
        spec["parentCompositePodGroupName"] = json!(group.parent);
        let body = json!({
            "apiVersion": resource.api_version(),
            "kind": "PodGroup",
            "metadata": self.metadata(&group.name, Some(workload)),
            "spec": spec,
        });
        Ok(converge::fields(resource, body, None, REASON))
    }

    /// Fails while another object has the name: one of an earlier gang counts former pods, and a terminating
    /// one stays as long as it has pods.
    fn check_owner(&self, live: &SchedulerObject) -> Result<(), BackendError> {
        let is_ours = live.is_of(self.gang.object);
        if is_ours && !live.meta().deleting {
            return Ok(());
        }
        let (gang, key) = (self.gang.key(), &live.meta().key);
        let kind = live.object["kind"].as_str().unwrap_or("object");
        let message = if is_ours {
            format!(
                "{kind} {key} was deleted and goes when its pods are gone; until then they are \
                 scheduled as before, then it is made anew"
            )
        } else if live.gang().as_ref() == Some(&gang) {
            format!("{kind} {key} of an earlier gang is still being removed")
        } else {
            format!("{kind} {key} is not owned by PodGang {gang}: delete or rename one of the two")
        };
        Err(BackendError::not_yet(NAME, message))
    }

    /// The write for a changed minimum or label of an existing group. On some versions minima are immutable.
    fn changed_group(
        &self,
        group: &Group,
        live: &SchedulerObject,
    ) -> Result<Option<Write>, BackendError> {
        self.check_owner(live)?;
        let name = &live.meta().key;
        let mut desired = json!({
            "metadata": { "name": group.name, "namespace": &*name.namespace,
                "labels": self.metadata(&group.name, None)["labels"] },
        });
        let stored = &live.object["spec"]["schedulingPolicy"];
        if self.api.has_mutable_minima() && group.min_count > 0 && stored["gang"].is_object() {
            desired["spec"] =
                json!({ "schedulingPolicy": { "gang": { "minCount": group.min_count } } });
        }
        let write = converge::fields(self.api.pod_groups(), desired, Some(live.parts()), REASON);
        if write.is_some() {
            return Ok(write);
        }
        self.check_immutable(group, live).map(|()| None)
    }

    /// Fails if an immutable field of a group differs from the desired one.
    fn check_immutable(&self, group: &Group, live: &SchedulerObject) -> Result<(), BackendError> {
        let (name, spec) = (&live.meta().key, &live.object["spec"]);
        let wrong = |reason: &'static str, message: String| {
            Err(BackendError::invalid(NAME, reason, message))
        };
        if group.parent.is_some() && spec["parentCompositePodGroupName"].is_null() {
            return wrong(
                "FieldDropped",
                format!(
                    "PodGroup {name} lost spec.parentCompositePodGroupName: enable the feature gate \
                     CompositePodGroup in the API server"
                ),
            );
        }
        let key = topology_key(spec);
        if group.topology_key.is_some() && key.is_none() {
            return wrong(
                "FieldDropped",
                format!(
                    "PodGroup {name} lost spec.schedulingConstraints: enable the feature gate \
                     TopologyAwareWorkloadScheduling in the API server"
                ),
            );
        }
        let asked = group.topology_key.as_deref();
        if key != asked {
            return wrong("TopologyOutOfSync", immutable(name, "schedulingConstraints", asked));
        }
        // Without a class the API server chooses one, and 1.36 stores none unless preemption of groups is
        // enabled.
        let class = spec["priorityClassName"].as_str();
        let differs = self.priority.is_some() && class != self.priority;
        if differs && (class.is_some() || self.api.has_mutable_minima()) {
            return wrong("PriorityOutOfSync", immutable(name, "priorityClassName", self.priority));
        }
        let minimum = spec["schedulingPolicy"]["gang"]["minCount"].as_i64().unwrap_or_default();
        if minimum != i64::from(group.min_count.max(0)) {
            let asked = group.min_count.to_string();
            let field = "schedulingPolicy.gang.minCount";
            return wrong("MinimumOutOfSync", immutable(name, field, Some(&asked)));
        }
        Ok(())
    }

    fn composite(
        &self,
        composite: &Composite,
        workload: &SchedulerObject,
        live: Option<&SchedulerObject>,
    ) -> Result<Option<Write>, BackendError> {
        let resource = composites();
        if let Some(live) = live {
            self.check_owner(live)?;
            let spec = &live.object["spec"];
            let same = spec["schedulingPolicy"]["gang"]["minGroupCount"]
                == composite.min_group_count
                && topology_key(spec) == composite.topology_key.as_deref();
            // It is immutable, but can be recreated at any time.
            return Ok((!same).then(|| Write {
                resource,
                key: live.meta().key.clone(),
                verb: Verb::Delete {
                    only_if: Precondition::uid(&live.meta().uid),
                    propagation: Propagation::Orphan,
                    grace_seconds: None,
                },
                reason: "its groups have changed",
            }));
        }
        if composite.parent.is_none() && !self.gang.progress.released {
            return Ok(None);
        }
        let mut spec = self.composite_terms(composite);
        spec["workloadRef"] = json!({
            "workloadName": &*workload.meta().key.name, "templateName": composite.template,
        });
        spec["parentCompositePodGroupName"] = json!(composite.parent);
        let body = json!({
            "apiVersion": resource.api_version(),
            "kind": "CompositePodGroup",
            "metadata": self.metadata(&composite.name, Some(workload)),
            "spec": spec,
        });
        Ok(converge::fields(resource, body, None, REASON))
    }
}

/// The message for a field of a group that cannot be changed.
fn immutable(group: &ObjectKey, field: &str, asked: Option<&str>) -> String {
    format!(
        "PodGroup {group}: spec.{field} cannot be changed to {:?} on this cluster and stays as it \
         was: delete PodCliqueSet and create it again to have it changed",
        asked.unwrap_or_default()
    )
}

const LISTS: [&str; 2] = ["podGroupTemplates", "compositePodGroupTemplates"];

/// Null for an empty list, which the API server refuses.
fn list(templates: &[Value]) -> Value {
    if templates.is_empty() { Value::Null } else { json!(templates) }
}

/// Sets the minima of templates to those of the desired ones with the same name.
fn set_minima(live: &mut Value, wanted: &Value) {
    for template in live.as_array_mut().into_iter().flatten() {
        let mut all = wanted.as_array().into_iter().flatten();
        let Some(wanted) = all.find(|one| one["name"] == template["name"]) else { continue };
        let gang = &wanted["schedulingPolicy"]["gang"];
        if template["schedulingPolicy"]["gang"].is_object() && gang.is_object() {
            template["schedulingPolicy"]["gang"] = gang.clone();
        }
        for list in LISTS {
            if let Some(below) = template.get_mut(list) {
                set_minima(below, &wanted[list]);
            }
        }
    }
}

/// The topology key of a stored group.
fn topology_key(spec: &Value) -> Option<&str> {
    spec["schedulingConstraints"]["topology"][0]["key"].as_str()
}

#[cfg(test)]
mod tests;
