//! The operator as a process.
//!
//! [`run`] is the constructor: a client, [`Options`] and an environment make a future that turns
//! PodCliqueSets into pods, serves the admission webhooks and keeps their certificate, takes part in leader
//! election and answers health and metrics requests until shutdown. Dropping it is a crash.
//!
//! | Module | What it has |
//! |---|---|
//! | `start` | the parts of the process, in the order in which they depend on each other |
//! | `caches` | what the operator caches, and how objects are found |
//! | `controllers` | one folder per controller: `wake`, `observe`, `decide` |
//! | `webhooks` | admission, and its registration |
//! | `identity` | the users that the operator acts as |
//!
//! The rules are in `grove-core`; this crate composes them and connects them to a cluster.

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

mod caches;
mod controllers;
mod crds;
mod identity;
mod options;
mod start;
mod webhooks;

pub use controllers::PreflightError;
pub use options::{Identity, Options, WebhookAddress};
pub use start::{OperatorError, run};
