//! Who may touch managed objects.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use grove_testbed::kinds::{
    ACCOUNTS, AUTOSCALERS, BINDINGS, CLIQUES, GANGS, GROUPS, Kind, PODS, ROLES, SECRETS, SERVICES,
};
use grove_testbed::mirror::{name_of, send};

use super::NAMESPACE;

const CHANGE: &str = "admission denied, creation/updation of resource: default/";
const DELETE: &str = "admission denied, deletion of resource: default/";

/// What a scheduler does to the pods that it schedules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Bind,
    Report,
    Annotate,
}

/// The users of every supported scheduler, with what each does to pods.
pub(crate) const SCHEDULERS: [(&str, &[Act]); 6] = [
    ("system:kube-scheduler", &[Act::Bind, Act::Report]),
    ("system:serviceaccount:kai-scheduler:binder", &[Act::Annotate, Act::Bind, Act::Report]),
    ("system:serviceaccount:kai-scheduler:pod-grouper", &[Act::Annotate]),
    ("system:serviceaccount:kai-scheduler:scheduler", &[Act::Report]),
    ("system:serviceaccount:volcano-system:volcano-scheduler", &[Act::Bind, Act::Report]),
    ("system:serviceaccount:lpx-scheduler:lpx-scheduler", &[Act::Bind, Act::Report]),
];

/// The users that the shipped configuration exempts.
pub(crate) fn shipped_exemptions() -> Vec<String> {
    let manifest = include_str!("../../../../deploy/operator/configuration.yaml");
    let manifest: Value = serde_saphyr::from_str(manifest).unwrap();
    let configuration = manifest["data"]["config.yaml"].as_str().unwrap();
    let configuration = grove_api::OperatorConfiguration::from_yaml(configuration).unwrap();
    assert!(!configuration.authorizer.enabled, "off unless a user switches it on");
    configuration.authorizer.exempt_service_account_user_names
}

/// What a scheduler is not allowed to do to a pod that can be scheduled.
pub(crate) async fn denied_acts(client: &Client, acts: &[Act]) -> Vec<String> {
    let managed = "labelSelector=app.kubernetes.io/managed-by%3Dgrove-operator";
    let pods = PODS.in_namespace(NAMESPACE);
    let released = async {
        loop {
            let path = format!("{pods}?{managed}");
            let list = send(client, Method::GET, &path, &Value::Null).await.unwrap();
            let mut items = list["items"].as_array().unwrap().iter();
            if let Some(pod) = items.find(|pod| pod["spec"]["schedulingGates"].is_null()) {
                return name_of(pod);
            }
        }
    };
    let clock = grove_runtime::clock::Clock::system();
    let pod = clock.timeout(grove_testbed::DEADLINE, released).await.expect("a gate is lifted");
    let mut denied = Vec::new();
    for act in acts {
        let (method, path, body) = match act {
            Act::Bind => {
                let target = json!({ "apiVersion": "v1", "kind": "Node", "name": "n" });
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": { "name": pod }, "target": target,
                });
                (Method::POST, format!("{pods}/{pod}/binding"), binding)
            }
            Act::Report => {
                let status = json!({ "status": { "nominatedNodeName": "n" } });
                (Method::PATCH, format!("{pods}/{pod}/status"), status)
            }
            Act::Annotate => {
                let annotations = json!({ "pod-group-name": "x" });
                let metadata = json!({ "metadata": { "annotations": annotations } });
                (Method::PATCH, format!("{pods}/{pod}"), metadata)
            }
        };
        let done = send(client, method, &format!("{path}?dryRun=All"), &body).await;
        denied.extend(done.err().map(|refusal| format!("{act:?}: {refusal}")));
    }
    denied
}

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
