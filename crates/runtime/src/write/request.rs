//! Builds the HTTP request of a [`Write`], with the precondition where the API server checks it.

use std::borrow::Cow;

use http::Request as HttpRequest;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Map, Value, json};

use super::{Precondition, Propagation, Verb, Write};

/// Requests metadata only: the caches deliver the object itself. A Status is returned as it is.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Why a write cannot be sent. Always a bug in the code that planned it.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    /// The body is not a JSON object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// A name or namespace is not valid in a URL.
    #[error("the object's name does not make a valid URL: {0}")]
    Url(#[from] http::Error),
}

/// Whether the API server stores the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Real,
    DryRun,
}

pub(super) fn build(
    write: &Write,
    manager: &str,
    mode: Mode,
) -> Result<HttpRequest<Vec<u8>>, BuildError> {
    let (method, content_type, body) = match &write.verb {
        Verb::Create { body } | Verb::CreateSubresource { body, .. } => {
            ("POST", "application/json", bytes(body))
        }
        Verb::Merge { patch, only_if, .. } => {
            let patch = guarded(patch, Some(only_if))?;
            ("PATCH", "application/merge-patch+json", bytes(&patch))
        }
        Verb::Json { patch, only_if, .. } => {
            ("PATCH", "application/json-patch+json", bytes(&json_patch_body(patch, only_if)))
        }
        Verb::Apply { body, only_if, .. } => {
            let body = guarded(body, only_if.as_ref())?;
            ("PATCH", "application/apply-patch+yaml", bytes(&body))
        }
        Verb::Delete { only_if, propagation, grace_seconds } => {
            let options = delete_options(only_if, *propagation, *grace_seconds);
            ("DELETE", "application/json", bytes(&options))
        }
    };
    let request = HttpRequest::builder()
        .method(method)
        .uri(uri(write, manager, mode))
        .header(CONTENT_TYPE, content_type)
        .header(ACCEPT, METADATA)
        .body(body)?;
    Ok(request)
}

fn bytes(body: &Value) -> Vec<u8> {
    serde_json::to_vec(body).expect("a JSON value can always be written")
}

fn uri(write: &Write, manager: &str, mode: Mode) -> String {
    let mut uri = write.resource.path(&write.key.namespace);
    let names_object = !matches!(write.verb, Verb::Create { .. });
    if names_object {
        uri.push('/');
        uri.push_str(&write.key.name);
    }
    let subresource = match &write.verb {
        Verb::Create { .. } | Verb::Delete { .. } => None,
        Verb::CreateSubresource { subresource, .. } => Some(*subresource),
        Verb::Merge { subresource, .. }
        | Verb::Json { subresource, .. }
        | Verb::Apply { subresource, .. } => *subresource,
    };
    if let Some(subresource) = subresource {
        uri.push('/');
        uri.push_str(subresource);
    }
    if !matches!(write.verb, Verb::Delete { .. }) {
        uri.push_str("?fieldManager=");
        uri.push_str(manager);
        // No one reads the warnings, and computing them costs the server time.
        uri.push_str("&fieldValidation=Ignore");
    }
    if mode == Mode::DryRun {
        uri.push_str("&dryRun=All");
    }
    if matches!(write.verb, Verb::Apply { force: true, .. }) {
        uri.push_str("&force=true");
    }
    uri
}

/// A patch or apply body with the precondition in its metadata, which the server compares with the stored
/// object.
fn guarded<'b>(
    body: &'b Value,
    only_if: Option<&Precondition>,
) -> Result<Cow<'b, Value>, BuildError> {
    let fields = body.as_object().ok_or(BuildError::NotAnObject)?;
    let Some(only_if) = only_if else { return Ok(Cow::Borrowed(body)) };
    let mut body = fields.clone();
    let metadata = body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let metadata = metadata.as_object_mut().ok_or(BuildError::NotAnObject)?;
    metadata.insert("uid".to_owned(), json!(only_if.uid));
    if let Some(version) = only_if.resource_version {
        metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
    }
    Ok(Cow::Owned(Value::Object(body)))
}

fn json_patch_body(patch: &json_patch::Patch, only_if: &Precondition) -> Value {
    let mut operations =
        vec![json!({ "op": "test", "path": "/metadata/uid", "value": only_if.uid })];
    if let Some(version) = only_if.resource_version {
        // Replacing the version makes a mismatch a 409, as for every other verb; a failed `test` would be a
        // 422.
        operations.push(json!({
            "op": "replace", "path": "/metadata/resourceVersion", "value": version.to_string()
        }));
    }
    operations.extend(patch.0.iter().map(|operation| json!(operation)));
    Value::Array(operations)
}

fn delete_options(
    only_if: &Precondition,
    propagation: Propagation,
    grace_seconds: Option<u32>,
) -> Value {
    let propagation = match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    };
    let mut options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
        "preconditions": { "uid": only_if.uid },
    });
    if let Some(version) = only_if.resource_version {
        options["preconditions"]["resourceVersion"] = json!(version.to_string());
    }
    if let Some(seconds) = grace_seconds {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    options
}
