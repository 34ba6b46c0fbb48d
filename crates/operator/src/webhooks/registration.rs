//! The webhook configurations: which requests the API server sends to the operator.
//!
//! Inside a cluster they come with the installation and lead to the Service; an operator outside registers
//! itself by URL, under names of its own. Each kind of operator takes over from the other: it deletes the
//! configurations of the other kind, and that of a webhook that is switched off. What does not carry our
//! label or our webhooks belongs to another owner: it is never changed, and one that is in the way is
//! reported. `caBundle` is left to whoever keeps the certificate.

use grove_api::labels;
use grove_runtime::certificates::managed::Webhook;
use grove_runtime::fence::Fence;
use grove_runtime::merge;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::view::Meta;
use grove_runtime::write::{Precondition, Propagation, Verb, Write, WriteError, Writer};
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize as _;
use serde_json::{Value, json};

const GROUP: &str = "admissionregistration.k8s.io";
/// Component label of the Secret with the serving certificate.
pub(crate) const CERTIFICATE: &str = "webhook";

/// One webhook with its own configuration object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// Name of the configuration object.
    pub(crate) object: &'static str,
    /// Name of the webhook, which users read in refusals.
    pub(crate) name: &'static str,
    /// Path on the server.
    pub(crate) path: &'static str,
    mutating: bool,
    rules: fn() -> Value,
    /// Whether it reviews only objects that the operator manages.
    managed_only: bool,
    /// Which requests are reviewed, of an operator that acts as these users.
    condition: Option<fn(&[String]) -> String>,
}

pub(crate) const DEFAULTING: Registration = Registration {
    object: "podcliqueset-defaulting-webhook",
    name: "pcs.defaulting.webhooks.grove.io",
    path: "/webhooks/default-podcliqueset",
    mutating: true,
    rules: set_rules,
    managed_only: false,
    condition: None,
};

pub(crate) const VALIDATING: Registration = Registration {
    object: "podcliqueset-validating-webhook",
    name: "pcs.validating.webhooks.grove.io",
    path: "/webhooks/validate-podcliqueset",
    mutating: false,
    rules: set_rules,
    managed_only: false,
    condition: None,
};

pub(crate) const TOPOLOGIES: Registration = Registration {
    object: "clustertopology-validating-webhook",
    name: "clustertopology.validating.webhooks.grove.io",
    path: "/webhooks/validate-clustertopology",
    mutating: false,
    rules: topology_rules,
    managed_only: false,
    condition: Some(topology_requests),
};

pub(crate) const AUTHORIZER: Registration = Registration {
    object: "authorizer-webhook",
    name: "authorizer.webhooks.grove.io",
    path: "/webhooks/authorizer-webhook",
    mutating: false,
    rules: managed_rules,
    managed_only: true,
    condition: Some(other_users),
};

/// All webhooks, whether they are on or off.
const ALL: [Registration; 4] = [DEFAULTING, VALIDATING, TOPOLOGIES, AUTHORIZER];
/// What the names of configurations that lead to a URL end with.
const BY_URL: &str = "-outside";

/// How the API server reaches the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Through a Service.
    Service { namespace: String, name: String, port: u16 },
    /// Under a URL without path.
    Url(String),
}

impl Address {
    /// The client configuration of one webhook. The other way to reach it is removed.
    fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service { namespace, name, port } => {
                let service = json!({
                    "namespace": namespace, "name": name, "path": path, "port": port,
                });
                json!({ "service": service, "url": null })
            }
            Self::Url(base) => json!({ "url": format!("{base}{path}"), "service": null }),
        }
    }

    /// Whether a stored webhook needs no change. The installation may have adjusted the one that leads to
    /// the Service.
    fn is_registered(&self, stored: &Value, desired: &Value) -> bool {
        match self {
            Self::Service { .. } => stored["clientConfig"]["service"].is_object(),
            Self::Url(_) => merge::missing(stored, desired).is_none(),
        }
    }
}

/// A webhook configuration is in the way of one of ours.
#[derive(Debug, thiserror::Error)]
#[error(
    "{object} already exists and is not the operator's: it has neither the label {}={} nor the webhook \
     {webhook:?} alone; delete or rename it",
    labels::MANAGED_BY,
    labels::MANAGED_BY_VALUE
)]
pub(crate) struct Taken {
    object: String,
    webhook: &'static str,
}

