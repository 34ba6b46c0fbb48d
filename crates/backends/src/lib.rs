//! Schedulers behind one contract.
//!
//! Grove says which pods belong together; a [`Backend`] tells one scheduler, in that scheduler's own
//! objects. The operator finds the backend of a workload in the [`Registry`] and calls it at four
//! places: admission ([`Backend::validate`]), each PodGang ([`Backend::sync_pod_gang`] and
//! [`Backend::pod_gang_deleted`]), and each set of pods about to be created
//! ([`Backend::prepare_pods`]). Everything else, from gates to status, is the same for all of them.
//!
//! A new backend is a module here and a line in [`Registry::new`].

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

mod contract;
mod kube_scheduler;
mod registry;

pub use contract::{Backend, BackendError, Cluster, Preparation};
pub use registry::{Registry, RegistryError};
