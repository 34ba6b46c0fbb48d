//! The groups of a gang for the scheduler of Kubernetes, and the templates that describe them.
//!
//! The scheduler reads groups. The Workload only describes them and has room for few templates: equal groups
//! share one, and where that is not enough, further composites hold a part of the groups each.

use std::collections::BTreeMap;

use grove_api::PodGang;
use grove_api::pod_gang::{PodGroup as Member, TranslatedConstraint};
use grove_core::gang::is_initialized;
use grove_runtime::resource::ObjectKey;

use super::api::Api;
use crate::contract::{SchedulerObjects, SucceededPods};

/// Templates that fit into one list of a Workload.
pub(super) const TEMPLATES: usize = 8;
/// Longest name of a template, which is a DNS label.
const LABEL_LENGTH: usize = 63;

/// How a gang is represented for the scheduler. Pods cannot change their group, so a gang keeps its form when
/// the cluster begins to serve other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// No groups: the gang had pods before it could have groups. A group would wait for pods that are not in
    /// it.
    Unreported,
    /// The only member is the only group.
    Single,
    /// A group for each member, below composites that require all of them.
    Tree,
    /// One group with the minima of all members, and one with all other pods, which are placed one by one.
    Flat,
    /// A group for each member without composites: a tree on a cluster that no longer serves composites.
    Separate,
}

impl Form {
    pub(super) fn of(gang: &PodGang, api: Api, objects: &dyn SchedulerObjects) -> Self {
        let (members, metadata) = (&gang.spec.pod_groups, &gang.metadata);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace, metadata.name.as_deref().unwrap_or_default());
        let has_groups = || {
            let kinds = [api.workloads(), api.pod_groups()];
            let mut owned = kinds.iter().flat_map(|kind| objects.of_gang(kind, &key));
            owned.any(|object| object.is_of(gang))
        };
        let has_pods = members.iter().any(|member| !member.pod_references.is_empty());
        if (has_pods || is_initialized(gang)) && !has_groups() {
            return Self::Unreported;
        }
        if members.len() <= 1 {
            return Self::Single;
        }
        let has = |name: &str| {
            let group = objects.get(&api.pod_groups(), &ObjectKey::new(namespace, name));
            group.is_some_and(|group| group.is_of(gang))
        };
        let composite = api == Api::Composite;
        if has(&key.name) {
            Self::Flat
        } else if members.iter().any(|member| has(&member.name)) {
            if composite { Self::Tree } else { Self::Separate }
        } else if composite && tree(gang).is_some() {
            Self::Tree
        } else {
            Self::Flat
        }
    }
}

/// Name of the group with the pods above the minima of a flat gang.
pub(super) fn extra_group(gang: &str) -> String {
    format!("{gang}-extra")
}

/// Pods that are scheduled together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    /// Zero if the pods are placed one by one.
    pub(super) min_count: i32,
    pub(super) topology_key: Option<String>,
    pub(super) parent: Option<String>,
    /// Absent for groups beside a tree: a Workload describes a tree or a list, not both.
    pub(super) template: Option<String>,
}

impl Group {
    fn new(name: &str, min_count: i32, topology_key: Option<String>, parent: Option<&str>) -> Self {
        let parent = parent.map(str::to_owned);
        Self { name: name.to_owned(), min_count, topology_key, parent, template: None }
    }

    fn of(member: &Member, parent: Option<&str>) -> Self {
        let key = required(member.topology_constraint.as_ref());
        Self::new(&member.name, member.min_replicas, key, parent)
    }

    fn terms(&self) -> Terms {
        (self.min_count, self.topology_key.clone())
    }
}

/// What groups that share a template have in common.
type Terms = (i32, Option<String>);

/// Groups that are scheduled together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Composite {
    pub(super) name: String,
    pub(super) min_group_count: usize,
    pub(super) topology_key: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) template: String,
}

/// The groups of a gang: leaves, and composites from the inside to the root.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shape {
    pub(super) groups: Vec<Group>,
    pub(super) composites: Vec<Composite>,
}

