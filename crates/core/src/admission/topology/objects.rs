//! Rules about ClusterTopologies and ClusterTopologyBindings, and who may write the one that the operator manages.

use std::collections::BTreeSet;

use grove_api::{
    ClusterTopology, ClusterTopologyBinding, cluster_topology::MANAGED_NAME,
    field_error::FieldError, labels,
};

use super::super::{Context, Operation};

/// Checks a ClusterTopology.
pub fn validate_cluster_topology(topology: &ClusterTopology) -> Vec<FieldError> {
    let levels = topology.spec.levels.iter();
    validate_levels(levels.map(|level| (level.domain.as_str(), level.key.as_str())))
}

/// Checks a ClusterTopologyBinding. `is_topology_aware` decides about enabled schedulers.
pub fn validate_topology_binding(
    binding: &ClusterTopologyBinding,
    context: &Context,
    is_topology_aware: impl Fn(&str) -> bool,
) -> Vec<FieldError> {
    let levels = binding.spec.levels.iter();
    let mut errors = validate_levels(levels.map(|level| (&*level.domain, &*level.key)));
    let mut schedulers = BTreeSet::new();
    for (index, reference) in binding.spec.scheduler_topology_bindings.iter().enumerate() {
        let name = reference.scheduler_name.as_str();
        // The field has another name; users search for this one.
        let path = format!("spec.schedulerTopologyReferences[{index}].schedulerName");
        if !schedulers.insert(name) {
            errors.push(FieldError::duplicate(path, name));
        } else if !context.enabled_schedulers.contains(name) {
            let detail = "scheduler backend is not enabled in Grove";
            errors.push(FieldError::invalid(path, name, detail));
        } else if !is_topology_aware(name) {
            let detail = "scheduler backend does not implement topology-aware scheduling";
            errors.push(FieldError::invalid(path, name, detail));
        }
    }
    errors
}

fn validate_levels<'a>(levels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut domains, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for (index, (domain, key)) in levels.enumerate() {
        if !domains.insert(domain) {
            errors.push(FieldError::duplicate(format!("spec.levels[{index}].domain"), domain));
        }
        let path = format!("spec.levels[{index}].key");
        if let Some(detail) = labels::key_problem(key) {
            errors.push(FieldError::invalid(path, key, detail));
        } else if !keys.insert(key) {
            errors.push(FieldError::duplicate(path, key));
        }
    }
    errors
}

/// A request for a ClusterTopology.
#[derive(Clone, Copy, Debug)]
pub struct TopologyRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The user.
    pub user: &'a str,
    /// Name of the ClusterTopology.
    pub name: &'a str,
}

/// Why a request for a ClusterTopology is denied, if it is. `operators` are the users that the operator acts as.
pub fn authorize_topology(request: &TopologyRequest<'_>, operators: &[String]) -> Option<String> {
    if request.name != MANAGED_NAME || operators.iter().any(|one| one == request.user) {
        return None;
    }
    let verb = match request.operation {
        Operation::Create => "created",
        Operation::Update | Operation::Other => "modified",
        Operation::Delete => "deleted",
        Operation::Connect => return None,
    };
    Some(format!(
        "ClusterTopology '{MANAGED_NAME}' can only be {verb} by the operator; change the topology levels in its \
         configuration instead"
    ))
}
