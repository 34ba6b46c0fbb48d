//! The access objects of the start-order container: a service account, its token and a role.
//!
//! Workload pods do not run under this account; only that container mounts the token.

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

/// Whether a Role of another owner grants the same access to pods as the Role of a set.
pub fn role_grants_pods(role: &Value) -> bool {
    let has = |rule: &Value, field: &str, value: &str| {
        let mut all = rule[field].as_array().into_iter().flatten();
        all.any(|one| one == value || one == "*")
    };
    let rules = || role["rules"].as_array().into_iter().flatten();
    ["get", "list", "watch"].into_iter().all(|verb| {
        rules().any(|rule| {
            let of_all_names = rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
            of_all_names
                && has(rule, "apiGroups", "")
                && has(rule, "resources", "pods")
                && has(rule, "verbs", verb)
        })
    })
}

/// Whether a RoleBinding of another owner binds the Role of a set to its ServiceAccount.
pub fn binding_grants_role(layout: &Layout<'_>, binding: &Value) -> bool {
    let role = &binding["roleRef"];
    let account = names::service_account(layout.set_name());
    let mut subjects = binding["subjects"].as_array().into_iter().flatten();
    role["kind"] == "Role"
        && role["name"] == names::role(layout.set_name())
        && subjects.any(|subject| {
            subject["kind"] == "ServiceAccount"
                && subject["name"] == account
                && subject["namespace"] == layout.namespace()
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

#[cfg(test)]
mod tests {
    use grove_api::PodCliqueSet;

    use super::*;

    fn set() -> PodCliqueSet {
        let set =
            json!({ "metadata": { "name": "x", "namespace": "n" }, "spec": { "template": {} } });
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn names_and_labels_of_access_objects_fit_for_the_longest_set_name() {
        let mut set = set();
        set.metadata.name = Some("x".repeat(names::MAX_COMBINED_LENGTH));
        let layout = Layout::of(&set);
        for object in
            [service_account(&layout), role(&layout), role_binding(&layout), token_secret(&layout)]
        {
            let labels = object["metadata"]["labels"].as_object().unwrap();
            for (key, value) in labels {
                let length = value.as_str().unwrap().len();
                assert!(length <= 63, "{}: label {key} has {length} characters", object["kind"]);
            }
        }
    }

    #[test]
    fn a_role_grants_pods_if_its_rules_cover_each_verb() {
        let set = set();
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({ "apiGroups": groups, "resources": resources, "verbs": verbs });
        let mut one_pod = rule(&[""], &["pods"], &["get", "list", "watch"]);
        one_pod["resourceNames"] = json!(["a"]);
        let cases = [
            ("our own", role(&Layout::of(&set))["rules"].clone(), true),
            ("everything", json!([rule(&["*"], &["*"], &["*"])]), true),
            (
                "several rules",
                json!([
                    rule(&[""], &["pods"], &["get"]),
                    rule(&["", "apps"], &["pods", "services"], &["watch", "list"]),
                ]),
                true,
            ),
            ("no rules", json!(null), false),
            ("a verb is missing", json!([rule(&[""], &["pods"], &["get", "list"])]), false),
            ("another group", json!([rule(&["apps"], &["pods"], &["*"])]), false),
            ("another resource", json!([rule(&[""], &["pods/status"], &["*"])]), false),
            ("one pod only", json!([one_pod]), false),
        ];
        for (name, rules, grants) in cases {
            assert_eq!(role_grants_pods(&json!({ "rules": rules })), grants, "{name}");
        }
    }

    #[test]
    fn a_binding_grants_the_role_to_the_account_of_the_set_only() {
        let set = set();
        let layout = Layout::of(&set);
        let changed = |pointer: &str, value: &str| {
            let mut binding = role_binding(&layout);
            *binding.pointer_mut(pointer).unwrap() = json!(value);
            binding_grants_role(&layout, &binding)
        };
        assert!(binding_grants_role(&layout, &role_binding(&layout)));
        assert!(!changed("/roleRef/name", "view"));
        assert!(!changed("/roleRef/kind", "ClusterRole"));
        assert!(!changed("/subjects/0/name", "default"));
        assert!(!changed("/subjects/0/namespace", "other"));
        assert!(!binding_grants_role(&layout, &json!({})));
    }
}
