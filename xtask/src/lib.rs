//! The real Kubernetes control plane as plain processes, for commands and for tests.
//!
//! [`tools`] builds etcd, the Kubernetes programs and KWOK once from pinned Go modules; [`cluster`] starts
//! them on loopback and stops them. All calls block and use threads, so that `cargo xtask` starts without an
//! async runtime; only the `client` feature adds one for tests with a typed client. This crate knows nothing
//! about Grove.

pub mod cluster;
pub mod poll;
pub mod rows;
pub mod tools;
