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

pub(crate) use grove_testbed::fixture::Fixture;
use grove_testbed::fixture::{Rule, hold_terminating, pod, release, scale};
use grove_testbed::rules;

pub(crate) const TABLES: [&[Rule]; 13] = [
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
