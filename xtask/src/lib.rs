//! The real Kubernetes control plane as plain processes, for commands and for tests.
//!
//! [`tools`] builds etcd, the Kubernetes programs and KWOK once from pinned Go modules;
//! [`cluster`] starts them on loopback and stops them. Everything blocks and uses threads, so
//! that `cargo xtask` starts without an async runtime; only the `client` feature adds one for
//! tests that want a typed client. Knows nothing about Grove.

pub mod cluster;
pub mod poll;
pub mod rows;
pub mod tools;
