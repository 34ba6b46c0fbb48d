//! Volumes of a pod, and the mounts of its containers.

use std::collections::BTreeMap;

use grove_api::{field_error::FieldError, init_container};
use serde_json::Value;

use super::environment;
use super::part::{Part, descending, no_backsteps};
use crate::admission::syntax;
use crate::quantity::Quantity;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 7] = [
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
];

/// The volumes of a pod by name.
pub(super) struct Volumes<'a>(BTreeMap<&'a str, Part<'a>>);

impl Volumes<'_> {
    /// Whether a container may mount this volume. The operator adds two to pods with a start-order container.
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
            || [init_container::POD_INFO_VOLUME, init_container::TOKEN_VOLUME].contains(&name)
    }
}

/// Checks the volumes of a pod.
pub(super) fn validate<'a>(pod: &Part<'a>, errors: &mut Vec<FieldError>) -> Volumes<'a> {
    let mut known = BTreeMap::new();
    for volume in pod.parts("volumes") {
        let name = volume.text("name");
        if volume.require("name", "give the volume a name that volumeMounts can refer to", errors) {
            volume.form("name", syntax::dns_label, errors);
        }
        validate_sources(&volume, errors);
        if !name.is_empty() && known.insert(name, volume.clone()).is_some() {
            errors.push(FieldError::duplicate(volume.at("name"), name));
        }
    }
    Volumes(known)
}

/// A volume without a source is an empty directory.
fn validate_sources(volume: &Part<'_>, errors: &mut Vec<FieldError>) {
    let sources: Vec<_> = volume.entries().filter(|(key, _)| *key != "name").collect();
    for (key, _) in sources.iter().skip(1) {
        let detail =
            format!("may not specify more than 1 volume type; {} is set already", sources[0].0);
        errors.push(FieldError::forbidden(volume.at(key), detail));
    }
    let [(key, _)] = sources.as_slice() else { return };
    let Some(source) = volume.part(key) else { return };
    match key.as_str() {
        "emptyDir" => validate_empty_dir(&source, errors),
        "hostPath" => {
            source.require("path", "set the path on the node", errors);
            no_backsteps(&source.at("path"), source.text("path"), errors);
            source.one_of("type", &HOST_PATH_TYPES, errors);
        }
        "secret" => {
            source.require("secretName", "name the secret", errors);
            validate_files(&source, errors);
        }
        "configMap" => {
            source.require("name", "name the config map", errors);
            validate_files(&source, errors);
        }
        "persistentVolumeClaim" => {
            source.require("claimName", "name the persistent volume claim", errors);
        }
        "nfs" => {
            source.require("server", "set the address of the server", errors);
            let path = source.text("path");
            if source.require("path", "set the exported path", errors) && !path.starts_with('/') {
                let detail = "must be an absolute path";
                errors.push(FieldError::invalid(source.at("path"), path, detail));
            }
        }
        "csi" => {
            source.require("driver", "name the CSI driver", errors);
        }
        "ephemeral" if !source.has("volumeClaimTemplate") => {
            let detail = "set the template of the claim";
            errors.push(FieldError::required(source.at("volumeClaimTemplate"), detail));
        }
        "downwardAPI" => {
            source.between("defaultMode", 0, 0o777, MODE, errors);
            source.parts("items").for_each(|file| validate_downward_file(&file, errors));
        }
        _ => {}
    }
}

fn validate_empty_dir(source: &Part<'_>, errors: &mut Vec<FieldError>) {
    let limit = source.get("sizeLimit").map(Quantity::read);
    if limit.is_some_and(|limit| limit.is_ok_and(Quantity::is_negative)) {
        let value = source.get("sizeLimit").cloned().unwrap_or(Value::Null);
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(source.at("sizeLimit"), value, detail));
    }
}

/// The entries of a secret or config map that become files.
fn validate_files(source: &Part<'_>, errors: &mut Vec<FieldError>) {
    source.between("defaultMode", 0, 0o777, MODE, errors);
    for item in source.parts("items") {
        item.require("key", "name the entry", errors);
        validate_file(&item, errors);
    }
}

