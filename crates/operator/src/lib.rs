//! The operator as a process.
//!
//! [`run`] is the constructor: a client, [`Options`] and an environment make a future that turns
//! PodCliqueSets into pods, serves the admission webhooks and keeps their certificate, takes part
//! in the election and answers health and metrics requests until it is asked to stop. Dropping it
//! is a crash.
//!
//! A controller is `observe` (caches to a plain struct), `decide` (pure, to a plan of writes) and
//! `act`, which is the same for all. The rules are in `grove-core`; this crate composes them and
//! connects them to a cluster.

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

mod api;
mod claims;
mod clique;
mod coalesce;
mod compute_domains;
mod converge;
mod crds;
mod events;
mod gang;
mod group;
mod objects;
mod options;
mod outage;
mod plan;
mod reconcile;
mod refusals;
mod registration;
mod replica;
mod run;
mod set;
mod topology;
mod webhooks;
mod world;

pub use compute_domains::PreflightError;
pub use options::{Identity, Options, WebhookAddress};
pub use run::{OperatorError, run};
