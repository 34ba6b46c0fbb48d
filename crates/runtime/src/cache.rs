//! The caches of one process: one watch, one decode and one store per selection of a kind.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use crate::fence::{Mark, Written};
use crate::process::{Env, Stage};
use crate::resource::Resource;
use crate::store::{Index, Store, StoreBuilder};
use crate::view::{Meta, View};
use crate::watch::{Selection, WatchConfig, Watcher};

/// Starts the caches of a process and finds them by kind.
pub struct Caches {
    client: Client,
    env: Env,
    config: WatchConfig,
    stage: Stage,
    all: Vec<Cached>,
}

#[derive(Clone)]
struct Cached {
    selection: Selection,
    progress: Arc<dyn Progress>,
}

/// A cache that is declared but not started: indexes can still be added.
pub struct CacheBuilder<T> {
    selection: Selection,
    store: StoreBuilder<T>,
    optional: bool,
    on_demand: bool,
}

impl<T: View> CacheBuilder<T> {
    /// Adds an index by the value that `of` returns for an object's name, labels and owner. Objects without
    /// a value are not indexed.
    pub fn index(&mut self, of: impl Fn(&Meta) -> Option<String> + Send + Sync + 'static) -> Index {
        self.store.index(of)
    }

    /// Calls `change` with each object that was read, before it is stored.
    #[must_use]
    pub fn on_read(self, change: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        Self { store: self.store.on_read(change), ..self }
    }

    /// The API server may not serve the kind, or not to us. The cache is then empty and counts as
    /// synced. When the server stops serving the kind, the cache keeps its objects until discovery
    /// confirms that the kind is gone; see [`Presence`](crate::store::Presence).
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Delays list and watch until the first [`Store::demand`]; until then the cache is empty.
    #[must_use]
    pub fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }
}

impl Caches {
    /// Starts without caches. `stage` stops their watches.
    pub fn new(client: Client, env: &Env, stage: Stage) -> Self {
        Self { client, env: env.clone(), config: WatchConfig::default(), stage, all: Vec::new() }
    }

    /// Sets timeouts and page sizes of watches started from now on.
    #[must_use]
    pub fn with_config(self, config: WatchConfig) -> Self {
        Self { config, ..self }
    }

    /// Declares the cache of a selection.
    pub fn declare<T: View>(&self, selection: Selection) -> CacheBuilder<T> {
        let store = StoreBuilder::new(selection.resource.clone(), self.env.metrics.clone());
        CacheBuilder { selection, store, optional: false, on_demand: false }
    }

    /// Starts the list-watch of a declared cache.
    ///
    /// # Panics
    ///
    /// If the selection already has a cache: a second one would decode every object twice.
    pub fn start<T: View>(&mut self, declared: CacheBuilder<T>) -> Store<T> {
        let selection = declared.selection.clone();
        let name = selection.to_string();
        assert!(
            self.all.iter().all(|one| one.selection != selection),
            "{name} has a cache already"
        );
        let store = declared.store.build();
        let watcher = Watcher {
            client: self.client.clone(),
            clock: self.env.clock.clone(),
            rng: self.env.rng.fork(&name),
            metrics: self.env.metrics.clone(),
            selection: declared.selection,
            config: self.config,
            store: store.clone(),
            optional: declared.optional,
            on_demand: declared.on_demand,
            readiness: self.env.readiness.part(format!("cache {name}")),
        };
        self.stage.spawn(|shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = watcher.run() => {}
            }
        });
        self.all.push(Cached { selection, progress: Arc::new(store.clone()) });
        store
    }

    /// A cache that the test fills itself.
    #[cfg(test)]
    pub(crate) fn adopt_for_test<T: View>(&mut self, selection: Selection, store: Store<T>) {
        self.all.push(Cached { selection, progress: Arc::new(store) });
    }

    /// Returns the progress of each cache, for the write fence.
    pub(crate) fn progress(&self) -> Fences {
        Fences(self.all.clone().into())
    }
}

/// The progress of the caches of a process.
#[derive(Clone)]
pub(crate) struct Fences(Arc<[Cached]>);

impl Fences {
    /// Waits until every cache has its first list.
    pub(crate) async fn synced(&self) {
        for cache in self.0.iter() {
            cache.progress.synced().await;
        }
    }

    /// Returns the caches that have not observed all of `written` yet, each with the mark to wait for. Of
    /// several versions the newest is enough.
    pub(crate) fn behind(&self, written: &[Written]) -> Vec<(Arc<dyn Progress>, Mark)> {
        let mut behind = Vec::new();
        for Cached { selection, progress } in self.0.iter() {
            // The answer to a delete has no labels, and a cache without the object has observed the delete.
            let selects = |one: &&Written| {
                one.resource == selection.resource
                    && (matches!(one.mark, Mark::Gone(..))
                        || selection.may_select(&one.namespace, &one.labels))
            };
            let marks = written.iter().filter(selects).map(|one| &one.mark);
            let (versions, gone): (Vec<&Mark>, Vec<&Mark>) =
                marks.partition(|mark| matches!(mark, Mark::Version(_)));
            let marks = versions.into_iter().max().into_iter().chain(gone);
            let unseen = marks.filter(|mark| !progress.has_seen(mark));
            behind.extend(unseen.map(|mark| (progress.clone(), mark.clone())));
        }
        behind
    }
}

/// The progress of a cache for the write fence.
pub(crate) trait Progress: Send + Sync {
    fn resource(&self) -> &Resource;
    fn synced(&self) -> BoxFuture<'_, ()>;
    fn observed(&self) -> u64;
    fn has_seen(&self, mark: &Mark) -> bool;
    fn when_seen(&self, mark: &Mark, then: Box<dyn FnOnce() + Send>);
    fn request_resync(&self);
}

impl<T: View> Progress for Store<T> {
    fn resource(&self) -> &Resource {
        Self::resource(self)
    }

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