/// Why the webhooks are not registered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    #[error(transparent)]
    Taken(#[from] Taken),
    #[error("cannot read {object}: {source}")]
    Read { object: String, source: Box<kube::Error> },
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Registration {
    fn resource(&self) -> Resource {
        let (plural, kind) = if self.mutating {
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
        } else {
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
        };
        Resource::cluster(GROUP, "v1", plural, kind)
    }

    /// Name of the configuration object.
    fn name_at(&self, address: &Address) -> String {
        match address {
            Address::Service { .. } => self.object.to_owned(),
            Address::Url(_) => format!("{}{BY_URL}", self.object),
        }
    }

    /// The configuration object, as the certificate keeper knows it.
    pub(crate) fn webhook(&self, address: &Address) -> Webhook {
        let name = self.name_at(address);
        if self.mutating { Webhook::Mutating(name) } else { Webhook::Validating(name) }
    }

    /// The webhook of the operator that acts as `users`.
    fn desired(&self, address: &Address, users: &[String]) -> Value {
        let mut webhook = json!({
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": address.client_config(self.path),
            "failurePolicy": "Fail",
            "matchPolicy": "Exact",
            "rules": (self.rules)(),
            "sideEffects": "None",
            "timeoutSeconds": 10,
        });
        if self.managed_only {
            // Not the Secret with the serving certificate: it is what repairs a webhook that cannot
            // be reached, so it must not need the webhook.
            webhook["objectSelector"] = json!({
                "matchLabels": { labels::MANAGED_BY: labels::MANAGED_BY_VALUE },
                "matchExpressions": [{
                    "key": labels::COMPONENT, "operator": "NotIn", "values": [CERTIFICATE],
                }],
            });
        }
        if let Some(condition) = self.condition {
            webhook["matchConditions"] =
                json!([{ "name": "not-the-operator", "expression": condition(users) }]);
        }
        webhook
    }

    /// The write that registers the webhook, if one is needed. What is created belongs to `owner`.
    fn register(
        &self,
        address: &Address,
        users: &[String],
        owner: Option<&Value>,
        live: Option<&Value>,
    ) -> Result<Option<Write>, Taken> {
        let (resource, name) = (self.resource(), self.name_at(address));
        let mut webhook = self.desired(address, users);
        let Some(live) = live else {
            let mut body = json!({
                "apiVersion": resource.api_version(),
                "kind": resource.kind,
                "metadata": { "name": name, "labels": own_labels() },
                "webhooks": [webhook],
            });
            if let Some(owner) = owner {
                body["metadata"]["ownerReferences"] = json!([owner]);
            }
            let verb = Verb::Create { body };
            let key = ObjectKey::cluster(&name);
            return Ok(Some(Write { resource, key, verb, reason: "register the webhook" }));
        };
        let Some(meta) = self.ours(live) else {
            let object = format!("{} {name}", resource.kind);
            return Err(Taken { object, webhook: self.name });
        };
        let stored = live["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored = stored.iter().find(|one| one["name"] == self.name);
        if stored.is_some_and(|stored| address.is_registered(stored, &webhook)) {
            return Ok(None);
        }
        if let Some(bundle) = stored.and_then(|stored| stored["clientConfig"].get("caBundle")) {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
        }
        let verb = Verb::Merge {
            patch: json!({ "metadata": { "labels": own_labels() }, "webhooks": [webhook] }),
            only_if: Precondition::version(&meta.uid, meta.resource_version),
            subresource: None,
        };
        Ok(Some(Write { resource, key: meta.key, verb, reason: "register the webhook" }))
    }

    /// The write that deletes a configuration of ours that is not needed.
    fn unregister(&self, live: &Value) -> Option<Write> {
        let meta = self.ours(live)?;
        let only_if = Precondition::uid(&meta.uid);
        let propagation = Propagation::Background;
        let verb = Verb::Delete { only_if, propagation, grace_seconds: None };
        let resource = self.resource();
        Some(Write { resource, key: meta.key, verb, reason: "nothing answers this webhook" })
    }

    /// The metadata of a stored configuration, if it is the operator's.
    fn ours(&self, live: &Value) -> Option<Meta> {
        let meta = Meta::deserialize(&live["metadata"]).ok()?;
        let labelled = meta.labels.get(labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE);
        let webhooks = live["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let alone = matches!(webhooks, [only] if only["name"] == self.name);
        (labelled || alone).then_some(meta)
    }
}

fn owner_reference(registration: &Registration, live: &Value) -> Value {
    let resource = registration.resource();
    json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "name": live["metadata"]["name"],
        "uid": live["metadata"]["uid"],
    })
}

fn own_labels() -> Value {
    json!({ labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::PART_OF: "grove" })
}

/// Registers the webhooks of one operator.
pub(crate) struct Registrar {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) address: Address,
    /// The users that the operator acts as.
    pub(crate) users: Vec<String>,
    /// Whether the authorizer is on.
    pub(crate) authorizer: bool,
}

