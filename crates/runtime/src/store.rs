//! An ordered, indexed cache of one kind.
//!
//! One writer (the watch task of the kind) and any number of readers. Readers get `Arc`s in the order of
//! their keys, all of them or by index. Listeners registered with [`Store::on_change`] are called with the
//! old and the new view, in order, after the store has changed; deletes that the watch missed are found by
//! comparing with the next list.
//!
//! [`Store::observed`] is the progress of the cache; the write fence waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{Notify, watch};

use crate::metrics::Metrics;
use crate::resource::{ObjectKey, Resource, Uid};
use crate::view::{Meta, View};
use crate::wake::note_read;

/// A change of one object. At least one of the two views is present.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The view before the change.
    pub old: Option<&'a T>,
    /// The view after the change; none if the object was deleted.
    pub new: Option<&'a T>,
    /// Whether this belongs to the first list rather than to a change.
    pub initial: bool,
}

/// Why the watch of a store currently fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// HTTP status code, if the server answered.
    pub code: Option<u16>,
    /// Message for the user.
    pub message: String,
}

/// Whether the API server serves the kind of an optional cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It does, and the store has its objects; or the watch has not started yet.
    #[default]
    Served,
    /// The API server refuses the watch (403 or 404), and discovery does not confirm that the kind is gone.
    /// The store keeps its objects.
    Unknown,
    /// The API server refuses the watch, and discovery does not list the kind. The store is empty.
    Absent,
}

/// The current [`Presence`] of a kind and its changes.
pub type PresenceChanges = watch::Receiver<Presence>;

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;
type IndexFn = Box<dyn Fn(&Meta) -> Option<String> + Send + Sync>;
type OnRead<T> = Box<dyn Fn(&mut T) + Send + Sync>;
type Waiter = Box<dyn FnOnce() + Send>;

/// A declared index of a store, made with [`StoreBuilder::index`].
#[derive(Clone, Copy, Debug)]
pub struct Index(usize);

/// Declares the indexes of a store before it has objects.
pub struct StoreBuilder<T> {
    resource: Resource,
    metrics: Metrics,
    indexes: Vec<IndexState>,
    on_read: OnRead<T>,
}

impl<T: View> StoreBuilder<T> {
    /// A store for `resource` without indexes.
    pub fn new(resource: Resource, metrics: Metrics) -> Self {
        Self { resource, metrics, indexes: Vec::new(), on_read: Box::new(|_| {}) }
    }

    /// Adds an index by the value that `of` returns for an object's name, labels and owner. Objects without
    /// a value are not indexed.
    pub fn index(&mut self, of: impl Fn(&Meta) -> Option<String> + Send + Sync + 'static) -> Index {
        self.indexes.push(IndexState { of: Box::new(of), keys: BTreeMap::new() });
        Index(self.indexes.len() - 1)
    }

    /// Calls `change` with each object that was read, before it is stored.
    #[must_use]
    pub fn on_read(self, change: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        Self { on_read: Box::new(change), ..self }
    }

    /// The empty store.
    pub fn build(self) -> Store<T> {
        let state = State { objects: BTreeMap::new(), indexes: self.indexes, observed: 0 };
        Store(Arc::new(Shared {
            cached: self.metrics.cached(&self.resource),
            resource: self.resource,
            on_read: self.on_read,
            state: RwLock::new(state),
            followers: Mutex::new(Followers {
                listeners: Vec::new(),
                version_waiters: BTreeMap::new(),
                gone_waiters: BTreeMap::new(),
            }),
            synced: watch::channel(false).0,
            trouble: watch::channel(None).0,
            presence: watch::channel(Presence::default()).0,
            resync: Notify::new(),
            demand: Notify::new(),
        }))
    }
}

struct IndexState {
    of: IndexFn,
    /// Sorted. Most values have one or two keys, for which a list needs least memory.
    keys: BTreeMap<String, Vec<ObjectKey>>,
}

impl IndexState {
    /// Updates the index for one object.
    fn change(&mut self, key: &ObjectKey, old: Option<&Meta>, new: Option<&Meta>) {
        let (was, is) = (old.and_then(&self.of), new.and_then(&self.of));
        if was == is {
            return;
        }
        if let Some(value) = was
            && let Some(keys) = self.keys.get_mut(&value)
        {
            keys.binary_search(key).ok().map(|position| keys.remove(position));
            if keys.is_empty() {
                self.keys.remove(&value);
            }
        }
        if let Some(value) = is {
            let keys = self.keys.entry(value).or_insert_with(|| Vec::with_capacity(1));
            if let Err(position) = keys.binary_search(key) {
                keys.insert(position, key.clone());
            }
        }
    }
}

/// Whether an object has the same value in every index.
fn stays(old: &Meta, new: &Meta) -> bool {
    old.labels == new.labels && old.controller == new.controller
}

struct State<T> {
    objects: BTreeMap<ObjectKey, Arc<T>>,
    indexes: Vec<IndexState>,
    observed: u64,
}

