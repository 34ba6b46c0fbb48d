//! The pure rules of the operator, shared by webhooks, controllers and the command line.
//!
//! Functions over plain data: no client, no clock, no randomness. The same input gives the same result in every
//! process and in every version.

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

pub mod admission;
pub mod children;
mod condition;
pub mod gang;
pub mod hash;
pub mod layout;
pub mod minimum;
pub mod pods;
pub mod quantity;
pub mod replicas;
pub mod revision;
pub mod start_order;
pub mod status;
pub mod termination;
pub mod topology;
pub mod update;
