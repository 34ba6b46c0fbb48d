//! Schedulers behind one contract.
//!
//! Grove says which pods belong together; a [`Backend`] tells one scheduler, in that scheduler's own
//! objects. The operator finds the backend of a workload in the [`Registry`] and calls it at four
//! places: admission ([`Backend::validate`]), each PodGang ([`Backend::sync_pod_gang`] and
//! [`Backend::pod_gang_deleted`]), and each set of pods about to be created
//! ([`Backend::prepare_pods`]). Everything else, from gates to status, is the same for all of them.
//! What a backend wants its scheduler to know is a pure function of the gang and of the scheduler's
//! objects ([`Backend::plan`]); the operator keeps those objects in memory and watches them. A scheduler
//! with topology objects of its own is told about topologies in the same way ([`Backend::topology`]).
//!
//! A new backend is a module here and a line in [`Registry::new`], or a program of its own that is asked over
//! HTTPS ([`Remote`]); [`conformance`] finds out whether such a program keeps the contract.

#![allow(clippy::doc_markdown, reason = "names of kinds are ordinary words here")]

pub mod conformance;
mod contract;
mod kai_scheduler;
mod kube_scheduler;
mod lpx_scheduler;
mod objects;
mod registry;
mod remote;
mod topology;
mod volcano;

pub use contract::{
    Backend, BackendError, Capabilities, Cluster, Ended, Gang, Handling, Limit, Objects, Pods,
    Preparation, Progress,
};
pub use objects::{Cached, SchedulerObject, converge, owner};
pub use registry::{Registry, RegistryError};
pub use remote::Remote;
pub use topology::{Drift, Topology, TopologyPart};

/// The page for those who write a backend; its example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/backends.md")]
struct Page;