impl<T: View> State<T> {
    fn insert(&mut self, view: &Arc<T>) -> Option<Arc<T>> {
        let key = &view.meta().key;
        let old = self.objects.insert(key.clone(), view.clone());
        let (was, is) = (old.as_deref().map(View::meta), view.meta());
        if !was.is_some_and(|was| stays(was, is)) {
            for index in &mut self.indexes {
                index.change(key, was, Some(is));
            }
        }
        old
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let old = self.objects.remove(key)?;
        for index in &mut self.indexes {
            index.change(key, Some(old.meta()), None);
        }
        Some(old)
    }
}

struct Followers<T> {
    listeners: Vec<Listener<T>>,
    version_waiters: BTreeMap<u64, Vec<Waiter>>,
    gone_waiters: BTreeMap<ObjectKey, Vec<(Uid, Waiter)>>,
}

struct Shared<T> {
    resource: Resource,
    on_read: OnRead<T>,
    cached: Gauge,
    state: RwLock<State<T>>,
    /// Locked during a whole change, so that listeners get changes in order and a new listener misses none.
    /// Always locked before `state`.
    followers: Mutex<Followers<T>>,
    synced: watch::Sender<bool>,
    trouble: watch::Sender<Option<Trouble>>,
    presence: watch::Sender<Presence>,
    resync: Notify,
    demand: Notify,
}

