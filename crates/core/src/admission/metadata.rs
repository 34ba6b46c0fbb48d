//! Metadata of objects and templates, as the API server checks it.
//!
//! The API server itself checks owner references, finalizers and managed fields.

use std::collections::BTreeMap;

use grove_api::field_error::FieldError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::syntax;

/// Maximum size of all annotations of an object, keys and values.
const ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn validate(metadata: &ObjectMeta, errors: &mut Vec<FieldError>) {
    validate_name(metadata, errors);
    match metadata.namespace.as_deref().unwrap_or_default() {
        "" => errors.push(FieldError::required("metadata.namespace", "")),
        namespace => each(errors, "metadata.namespace", namespace, syntax::dns_label(namespace)),
    }
    if let Some(labels) = &metadata.labels {
        validate_labels("metadata.labels", labels, errors);
    }
    if let Some(annotations) = &metadata.annotations {
        validate_annotations("metadata.annotations", annotations, errors);
    }
}

/// The API server generates a name only when it stores the object; until then its prefix is checked.
fn validate_name(metadata: &ObjectMeta, errors: &mut Vec<FieldError>) {
    let prefix = metadata.generate_name.as_deref().unwrap_or_default();
    match metadata.name.as_deref().unwrap_or_default() {
        "" if prefix.is_empty() => {
            let detail = "name or generateName is required";
            errors.push(FieldError::required("metadata.name", detail));
        }
        "" => {
            // The generated suffix ends in an alphanumeric character.
            let faults = syntax::dns_subdomain(&format!("{prefix}x"));
            each(errors, "metadata.generateName", prefix, faults);
        }
        name => each(errors, "metadata.name", name, syntax::dns_subdomain(name)),
    }
}

pub(super) fn validate_labels(
    path: &str,
    labels: &BTreeMap<String, String>,
    errors: &mut Vec<FieldError>,
) {
    for (key, value) in labels {
        each(errors, path, key, syntax::qualified_name(key));
        each(errors, path, value, syntax::label_value(value));
    }
}

pub(super) fn validate_annotations(
    path: &str,
    annotations: &BTreeMap<String, String>,
    errors: &mut Vec<FieldError>,
) {
    for key in annotations.keys() {
        each(errors, path, key, syntax::qualified_name(&key.to_lowercase()));
    }
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATION_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATION_BYTES));
    }
}

/// One error per fault of a value.
fn each(errors: &mut Vec<FieldError>, path: &str, value: &str, faults: Vec<String>) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, value, fault)));
}
