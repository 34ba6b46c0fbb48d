//! Security contexts of pods and containers.

use grove_api::field_error::FieldError;

use super::part::{Part, descending};

/// The largest user or group number.
const MAX_ID: i64 = i32::MAX as i64;
const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

pub(super) fn validate_pod(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    let Some(context) = pod.part("securityContext") else { return };
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.between(key, 0, MAX_ID, ID_RANGE, errors);
    }
    for (path, group) in context.items("supplementalGroups") {
        if group.as_i64().is_some_and(|group| !(0..=MAX_ID).contains(&group)) {
            errors.push(FieldError::invalid(path, group.clone(), ID_RANGE));
        }
    }
    context.one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    validate_seccomp(&context, errors);
}

pub(super) fn validate_container(container: &Part<'_>, errors: &mut Vec<FieldError>) {
    let Some(context) = container.part("securityContext") else { return };
    for key in ["runAsUser", "runAsGroup"] {
        context.between(key, 0, MAX_ID, ID_RANGE, errors);
    }
    context.one_of("procMount", &["Default", "Unmasked"], errors);
    if context.flag("privileged") == Some(true)
        && context.flag("allowPrivilegeEscalation") == Some(false)
    {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        let path = context.at("allowPrivilegeEscalation");
        errors.push(FieldError::invalid(path, false, detail));
    }
    validate_seccomp(&context, errors);
}

fn validate_seccomp(context: &Part<'_>, errors: &mut Vec<FieldError>) {
    let Some(profile) = context.part("seccompProfile") else { return };
    if profile.require("type", "type is required when seccompProfile is set", errors) {
        profile.one_of("type", &["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    let file = profile.at("localhostProfile");
    match (profile.text("type") == "Localhost", profile.has("localhostProfile")) {
        (true, true) => descending(&file, profile.text("localhostProfile"), errors),
        (true, false) => {
            let detail = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(file, detail));
        }
        (false, true) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(file, profile.text("localhostProfile"), detail));
        }
        (false, false) => {}
    }
}
