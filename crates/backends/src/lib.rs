//! Schedulers behind one contract.
//!
//! A PodGang says which pods belong together; a [`Backend`] translates it to the objects of one
//! scheduler. The operator finds the backend of a workload in the [`Registry`] and calls it in four
//! places: admission ([`Backend::validate`]), each PodGang ([`Backend::sync_pod_gang`] and
//! [`Backend::pod_gang_deleted`]), and the creation of pods ([`Backend::prepare_pods`]). Everything else,
//! from gates to status, is the same for all of them. The desired objects of a scheduler are a pure function
//! of the gang and of the stored objects ([`Backend::plan`]); the operator caches and watches those objects.
//! Topology objects of a scheduler work in the same way ([`Backend::topology`]).
//!
//! A new backend is a module here and a line in [`Registry::new`], or a program of its own that the operator
//! calls over HTTPS (`remote`); [`conformance`] checks whether such a program keeps the contract.

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

pub mod conformance;
mod contract;
mod error;
mod kai_scheduler;
mod kube_scheduler;
mod lpx_scheduler;
mod objects;
mod registry;
mod remote;
mod topology;
mod volcano;

pub use contract::{
    Backend, CallContext, Capabilities, GangInput, Limitation, NewPods, PodPart, PodProgress,
    PodRules, Preparation, SchedulerObjects, SucceededPods,
};
pub use error::{BackendError, BackendFailure};
pub use objects::{SchedulerCaches, SchedulerObject, owner};
pub use registry::{Registry, RegistryError};
pub use topology::{Drift, Topology, TopologyPart};

/// The page for those who write a backend; its example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/backends.md")]
struct Page;
