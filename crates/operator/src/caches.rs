//! The caches of the operator, and how objects are found in them.

mod topologies;
pub(crate) mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::foreign::compute_domain::ComputeDomain;
use grove_api::{
    OperatorConfiguration, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, labels, names,
};
use grove_backends::{PodProgress, Registry, SchedulerCaches, SucceededPods};
use grove_core::gang::{self, GangPods};
use grove_core::layout::Layout;
use grove_core::pods;
use grove_core::start_order;
use grove_runtime::cache::{CacheBuilder, Caches};
use grove_runtime::pool::Pool;
use grove_runtime::resource::{ObjectKey, Resource, Uid};
use grove_runtime::store::{Index, Store};
use grove_runtime::view::{Meta, MetaView, View};
use grove_runtime::watch::Selection;
use jiff::Timestamp;

pub(crate) use self::topologies::{TopologyCaches, named_topology, reference};
use self::views::{Pod, Revision, Set, TokenSecret, gang_of};
use crate::controllers::claims;
use crate::controllers::clique::HadMinimum;
use grove_runtime::object::{JsonObject, Object};

pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
pub(crate) const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
pub(crate) const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
pub(crate) const SERVICE_ACCOUNTS: Resource =
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
pub(crate) const ROLES: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
pub(crate) const ROLE_BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding");
pub(crate) const AUTOSCALERS: Resource = Resource::namespaced(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
);

pub(crate) const REVISIONS: Resource =
    Resource::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");

/// The stores of all kinds that the operator caches.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) sets: Store<Set>,
    pub(crate) groups: BySet<Object<PodCliqueScalingGroup>>,
    pub(crate) cliques: BySet<Object<PodClique>>,
    cliques_by_group: Index,
    cliques_by_base_gang: Index,
    pub(crate) gangs: BySet<Object<PodGang>>,
    pub(crate) pods: Store<Pod>,
    pods_by_clique: Index,
    pub(crate) had_minimum: HadMinimum,
    /// Only when a scheduler counts the pods of gangs.
    pods_by_gang: Option<Index>,
    pub(crate) services: BySet<JsonObject>,
    pub(crate) autoscalers: BySet<JsonObject>,
    pub(crate) service_accounts: Store<MetaView>,
    pub(crate) roles: Store<MetaView>,
    pub(crate) role_bindings: Store<MetaView>,
    pub(crate) secrets: Store<TokenSecret>,
    /// Former and current templates of sets. Optional: nothing else depends on them.
    pub(crate) revisions: BySet<Revision>,
    pub(crate) topologies: TopologyCaches,
    /// Objects of the schedulers.
    pub(crate) scheduler_objects: SchedulerCaches,
    /// ResourceClaims and their templates.
    pub(crate) claims: claims::ClaimCaches,
    /// Absent when the operator does not manage ComputeDomains.
    pub(crate) compute_domains: Option<BySet<Object<ComputeDomain>>>,
}

/// A cache of managed objects that knows which set, and which replica of it, each belongs to.
pub(crate) struct BySet<T> {
    pub(crate) store: Store<T>,
    set: Index,
    replica: Index,
}

impl<T> Clone for BySet<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), set: self.set, replica: self.replica }
    }
}

impl<T: View> BySet<T> {
    /// The objects of a set, by name.
    pub(crate) fn of(&self, set: &ObjectKey) -> Vec<Arc<T>> {
        self.store.by(self.set, &set.to_string())
    }

    /// The objects of one replica of a set, by name.
    pub(crate) fn of_replica(&self, set: &ObjectKey, replica: u32) -> Vec<Arc<T>> {
        self.store.by(self.replica, &replica_text(set, replica))
    }

    /// One object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.store.get(&ObjectKey::new(namespace, name))
    }
}

/// Objects by their names.
pub(crate) type ByName<T> = BTreeMap<String, Arc<T>>;

/// Objects of one namespace, by name.
pub(crate) fn by_name<T: View>(views: Vec<Arc<T>>) -> ByName<T> {
    views.into_iter().map(|view| (view.meta().key.name.to_string(), view)).collect()
}

/// The set that an object belongs to: by its owner, which users do not change by accident, or by its label
/// when another object of the set owns it.
pub(crate) fn set_of(meta: &Meta) -> Option<ObjectKey> {
    let name = owner_of(meta, PodCliqueSet::KIND).or_else(|| meta.labels.get(labels::PART_OF))?;
    Some(ObjectKey::new(&meta.key.namespace, name))
}

/// The group that a PodClique is a member of, by its owner or its label.
fn group_of(meta: &Meta) -> Option<ObjectKey> {
    let label = || meta.labels.get(labels::POD_CLIQUE_SCALING_GROUP);
    let name = owner_of(meta, PodCliqueScalingGroup::KIND).or_else(label)?;
    Some(ObjectKey::new(&meta.key.namespace, name))
}

/// Name of the controlling owner, if it is of this kind.
pub(crate) fn owner_of<'m>(meta: &'m Meta, kind: &str) -> Option<&'m str> {
    let owner = meta.controller.as_ref().filter(|owner| *owner.kind == *kind)?;
    Some(&owner.name)
}

