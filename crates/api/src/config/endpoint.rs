//! Rules about the endpoint of a scheduler backend that is a program of its own.

use std::collections::BTreeSet;

use super::{BackendEndpoint, BackendKind, FailurePolicy};
use crate::{duration::GoDuration, field_error::FieldError, labels::is_dns_subdomain};

/// Longer than this, the API server does not wait for admission either.
const LONGEST: GoDuration = GoDuration::from_secs(30);

/// Groups whose objects Grove itself watches or writes. A backend has kinds of its own.
const TAKEN: [&str; 5] =
    ["", "autoscaling", "grove.io", "rbac.authorization.k8s.io", "scheduler.grove.io"];

/// What is wrong with the name of the scheduler, which becomes the value of a label.
pub(super) fn name(path: &str, name: &str) -> Option<FieldError> {
    let detail = "must be the name of a scheduler: at most 63 lower-case letters, digits, '-' and '.', \
                  beginning and ending with a letter or digit";
    let fits = name.len() <= 63 && is_dns_subdomain(name);
    (!fits).then(|| FieldError::invalid(path, name, detail))
}

/// What is wrong with an endpoint.
pub(super) fn endpoint(path: &str, endpoint: &BackendEndpoint, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{path}.{field}");
    if endpoint.url.is_empty() {
        errors.push(FieldError::required(at("url"), "where the scheduler backend answers"));
    } else if let Err(detail) = https(&endpoint.url) {
        errors.push(FieldError::invalid(at("url"), endpoint.url.as_str(), detail));
    }
    if endpoint.ca_file.is_empty() {
        let detail = "a PEM file with the authority that signed the certificate of the endpoint";
        errors.push(FieldError::required(at("caFile"), detail));
    }
    match (&endpoint.cert_file, &endpoint.key_file) {
        (Some(_), None) => {
            errors.push(FieldError::required(at("keyFile"), "the key of certFile"));
        }
        (None, Some(_)) => {
            errors.push(FieldError::required(at("certFile"), "the certificate of keyFile"));
        }
        (None, None) if endpoint.token_file.is_none() => {
            let detail = "certFile with keyFile, or tokenFile: the endpoint has to know who asks";
            errors.push(FieldError::required(path, detail));
        }
        _ => {}
    }
    if endpoint.timeout <= GoDuration::default() || endpoint.timeout > LONGEST {
        let detail = format!("must be greater than 0 and at most {LONGEST}");
        errors.push(FieldError::invalid(at("timeout"), endpoint.timeout.to_string(), detail));
    }
    if let FailurePolicy::Unknown(policy) = &endpoint.failure_policy {
        let (path, known) = (at("failurePolicy"), FailurePolicy::KNOWN);
        errors.push(FieldError::not_supported(path, policy.as_str(), known));
    }
    let mut seen = BTreeSet::new();
    for (index, one) in endpoint.kinds.iter().enumerate() {
        let path = at(&format!("kinds[{index}]"));
        kind(&path, one, errors);
        if !seen.insert((&one.group, &one.kind)) {
            let name = format!("{}/{} {}", one.group, one.version, one.kind);
            errors.push(FieldError::duplicate(path, name));
        }
    }
}

fn https(url: &str) -> Result<(), String> {
    let parsed: http::Uri = url.parse().map_err(|error| format!("is no URL: {error}"))?;
    if parsed.scheme_str() != Some("https") {
        return Err("must begin with https://: both sides have to know whom they talk to".into());
    }
    let authority = parsed.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("must not have a user in it; use tokenFile or certFile".into());
    }
    Ok(())
}

fn kind(path: &str, kind: &BackendKind, errors: &mut Vec<FieldError>) {
    let BackendKind { group, version, plural, kind } = kind;
    for (field, text) in [("version", version), ("plural", plural), ("kind", kind)] {
        if text.is_empty() {
            errors.push(FieldError::required(format!("{path}.{field}"), "as in the CRD"));
        }
    }
    if TAKEN.contains(&group.as_str()) {
        let detail = "must be a group of the scheduler's own, as in its CRD";
        errors.push(FieldError::invalid(format!("{path}.group"), group.as_str(), detail));
    }
}
