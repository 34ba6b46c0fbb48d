//! What may be stored: defaults and rules for PodCliqueSets, and who may touch the objects made from them.
//!
//! The same functions serve the webhooks and the command line. They see one object (or its old and new
//! form) and the [`Context`]; nothing here looks into the cluster. Messages are an interface: people and
//! tests search for them, and paths are part of them, including a few that look odd (`podSpec.spec`).
//!
//! Errors come in a fixed order: metadata, then the spec from the outside in. What only the scheduler
//! backend knows is added by the caller as an error of the field `spec`. Topology constraints are not
//! looked at.

use std::collections::BTreeSet;

use grove_api::{
    OperatorConfiguration, PodCliqueSet,
    field_error::{FieldError, aggregate},
    pod_clique_set::PodCliqueTemplate,
};

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
mod update;
mod warnings;

#[cfg(test)]
mod tests;

pub use authorize::{Decision, Guards, ManagedRequest, Operation, Protection, authorize};
pub use defaulting::{DEFAULT_TERMINATION_DELAY, DecodeError, decode, default, default_patch};
pub use pod_spec::pod_errors;
pub use warnings::{RESTART_POLICY_IGNORED, missing_priority_class, priority_classes};

/// What the rules need to know about the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Names of the active scheduler backends.
    pub enabled_schedulers: BTreeSet<String>,
    /// Backend of pods that name none.
    pub default_scheduler: String,
    /// Whether MNNVL groups mean anything.
    pub mnnvl_enabled: bool,
}

impl From<&OperatorConfiguration> for Context {
    fn from(configuration: &OperatorConfiguration) -> Self {
        let profiles = &configuration.scheduler.profiles;
        Self {
            enabled_schedulers: profiles.iter().map(|profile| profile.name.clone()).collect(),
            default_scheduler: configuration.scheduler.default_profile_name.clone(),
            mnnvl_enabled: configuration.network.auto_mnnvl_enabled,
        }
    }
}

/// Outcome of a validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Why the object is refused; empty when it is not.
    pub errors: Vec<FieldError>,
    /// What the user should know in any case.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Whether the object may be stored.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors as one message, or nothing when there are none.
    pub fn message(&self) -> Option<String> {
        (!self.is_allowed()).then(|| aggregate(&self.errors))
    }
}

/// Which request an object came with.
#[derive(Clone, Copy, Debug)]
enum Occasion<'a> {
    Create,
    /// With the stored form of the set.
    Update(&'a PodCliqueSet),
}

impl<'a> Occasion<'a> {
    /// The stored form of a clique.
    fn stored(self, clique: &str) -> Option<&'a PodCliqueTemplate> {
        match self {
            Self::Create => None,
            Self::Update(set) => set.spec.template.cliques.iter().find(|one| one.name == clique),
        }
    }
}

/// Checks a new set, which has its defaults already.
pub fn validate_create(set: &PodCliqueSet, context: &Context) -> Verdict {
    let mut errors = general(set, context, Occasion::Create);
    mnnvl::validate_create(set, context, &mut errors);
    Verdict { errors, warnings: warnings::of(set) }
}

/// Checks a changed set, which has its defaults already. What was changed is looked at only when the new
/// form is right in itself.
///
/// A set that is being deleted passes: nothing is started from it any more, and a rule that became
/// stricter since it was stored must not keep its finalizer in place.
pub fn validate_update(new: &PodCliqueSet, old: &PodCliqueSet, context: &Context) -> Verdict {
    if new.metadata.deletion_timestamp.is_some() {
        return Verdict::default();
    }
    let mut errors = general(new, context, Occasion::Update(old));
    mnnvl::validate_update(new, old, &mut errors);
    if errors.is_empty() {
        update::validate(new, old, &mut errors);
    }
    Verdict { errors, warnings: warnings::of(new) }
}

/// The rules that hold for new and changed sets alike, and those for new ones that stand between them.
fn general(set: &PodCliqueSet, context: &Context, occasion: Occasion<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    metadata::validate(&set.metadata, &mut errors);
    template::validate(set, &mut errors);
    cliques::validate(set, context, occasion, &mut errors);
    groups::validate(set, &mut errors);
    template::validate_termination_delay(&set.spec.template, &mut errors);
    errors
}

/// The elements that occur more than once, each named once, in the order of their first occurrence.
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
