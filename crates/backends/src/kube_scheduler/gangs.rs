//! Gangs as objects of the Kubernetes scheduler.
//!
//! A gang becomes a Workload, which only describes, and the groups that the scheduler reads: a PodGroup
//! per member with its minimum, and above several of them a CompositePodGroup that wants all of them.
//! Where the cluster does not serve composites, one PodGroup holds the whole gang if every pod counts;
//! otherwise each member is a gang of its own, which is less than what was asked for (see
//! [`super::limits`]).
//!
//! The Workload comes first, because the groups name it as an owner. PodGroups are never deleted to change
//! them: they would stay, terminating, as long as they have pods. Composites may be.

use std::collections::BTreeMap;

use grove_api::foreign::{scheduling_v1alpha2, scheduling_v1alpha3, scheduling_v1beta1};
use grove_api::pod_gang::{PodGroup as Member, TranslatedConstraint};
use grove_api::{PodCliqueSet, PodGang, labels};
use grove_core::layout::min_available;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::View;
use grove_runtime::write::{Precondition, Propagation, Verb, Write};
use serde_json::{Value, json};

use super::NAME;
use crate::contract::{BackendError, Gang, Objects};
use crate::objects::{SchedulerObject, converge, owner};

/// Templates that fit into one list of a Workload.
const TEMPLATES: usize = 8;
/// Templates have names like host names.
const LABEL_LENGTH: usize = 63;

const REASON: &str = "what the gang says";

/// What the cluster offers for gangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// Kubernetes 1.36: groups without hierarchy that cannot be changed.
    V1alpha2,
    /// Kubernetes 1.37 without composites.
    V1beta1,
    /// Kubernetes 1.37 with composites.
    Composite,
}

impl Api {
    /// All kinds of all versions.
    pub(super) fn kinds() -> Vec<Resource> {
        let every = [Self::V1alpha2, Self::V1beta1];
        let mut kinds: Vec<_> =
            every.iter().flat_map(|api| [api.workloads(), api.pod_groups()]).collect();
        kinds.push(composites());
        kinds
    }

    /// The newest that is served.
    pub(super) fn served(objects: &dyn Objects) -> Option<Self> {
        let serves =
            |api: Self| objects.is_served(&api.workloads()) && objects.is_served(&api.pod_groups());
        if serves(Self::V1beta1) {
            let composite = objects.is_served(&composites());
            return Some(if composite { Self::Composite } else { Self::V1beta1 });
        }
        serves(Self::V1alpha2).then_some(Self::V1alpha2)
    }

    fn workloads(self) -> Resource {
        match self {
            Self::V1alpha2 => Resource::of::<scheduling_v1alpha2::Workload>(),
            Self::V1beta1 | Self::Composite => Resource::of::<scheduling_v1beta1::Workload>(),
        }
    }

    pub(super) fn pod_groups(self) -> Resource {
        match self {
            Self::V1alpha2 => Resource::of::<scheduling_v1alpha2::PodGroup>(),
            Self::V1beta1 | Self::Composite => Resource::of::<scheduling_v1beta1::PodGroup>(),
        }
    }

    fn all_at_once(self) -> Value {
        match self {
            Self::V1alpha2 => json!("PodGroup"),
            Self::V1beta1 | Self::Composite => json!({ "all": {} }),
        }
    }
}

fn composites() -> Resource {
    Resource::of::<scheduling_v1alpha3::CompositePodGroup>()
}

/// Pods that are scheduled together, as the scheduler is told.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    /// Zero: one by one.
    min_count: i32,
    topology_key: Option<String>,
    parent: Option<String>,
}

/// Groups that are scheduled together.
#[derive(Clone, Debug, PartialEq)]
struct Composite {
    name: String,
    min_group_count: usize,
    topology_key: Option<String>,
    parent: Option<String>,
}

/// The groups of a gang: leaves, and composites from the inside to the root.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shape {
    groups: Vec<Group>,
    composites: Vec<Composite>,
}

/// Whether one group can stand for a gang of several members: every pod of every clique counts, so that
/// none can take the place of another.
pub(super) fn every_pod_counts(set: &PodCliqueSet) -> bool {
    let mut cliques = set.spec.template.cliques.iter();
    cliques.all(|clique| clique.spec.replicas == min_available(clique))
}