/// The cache of one kind; clones share it.
pub struct Store<T>(Arc<Shared<T>>);

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: View> Store<T> {
    /// Reads the object that `json` begins with.
    pub(crate) fn read_view(&self, json: &[u8]) -> Result<T, serde_json::Error> {
        let mut view = T::deserialize(&mut serde_json::Deserializer::from_slice(json))?;
        (self.0.on_read)(&mut view);
        Ok(view)
    }

    /// The kind that is cached here.
    pub fn resource(&self) -> &Resource {
        &self.0.resource
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        note_read(&self.0.resource);
        self.read().objects.get(key).cloned()
    }

    /// All objects, by key.
    pub fn all(&self) -> Vec<Arc<T>> {
        note_read(&self.0.resource);
        self.read().objects.values().cloned().collect()
    }

    /// The objects whose value of `index` is `value`, by key.
    pub fn by(&self, index: Index, value: &str) -> Vec<Arc<T>> {
        note_read(&self.0.resource);
        let state = self.read();
        let keys = state.indexes.get(index.0).and_then(|index| index.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// The resourceVersion up to which the cache is complete.
    pub fn observed(&self) -> u64 {
        self.read().observed
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let mut synced = self.0.synced.subscribe();
        // The sender lives as long as `self`.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Starts a cache that is filled on demand.
    pub fn demand(&self) {
        self.0.demand.notify_one();
    }

    /// Waits for [`Store::demand`].
    pub(crate) async fn demanded(&self) {
        self.0.demand.notified().await;
    }

    /// Whether the store has the server's objects: false before the first list and while the server does
    /// not serve the kind.
    pub fn is_listed(&self) -> bool {
        self.observed() > 0
    }

    /// Calls `then` once [`Store::is_listed`], immediately if it already is.
    pub fn when_listed(&self, then: impl FnOnce() + Send + 'static) {
        self.when_observed(1, then);
    }

    /// Calls `listener` for every object in the store and for every later change. Listeners must be fast
    /// and must not change the store.
    pub fn on_change(&self, listener: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        let mut followers = self.followers();
        for view in self.all() {
            listener(&Change { old: None, new: Some(&view), initial: true });
        }
        followers.listeners.push(Box::new(listener));
    }

    /// Calls `then` once the cache has observed `resource_version`, immediately if it already has.
    pub fn when_observed(&self, resource_version: u64, then: impl FnOnce() + Send + 'static) {
        let mut followers = self.followers();
        if self.observed() >= resource_version {
            drop(followers);
            then();
        } else {
            followers.version_waiters.entry(resource_version).or_default().push(Box::new(then));
        }
    }

    /// Whether the cache has no object with this key and uid.
    pub fn is_gone(&self, key: &ObjectKey, uid: &Uid) -> bool {
        self.get(key).is_none_or(|view| view.meta().uid != *uid)
    }

    /// Calls `then` once [`Store::is_gone`], immediately if it already is.
    pub fn when_gone(&self, key: &ObjectKey, uid: &Uid, then: impl FnOnce() + Send + 'static) {
        let mut followers = self.followers();
        if self.is_gone(key, uid) {
            drop(followers);
            then();
        } else {
            let waiter: (Uid, Waiter) = (uid.clone(), Box::new(then));
            followers.gone_waiters.entry(key.clone()).or_default().push(waiter);
        }
    }

    /// Requests a new list, because the cache is behind the server.
    pub fn request_resync(&self) {
        self.0.resync.notify_one();
    }

    /// Why the watch fails, and changes of it. The contents stay readable meanwhile, and become outdated.
    pub fn trouble(&self) -> watch::Receiver<Option<Trouble>> {
        self.0.trouble.subscribe()
    }

    /// Whether the API server serves the kind.
    pub fn presence(&self) -> Presence {
        note_read(&self.0.resource);
        *self.0.presence.borrow()
    }

    /// Returns the presence and its changes.
    pub fn presence_changes(&self) -> PresenceChanges {
        self.0.presence.subscribe()
    }

    /// Whether the presence is [`Presence::Served`].
    pub fn is_served(&self) -> bool {
        self.presence() == Presence::Served
    }

    pub(crate) fn set_presence(&self, presence: Presence) {
        self.0
            .presence
            .send_if_modified(|current| std::mem::replace(current, presence) != presence);
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.0.trouble.send_if_modified(|current| {
            let changed = *current != trouble;
            *current = trouble;
            changed
        });
    }

    /// Waits for [`Store::request_resync`].
    pub(crate) async fn resync_requested(&self) {
        self.0.resync.notified().await;
    }

    /// Replaces the contents by a complete list at `resource_version`. Objects in `keep` stay as they are:
    /// they exist, but could not be decoded.
    pub(crate) fn replace(&self, views: Vec<T>, keep: &BTreeSet<ObjectKey>, resource_version: u64) {
        let mut followers = self.followers();
        let initial = !self.is_synced();
        let mut gone: BTreeSet<ObjectKey> =
            self.read().objects.keys().filter(|key| !keep.contains(*key)).cloned().collect();
        // A list replaces newer versions too, as after a restore from a backup.
        for view in views {
            gone.remove(&view.meta().key);
            let same = |known: Arc<T>| version(&*known) == version(&view);
            if !self.get(&view.meta().key).is_some_and(same) {
                self.put(&mut followers, view, initial);
            }
        }
        for key in gone {
            self.take(&mut followers, &key);
        }
        self.write().observed = resource_version;
        self.0.synced.send_replace(true);
        self.advanced(&mut followers);
    }

    /// Adds or updates one object.
    pub(crate) fn upsert(&self, view: T) {
        let mut followers = self.followers();
        let (uid, resource_version) = version(&view);
        let newer = |known: Arc<T>| {
            known.meta().uid == uid && known.meta().resource_version >= resource_version
        };
        if !self.get(&view.meta().key).is_some_and(newer) {
            self.put(&mut followers, view, false);
        }
        self.observe(&mut followers, resource_version);
    }

    /// Removes one object that was deleted at `resource_version`.
    pub(crate) fn delete(&self, key: &ObjectKey, resource_version: u64) {
        let mut followers = self.followers();
        let newer = |view: Arc<T>| view.meta().resource_version > resource_version;
        if !self.get(key).is_some_and(newer) {
            self.take(&mut followers, key);
        }
        self.observe(&mut followers, resource_version);
    }

    /// Records that the kind is unchanged up to `resource_version`.
    pub(crate) fn bookmark(&self, resource_version: u64) {
        self.observe(&mut self.followers(), resource_version);
    }

    fn put(&self, followers: &mut Followers<T>, view: T, initial: bool) {
        let view = Arc::new(view);
        let old = self.write().insert(&view);
        let change = Change { old: old.as_deref(), new: Some(&*view), initial };
        followers.listeners.iter().for_each(|listener| listener(&change));
        self.ended(followers, &view.meta().key);
    }

    fn take(&self, followers: &mut Followers<T>, key: &ObjectKey) {
        let old = self.write().remove(key);
        if let Some(old) = old {
            let change = Change { old: Some(&*old), new: None, initial: false };
            followers.listeners.iter().for_each(|listener| listener(&change));
            self.ended(followers, key);
        }
    }

    /// Calls those who wait for the deletion of an object with this key, if it was deleted.
    fn ended(&self, followers: &mut Followers<T>, key: &ObjectKey) {
        let Some(waiting) = followers.gone_waiters.remove(key) else { return };
        let (gone, still_there): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(uid, _)| self.is_gone(key, uid));
        if !still_there.is_empty() {
            followers.gone_waiters.insert(key.clone(), still_there);
        }
        for (_, then) in gone {
            then();
        }
    }

    fn observe(&self, followers: &mut Followers<T>, resource_version: u64) {
        {
            let mut state = self.write();
            state.observed = state.observed.max(resource_version);
        }
        self.advanced(followers);
    }

    fn advanced(&self, followers: &mut Followers<T>) {
        let (observed, objects) = {
            let state = self.read();
            (state.observed, state.objects.len())
        };
        self.0.cached.set(i64::try_from(objects).unwrap_or(i64::MAX));
        while let Some(entry) = followers.version_waiters.first_entry() {
            if *entry.key() > observed {
                break;
            }
            entry.remove().into_iter().for_each(|then| then());
        }
    }

    fn followers(&self) -> MutexGuard<'_, Followers<T>> {
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version<T: View>(view: &T) -> (Uid, u64) {
    (view.meta().uid.clone(), view.meta().resource_version)
}

#[cfg(test)]
mod tests;
