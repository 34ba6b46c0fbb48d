//! The rules, by subject.

mod autoscaling;
mod conflicts;
mod deletion;
mod events;
mod gangs;
mod names;
mod pods;
mod refusals;
mod revisions;
pub(crate) mod rights;
mod scaling;
mod sharing;
mod start_order;
mod status;

pub(crate) use crate::support::bench::Bench;
use crate::support::bench::{Rule, cases, hold_terminating, pod, release, rules, scale};
use crate::support::cases::Case;

/// All cases.
pub(crate) fn all(bench: &Bench) -> Vec<Case> {
    let tables: [&[Rule]; 13] = [
        autoscaling::RULES,
        start_order::RULES,
        gangs::RULES,
        names::RULES,
        pods::RULES,
        refusals::RULES,
        scaling::RULES,
        sharing::RULES,
        status::RULES,
        events::RULES,
        conflicts::RULES,
        deletion::RULES,
        revisions::RULES,
    ];
    cases(bench, tables.into_iter().flatten())
}
