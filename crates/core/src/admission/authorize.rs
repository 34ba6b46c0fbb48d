//! Who may change the objects that the operator manages.
//!
//! The operator would undo a change by another user, or act on it wrongly. An annotation disables the
//! protection for a single set. Objects whose set does not exist are not protected.

use std::collections::BTreeMap;

use grove_api::{annotations, labels};

/// The operation of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opens a connection to the object, for example `exec`.
    Connect,
    /// Creates it.
    Create,
    /// Changes it.
    Update,
    /// Deletes it.
    Delete,
    /// An unknown operation.
    Other,
}

/// A request for a managed object.
#[derive(Clone, Copy, Debug)]
pub struct ManagedRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The user.
    pub user: &'a str,
    /// Whether the object is a core/v1 Pod.
    pub is_pod: bool,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Value of `app.kubernetes.io/part-of`: that of the stored object, or else that of the new one. Removing
    /// the label therefore does not remove the protection.
    pub part_of: Option<&'a str>,
}

/// Users that are exempt from the protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guards {
    /// User name of the operator's own service account.
    pub operator: String,
    /// Further user names, from the configuration.
    pub exempt: Vec<String>,
}

/// Whether the objects of a set are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Enabled, the default.
    On,
    /// Disabled by annotation.
    Off,
}

impl Protection {
    /// Reads the annotations of a PodCliqueSet.
    pub fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let key = annotations::DISABLE_MANAGED_RESOURCE_PROTECTION;
        let value = annotations.and_then(|annotations| annotations.get(key));
        if value.is_some_and(|value| value == "true") { Self::Off } else { Self::On }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Allowed.
    Allow {
        /// Warnings for the user.
        warnings: Vec<String>,
    },
    /// Denied.
    Deny {
        /// Why.
        message: String,
    },
}

impl Authorization {
    const fn allow() -> Self {
        Self::Allow { warnings: Vec::new() }
    }

    fn allow_with(warning: String) -> Self {
        Self::Allow { warnings: vec![warning] }
    }
}

/// Decides a request. `lookup` returns the protection of the named set in the namespace of the request, or
/// nothing if the set does not exist. It is called at most once; its error is returned.
pub fn authorize<E>(
    request: &ManagedRequest<'_>,
    guards: &Guards,
    lookup: impl FnOnce(&str) -> Result<Option<Protection>, E>,
) -> Result<Authorization, E> {
    if request.operation == Operation::Connect {
        return Ok(Authorization::allow());
    }
    let object = format!("{}/{}", request.namespace, request.name);
    let Some(set) = request.part_of else {
        let label = labels::PART_OF;
        return Ok(Authorization::allow_with(format!(
            "missing required label {label} on resource {object}"
        )));
    };
    match lookup(set)? {
        None => {
            let set = format!("{}/{set}", request.namespace);
            Ok(Authorization::allow_with(format!(
                "PodCliqueSet {set} not found, resource {object} is not protected"
            )))
        }
        Some(Protection::Off) => Ok(Authorization::allow()),
        Some(Protection::On) => Ok(decide_protected(request, guards, &object, set)),
    }
}

fn decide_protected(
    request: &ManagedRequest<'_>,
    guards: &Guards,
    object: &str,
    set: &str,
) -> Authorization {
    let pod_deletion = request.is_pod && request.operation == Operation::Delete;
    let exempt =
        request.user == guards.operator || guards.exempt.iter().any(|user| user == request.user);
    if pod_deletion || exempt {
        return Authorization::allow();
    }
    let instead = format!(
        "the operator manages it for PodCliqueSet {}/{set}. Change the PodCliqueSet instead, annotate it \
         with {}=true, or add the user {:?} to authorizer.exemptServiceAccountUserNames of the operator \
         configuration",
        request.namespace,
        annotations::DISABLE_MANAGED_RESOURCE_PROTECTION,
        request.user
    );
    let message = match request.operation {
        Operation::Create | Operation::Update => {
            format!(
                "admission denied, creation/updation of resource: {object} is not allowed: {instead}"
            )
        }
        Operation::Delete => {
            format!("admission denied, deletion of resource: {object} is not allowed: {instead}")
        }
        Operation::Connect | Operation::Other => {
            "Unhandled operation. Admission denied.".to_owned()
        }
    };
    Authorization::Deny { message }
}

#[cfg(test)]
mod tests;
