//! What is sent to a backend that is a program of its own, and what it answers: one envelope,
//! `backend.grove.io/v1alpha1` `BackendReview`, for all operations.
//!
//! Fields that an answer has and this version does not know are left alone, so that both sides can be
//! renewed one after the other.

use std::fmt;

use grove_runtime::endpoint::beginning;
use serde::Deserialize;
use serde_json::{Value, json};

/// `apiVersion` of the envelope.
pub(crate) const API_VERSION: &str = "backend.grove.io/v1alpha1";
/// `kind` of the envelope.
pub(crate) const KIND: &str = "BackendReview";

/// What a backend is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// What it is.
    Describe,
    /// The scheduler's objects for a gang.
    SyncPodGang,
    /// To forget a gang.
    PodGangDeleted,
    /// What pods that are about to be created need.
    PreparePods,
    /// Whether a set may be stored.
    ValidatePodCliqueSet,
}

impl Operation {
    /// The word on the wire.
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

/// A request. Fields that are null are left out.
pub(crate) fn request(uid: &str, operation: &str, fields: Value) -> Value {
    let mut request = json!({ "uid": uid, "operation": operation });
    if let (Value::Object(request), Value::Object(fields)) = (&mut request, fields) {
        request.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request })
}

/// What a backend answers. Which fields have to be there depends on the operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Response {
    /// `Describe`.
    pub(crate) description: Option<Description>,
    /// `SyncPodGang`: exactly what the gang shall own of the kinds of the profile. Without it, what is
    /// there is left alone.
    pub(crate) objects: Option<Vec<Value>>,
    /// `PreparePods`: JSON merge patch.
    pub(crate) patch: Option<Value>,
    /// `ValidatePodCliqueSet`.
    pub(crate) allowed: Option<bool>,
    /// `ValidatePodCliqueSet`: why not.
    pub(crate) message: Option<String>,
    /// `ValidatePodCliqueSet`: shown to the user in any case.
    pub(crate) warnings: Option<Vec<String>>,
    /// Why the operation was not done.
    pub(crate) error: Option<Refusal>,
}

/// What a backend is.
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

/// What a scheduler can do, in words for people who compare.
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

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    /// One word for programs: `QueueIsClosed`.
    pub(crate) reason: String,
    /// The sentence for people.
    pub(crate) message: String,
    /// Whether asking again may help although nothing has changed.
    pub(crate) retryable: bool,
}

/// Reads the answer to the call `uid`, or says what is wrong with it.
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
    fn requests_leave_out_what_is_not_there() {
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
    fn wrong_answers_are_told_apart() {
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
