//! The caches of one process: one watch, one decode and one store per kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use crate::fence::Mark;
use crate::process::{Env, Stage};
use crate::resource::Resource;
use crate::store::{Index, Store, StoreBuilder};
use crate::view::{Meta, View};
use crate::watch::{Selection, WatchConfig, Watcher};

/// Starts and knows the caches of a process.
pub struct Caches {
    client: Client,
    env: Env,
    config: WatchConfig,
    stage: Stage,
    all: BTreeMap<Resource, Arc<dyn Progress>>,
}

/// A cache that is declared but not filled yet: the time to add indexes.
pub struct CacheBuilder<T> {
    selection: Selection,
    store: StoreBuilder<T>,
    optional: bool,
    on_demand: bool,
}

impl<T: View> CacheBuilder<T> {
    /// Adds an index by the value that `of` finds in the name, the labels and the owner of an object;
    /// objects without one are left out.
    pub fn index(&mut self, of: impl Fn(&Meta) -> Option<String> + Send + Sync + 'static) -> Index {
        self.store.index(of)
    }

    /// The API server may not serve the kind, or not to us. The cache is then empty and counts as
    /// synced. When the server stops serving the kind, the cache keeps its objects until discovery
    /// confirms that the kind is gone; see [`Presence`](crate::store::Presence).
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Not everybody needs the kind: the cache is empty, and costs nothing, until [`Store::demand`].
    #[must_use]
    pub fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }
}

impl Caches {
    /// No caches yet. Their watches end with `stage`.
    pub fn new(client: Client, env: &Env, stage: Stage) -> Self {
        Self {
            client,
            env: env.clone(),
            config: WatchConfig::default(),
            stage,
            all: BTreeMap::new(),
        }
    }

    /// Changes patience and sizes of the watches started from now on.
    #[must_use]
    pub fn with_config(self, config: WatchConfig) -> Self {
        Self { config, ..self }
    }

    /// Declares the cache of a selection.
    pub fn declare<T: View>(&self, selection: Selection) -> CacheBuilder<T> {
        let store = StoreBuilder::new(selection.resource.clone(), self.env.metrics.clone());
        CacheBuilder { selection, store, optional: false, on_demand: false }
    }

    /// Starts to fill a declared cache.
    ///
    /// # Panics
    ///
    /// If the kind has a cache already: decoding JSON is what a controller spends its time on, and
    /// two caches of one kind would do it twice.
    pub fn start<T: View>(&mut self, declared: CacheBuilder<T>) -> Store<T> {
        let resource = declared.selection.resource.clone();
        assert!(!self.all.contains_key(&resource), "{resource} has a cache already");
        let store = declared.store.build();
        let watcher = Watcher {
            client: self.client.clone(),
            clock: self.env.clock.clone(),
            rng: self.env.rng.fork(&resource.qualified_name()),
            metrics: self.env.metrics.clone(),
            selection: declared.selection,
            config: self.config,
            store: store.clone(),
            optional: declared.optional,
            on_demand: declared.on_demand,
            readiness: self.env.readiness.part(format!("cache {resource}")),
        };
        self.stage.spawn(|shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = watcher.run() => {}
            }
        });
        self.all.insert(resource, Arc::new(store.clone()));
        store
    }

    /// A cache that the test fills itself.
    #[cfg(test)]
    pub(crate) fn adopt_for_test<T: View>(&mut self, store: Store<T>) {
        self.all.insert(store.resource().clone(), Arc::new(store));
    }

    /// How far each cache has come, for the write fence.
    pub(crate) fn progress(&self) -> Fences {
        Fences(Arc::new(self.all.clone()))
    }
}

/// How far the caches of a process have come, by kind.
#[derive(Clone)]
pub(crate) struct Fences(Arc<BTreeMap<Resource, Arc<dyn Progress>>>);

impl Fences {
    /// Waits until every cache has its first list.
    pub(crate) async fn synced(&self) {
        for cache in self.0.values() {
            cache.synced().await;
        }
    }

    /// The cache of `resource`, if there is one that has not seen `mark` yet.
    pub(crate) fn behind(&self, resource: &Resource, mark: &Mark) -> Option<&Arc<dyn Progress>> {
        self.0.get(resource).filter(|cache| !cache.has_seen(mark))
    }
}

/// A cache, as far as the write fence is concerned.
pub(crate) trait Progress: Send + Sync {
    fn synced(&self) -> BoxFuture<'_, ()>;
    fn observed(&self) -> u64;
    fn has_seen(&self, mark: &Mark) -> bool;
    fn when_seen(&self, mark: &Mark, then: Box<dyn FnOnce() + Send>);
    fn request_resync(&self);
}

impl<T: View> Progress for Store<T> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::synced(self))
    }

    fn observed(&self) -> u64 {
        Self::observed(self)
    }

    fn has_seen(&self, mark: &Mark) -> bool {
        match mark {
            Mark::Version(version) => Self::observed(self) >= *version,
            Mark::Gone(key, uid) => self.is_gone(key, uid),
        }
    }

    fn when_seen(&self, mark: &Mark, then: Box<dyn FnOnce() + Send>) {
        match mark {
            Mark::Version(version) => self.when_observed(*version, then),
            Mark::Gone(key, uid) => self.when_gone(key, uid, then),
        }
    }

    fn request_resync(&self) {
        Self::request_resync(self);
    }
}
