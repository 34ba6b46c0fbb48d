//! The operator as a process.
//!
//! [`run`] is the constructor: a client, [`Options`] and an environment make a future that serves
//! the admission webhooks, keeps their certificates, takes part in the election and answers health
//! and metrics requests until it is asked to stop. Dropping it is a crash.
//!
//! The rules that webhooks apply are in `grove-core`; this crate connects them to a cluster.

mod crds;
mod options;
mod registration;
mod run;
mod views;
mod webhooks;

pub use options::{Identity, Options, WebhookAddress};
pub use run::{OperatorError, run};
