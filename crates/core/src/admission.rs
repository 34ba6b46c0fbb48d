//! Admission: defaults and rules for PodCliqueSets, rules for topologies, and who may change the objects that the
//! operator manages.
//!
//! Webhooks and the command line call the same functions. Their input is one object (or its old and new form),
//! the [`Context`] and the topology that the object refers to; they read nothing from the cluster. Messages are an interface: users and tests search
//! for them, and paths are part of them, including a few odd ones (`podSpec.spec`).
//!
//! Errors have a fixed order: metadata, then the spec from the outside in, then topology constraints. The caller adds
//! errors of the scheduler backend to the field `spec`.

use std::collections::BTreeSet;

use grove_api::{
    OperatorConfiguration, PodCliqueSet,
    field_error::{FieldError, aggregate},
    pod_clique_set::PodCliqueTemplate,
};

use crate::topology::{Mode, SetTopology};

mod authorize;
mod cliques;
mod cycles;
mod defaulting;
mod groups;
mod metadata;
mod mnnvl;
mod pod_spec;
mod sharing;
pub mod syntax;
mod template;
mod topology;
mod update;
mod warnings;

#[cfg(test)]
mod tests;

pub use authorize::{Authorization, Guards, ManagedRequest, Operation, Protection, authorize};
pub use defaulting::{DEFAULT_TERMINATION_DELAY, DecodeError, decode, default, default_patch};
pub use pod_spec::pod_errors;
pub use topology::{
    TopologyRequest, authorize_topology, validate_cluster_topology, validate_topology_binding,
};
pub use warnings::{RESTART_POLICY_IGNORED, missing_priority_class, priority_classes};

/// The configuration of the operator, as far as the rules depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Names of the active scheduler backends.
    pub enabled_schedulers: BTreeSet<String>,
    /// Backend of pods that name none.
    pub default_scheduler: String,
    /// Whether MNNVL groups are enabled.
    pub mnnvl_enabled: bool,
    /// What the operator does about topology constraints.
    pub topology: Mode,
}

impl From<&OperatorConfiguration> for Context {
    fn from(configuration: &OperatorConfiguration) -> Self {
        let profiles = &configuration.scheduler.profiles;
        Self {
            enabled_schedulers: profiles.iter().map(|profile| profile.name.clone()).collect(),
            default_scheduler: configuration.scheduler.default_profile_name.clone(),
            mnnvl_enabled: configuration.network.auto_mnnvl_enabled,
            topology: (&configuration.topology).into(),
        }
    }
}

/// Outcome of a validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Why the object is refused; empty if it is accepted.
    pub errors: Vec<FieldError>,
    /// Warnings, for accepted and refused objects.
    pub warnings: Vec<String>,
}

impl Validation {
    /// Whether the object is accepted.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors as one message, or nothing without errors.
    pub fn message(&self) -> Option<String> {
        (!self.is_allowed()).then(|| aggregate(&self.errors))
    }
}

/// The request that contains an object.
#[derive(Clone, Copy, Debug)]
enum Occasion<'a> {
    Create,
    /// With the stored set.
    Update(&'a PodCliqueSet),
}

impl<'a> Occasion<'a> {
    /// The stored clique of this name.
    fn stored(self, clique: &str) -> Option<&'a PodCliqueTemplate> {
        match self {
            Self::Create => None,
            Self::Update(set) => set.spec.template.cliques.iter().find(|one| one.name == clique),
        }
    }
}

/// Checks a new set after defaulting. Nothing that depends on an unknown topology is checked.
pub fn validate_create(
    set: &PodCliqueSet,
    context: &Context,
    topology: &SetTopology,
) -> Validation {
    let mut errors = general(set, context, Occasion::Create);
    mnnvl::validate_create(set, context, &mut errors);
    topology::validate_create(set, topology, &mut errors);
    let mut warnings = warnings::of(set);
    warnings.extend(topology::create_warnings(set, topology));
    Validation { errors, warnings }
}

/// Checks a changed set after defaulting. Rules about changes apply only if the new form is valid in itself.
///
/// A set that is being deleted is accepted: a rule that became stricter since it was stored must not keep its
/// finalizer in place.
pub fn validate_update(
    new: &PodCliqueSet,
    old: &PodCliqueSet,
    context: &Context,
    topology: &SetTopology,
) -> Validation {
    if new.metadata.deletion_timestamp.is_some() {
        return Validation::default();
    }
    let mut errors = general(new, context, Occasion::Update(old));
    mnnvl::validate_update(new, old, &mut errors);
    if errors.is_empty() {
        update::validate(new, old, &mut errors);
        topology::validate_update(new, old, topology, &mut errors);
    }
    let mut warnings = warnings::of(new);
    warnings.extend(topology::update_warnings(new, topology));
    Validation { errors, warnings }
}

/// The rules for new and changed sets, and those for new sets that come between them in the order of errors.
fn general(set: &PodCliqueSet, context: &Context, occasion: Occasion<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    metadata::validate(&set.metadata, &mut errors);
    template::validate(set, &mut errors);
    cliques::validate(set, context, occasion, &mut errors);
    groups::validate(set, &mut errors);
    template::validate_termination_delay(&set.spec.template, &mut errors);
    errors
}

/// The elements that occur more than once, without repetition, in the order of their first occurrence.
fn duplicates<'a>(elements: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let mut repeated = Vec::new();
    for element in elements {
        if !seen.insert(element) && !repeated.contains(&element) {
            repeated.push(element);
        }
    }
    repeated
}