fn required(constraint: Option<&TranslatedConstraint>) -> Option<String> {
    let pack = constraint?.pack_constraint.as_ref()?;
    pack.required.clone().filter(|key| !key.is_empty())
}

fn shape(gang: &Gang<'_>, api: Api) -> Shape {
    let spec = &gang.object.spec;
    let name = gang.key().name.to_string();
    let leaf = |member: &Member, parent: Option<&str>| Group {
        name: member.name.clone(),
        min_count: member.min_replicas,
        topology_key: required(member.topology_constraint.as_ref()),
        parent: parent.map(str::to_owned),
    };
    let whole = required(spec.topology_constraint.as_ref());
    if let [only] = spec.pod_groups.as_slice() {
        let mut group = leaf(only, None);
        group.topology_key = group.topology_key.or(whole);
        return Shape { groups: vec![group], composites: Vec::new() };
    }
    if api == Api::Composite {
        return tree(gang.object, &name, whole, leaf);
    }
    if is_one_group(gang, api) {
        let min_count = spec.pod_groups.iter().map(|member| member.min_replicas).sum();
        let group = Group { name, min_count, topology_key: whole, parent: None };
        return Shape { groups: vec![group], composites: Vec::new() };
    }
    let groups = spec.pod_groups.iter().map(|member| leaf(member, None)).collect();
    Shape { groups, composites: Vec::new() }
}

/// Without composites: whether one group holds the whole gang. Pods cannot change their group, so what was
/// begun is gone on with, whatever the template says by now.
fn is_one_group(gang: &Gang<'_>, api: Api) -> bool {
    let key = gang.key();
    let has = |name: &str| {
        let group = gang.objects.get(&api.pod_groups(), &ObjectKey::new(&key.namespace, name));
        group.is_some_and(|group| group.is_of(gang.object))
    };
    if has(&key.name) {
        return true;
    }
    let mut members = gang.object.spec.pod_groups.iter();
    !members.any(|member| has(&member.name)) && gang.set.is_some_and(every_pod_counts)
}

/// Members below the root, or below the composite of their constraint. A member without a minimum is left
/// out: below a composite it would need a pod to count.
fn tree(
    gang: &PodGang,
    root: &str,
    topology_key: Option<String>,
    leaf: impl Fn(&Member, Option<&str>) -> Group,
) -> Shape {
    let mut shape = Shape::default();
    let mut parents = BTreeMap::<&str, String>::new();
    let counts = |name: &str| {
        gang.spec.pod_groups.iter().any(|member| member.name == name && member.min_replicas > 0)
    };
    for group in &gang.spec.topology_constraint_group_configs {
        let members: Vec<&str> =
            group.pod_group_names.iter().map(String::as_str).filter(|one| counts(one)).collect();
        if members.is_empty() {
            continue;
        }
        let name = format!("{root}-{}", group.name);
        shape.composites.push(Composite {
            name: name.clone(),
            min_group_count: members.len(),
            topology_key: required(group.topology_constraint.as_ref()),
            parent: Some(root.to_owned()),
        });
        parents.extend(members.into_iter().map(|member| (member, name.clone())));
    }
    for member in &gang.spec.pod_groups {
        let parent = parents.get(&*member.name).map_or(root, String::as_str);
        let parent = (member.min_replicas > 0).then_some(parent);
        shape.groups.push(leaf(member, parent));
    }
    let below = |parent: Option<&String>| parent.is_some_and(|parent| parent == root);
    let direct = shape.groups.iter().filter(|group| below(group.parent.as_ref())).count()
        + shape.composites.iter().filter(|one| below(one.parent.as_ref())).count();
    shape.composites.push(Composite {
        name: root.to_owned(),
        min_group_count: direct,
        topology_key,
        parent: None,
    });
    shape
}

/// The priority class of a gang: groups and pods have to agree on it.
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