fn validate_file(file: &Part<'_>, errors: &mut Vec<FieldError>) {
    file.require("path", "set the path of the file in the volume", errors);
    descending(&file.at("path"), file.text("path"), errors);
    file.between("mode", 0, 0o777, MODE, errors);
}

fn validate_downward_file(file: &Part<'_>, errors: &mut Vec<FieldError>) {
    validate_file(file, errors);
    match (file.part("fieldRef"), file.part("resourceFieldRef")) {
        (None, None) => {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(file.path(), detail));
        }
        (Some(_), Some(_)) => {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid(file.path(), "resource", detail));
        }
        (Some(field), None) => {
            environment::validate_field(&field, &environment::FILE_FIELDS, errors);
        }
        (None, Some(resource)) => {
            resource.require("containerName", "name the container", errors);
            environment::validate_resource(&resource, errors);
        }
    }
}

/// The mounts and block devices of a container.
pub(super) fn validate_mounts(
    container: &Part<'_>,
    volumes: &Volumes<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mounts: Vec<_> = container.parts("volumeMounts").collect();
    let devices: Vec<_> = container.parts("volumeDevices").collect();
    for (index, mount) in mounts.iter().enumerate() {
        validate_reference(mount, volumes, errors);
        validate_place(mount, "mountPath", &mounts[..index], errors);
        validate_sub_path(mount, errors);
        validate_propagation(mount, container, errors);
    }
    for (index, device) in devices.iter().enumerate() {
        validate_reference(device, volumes, errors);
        validate_place(device, "devicePath", &devices[..index], errors);
        no_backsteps(&device.at("devicePath"), device.text("devicePath"), errors);
        let (name, place) = (device.text("name"), device.text("devicePath"));
        let block = ["persistentVolumeClaim", "ephemeral"];
        let source = volumes.0.get(name);
        if source.is_some_and(|source| !block.iter().any(|key| source.has(key))) {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for \
                          block mode";
            errors.push(FieldError::invalid(device.at("name"), name, detail));
        }
        if !name.is_empty() && devices[..index].iter().any(|other| other.text("name") == name) {
            errors.push(FieldError::invalid(device.at("name"), name, "must be unique"));
        }
        if !name.is_empty() && mounts.iter().any(|mount| mount.text("name") == name) {
            let detail = "must not already exist in volumeMounts";
            errors.push(FieldError::invalid(device.at("name"), name, detail));
        }
        if !place.is_empty() && mounts.iter().any(|mount| mount.text("mountPath") == place) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(device.at("devicePath"), place, detail));
        }
    }
}

fn validate_reference(mount: &Part<'_>, volumes: &Volumes<'_>, errors: &mut Vec<FieldError>) {
    let name = mount.text("name");
    if mount.require("name", "name one of podSpec.volumes", errors) && !volumes.has(name) {
        errors.push(FieldError::not_found(mount.at("name"), name));
    }
}

fn validate_place(mount: &Part<'_>, key: &str, others: &[Part<'_>], errors: &mut Vec<FieldError>) {
    let place = mount.text(key);
    if !mount.require(key, "set the path in the container", errors) {
        return;
    }
    if others.iter().any(|other| other.text(key) == place) {
        errors.push(FieldError::invalid(mount.at(key), place, "must be unique"));
    }
}

fn validate_sub_path(mount: &Part<'_>, errors: &mut Vec<FieldError>) {
    for key in ["subPath", "subPathExpr"] {
        descending(&mount.at(key), mount.text(key), errors);
    }
    let expression = mount.text("subPathExpr");
    if !expression.is_empty() && !mount.text("subPath").is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.push(FieldError::invalid(mount.at("subPathExpr"), expression, detail));
    }
}

fn validate_propagation(mount: &Part<'_>, container: &Part<'_>, errors: &mut Vec<FieldError>) {
    let key = "mountPropagation";
    mount.one_of(key, &["Bidirectional", "HostToContainer", "None"], errors);
    let context = container.part("securityContext");
    let privileged = context.and_then(|context| context.flag("privileged")).unwrap_or_default();
    if mount.text(key) == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(mount.at(key), detail));
    }
}
