//! The rules of admission as rows: what is changed in a good set, and what the API server answers.

pub(crate) mod authorizer;
pub(crate) mod create;
pub(crate) mod pods;
pub(crate) mod topology;
pub(crate) mod update;

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use grove_testbed::kinds::SETS;
use grove_testbed::mirror::{name_of, send};

pub(crate) const NAMESPACE: &str = "default";

/// A change of the good set.
pub(crate) type Change = fn(&mut Value);

/// What becomes of a request.
pub(crate) enum Answer {
    Accepted,
    /// The code, and what the message has to contain.
    Refused(u16, &'static [&'static str]),
}

pub(crate) type Row = (&'static str, Change, Answer);

/// By one of our webhooks.
pub(crate) const fn denied(texts: &'static [&'static str]) -> Answer {
    Answer::Refused(403, texts)
}

/// By the schema, or by the API server itself.
pub(crate) const fn invalid(texts: &'static [&'static str]) -> Answer {
    Answer::Refused(422, texts)
}

impl Answer {
    /// What is wrong with the answer that came.
    fn compare(&self, came: &Result<Value, String>) -> Option<String> {
        match (self, came) {
            (Self::Accepted, Ok(_)) => None,
            (Self::Accepted, Err(refusal)) => Some(format!("refused: {refusal}")),
            (Self::Refused(..), Ok(_)) => Some("accepted".to_owned()),
            (Self::Refused(code, texts), Err(refusal)) => {
                let right = refusal.starts_with(&format!("{code} "))
                    && texts.iter().all(|text| refusal.contains(text));
                (!right).then(|| format!("not with {code} {texts:?}, but: {refusal}"))
            }
        }
    }
}

/// A set that breaks no rule, with everything that a rule is about.
pub(crate) fn good() -> Value {
    let pod = json!({
        "containers": [{ "name": "c", "image": "busybox", "env": [{ "name": "A" }] }],
    });
    let clique = |name: &str| {
        json!({ "name": name, "labels": { "app": name }, "spec": {
            "roleName": name, "replicas": 3, "minAvailable": 2, "podSpec": pod,
        }})
    };
    let requests = json!([{ "name": "g", "exactly": { "deviceClassName": "gpu" } }]);
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": { "name": "demo", "namespace": NAMESPACE },
        "spec": { "replicas": 1, "template": {
            "cliqueStartupType": "CliqueStartupTypeInOrder",
            "resourceClaimTemplates": [
                { "name": "gpu", "templateSpec": { "spec": { "devices": { "requests": requests } } } },
            ],
            "resourceSharing": [{ "name": "gpu", "scope": "AllReplicas", "filter": {
                "childCliqueNames": ["router"], "childScalingGroupNames": ["decode"],
            }}],
            "cliques": [clique("router"), clique("leader"), clique("worker")],
            "podCliqueScalingGroups": [{
                "name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 3,
                "minAvailable": 2,
            }],
        }},
    })
}

pub(crate) fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"]
}

/// The clique that stands alone.
pub(crate) fn router(set: &mut Value) -> &mut Value {
    &mut template(set)["cliques"][0]
}

pub(crate) fn group(set: &mut Value) -> &mut Value {
    &mut template(set)["podCliqueScalingGroups"][0]
}

pub(crate) fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().unwrap().remove(key);
}

pub(crate) fn explicit(set: &mut Value) {
    template(set)["cliqueStartupType"] = json!("CliqueStartupTypeExplicit");
}

/// Sends every changed set without storing it, and returns which answers are wrong. Rows with POST change a set that
/// does not exist, the others the stored one.
pub(crate) async fn wrong_answers(
    client: &Client,
    stored: &Value,
    rows: &[(Method, Row)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (method, (what, change, answer)) in rows {
        let mut set = if *method == Method::POST { good() } else { stored.clone() };
        change(&mut set);
        let sets = SETS.in_namespace(NAMESPACE);
        let (path, body) = match *method {
            Method::POST => (sets, set),
            // Only the change: the operator changes other fields meanwhile.
            _ => (format!("{sets}/{}", name_of(stored)), json!(json_patch::diff(stored, &set))),
        };
        let came = send(client, method.clone(), &format!("{path}?dryRun=All"), &body).await;
        wrong.extend(answer.compare(&came).map(|text| format!("{what}: {text}")));
    }
    wrong
}

/// The warnings that a changed set gets when it is created, without storing it.
pub(crate) async fn warnings(client: &Client, change: Change) -> Vec<String> {
    let mut set = good();
    set["metadata"]["name"] = json!("warned");
    change(&mut set);
    let path = format!("{}?dryRun=All", SETS.in_namespace(NAMESPACE));
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(set.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 201);
    let warnings = response.headers().get_all("warning");
    warnings.iter().map(|one| one.to_str().unwrap().to_owned()).collect()
}