impl Registrar {
    /// The webhooks that are on.
    pub(crate) fn registrations(authorizer: bool) -> Vec<Registration> {
        let is_on = |one: &Registration| authorizer || one.object != AUTHORIZER.object;
        ALL.into_iter().filter(is_on).collect()
    }

    /// Brings the configurations to the desired state. New ones come first, so that there is no moment
    /// without review.
    pub(crate) async fn register(&self) -> Result<(), RegistrationError> {
        let desired = Self::registrations(self.authorizer);
        let mut owner = None;
        for registration in &desired {
            let name = registration.name_at(&self.address);
            let live = self.read(registration, &name).await?;
            let belongs_to = owner.as_ref().filter(|_| registration.object == AUTHORIZER.object);
            let write =
                registration.register(&self.address, &self.users, belongs_to, live.as_ref())?;
            self.execute(write).await?;
            // The installation does not have the authorizer, but whoever removes the installation removes
            // the authorizer with it.
            owner = live.map(|live| owner_reference(registration, &live)).or(owner);
        }
        let names: Vec<String> = desired.iter().map(|one| one.name_at(&self.address)).collect();
        for registration in &ALL {
            for name in [registration.object.to_owned(), format!("{}{BY_URL}", registration.object)]
            {
                if names.contains(&name) {
                    continue;
                }
                let live = self.read(registration, &name).await?;
                self.execute(live.and_then(|live| registration.unregister(&live))).await?;
            }
        }
        Ok(())
    }

    async fn execute(&self, write: Option<Write>) -> Result<(), WriteError> {
        if let Some(write) = write {
            self.writer.execute(&Fence::default(), &write).await?;
            let (verb, object) = (write.verb.as_str(), format!("{} {}", write.resource, write.key));
            tracing::info!(verb, object, reason = write.reason, "webhook configuration changed");
        }
        Ok(())
    }

    async fn read(
        &self,
        registration: &Registration,
        name: &str,
    ) -> Result<Option<Value>, RegistrationError> {
        let resource = registration.resource();
        let request = Request::new(resource.path("")).get(name, &GetParams::default());
        let found = match request {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        match found {
            Ok(live) => Ok(Some(live)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => {
                let object = format!("{} {name}", resource.kind);
                Err(RegistrationError::Read { object, source: Box::new(source) })
            }
        }
    }
}

/// The operator's own requests are not reviewed: most changes of managed objects are its own, and its webhooks must
/// not be in its way when they cannot be reached.
fn other_users(users: &[String]) -> String {
    let other = |user: &String| format!("request.userInfo.username != {user:?}");
    users.iter().map(other).collect::<Vec<_>>().join(" && ")
}

/// The operator does not write bindings; the user that it acts as may.
fn topology_requests(users: &[String]) -> String {
    let users = other_users(users);
    format!("request.resource.resource == \"clustertopologybindings\" || {users}")
}

fn rule(group: &str, versions: &[&str], operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    })
}

fn set_rules() -> Value {
    json!([rule(grove_api::GROUP, &["v1alpha1"], &["CREATE", "UPDATE"], &["podcliquesets"])])
}

/// Nothing is wrong with the deletion of a binding.
fn topology_rules() -> Value {
    let (write, all) = (["CREATE", "UPDATE"], ["CREATE", "UPDATE", "DELETE"]);
    let mut rules = [
        rule(grove_api::GROUP, &["v1alpha1"], &write, &["clustertopologybindings"]),
        rule(grove_api::GROUP, &["v1alpha1"], &all, &["clustertopologies"]),
    ];
    for rule in &mut rules {
        rule["scope"] = json!("Cluster");
    }
    json!(rules)
}

fn managed_rules() -> Value {
    let (change, all) = (["UPDATE", "DELETE"], ["CREATE", "UPDATE", "DELETE"]);
    json!([
        rule("", &["v1"], &change, &["secrets", "serviceaccounts", "services"]),
        rule("", &["v1"], &["UPDATE"], &["pods"]),
        rule("rbac.authorization.k8s.io", &["v1"], &change, &["roles", "rolebindings"]),
        rule("autoscaling", &["v1", "v2"], &change, &["horizontalpodautoscalers"]),
        rule(grove_api::GROUP, &["v1alpha1"], &all, &["podcliques", "podcliquescalinggroups"]),
        rule(grove_api::SCHEDULER_GROUP, &["v1alpha1"], &all, &["podgangs"]),
    ])
}

#[cfg(test)]
mod tests;