impl Shape {
    pub(super) fn of(gang: &PodGang, api: Api, objects: &dyn SchedulerObjects) -> Self {
        let name = gang.metadata.name.as_deref().unwrap_or_default();
        let members = &gang.spec.pod_groups;
        let whole = required(gang.spec.topology_constraint.as_ref());
        let each = || members.iter().map(|member| Group::of(member, None)).collect();
        let groups: Vec<Group> = match Form::of(gang, api, objects) {
            Form::Tree => match tree(gang) {
                Some(tree) => return tree,
                None => each(),
            },
            Form::Separate => each(),
            Form::Unreported => Vec::new(),
            Form::Single => {
                let mut only: Vec<Group> = each();
                for group in &mut only {
                    group.topology_key = group.topology_key.take().or_else(|| whole.clone());
                }
                only
            }
            Form::Flat => {
                let minimum = members.iter().map(|member| member.min_replicas.max(0)).sum();
                let core = Group::new(name, minimum, whole.clone(), None);
                vec![core, Group::new(&extra_group(name), 0, whole, None)]
            }
        };
        let own = |group: Group| Group { template: Some(template_name(&group.name)), ..group };
        Self { groups: groups.into_iter().map(own).collect(), composites: Vec::new() }
    }

    /// Lowers the minima by the succeeded pods. The scheduler does not count them, and would let the
    /// replacements of lost pods wait for them.
    pub(super) fn without_succeeded(
        mut self,
        gang: &PodGang,
        succeeded: &BTreeMap<String, SucceededPods>,
    ) -> Self {
        if succeeded.is_empty() {
            return self;
        }
        let members = &gang.spec.pod_groups;
        let mut completed: Vec<String> = Vec::new();
        for group in self.groups.iter_mut().filter(|group| group.min_count > 0) {
            let left = if members.iter().any(|member| member.name == group.name) {
                succeeded.get(&group.name).map_or(group.min_count, |one| limited(one.remaining))
            } else {
                // A flat gang has the pods with the first indices in this group.
                group.min_count
                    - limited(members.iter().map(|member| of_minimum(member, succeeded)).sum())
            };
            if left == 0 {
                completed.push(group.name.clone());
            }
            group.min_count = group.min_count.min(left).max(1);
        }
        for index in 0..self.composites.len() {
            let name = &self.composites[index].name;
            let groups = self.below(name).map(|group| &group.name);
            let composites = self.composites_below(Some(name)).map(|composite| &composite.name);
            let counts = groups.chain(composites).filter(|one| !completed.contains(one)).count();
            if counts == 0 {
                completed.push(name.clone());
            }
            self.composites[index].min_group_count = counts.max(1);
        }
        self
    }

    fn below<'s>(&'s self, parent: &'s str) -> impl Iterator<Item = &'s Group> {
        self.groups.iter().filter(move |group| group.parent.as_deref() == Some(parent))
    }

