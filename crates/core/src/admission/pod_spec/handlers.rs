//! Probes and lifecycle handlers of a container.

use grove_api::field_error::FieldError;
use serde_json::Value;

use super::part::{Part, faults};
use crate::admission::syntax;

/// Handlers in the order in which the API server checks them.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const SIDECARS_ONLY: &str = "may not be set for init containers without restartPolicy=Always";

/// All probes and handlers. `grace_period` is that of the pod.
pub(super) fn validate(container: &Part<'_>, grace_period: i64, errors: &mut Vec<FieldError>) {
    if let Some(lifecycle) = container.part("lifecycle") {
        for hook in ["postStart", "preStop"].into_iter().filter_map(|key| lifecycle.part(key)) {
            validate_handler(&hook, grace_period, errors);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.part(key) else { continue };
        validate_handler(&probe, grace_period, errors);
        validate_numbers(&probe, key, errors);
    }
}

/// An init container that ends before the others start must not have any of them.
pub(super) fn forbid(container: &Part<'_>, errors: &mut Vec<FieldError>) {
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.has(key) {
            errors.push(FieldError::forbidden(container.at(key), SIDECARS_ONLY));
        }
    }
}

fn validate_numbers(probe: &Part<'_>, kind: &str, errors: &mut Vec<FieldError>) {
    for key in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.not_negative(key, errors);
    }
    let grace = "terminationGracePeriodSeconds";
    probe.between(grace, 1, i64::MAX, "must be greater than 0", errors);
    if kind == "readinessProbe" {
        if let Some(value) = probe.get(grace) {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(probe.at(grace), value.clone(), detail));
        }
        return;
    }
    // 0 stands for the default, which is 1.
    probe.between("successThreshold", i64::MIN, 1, "must be 1", errors);
}

fn validate_handler(holder: &Part<'_>, grace_period: i64, errors: &mut Vec<FieldError>) {
    let given: Vec<_> = HANDLERS.into_iter().filter(|key| holder.has(key)).collect();
    let Some(&first) = given.first() else {
        let detail = "must specify a handler type: exec, httpGet, tcpSocket or grpc";
        errors.push(FieldError::required(holder.path(), detail));
        return;
    };
    for key in given.iter().skip(1) {
        let detail = format!("may not specify more than 1 handler type; {first} is set already");
        errors.push(FieldError::forbidden(holder.at(key), detail));
    }
    let Some(handler) = holder.part(first) else { return };
    match first {
        "exec" => {
            if handler.items("command").next().is_none() {
                errors.push(FieldError::required(handler.at("command"), "set the command to run"));
            }
        }
        "httpGet" => {
            validate_port(&handler, errors);
            handler.one_of("scheme", &["HTTP", "HTTPS"], errors);
        }
        "sleep" => {
            let detail = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
            );
            handler.between("seconds", 0, grace_period, &detail, errors);
        }
        _ => validate_port(&handler, errors),
    }
}

fn validate_port(handler: &Part<'_>, errors: &mut Vec<FieldError>) {
    match handler.get("port") {
        Some(Value::String(name)) => {
            faults(&handler.at("port"), name, syntax::port_name(name), errors);
        }
        None => errors.push(FieldError::required(
            handler.at("port"),
            "must be between 1 and 65535, inclusive",
        )),
        Some(_) => {
            handler.between("port", 1, 65535, "must be between 1 and 65535, inclusive", errors);
        }
    }
}
