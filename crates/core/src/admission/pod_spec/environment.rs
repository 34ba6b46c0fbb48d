//! The sources of environment variables and downward API files.
//!
//! Names of variables are checked in the parent module.

use grove_api::field_error::FieldError;

use super::part::{Part, faults};
use crate::admission::syntax;

const SOURCES: [&str; 5] =
    ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that a file of a volume may contain.
pub(super) const FILE_FIELDS: [&str; 5] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
];

pub(super) fn validate(container: &Part<'_>, errors: &mut Vec<FieldError>) {
    for variable in container.parts("env") {
        let Some(source) = variable.part("valueFrom") else { continue };
        let given: Vec<_> = SOURCES.into_iter().filter(|key| source.has(key)).collect();
        let detail = match given.len() {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            }
            _ if !variable.text("value").is_empty() => {
                "may not be specified when `value` is not empty: keep one of the two"
            }
            1 => "",
            _ => "may not have more than one field specified at a time",
        };
        if !detail.is_empty() {
            errors.push(FieldError::invalid(source.path(), given.join(", "), detail));
        }
        validate_source(&source, errors);
    }
    for source in container.parts("envFrom") {
        let given = ["configMapRef", "secretRef"].into_iter().filter_map(|key| source.part(key));
        let given: Vec<_> = given.collect();
        let detail = match given.as_slice() {
            [] => "must specify one of: `configMapRef` or `secretRef`",
            [_] => "",
            _ => "may not have more than one field specified at a time",
        };
        if !detail.is_empty() {
            errors.push(FieldError::invalid(source.path(), "", detail));
        }
        for reference in given {
            if reference.require("name", "name the object to read", errors) {
                reference.form("name", syntax::dns_subdomain, errors);
            }
        }
    }
}

fn validate_source(source: &Part<'_>, errors: &mut Vec<FieldError>) {
    if let Some(field) = source.part("fieldRef") {
        validate_field(&field, &VARIABLE_FIELDS, errors);
    }
    if let Some(resource) = source.part("resourceFieldRef") {
        validate_resource(&resource, errors);
    }
    for selector in ["configMapKeyRef", "secretKeyRef"].map(|key| source.part(key)) {
        let Some(selector) = selector else { continue };
        if selector.require("name", "name the object to read", errors) {
            selector.form("name", syntax::dns_subdomain, errors);
        }
        if selector.require("key", "name the entry to read", errors) {
            selector.form("key", syntax::config_key, errors);
        }
    }
}

/// A reference to a field of the pod.
pub(super) fn validate_field(field: &Part<'_>, known: &[&str], errors: &mut Vec<FieldError>) {
    let version = field.text("apiVersion");
    if !version.is_empty() && version != "v1" {
        errors.push(FieldError::not_supported(field.at("apiVersion"), version, &["v1"]));
        return;
    }
    if !field.require("fieldPath", "name a field, for example metadata.name", errors) {
        return;
    }
    let text = field.text("fieldPath");
    let path = field.at("fieldPath");
    match text.strip_suffix("']").and_then(|text| text.split_once("['")) {
        Some(("metadata.labels", key)) => {
            faults(&path, key, syntax::qualified_name(key), errors);
        }
        Some(("metadata.annotations", key)) => {
            faults(&path, key, syntax::qualified_name(&key.to_lowercase()), errors);
        }
        Some(_) => errors.push(FieldError::invalid(path, text, "does not support subscript")),
        // The older name of spec.nodeName.
        None if text == "spec.host" => {}
        None => field.one_of("fieldPath", known, errors),
    }
}

/// A reference to a request or limit of a container.
pub(super) fn validate_resource(resource: &Part<'_>, errors: &mut Vec<FieldError>) {
    if !resource.require("resource", "name a resource, for example limits.memory", errors) {
        return;
    }
    let text = resource.text("resource");
    if !["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| text.starts_with(prefix)) {
        resource.one_of("resource", &RESOURCES, errors);
    }
}