    fn composites_below<'s>(
        &'s self,
        parent: Option<&'s str>,
    ) -> impl Iterator<Item = &'s Composite> {
        self.composites.iter().filter(move |one| one.parent.as_deref() == parent)
    }

    /// Distributes the groups below a parent to several composites, if one list of templates is too short.
    fn split(&mut self, parent: &str) {
        let mut kinds: Vec<Terms> = Vec::new();
        for group in self.below(parent) {
            let terms = group.terms();
            if !kinds.contains(&terms) {
                kinds.push(terms);
            }
        }
        if kinds.len() <= TEMPLATES {
            return;
        }
        for (index, kinds) in kinds.chunks(TEMPLATES).enumerate() {
            let part = format!("{parent}-part-{index}");
            for group in &mut self.groups {
                if group.parent.as_deref() == Some(parent) && kinds.contains(&group.terms()) {
                    group.parent = Some(part.clone());
                }
            }
            self.composite(&part, None, Some(parent));
        }
    }

    /// Adds a composite above the groups and composites that name it.
    fn composite(&mut self, name: &str, topology_key: Option<String>, parent: Option<&str>) {
        let children = self.below(name).count() + self.composites_below(Some(name)).count();
        self.composites.push(Composite {
            name: name.to_owned(),
            min_group_count: children,
            topology_key,
            parent: parent.map(str::to_owned),
            template: template_name(name),
        });
    }

    /// Names the templates; returns nothing if there are too many.
    fn described(mut self) -> Option<Self> {
        // The composite whose template each composite uses, by name.
        let mut like = BTreeMap::<String, String>::new();
        for composite in &self.composites {
            let siblings = || self.composites_below(composite.parent.as_deref());
            let shares = siblings().count() > TEMPLATES;
            let first = siblings().find(|one| shares && self.are_alike(one, composite));
            like.insert(composite.name.clone(), first.unwrap_or(composite).name.clone());
        }
        let mut templates = Vec::new();
        for group in &self.groups {
            let Some(parent) = &group.parent else {
                templates.push(None);
                continue;
            };
            let described = &like[parent];
            let shares = described != parent || self.below(parent).count() > TEMPLATES;
            let first = self.below(described).find(|one| shares && one.terms() == group.terms());
            let name = template_name(&first.unwrap_or(group).name);
            // The root may have the name of a member.
            let taken =
                self.composites.iter().any(|composite| template_name(&composite.name) == name);
            templates.push(Some(if taken { template_name(&format!("{name}-pods")) } else { name }));
        }
        for (group, template) in self.groups.iter_mut().zip(templates) {
            group.template = template;
        }
        for composite in &mut self.composites {
            composite.template = template_name(&like[&composite.name]);
        }
        let is_too_wide = |parent: &str| {
            let mut names: Vec<_> =
                self.composites_below(Some(parent)).map(|one| &one.template).collect();
            names.sort();
            names.dedup();
            names.len() > TEMPLATES
        };
        let too_wide = self.composites.iter().any(|one| is_too_wide(&one.name));
        (!too_wide).then_some(self)
    }

    /// Whether one template can describe both. Composites with composites below never share one.
    fn are_alike(&self, one: &Composite, other: &Composite) -> bool {
        let terms = |composite: &Composite| {
            let mut below: Vec<Terms> = self.below(&composite.name).map(Group::terms).collect();
            below.sort();
            (composite.topology_key.clone(), below)
        };
        let has_none =
            |composite: &Composite| self.composites_below(Some(&composite.name)).next().is_none();
        one.name == other.name || has_none(one) && has_none(other) && terms(one) == terms(other)
    }
}

/// Members below the root, or below the composite of their constraint; nothing if a Workload cannot
/// describe them. A member without a minimum stays outside of the tree: inside it would need at least one pod.
fn tree(gang: &PodGang) -> Option<Shape> {
    let root = gang.metadata.name.as_deref().unwrap_or_default();
    let mut shape = Shape::default();
    let mut parents = BTreeMap::<&str, String>::new();
    let configs = &gang.spec.topology_constraint_group_configs;
    let inner = |name: &str| format!("{root}-{name}");
    for config in configs {
        let members = config.pod_group_names.iter().map(String::as_str);
        parents.extend(members.map(|member| (member, inner(&config.name))));
    }
    for member in &gang.spec.pod_groups {
        let parent = parents.get(&*member.name).map_or(root, String::as_str);
        shape.groups.push(Group::of(member, (member.min_replicas > 0).then_some(parent)));
    }
    for config in configs {
        let name = inner(&config.name);
        if shape.below(&name).next().is_none() {
            continue;
        }
        shape.split(&name);
        shape.composite(&name, required(config.topology_constraint.as_ref()), Some(root));
    }
    shape.split(root);
    shape.composite(root, required(gang.spec.topology_constraint.as_ref()), None);
    shape.described()
}

/// The number of succeeded pods of a member in the group of the minima.
fn of_minimum(member: &Member, succeeded: &BTreeMap<String, SucceededPods>) -> u32 {
    let indices = succeeded.get(&member.name).map(|one| &*one.indices).unwrap_or_default();
    let counts = |index: &&u32| limited(**index) < member.min_replicas;
    u32::try_from(indices.iter().filter(counts).count()).unwrap_or(u32::MAX)
}

fn limited(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn required(constraint: Option<&TranslatedConstraint>) -> Option<String> {
    let pack = constraint?.pack_constraint.as_ref()?;
    pack.required.clone().filter(|key| !key.is_empty())
}

/// A DNS label for a template, different for different names.
fn template_name(name: &str) -> String {
    if name.len() <= LABEL_LENGTH && !name.contains('.') {
        return name.to_owned();
    }
    // FNV-1a is stable across versions, and names need no protection against collisions on purpose.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let cut: String = name.replace('.', "-").chars().take(54).collect();
    format!("{}-{hash:08x}", cut.trim_end_matches('-'))
}

#[cfg(test)]
mod tests;
