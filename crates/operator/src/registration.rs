//! The webhook configurations: which requests the API server shows to the operator.
//!
//! Inside a cluster they come with the installation; an operator outside registers itself by URL,
//! with server-side apply, and leaves `caBundle` to whoever keeps the certificate.

use grove_api::labels;
use grove_runtime::certificates::managed::Webhook;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::{Verb, Write};
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
    managed_only: bool,
}

pub(crate) const DEFAULTING: Registration = Registration {
    object: "podcliqueset-defaulting-webhook",
    name: "pcs.defaulting.webhooks.grove.io",
    path: "/webhooks/default-podcliqueset",
    mutating: true,
    rules: set_rules,
    managed_only: false,
};

pub(crate) const VALIDATING: Registration = Registration {
    object: "podcliqueset-validating-webhook",
    name: "pcs.validating.webhooks.grove.io",
    path: "/webhooks/validate-podcliqueset",
    mutating: false,
    rules: set_rules,
    managed_only: false,
};

pub(crate) const AUTHORIZER: Registration = Registration {
    object: "authorizer-webhook",
    name: "authorizer.webhooks.grove.io",
    path: "/webhooks/authorizer-webhook",
    mutating: false,
    rules: managed_rules,
    managed_only: true,
};

impl Registration {
    /// The configuration object, as the certificate keeper knows it.
    pub(crate) fn webhook(&self) -> Webhook {
        if self.mutating {
            Webhook::Mutating(self.object.to_owned())
        } else {
            Webhook::Validating(self.object.to_owned())
        }
    }

    /// Registers the webhook of the operator that acts as `user` under a URL.
    pub(crate) fn at(&self, base: &str, user: &str) -> Write {
        let (plural, kind) = if self.mutating {
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
        } else {
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
        };
        let resource = Resource::cluster(GROUP, "v1", plural, kind);
        let mut webhook = json!({
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": format!("{base}{}", self.path) },
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
            // The operator need not ask itself; by far the most changes of managed objects are its
            // own.
            webhook["matchConditions"] = json!([{
                "name": "not-the-operator",
                "expression": format!("request.userInfo.username != {user:?}"),
            }]);
        }
        Write {
            key: ObjectKey::cluster(self.object),
            verb: Verb::Apply {
                body: json!({
                    "apiVersion": resource.api_version(),
                    "kind": kind,
                    "metadata": { "name": self.object },
                    "webhooks": [webhook],
                }),
                only_if: None,
                force: true,
                subresource: None,
            },
            resource,
            reason: "register the webhook",
        }
    }
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
mod tests {
    use super::*;

    /// What is the same however the API server reaches the webhooks.
    fn without_address(mut configuration: Value) -> Value {
        configuration["webhooks"][0]["clientConfig"] = json!(null);
        configuration
    }

    #[test]
    fn the_installed_configurations_are_the_registered_ones() {
        let manifests = include_str!("../../../deploy/operator/webhooks.yaml");
        let installed: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        let user = "system:serviceaccount:grove-system:grove-operator";
        let registrations = [DEFAULTING, VALIDATING, AUTHORIZER];
        assert_eq!(installed.len(), registrations.len());

        for (installed, registration) in installed.into_iter().zip(registrations) {
            let service = &installed["webhooks"][0]["clientConfig"]["service"];
            assert_eq!(service["path"], registration.path);
            let Verb::Apply { body, .. } = registration.at("https://127.0.0.1:1", user).verb else {
                panic!("registered by apply")
            };
            assert_eq!(without_address(installed), without_address(body));
        }
    }
}
