//! Everything Grove puts on the wire or reads from it: the kinds it serves, the narrow parts of foreign
//! kinds it touches, names, labels, error codes, the operator configuration and the CRDs.
//!
//! The crate is pure: no client, no async, no clock. Two rules hold for every type in it:
//!
//! * Decoding and encoding again keeps every key that the type does not know (see [`unknown`]), so an
//!   older operator never erases the fields of a newer one.
//! * Decoding does not insist on required keys or known enum values. The API server checks the schema;
//!   admission sees objects before that check and has to be able to read them.

#![allow(
    clippy::doc_markdown,
    reason = "names of kinds are ordinary words here, and field docs become CRD descriptions"
)]

pub mod annotations;
pub mod cluster_topology;
pub mod cluster_topology_binding;
pub mod condition;
pub mod config;
pub mod crd;
pub mod duration;
pub mod env;
pub mod error_code;
pub mod field_error;
pub mod finalizers;
pub mod foreign;
pub mod init_container;
pub mod labels;
pub mod names;
mod open_enum;
pub mod pod_clique;
pub mod pod_clique_scaling_group;
pub mod pod_clique_set;
pub mod pod_gang;
pub mod pod_spec;
mod resource;
pub mod schema;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod topology_constraint;
pub mod unknown;
mod wire;

pub use cluster_topology::ClusterTopology;
pub use cluster_topology_binding::ClusterTopologyBinding;
pub use config::OperatorConfiguration;
pub use pod_clique::PodClique;
pub use pod_clique_scaling_group::PodCliqueScalingGroup;
pub use pod_clique_set::PodCliqueSet;
pub use pod_gang::PodGang;

/// API group of the kinds that users and the operator write.
pub const GROUP: &str = "grove.io";
/// API group of the kinds that the operator hands to schedulers.
pub const SCHEDULER_GROUP: &str = "scheduler.grove.io";
/// The only version of every Grove kind.
pub const VERSION: &str = "v1alpha1";
/// Kubernetes minor versions that Grove is built for and tested on.
pub const KUBERNETES_VERSIONS: [&str; 2] = ["1.36", "1.37"];
