//! Containers and init containers of a pod.

use std::collections::BTreeSet;

use grove_api::field_error::FieldError;

use super::part::Part;
use super::resources::{self, Claims};
use super::volumes::{self, Volumes};
use super::{environment, handlers, security};
use crate::admission::syntax;

/// What the containers of a pod may refer to.
pub(super) struct Surroundings<'a> {
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: Claims<'a>,
    pub(super) grace_period: i64,
    pub(super) host_network: bool,
}

pub(super) fn validate(pod: &Part<'_>, around: &Surroundings<'_>, errors: &mut Vec<FieldError>) {
    let containers: Vec<_> = pod.parts("containers").collect();
    if containers.is_empty() {
        let detail = "set at least one container";
        errors.push(FieldError::required(pod.at("containers"), detail));
    }
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for container in &containers {
        validate_one(container, around, errors);
        validate_unique(container, &mut names, errors);
        validate_host_ports(container, around, &mut host_ports, errors);
        if around.host_network {
            validate_network_of_node(container, errors);
        }
        container.one_of("restartPolicy", &["Always", "Never", "OnFailure"], errors);
        handlers::validate(container, around.grace_period, errors);
    }
    for container in pod.parts("initContainers") {
        validate_one(&container, around, errors);
        validate_unique(&container, &mut names, errors);
        validate_host_ports(&container, around, &mut BTreeSet::new(), errors);
        container.one_of("restartPolicy", &["Always", "Never", "OnFailure"], errors);
        if container.text("restartPolicy") == "Always" {
            handlers::validate(&container, around.grace_period, errors);
        } else {
            handlers::forbid(&container, errors);
        }
    }
    if pod.items("ephemeralContainers").next().is_some() {
        let detail = "cannot be set on create: use kubectl debug on a running pod";
        errors.push(FieldError::forbidden(pod.at("ephemeralContainers"), detail));
    }
}

fn validate_one(container: &Part<'_>, around: &Surroundings<'_>, errors: &mut Vec<FieldError>) {
    if container.require("name", "give the container a name", errors) {
        container.form("name", syntax::dns_label, errors);
    }
    let image = container.text("image");
    if container.require("image", "set the image to run, for example registry/name:tag", errors)
        && image.trim() != image
    {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(container.at("image"), image, detail));
    }
    container.one_of("imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    container.one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    validate_ports(container, errors);
    environment::validate(container, errors);
    volumes::validate_mounts(container, &around.volumes, errors);
    resources::validate(container, &around.claims, errors);
    security::validate_container(container, errors);
}

fn validate_unique<'a>(
    container: &Part<'a>,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = container.text("name");
    if !name.is_empty() && !names.insert(name) {
        errors.push(FieldError::duplicate(container.at("name"), name));
    }
}

fn validate_ports(container: &Part<'_>, errors: &mut Vec<FieldError>) {
    let range = "must be between 1 and 65535, inclusive";
    let mut names = BTreeSet::new();
    for port in container.parts("ports") {
        let name = port.text("name");
        port.form("name", syntax::port_name, errors);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(port.at("name"), name));
        }
        if port.number("containerPort").unwrap_or_default() == 0 {
            errors.push(FieldError::required(port.at("containerPort"), range));
        }
        for key in ["containerPort", "hostPort"] {
            // 0 counts as absent.
            if port.number(key) != Some(0) {
                port.between(key, 1, 65535, range, errors);
            }
        }
        port.one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
    }
}

/// With `hostNetwork` a container has no ports of its own.
fn validate_network_of_node(container: &Part<'_>, errors: &mut Vec<FieldError>) {
    for port in container.parts("ports") {
        let outside = port.number("hostPort").unwrap_or_default();
        if outside != 0 && outside != port.number("containerPort").unwrap_or_default() {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(port.at("hostPort"), outside, detail));
        }
    }
}

/// Ports of the node. With `hostNetwork` every container port is one.
fn validate_host_ports(
    container: &Part<'_>,
    around: &Surroundings<'_>,
    taken: &mut BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) {
    for port in container.parts("ports") {
        let inside = port.number("containerPort").unwrap_or_default();
        let given = port.number("hostPort").unwrap_or_default();
        let outside = if given == 0 && around.host_network { inside } else { given };
        if outside == 0 {
            continue;
        }
        let protocol = Some(port.text("protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
        let place = format!("{protocol}/{}/{outside}", port.text("hostIP"));
        if !taken.insert(place.clone()) {
            errors.push(FieldError::duplicate(port.at("hostPort"), place));
        }
    }
}
