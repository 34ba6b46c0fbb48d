//! What the start-order container needs to watch pods: a service account, its token and a role.
//!
//! Workload pods do not run under this account; the token is only mounted into that one container.

use grove_api::{labels::Component, names};
use serde_json::{Value, json};

use super::metadata_of_set;
use crate::layout::Layout;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The ServiceAccount of a set.
pub fn service_account(layout: &Layout<'_>) -> Value {
    let name = names::service_account(layout.set_name());
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata_of_set(layout, Component::ServiceAccount, name),
        "automountServiceAccountToken": true,
    })
}

/// The Role of a set. Created once and never changed: the operator may not update roles.
pub fn role(layout: &Layout<'_>) -> Value {
    let name = names::role(layout.set_name());
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"),
        "kind": "Role",
        "metadata": metadata_of_set(layout, Component::Role, name),
        "rules": [{
            "apiGroups": [""],
            "resources": ["pods", "pods/status"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

/// The RoleBinding of a set. Created once and never changed.
pub fn role_binding(layout: &Layout<'_>) -> Value {
    let name = names::role_binding(layout.set_name());
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"),
        "kind": "RoleBinding",
        "metadata": metadata_of_set(layout, Component::RoleBinding, name),
        "roleRef": {
            "apiGroup": RBAC_GROUP,
            "kind": "Role",
            "name": names::role(layout.set_name()),
        },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": names::service_account(layout.set_name()),
            "namespace": layout.namespace(),
        }],
    })
}

/// The Secret that Kubernetes fills with a token of the ServiceAccount.
pub fn token_secret(layout: &Layout<'_>) -> Value {
    let name = names::token_secret(layout.set_name());
    let mut metadata = metadata_of_set(layout, Component::TokenSecret, name);
    let account = names::service_account(layout.set_name());
    metadata.annotations =
        Some([("kubernetes.io/service-account.name".to_owned(), account)].into());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/service-account-token",
    })
}
