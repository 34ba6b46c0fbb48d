//! Who may touch managed objects.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::support::kinds::{
    ACCOUNTS, AUTOSCALERS, BINDINGS, CLIQUES, GANGS, GROUPS, Kind, PODS, ROLES, SECRETS, SERVICES,
};
use crate::support::mirror::{name_of, send};

use super::NAMESPACE;

const CHANGE: &str = "admission denied, creation/updation of resource: default/";
const DELETE: &str = "admission denied, deletion of resource: default/";

/// The first managed object of a kind.
async fn first(client: &Client, kind: Kind) -> Value {
    let managed = "labelSelector=app.kubernetes.io/managed-by%3Dgrove-operator";
    let path = format!("{}?{managed}", kind.in_namespace(NAMESPACE));
    let list = send(client, Method::GET, &path, &Value::Null).await.unwrap();
    list["items"][0].clone()
}

/// What a user may not do to the parts of a set, and may.
pub(crate) async fn wrong_answers(client: &Client, is_allowed: bool) -> Vec<String> {
    let kinds =
        [SECRETS, ACCOUNTS, SERVICES, PODS, ROLES, BINDINGS, AUTOSCALERS, CLIQUES, GROUPS, GANGS];
    let mut wrong = Vec::new();
    for kind in kinds {
        let object = first(client, kind).await;
        let path = format!("{}/{}", kind.in_namespace(NAMESPACE), name_of(&object));
        let touch = json!({ "metadata": { "annotations": { "touched": "yes" } } });
        let mut check = |what: &str, came: Result<Value, String>, denial: Option<&str>| {
            let right = match (&came, denial.filter(|_| !is_allowed)) {
                (Ok(_), None) => true,
                (Err(refusal), Some(text)) => refusal.starts_with("403 ") && refusal.contains(text),
                _ => false,
            };
            if !right {
                wrong.push(format!("{what} {}: {came:?}", kind.plural));
            }
        };
        let dry = format!("{path}?dryRun=All");
        check("change of", send(client, Method::PATCH, &dry, &touch).await, Some(CHANGE));
        let denial = (kind != PODS).then_some(DELETE);
        check("delete of", send(client, Method::DELETE, &dry, &Value::Null).await, denial);
        if [CLIQUES, GROUPS, GANGS].contains(&kind) {
            let labels = object["metadata"]["labels"].clone();
            let new = json!({
                "apiVersion": object["apiVersion"], "kind": kind.name,
                "metadata": { "name": "new", "labels": labels }, "spec": object["spec"],
            });
            let path = format!("{}?dryRun=All", kind.in_namespace(NAMESPACE));
            check("create of", send(client, Method::POST, &path, &new).await, Some(CHANGE));
        }
    }
    wrong
}
