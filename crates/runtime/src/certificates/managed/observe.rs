//! The watches of the manager. Each selects one object by name, so that the manager needs permission and
//! memory for no other Secret or webhook configuration.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use tokio::sync::Notify;

use super::super::contents::Data;
use crate::clock::Instant;
use crate::process::{Env, Stage};
use crate::resource::{ObjectKey, Resource};
use crate::store::{Store, StoreBuilder};
use crate::view::{Meta, View};
use crate::watch::{Selection, WatchConfig, Watcher};

pub(super) const SECRET_TYPE: &str = "kubernetes.io/tls";

/// The Secret. Not printable: it holds keys.
#[derive(Deserialize)]
pub(super) struct SecretView {
    pub(super) metadata: Meta,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) data: Data,
}

impl View for SecretView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A validating or mutating webhook configuration.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigurationView {
    pub(super) metadata: Meta,
    #[serde(default)]
    webhooks: Vec<WebhookView>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookView {
    #[serde(default)]
    client_config: ClientConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    #[serde(default)]
    ca_bundle: Option<ByteString>,
}

impl View for ConfigurationView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl ConfigurationView {
    /// Positions of the webhooks that carry another bundle.
    pub(super) fn outdated(&self, bundle: &str) -> Vec<usize> {
        let differs = |webhook: &WebhookView| {
            let carried = webhook.client_config.ca_bundle.as_ref();
            carried.is_none_or(|carried| carried.0 != bundle.as_bytes())
        };
        let webhooks = self.webhooks.iter().enumerate();
        webhooks.filter(|(_, webhook)| differs(webhook)).map(|(index, _)| index).collect()
    }
}

/// One object and its cache.
pub(super) struct Followed<T> {
    pub(super) key: ObjectKey,
    pub(super) store: Store<T>,
}

impl<T: View> Followed<T> {
    pub(super) fn get(&self) -> Option<Arc<T>> {
        self.store.get(&self.key)
    }
}

/// Starts watches of single objects.
pub(super) struct Follow<'a> {
    pub(super) client: &'a Client,
    pub(super) env: &'a Env,
    pub(super) stage: &'a Stage,
    /// Notified of every change.
    pub(super) changed: &'a Arc<Notify>,
}

impl Follow<'_> {
    pub(super) fn object<T: View>(&self, resource: &Resource, key: ObjectKey) -> Followed<T> {
        let env = self.env;
        let store: Store<T> = StoreBuilder::new(resource.clone(), env.metrics.clone()).build();
        let wake = self.changed.clone();
        store.on_change(move |_| wake.notify_one());
        let selection = Selection::all(resource.clone())
            .namespace(&key.namespace)
            .fields(&format!("metadata.name={}", key.name));
        let watcher = Watcher {
            client: self.client.clone(),
            clock: env.clock.clone(),
            rng: env.rng.fork(&format!("certificates {resource} {key}")),
            metrics: env.metrics.clone(),
            selection,
            config: WatchConfig::default(),
            store: store.clone(),
            optional: false,
            on_demand: false,
            readiness: env.readiness.part(format!("cache {resource} {key}")),
        };
        let (synced, wake) = (store.clone(), self.changed.clone());
        self.stage.spawn(|shutdown| async move {
            // An empty first list changes nothing in the store, but shows that the object is missing.
            let first_list = async {
                synced.synced().await;
                wake.notify_one();
            };
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                _ = futures::future::join(watcher.run(), first_list) => {}
            }
        });
        Followed { key, store }
    }
}

/// A value and the time of its last change.
#[derive(Debug)]
pub(in crate::certificates) struct Since<T> {
    current: Option<(T, Instant)>,
}

impl<T> Default for Since<T> {
    fn default() -> Self {
        Self { current: None }
    }
}

impl<T: PartialEq> Since<T> {
    /// Records the value at `now` and returns its age, or none without a value.
    pub(in crate::certificates) fn update(
        &mut self,
        value: Option<T>,
        now: Instant,
    ) -> Option<Duration> {
        let same = |(current, _): &(T, Instant)| Some(current) == value.as_ref();
        if !self.current.as_ref().is_some_and(same) {
            self.current = value.map(|value| (value, now));
        }
        self.current.as_ref().map(|(_, since)| now.since(*since))
    }
}
