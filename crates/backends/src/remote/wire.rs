//! The wire format of a backend that is a program of its own: one envelope, `backend.grove.io/v1alpha1`
//! `BackendReview`, for all operations.
//!
//! Unknown fields of an answer are ignored, so that both sides can be upgraded one after the other.

use std::fmt;

use grove_runtime::endpoint::beginning;
use serde::Deserialize;
use serde_json::{Value, json};

/// `apiVersion` of the envelope.
pub(crate) const API_VERSION: &str = "backend.grove.io/v1alpha1";
/// `kind` of the envelope.
pub(crate) const KIND: &str = "BackendReview";

/// An operation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Describes the backend.
    Describe,
    /// Returns the scheduler's objects for a gang.
    SyncPodGang,
    /// Forgets a gang.
    PodGangDeleted,
    /// Returns what new pods need.
    PreparePods,
    /// Validates a set.
    ValidatePodCliqueSet,
}

impl Operation {
    /// The name on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "Describe",
            Self::SyncPodGang => "SyncPodGang",
            Self::PodGangDeleted => "PodGangDeleted",
            Self::PreparePods => "PreparePods",
            Self::ValidatePodCliqueSet => "ValidatePodCliqueSet",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request without null fields.
pub(crate) fn request(uid: &str, operation: &str, fields: Value) -> Value {
    let mut request = json!({ "uid": uid, "operation": operation });
    if let (Value::Object(request), Value::Object(fields)) = (&mut request, fields) {
        request.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request })
}

/// The answer of a backend. The operation decides which fields are required.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Response {
    /// `Describe`.
    pub(crate) description: Option<Description>,
    /// `SyncPodGang`: exactly the objects of the profile's kinds that the gang shall own. Without it, the
    /// operator changes nothing.
    pub(crate) objects: Option<Vec<Value>>,
    /// `PreparePods`: JSON merge patch.
    pub(crate) patch: Option<Value>,
    /// `ValidatePodCliqueSet`.
    pub(crate) allowed: Option<bool>,
    /// `ValidatePodCliqueSet`: why not.
    pub(crate) message: Option<String>,
    /// `ValidatePodCliqueSet`: for the user, whether or not the set is allowed.
    pub(crate) warnings: Option<Vec<String>>,
    /// Why the operation failed.
    pub(crate) error: Option<Refusal>,
}

/// What a backend says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Description {
    /// What its pods have as `spec.schedulerName`, which is the name of the profile.
    pub(crate) scheduler_name: String,
    /// A row of `grove backends`.
    pub(crate) capabilities: Words,
    /// Labels and annotations of a gang that the scheduler acts on.
    #[serde(default)]
    pub(crate) acts_on: Vec<String>,
}

/// What a scheduler can do, as in [`Capabilities`](crate::Capabilities).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Words {
    pub(crate) objects: String,
    pub(crate) minimum: String,
    pub(crate) gang: String,
    pub(crate) topology: String,
    pub(crate) queue: String,
    pub(crate) priority: String,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    /// One word for programs: `QueueIsClosed`.
    pub(crate) reason: String,
    /// The sentence for users.
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) retryable: bool,
}

/// Reads the answer to the call `uid`; the error says what is wrong with it.
pub(crate) fn response(uid: &str, body: &[u8]) -> Result<Response, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| {
        let text = beginning(&String::from_utf8_lossy(body));
        format!("answered with what is no JSON ({error}): {text}")
    })?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if (version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        return Err(format!(
            "answered with apiVersion {version:?} and kind {kind:?} instead of {API_VERSION:?} and \
             {KIND:?}"
        ));
    }
    let answered = text(&answer["response"]["uid"]);
    if answered != uid {
        return Err(format!("answered with response.uid {answered:?} instead of {uid:?}"));
    }
    let response: Response = Deserialize::deserialize(&answer["response"])
        .map_err(|error| format!("answered with a response that is not understood: {error}"))?;
    match &response.error {
        Some(refusal) if !is_reason(&refusal.reason) => Err(format!(
            "answered with response.error.reason {:?}, which has to be a word like QueueIsClosed",
            refusal.reason
        )),
        _ => Ok(response),
    }
}

/// Whether a text can be the reason of a condition and of an event.
fn is_reason(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value) -> Value {
        json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
    }

    #[test]
    fn requests_have_no_null_fields() {
        let sent = request("u", "SyncPodGang", json!({ "podGang": {}, "podCliqueSet": null }));
        let expected = json!({
            "apiVersion": "backend.grove.io/v1alpha1", "kind": "BackendReview",
            "request": { "uid": "u", "operation": "SyncPodGang", "podGang": {} },
        });
        assert_eq!(sent, expected);
    }

    #[test]
    fn answers_are_read_with_fields_of_newer_versions_and_nulls() {
        let cases = [
            (json!({ "uid": "u" }), Response::default()),
            (json!({ "uid": "u", "message": null, "new": 1 }), Response::default()),
            (
                json!({ "uid": "u", "objects": [], "allowed": false, "message": "no" }),
                Response {
                    objects: Some(Vec::new()),
                    allowed: Some(false),
                    message: Some("no".to_owned()),
                    ..Response::default()
                },
            ),
        ];
        for (given, expected) in cases {
            let given = answer(&given);
            assert_eq!(response("u", given.to_string().as_bytes()), Ok(expected), "{given}");
        }
    }

    #[test]
    fn wrong_answers_have_distinct_messages() {
        let error = |reason: &str| {
            answer(&json!({ "uid": "u", "error": {
                "reason": reason, "message": "m", "retryable": true,
            }}))
        };
        let mut older = answer(&json!({ "uid": "u" }));
        older["apiVersion"] = json!("backend.grove.io/v1");
        let cases = [
            ("<html>busy</html>".to_owned(), "no JSON (expected value at line 1 column 1): <html>"),
            (
                older.to_string(),
                "apiVersion \"backend.grove.io/v1\" and kind \"BackendReview\" inst",
            ),
            ("[]".to_owned(), "apiVersion \"\" and kind \"\" instead of"),
            (answer(&json!({ "uid": "v" })).to_string(), "response.uid \"v\" instead of \"u\""),
            (answer(&json!({})).to_string(), "response.uid \"\" instead of \"u\""),
            (
                answer(&json!({ "uid": "u", "allowed": "yes" })).to_string(),
                "is not understood: invalid type: string \"yes\", expected a boolean",
            ),
            (
                answer(&json!({ "uid": "u", "error": { "reason": "A" } })).to_string(),
                "is not understood: missing field `message`",
            ),
            (error("queue is closed").to_string(), "reason \"queue is closed\", which has to be"),
            (error("").to_string(), "reason \"\", which has to be"),
        ];
        for (body, expected) in cases {
            let found = response("u", body.as_bytes()).unwrap_err();
            assert!(found.contains(expected), "{body}: {found}");
        }
        assert!(response("u", error("QueueIsClosed").to_string().as_bytes()).is_ok());
    }
}