/// The replica of the set in the label of an object. Gangs and autoscalers do not have the label; in their
/// names, the index follows the name of the set.
pub(crate) fn replica_of(meta: &Meta) -> Option<u32> {
    if let Some(label) = meta.labels.get(labels::POD_CLIQUE_SET_REPLICA_INDEX) {
        return label.parse().ok();
    }
    let rest = meta.key.name.strip_prefix(&*set_of(meta)?.name)?.strip_prefix('-')?;
    rest.split('-').next()?.parse().ok()
}

fn replica_text(set: &ObjectKey, replica: u32) -> String {
    format!("{set}/{replica}")
}

fn index_by_set<T: View>(declared: &mut CacheBuilder<T>) -> (Index, Index) {
    let by_set = declared.index(|meta| set_of(meta).map(|set| set.to_string()));
    let by_replica = declared.index(|meta| Some(replica_text(&set_of(meta)?, replica_of(meta)?)));
    (by_set, by_replica)
}

pub(crate) fn managed(resource: Resource) -> Selection {
    let selector = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
    Selection::all(resource).labels(&selector)
}

fn by_set<T: View>(caches: &mut Caches, selection: Selection) -> BySet<T> {
    let declared = caches.declare::<T>(selection);
    indexed(caches, declared)
}

/// Starts a cache that knows which set and replica each object belongs to.
pub(crate) fn indexed<T: View>(caches: &mut Caches, mut declared: CacheBuilder<T>) -> BySet<T> {
    let (set, replica) = index_by_set(&mut declared);
    BySet { store: caches.start(declared), set, replica }
}

fn plain<T: View>(caches: &mut Caches, resource: Resource) -> Store<T> {
    let declared = caches.declare(managed(resource));
    caches.start(declared)
}

/// An optional cache of all objects of a kind.
fn all_of<T: View>(caches: &mut Caches, resource: Resource) -> Store<T> {
    let declared = caches.declare(Selection::all(resource)).optional();
    caches.start(declared)
}

impl Stores {
    /// Starts all caches that the configuration needs.
    pub(crate) fn start(
        caches: &mut Caches,
        backends: &Registry,
        configuration: &OperatorConfiguration,
    ) -> Self {
        let mnnvl = configuration.network.auto_mnnvl_enabled;
        // All PodCliques of a role have the template of the set, which is the largest part of them.
        let templates = Arc::new(Pool::default());
        let shared = templates.clone();
        let declared = caches
            .declare::<Set>(Selection::all(Resource::of::<PodCliqueSet>()))
            .on_read(move |set| set.pod_specs().for_each(|spec| shared.share(&mut spec.0)));
        let sets = caches.start(declared);
        // Caches of our own kinds do not select by label: the operator restores a label only on an object
        // that it observes without it.
        let mut cliques = caches
            .declare::<Object<PodClique>>(Selection::all(Resource::of::<PodClique>()))
            .on_read(move |clique| templates.share(&mut clique.object.spec.pod_spec.0));
        let (cliques_by_set, cliques_by_replica) = index_by_set(&mut cliques);
        let cliques_by_group = cliques.index(|meta| group_of(meta).map(|group| group.to_string()));
        let cliques_by_base_gang = cliques.index(|meta| {
            let gang = meta.labels.get(labels::BASE_POD_GANG)?;
            Some(ObjectKey::new(&meta.key.namespace, gang).to_string())
        });
        let cliques = BySet {
            store: caches.start(cliques),
            set: cliques_by_set,
            replica: cliques_by_replica,
        };
        let mut revisions = caches.declare::<Revision>(managed(REVISIONS)).optional();
        let (revisions_by_set, revisions_by_replica) = index_by_set(&mut revisions);
        let mut pods = caches.declare::<Pod>(managed(PODS));
        let pods_by_clique = pods.index(|meta| meta.owner_uid().map(ToString::to_string));
        let pods_by_gang = backends
            .count_pods()
            .then(|| pods.index(|meta| gang_of(meta).map(|gang| gang.to_string())));
        let compute_domains = mnnvl.then(|| {
            let declared = caches.declare(managed(Resource::of::<ComputeDomain>())).optional();
            indexed(caches, declared)
        });
        let pods = caches.start(pods);
        Self {
            had_minimum: HadMinimum::follow(&cliques.store, &pods, pods_by_clique),
            claims: claims::ClaimCaches::start(caches, &sets),
            compute_domains,
            sets,
            cliques,
            cliques_by_group,
            cliques_by_base_gang,
            pods,
            pods_by_clique,
            pods_by_gang,
            groups: by_set(caches, Selection::all(Resource::of::<PodCliqueScalingGroup>())),
            gangs: by_set(caches, Selection::all(Resource::of::<PodGang>())),
            services: by_set(caches, managed(SERVICES)),
            autoscalers: by_set(caches, managed(AUTOSCALERS)),
            service_accounts: plain(caches, SERVICE_ACCOUNTS),
            roles: plain(caches, ROLES),
            role_bindings: plain(caches, ROLE_BINDINGS),
            secrets: plain(caches, SECRETS),
            revisions: BySet {
                store: caches.start(revisions),
                set: revisions_by_set,
                replica: revisions_by_replica,
            },
            topologies: TopologyCaches::start(caches, &configuration.topology),
            scheduler_objects: SchedulerCaches::start(caches, backends),
        }
    }

