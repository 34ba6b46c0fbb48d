//! The writes of the manager.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::super::contents::Contents;
use super::super::decide::Step;
use super::observe::{SECRET_TYPE, SecretView};
use super::{ManagedCertificate, ManagedError, SECRETS};
use crate::fence::Fence;
use crate::store::Store;
use crate::view::View;
use crate::write::{Precondition, Verb, Write};

/// How long to wait until the watch delivers our own write. Continuing too early only costs a conflict.
const OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

impl ManagedCertificate {
    /// Stores the result of `step` on `base`.
    pub(super) async fn store(
        &self,
        step: &Step,
        base: &Contents,
        secret: Option<&SecretView>,
    ) -> Result<(), ManagedError> {
        if *step == Step::Keep {
            return Ok(());
        }
        let config = &self.config;
        let new = base
            .after(step, &config.authority, &config.names, &config.schedule, self.env.clock.wall())
            .map_err(|source| ManagedError::Mint { names: config.names.clone(), source })?;
        let verb = match secret {
            None => Verb::Create { body: self.new_secret(&new) },
            Some(secret) => Verb::Merge {
                patch: json!({ "data": new.data() }),
                only_if: Precondition::version(
                    &secret.metadata.uid,
                    secret.metadata.resource_version,
                ),
                subresource: None,
            },
        };
        let reason = reason(step);
        let write = Write { resource: SECRETS, key: config.secret.clone(), verb, reason };
        let written = self.writer.execute(&Fence::default(), &write).await?;
        tracing::info!(secret = %config.secret, reason, "certificates changed");
        self.until_observed(&self.secret.store, written.resource_version).await;
        Ok(())
    }

    fn new_secret(&self, contents: &Contents) -> Value {
        let key = &self.config.secret;
        let mut data = json!(contents.data());
        if let Some(data) = data.as_object_mut() {
            data.retain(|_, value| !value.is_null());
        }
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SECRET_TYPE,
            "metadata": {
                "name": &*key.name, "namespace": &*key.namespace, "labels": self.config.labels,
            },
            "data": data,
        })
    }

    async fn until_observed<T: View>(&self, store: &Store<T>, resource_version: u64) {
        let (sender, seen) = oneshot::channel();
        store.when_observed(resource_version, move || {
            let _ = sender.send(());
        });
        let _ = self.env.clock.timeout(OWN_WRITE_TIMEOUT, seen).await;
    }

    /// Writes the bundle into every webhook that carries another one. An error does not stop the others;
    /// the first one is returned.
    pub(super) async fn publish(&self) -> Result<(), ManagedError> {
        let bundle = self.contents.bundle();
        if bundle.is_empty() {
            return Ok(());
        }
        let value = json!(k8s_openapi::ByteString(bundle.clone().into_bytes()));
        let mut outcome = Ok(());
        for webhook in &self.webhooks {
            let Some(view) = webhook.get() else { continue };
            let outdated = view.outdated(&bundle);
            if outdated.is_empty() {
                continue;
            }
            let operations = outdated.iter().map(|index| {
                let path = format!("/webhooks/{index}/clientConfig/caBundle");
                json!({ "op": "add", "path": path, "value": value })
            });
            let patch = serde_json::from_value(operations.collect())
                .expect("add operations with string paths are a JSON patch");
            let meta = &view.metadata;
            let only_if = Precondition::version(&meta.uid, meta.resource_version);
            let write = Write {
                resource: webhook.store.resource().clone(),
                key: webhook.key.clone(),
                verb: Verb::Json { patch, only_if, subresource: None },
                reason: "publish the CA bundle",
            };
            match self.writer.execute(&Fence::default(), &write).await {
                Ok(written) => self.until_observed(&webhook.store, written.resource_version).await,
                Err(error) => outcome = outcome.and(Err(error.into())),
            }
        }
        outcome
    }
}

fn reason(step: &Step) -> &'static str {
    match step {
        Step::Keep => "nothing to do",
        Step::Found => "new certificate authority",
        Step::IssueLeaf => "new serving certificate",
        Step::Announce => "announce the next certificate authority",
        Step::Switch => "switch to the announced certificate authority",
        Step::Retire(_) => "drop former certificate authorities",
    }
}
