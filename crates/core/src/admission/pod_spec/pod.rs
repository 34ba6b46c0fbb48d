//! The pod spec as a whole.

use std::collections::BTreeSet;

use grove_api::field_error::FieldError;

use super::containers::{self, Surroundings};
use super::part::{Part, faults};
use super::resources::Claims;
use super::{scheduling, security, volumes};
use crate::admission::syntax;

/// Default of the API server.
const DEFAULT_GRACE_PERIOD: i64 = 30;

/// Reports everything that the API server would refuse in every pod with this spec.
///
/// Fields that the operator replaces in each pod are not checked: host name, subdomain, scheduling gates.
pub(super) fn validate(pod: &Part<'_>, adds_claims: bool, errors: &mut Vec<FieldError>) {
    let volumes = volumes::validate(pod, errors);
    let claims = validate_claims(pod, adds_claims, errors);
    let around = Surroundings {
        volumes,
        claims,
        // The API server replaces a negative one by 1.
        grace_period: match pod.number("terminationGracePeriodSeconds") {
            Some(seconds) if seconds < 0 => 1,
            seconds => seconds.unwrap_or(DEFAULT_GRACE_PERIOD),
        },
        host_network: pod.flag("hostNetwork").unwrap_or_default(),
    };
    containers::validate(pod, &around, errors);
    pod.one_of("restartPolicy", &["Always", "OnFailure", "Never"], errors);
    validate_dns(pod, errors);
    scheduling::validate(pod, errors);
    security::validate_pod(pod, errors);
    validate_names(pod, errors);
    validate_rest(pod, errors);
}

fn validate_claims<'a>(
    pod: &Part<'a>,
    adds_claims: bool,
    errors: &mut Vec<FieldError>,
) -> Claims<'a> {
    let mut names = BTreeSet::new();
    for claim in pod.parts("resourceClaims") {
        let name = claim.text("name");
        if claim.require("name", "give the claim a name that containers can refer to", errors) {
            claim.form("name", syntax::dns_label, errors);
            if !names.insert(name) {
                errors.push(FieldError::duplicate(claim.at("name"), name));
            }
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match sources.iter().filter(|key| claim.has(key)).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
        };
        if !detail.is_empty() {
            errors.push(FieldError::invalid(claim.path(), name, detail));
        }
        for key in sources.into_iter().filter(|key| claim.has(key)) {
            faults(&claim.at(key), claim.text(key), syntax::dns_subdomain(claim.text(key)), errors);
        }
    }
    Claims { names, complete: !adds_claims }
}

fn validate_dns(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    pod.one_of("dnsPolicy", &policies, errors);
    let config = pod.part("dnsConfig");
    if pod.text("dnsPolicy") == "None" {
        let servers = config.as_ref().map_or(0, |config| config.items("nameservers").count());
        if servers == 0 {
            let path = format!("{}.nameservers", pod.at("dnsConfig"));
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(path, detail));
        }
    }
    let Some(config) = config else { return };
    if config.items("nameservers").count() > 3 {
        let value = config.get("nameservers").cloned().unwrap_or_default();
        let detail = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid(config.at("nameservers"), value, detail));
    }
    for option in config.parts("options").filter(|option| option.text("name").is_empty()) {
        errors.push(FieldError::required(option.path(), "must not be empty"));
    }
}

fn validate_names(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    for key in ["serviceAccountName", "priorityClassName", "runtimeClassName"] {
        pod.form(key, syntax::dns_subdomain, errors);
    }
    for gate in pod.parts("readinessGates") {
        let kind = gate.text("conditionType");
        faults(&gate.at("conditionType"), kind, syntax::qualified_name(kind), errors);
    }
    for alias in pod.parts("hostAliases") {
        for (path, name) in alias.texts("hostnames") {
            faults(&path, name, syntax::dns_subdomain(name), errors);
        }
    }
}

fn validate_rest(pod: &Part<'_>, errors: &mut Vec<FieldError>) {
    let range = "must be between 1 and 2147483647, inclusive";
    pod.between("activeDeadlineSeconds", 1, i64::from(i32::MAX), range, errors);
    pod.one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"], errors);
    if pod.flag("shareProcessNamespace") == Some(true) && pod.flag("hostPID") == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(pod.at("shareProcessNamespace"), true, detail));
    }
    if pod.flag("hostUsers") == Some(false) {
        for key in ["hostPID", "hostIPC"].into_iter().filter(|key| pod.flag(key) == Some(true)) {
            errors.push(FieldError::forbidden(pod.at(key), "when `hostUsers` is false"));
        }
    }
    if let Some(os) = pod.part("os") {
        os.require("name", "set linux or windows", errors);
        os.one_of("name", &["linux", "windows"], errors);
    }
}
