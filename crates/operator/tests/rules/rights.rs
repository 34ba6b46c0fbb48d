//! The operator's role against what it asked for.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use grove_testbed::operator::RBAC;
use grove_testbed::requests::Sent;

/// A verb, a group and a resource, as in `get apps/deployments`.
type Right = String;

/// Not for itself: the operator grants these to the start-order containers, which requires that it has them.
const HANDED_ON: [&str; 4] =
    ["get /pods", "get /pods/status", "list /pods/status", "watch /pods/status"];

/// Used in rare cases: the certificate is renewed after half a day, removed labels are restored (see the tests of
/// interference and of claims), topologies exist (they have tests of their own), or a webhook is switched off.
const NOT_TODAY: [&str; 12] = [
    "delete admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "delete admissionregistration.k8s.io/validatingwebhookconfigurations",
    "patch /secrets",
    "patch /serviceaccounts",
    "patch rbac.authorization.k8s.io/rolebindings",
    "patch rbac.authorization.k8s.io/roles",
    "patch resource.k8s.io/resourceclaims",
    "create grove.io/clustertopologies",
    "patch grove.io/clustertopologies",
    "delete grove.io/clustertopologies",
    "patch grove.io/clustertopologies/status",
    "patch grove.io/clustertopologybindings/status",
];

/// Kubernetes grants this to every user.
const EVERYONE: [&str; 1] = ["create authentication.k8s.io/selfsubjectreviews"];

/// Rights that are for operators outside a cluster, which the installed role does not have.
const OUTSIDE: [&str; 1] = ["patch apiextensions.k8s.io/customresourcedefinitions"];

fn granted() -> BTreeSet<Right> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(RBAC).unwrap();
    let rules = objects.iter().filter_map(|object| object["rules"].as_array()).flatten();
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().unwrap().iter();
        all.map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    rights.insert(format!("{verb} {group}/{resource}"));
                }
            }
        }
    }
    rights
}

/// The right that a request needs, read as the API server reads it.
fn needed(sent: &Sent) -> Option<Right> {
    let parts: Vec<&str> = sent.path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts[..] {
        ["api", _, ref rest @ ..] => ("", rest),
        ["apis", group, _, ref rest @ ..] => (group, rest),
        _ => panic!("{sent} is no request for a resource"),
    };
    // Everybody may ask which kinds are served.
    if rest.is_empty() {
        return None;
    }
    let rest = if rest[0] == "namespaces" { &rest[2..] } else { rest };
    let (resource, name, subresource) = (rest[0], rest.get(1), rest.get(2));
    let verb = match sent.method {
        Method::GET if sent.query.contains("watch=true") || sent.query.contains("watch=1") => {
            "watch"
        }
        Method::GET if name.is_none() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if name.is_none() => "deletecollection",
        Method::DELETE => "delete",
        _ => panic!("{sent} is no request for a resource"),
    };
    let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    Some(format!("{verb} {group}/{resource}{subresource}"))
}

/// Compares what the role grants with what was asked for.
pub(crate) fn no_right_is_left_over(sent: &[Sent]) -> Result<(), String> {
    let used: BTreeSet<Right> = sent.iter().filter_map(needed).collect();
    let granted = granted();
    // Lists are streamed as watches by servers that can, and asked for from those that cannot.
    let is_fallback = |right: &str| {
        let resource = right.strip_prefix("list ");
        resource.is_some_and(|resource| used.contains(&format!("watch {resource}")))
    };
    let known = |right: &str| [&HANDED_ON[..], &NOT_TODAY].concat().contains(&right);
    let is_elsewhere = |right: &str| [&OUTSIDE[..], &EVERYONE].concat().contains(&right);
    let beyond: Vec<&Right> =
        used.difference(&granted).filter(|right| !is_elsewhere(right)).collect();
    let unused: Vec<&Right> =
        granted.difference(&used).filter(|right| !known(right) && !is_fallback(right)).collect();
    if beyond.is_empty() && unused.is_empty() {
        return Ok(());
    }
    Err(format!("asked for and not granted: {beyond:#?}\ngranted and never asked for: {unused:#?}"))
}
