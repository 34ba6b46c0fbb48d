//! One set and its objects, which watches keep up to date while a command shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, labels};
use grove_core::topology::NodeLabels;
use grove_runtime::cache::Caches;
use grove_runtime::clock::Clock;
use grove_runtime::object::Object;
use grove_runtime::process::{Env, Process};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::{Store, Trouble};
use grove_runtime::view::View;
use grove_runtime::watch::Selection;
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::cluster::Cluster;

/// How long the first lists may take when the API server reports no error.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Changes come in bursts; this long after the first of them, all are shown together.
const BURST_DELAY: Duration = Duration::from_millis(200);

/// Which objects of a set a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The set, its groups and its cliques.
    Progress,
    /// Gangs and pods as well.
    Everything,
}

/// The set and its parts.
pub(crate) struct Live {
    key: ObjectKey,
    sets: Store<Object<PodCliqueSet>>,
    groups: Store<Object<PodCliqueScalingGroup>>,
    cliques: Store<Object<PodClique>>,
    gangs: Option<Store<Object<PodGang>>>,
    pods: Option<Store<Object<Pod>>>,
    changed: Arc<Notify>,
    clock: Clock,
    /// The watches end with it.
    _process: Process,
}

impl Live {
    /// Starts the watches, and returns when all objects are listed.
    pub(crate) async fn start(
        cluster: &Cluster,
        set: &str,
        scope: Scope,
        env: &Env,
    ) -> anyhow::Result<Self> {
        let mut process = Process::new(env.clone(), Duration::ZERO);
        let mut caches = Caches::new(cluster.client.clone(), env, process.stage("watches"));
        let (namespace, changed) = (&cluster.namespace, Arc::new(Notify::new()));
        let everything = scope == Scope::Everything;
        let live = Self {
            key: ObjectKey::new(namespace, set),
            sets: {
                let selection = Selection::all(Resource::of::<PodCliqueSet>())
                    .fields(&format!("metadata.name={set}"));
                follow(&mut caches, selection.namespace(namespace), &changed)
            },
            groups: parts(&mut caches, namespace, set, &changed),
            cliques: parts(&mut caches, namespace, set, &changed),
            gangs: everything.then(|| parts(&mut caches, namespace, set, &changed)),
            pods: everything.then(|| parts(&mut caches, namespace, set, &changed)),
            changed,
            clock: env.clock.clone(),
            _process: process,
        };
        let in_time = live.clock.timeout(LIST_TIMEOUT, live.first_lists()).await;
        match in_time {
            Some(listed) => listed?,
            None => {
                bail!("the API server did not list the set {} within {LIST_TIMEOUT:?}", live.key)
            }
        }
        // The first lists are no change.
        tokio::select! {
            biased;
            () = live.changed.notified() => {}
            () = std::future::ready(()) => {}
        }
        Ok(live)
    }

    async fn first_lists(&self) -> anyhow::Result<()> {
        first_list(&self.sets).await?;
        first_list(&self.groups).await?;
        first_list(&self.cliques).await?;
        if let Some(gangs) = &self.gangs {
            first_list(gangs).await?;
        }
        if let Some(pods) = &self.pods {
            first_list(pods).await?;
        }
        Ok(())
    }

    /// The present objects, or nothing when the set does not exist.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        Some(Snapshot {
            set: self.sets.get(&self.key)?,
            groups: self.groups.all(),
            cliques: self.cliques.all(),
            gangs: self.gangs.as_ref().map(Store::all).unwrap_or_default(),
            pods: self.pods.as_ref().map(Store::all).unwrap_or_default(),
        })
    }

    /// Waits for a change, and a moment longer for the changes that come with it.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
        self.clock.sleep(BURST_DELAY).await;
    }
}

fn follow<T: View>(caches: &mut Caches, selection: Selection, changed: &Arc<Notify>) -> Store<T> {
    let declared = caches.declare(selection);
    let store = caches.start(declared);
    let changed = changed.clone();
    store.on_change(move |_| changed.notify_one());
    store
}

fn parts<K>(
    caches: &mut Caches,
    namespace: &str,
    set: &str,
    changed: &Arc<Notify>,
) -> Store<Object<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    K::Scope: 'static,
{
    let selection = Selection::all(Resource::of::<K>()).namespace(namespace);
    follow(caches, selection.labels(&format!("{}={set}", labels::PART_OF)), changed)
}

/// Waits for the first list of a kind. Errors that will not pass by themselves are returned at once.
async fn first_list<T: View>(store: &Store<T>) -> anyhow::Result<()> {
    let mut trouble = store.trouble();
    let lasting = |trouble: &Option<Trouble>| {
        let answer = trouble.as_ref().map(|trouble| trouble.code);
        matches!(answer, Some(None | Some(401 | 403 | 404)))
    };
    tokio::select! {
        biased;
        () = store.synced() => Ok(()),
        found = trouble.wait_for(lasting) => {
            let found = found.ok().and_then(|found| found.clone());
            let why = found.map(|trouble| trouble.message).unwrap_or_default();
            bail!("cannot list {}: {why}", store.resource())
        }
    }
}

/// A set and its parts at one moment.
pub(crate) struct Snapshot {
    set: Arc<Object<PodCliqueSet>>,
    groups: Vec<Arc<Object<PodCliqueScalingGroup>>>,
    cliques: Vec<Arc<Object<PodClique>>>,
    gangs: Vec<Arc<Object<PodGang>>>,
    pods: Vec<Arc<Object<Pod>>>,
}

impl Snapshot {
    /// The objects themselves.
    pub(crate) fn objects(&self) -> Objects<'_> {
        fn plain<K>(cached: &[Arc<Object<K>>]) -> Vec<&K> {
            cached.iter().map(|one| &one.object).collect()
        }
        Objects {
            set: &self.set.object,
            groups: plain(&self.groups),
            cliques: plain(&self.cliques),
            gangs: plain(&self.gangs),
            pods: plain(&self.pods),
            nodes: None,
        }
    }
}

/// A set and its parts, each kind by name.
#[derive(Debug)]
pub(crate) struct Objects<'a> {
    pub(crate) set: &'a PodCliqueSet,
    pub(crate) groups: Vec<&'a PodCliqueScalingGroup>,
    pub(crate) cliques: Vec<&'a PodClique>,
    pub(crate) gangs: Vec<&'a PodGang>,
    pub(crate) pods: Vec<&'a Pod>,
    /// Labels of nodes by name, if they are known.
    pub(crate) nodes: Option<&'a BTreeMap<String, NodeLabels>>,
}