    /// Whether the token of the start-order containers of a set exists.
    pub(crate) fn has_token(&self, set: &Set) -> bool {
        let key = &set.meta.key;
        let secret = ObjectKey::new(&key.namespace, &names::token_secret(&key.name));
        let secret = self.secrets.get(&secret);
        secret.is_some_and(|one| one.has_token && one.meta.owner_uid() == Some(&set.meta.uid))
    }

    /// The set whose PodCliques may be created because of a change of its token Secret. Sets without
    /// start order do not need the token.
    pub(crate) fn set_with_token(&self, secret: &TokenSecret) -> Option<Arc<Set>> {
        let set = self.sets.get(&set_of(&secret.meta)?)?;
        let is_needed = start_order::is_needed(&Layout::of(&set.object));
        (is_needed && self.has_token(&set)).then_some(set)
    }

    /// The pods that a PodClique owns, by name.
    pub(crate) fn pods_of(&self, clique: &Uid) -> Vec<Arc<Pod>> {
        self.pods.by(self.pods_by_clique, &clique.0)
    }

    /// The members of a scaling group, by name.
    pub(crate) fn members_of(&self, group: &ObjectKey) -> Vec<Arc<Object<PodClique>>> {
        self.cliques.store.by(self.cliques_by_group, &group.to_string())
    }

    /// The pods of a gang.
    pub(crate) fn gang_pods(&self, gang: &Object<PodGang>) -> GangPods {
        let namespace = &gang.meta.key.namespace;
        let members = gang.object.spec.pod_groups.iter().map(|member| {
            let clique = self.cliques.get(namespace, &member.name);
            let pods = clique.map(|clique| self.pods_of(&clique.meta.uid));
            (member.min_replicas, pods.unwrap_or_default())
        });
        let members: Vec<_> = members.collect();
        GangPods::of(
            members.iter().map(|(minimum, pods)| (*minimum, pods.iter().map(|pod| &pod.observed))),
        )
    }

    /// The progress of the pods of a gang, for schedulers that count them.
    pub(crate) fn progress(&self, gang: &Object<PodGang>) -> PodProgress {
        let namespace = &gang.meta.key.namespace;
        let succeeded = gang.object.spec.pod_groups.iter().filter_map(|member| {
            let clique = self.cliques.get(namespace, &member.name)?;
            let pods = self.pods_of(&clique.meta.uid);
            let indices = pods::succeeded_indices(pods.iter().map(|pod| &pod.observed));
            let desired = u32::try_from(clique.object.spec.replicas).unwrap_or_default();
            let succeeded = u32::try_from(indices.len()).unwrap_or(u32::MAX);
            let remaining = desired.saturating_sub(succeeded);
            (!indices.is_empty())
                .then(|| (member.name.clone(), SucceededPods { indices, remaining }))
        });
        let released = gang::is_initialized(&gang.object) && !self.gang_pods(gang).gated;
        PodProgress { released, succeeded: succeeded.collect() }
    }

    /// Until when a recreated gang waits for its former pods, those of former cliques included.
    pub(crate) fn restarts_after(&self, gang: &Object<PodGang>) -> Option<Timestamp> {
        let pods = self.pods.by(self.pods_by_gang?, &gang.meta.key.to_string());
        let pods = pods.iter().map(|pod| (&pod.observed, pod.meta().gone_by));
        gang::restarts_after(&gang.object.spec, pods)
    }

    /// The members of a gang whose pods are not all created, or not all released.
    pub(crate) fn unfinished_members(&self, gang: &Object<PodGang>) -> Vec<ObjectKey> {
        let namespace = &gang.meta.key.namespace;
        let members = gang.object.spec.pod_groups.iter();
        let members = members.filter_map(|member| self.cliques.get(namespace, &member.name));
        let is_unfinished = |clique: &Object<PodClique>| {
            let pods = self.pods_of(&clique.meta.uid);
            let released = |pod: &&Arc<Pod>| !pod.observed.deleting && !pod.observed.has_gate;
            let released = pods.iter().filter(released).count();
            usize::try_from(clique.object.spec.replicas).is_ok_and(|desired| released < desired)
        };
        members.filter(|one| is_unfinished(one)).map(|one| one.meta.key.clone()).collect()
    }

    /// The cliques whose gang waits for this base gang.
    pub(crate) fn waiting_for(&self, base_gang: &ObjectKey) -> Vec<Arc<Object<PodClique>>> {
        self.cliques.store.by(self.cliques_by_base_gang, &base_gang.to_string())
    }
}