/// The writes that are missing. A step waits for the one before it to be seen, so a plan may be a part.
pub(super) fn plan(gang: &Gang<'_>, api: Api) -> Result<Vec<Write>, BackendError> {
    let shape = shape(gang, api);
    let builder = Builder { gang, api, priority: priority_class(Some(gang.object), gang.set) };
    let key = gang.key();
    let Some(workload) = gang.objects.get(&api.workloads(), &key) else {
        let body = builder.workload(&shape)?;
        return Ok(converge(api.workloads(), body, None, REASON).into_iter().collect());
    };
    builder.wait_for_former(&workload)?;
    let mut writes = Vec::new();
    for group in &shape.groups {
        let key = ObjectKey::new(&key.namespace, &group.name);
        let live = gang.objects.get(&api.pod_groups(), &key);
        writes.extend(builder.group(group, &shape, &workload, live.as_deref())?);
    }
    for composite in &shape.composites {
        let key = ObjectKey::new(&key.namespace, &composite.name);
        let live = gang.objects.get(&composites(), &key);
        writes.extend(builder.composite(composite, &workload, live.as_deref()));
    }
    Ok(writes)
}

struct Builder<'a> {
    gang: &'a Gang<'a>,
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

    /// What templates and groups have in common.
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

    /// Templates of the groups below one parent, and which group has which. Equal ones are shared when
    /// there would be too many.
    fn templates(&self, shape: &Shape, parent: Option<&str>) -> Result<Vec<Value>, BackendError> {
        let children = || shape.groups.iter().filter(|group| group.parent.as_deref() == parent);
        let mut templates = Vec::new();
        for group in children() {
            let name = template_of(group, shape);
            if templates.iter().all(|one: &Value| one["name"] != *name) {
                let mut template = self.group_terms(group);
                template["name"] = json!(name);
                templates.push(template);
            }
        }
        if templates.len() > TEMPLATES {
            let message = format!(
                "a Workload takes at most {TEMPLATES} different groups side by side and PodGang {} \
                 has {}: give some of its cliques the same minAvailable",
                self.gang.key(),
                templates.len()
            );
            return Err(BackendError::invalid(NAME, "TooManyGroups", message));
        }
        Ok(templates)
    }

    fn workload(&self, shape: &Shape) -> Result<Value, BackendError> {
        let owners = self.gang.object.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let controller = controller.map(|owner| {
            let group = owner.api_version.split_once('/').map(|(group, _)| group);
            json!({ "apiGroup": group, "kind": owner.kind, "name": owner.name })
        });
        let mut spec = json!({ "controllerRef": controller });
        match shape.composites.split_last() {
            None => spec["podGroupTemplates"] = json!(self.templates(shape, None)?),
            Some((root, inner)) => {
                let mut of_root = self.composite_terms(root);
                of_root["name"] = json!(safe(&root.name));
                of_root["podGroupTemplates"] = json!(self.templates(shape, Some(&root.name))?);
                let mut composites = Vec::new();
                for composite in inner {
                    let mut template = self.composite_terms(composite);
                    template["name"] = json!(safe(&composite.name));
                    template["podGroupTemplates"] =
                        json!(self.templates(shape, Some(&composite.name))?);
                    composites.push(template);
                }
                of_root["compositePodGroupTemplates"] = json!(composites);
                spec["compositePodGroupTemplates"] = json!([of_root]);
            }
        }
        let resource = self.api.workloads();
        Ok(json!({
            "apiVersion": format!("{}/{}", resource.group, resource.version),
            "kind": "Workload",
            "metadata": self.metadata(&self.gang.key().name, None),
            "spec": spec,
        }))
    }

    fn group(
        &self,
        group: &Group,
        shape: &Shape,
        workload: &SchedulerObject,
        live: Option<&SchedulerObject>,
    ) -> Result<Option<Write>, BackendError> {
        let resource = self.api.pod_groups();
        if let Some(live) = live {
            return self.changed_group(group, live);
        }
        let mut spec = self.group_terms(group);
        let template = template_of(group, shape);
        // Groups beside a tree have no template: a Workload describes a tree or a list, not both.
        let described = group.parent.is_some() || shape.composites.is_empty();
        if described && self.api == Api::V1alpha2 {
            spec["podGroupTemplateRef"] = json!({ "workload": {
                "workloadName": &*workload.meta().key.name, "podGroupTemplateName": template,
            }});
        } else if described {
            spec["workloadRef"] = json!({
                "workloadName": &*workload.meta().key.name, "templateName": template,
            });
        }
        spec["parentCompositePodGroupName"] = json!(group.parent);
        let body = json!({
            "apiVersion": format!("{}/{}", resource.group, resource.version),
            "kind": "PodGroup",
            "metadata": self.metadata(&group.name, Some(workload)),
            "spec": spec,
        });
        Ok(converge(resource, body, None, REASON))
    }

    /// What an earlier gang of the same name left behind has to go first: its groups count pods of then.
    fn wait_for_former(&self, live: &SchedulerObject) -> Result<(), BackendError> {
        if live.is_of(self.gang.object) && !live.meta().deleting {
            return Ok(());
        }
        let (kind, key) = (&live.object["kind"], &live.meta().key);
        let kind = kind.as_str().unwrap_or("object");
        let message = format!("{kind} {key} of an earlier gang is still being removed");
        Err(BackendError::not_yet(NAME, message))
    }

    /// Of a group that exists, the minimum can change, and that not everywhere.
    fn changed_group(
        &self,
        group: &Group,
        live: &SchedulerObject,
    ) -> Result<Option<Write>, BackendError> {
        self.wait_for_former(live)?;
        let name = &live.meta().key;
        let spec = &live.object["spec"];
        if group.parent.is_some() && spec["parentCompositePodGroupName"].is_null() {
            let message = format!(
                "PodGroup {name} lost spec.parentCompositePodGroupName: enable the feature gate \
                 CompositePodGroup in the API server"
            );
            return Err(BackendError::invalid(NAME, "FieldDropped", message));
        }
        if self.api == Api::V1alpha2 || group.min_count <= 0 {
            return Ok(None);
        }
        let wanted = json!({
            "metadata": { "name": group.name, "namespace": &*name.namespace },
            "spec": { "schedulingPolicy": { "gang": { "minCount": group.min_count } } },
        });
        Ok(converge(self.api.pod_groups(), wanted, Some(live), "the minimum is another one"))
    }

    fn composite(
        &self,
        composite: &Composite,
        workload: &SchedulerObject,
        live: Option<&SchedulerObject>,
    ) -> Option<Write> {
        let resource = composites();
        if let Some(live) = live {
            let count = &live.object["spec"]["schedulingPolicy"]["gang"]["minGroupCount"];
            let same = *count == composite.min_group_count && live.is_of(self.gang.object);
            if same || live.meta().deleting {
                return None;
            }
            // Nothing of it can be changed, but it may be replaced at any time.
            return Some(Write {
                resource,
                key: live.meta().key.clone(),
                verb: Verb::Delete {
                    only_if: Precondition::uid(&live.meta().uid),
                    propagation: Propagation::Orphan,
                    grace_seconds: None,
                },
                reason: "its groups are others",
            });
        }
        let mut spec = self.composite_terms(composite);
        spec["workloadRef"] = json!({
            "workloadName": &*workload.meta().key.name, "templateName": safe(&composite.name),
        });
        spec["parentCompositePodGroupName"] = json!(composite.parent);
        let body = json!({
            "apiVersion": format!("{}/{}", resource.group, resource.version),
            "kind": "CompositePodGroup",
            "metadata": self.metadata(&composite.name, Some(workload)),
            "spec": spec,
        });
        converge(resource, body, None, REASON)
    }
}

/// The template of a group: its own, or that of the first one like it where there are many.
fn template_of(group: &Group, shape: &Shape) -> String {
    let siblings = || shape.groups.iter().filter(|one| one.parent == group.parent);
    let alike =
        |one: &&Group| one.min_count == group.min_count && one.topology_key == group.topology_key;
    let shared = (siblings().count() > TEMPLATES).then(|| siblings().find(alike)).flatten();
    // The root may be called as a member is.
    let name = safe(&shared.unwrap_or(group).name);
    if shape.composites.iter().any(|composite| safe(&composite.name) == name) {
        return safe(&format!("{name}-pods"));
    }
    name
}

/// A name that templates may have: like a host name, and still another one for every name.
fn safe(name: &str) -> String {
    if name.len() <= LABEL_LENGTH && !name.contains('.') {
        return name.to_owned();
    }
    // FNV-1a: stable for ever, and nobody attacks their own names.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let cut: String = name.replace('.', "-").chars().take(54).collect();
    format!("{}-{hash:08x}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests;
