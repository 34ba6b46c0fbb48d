//! The CRDs judged by real API servers: both supported Kubernetes versions.
//!
//! One control plane per version serves all tests of this binary; each test has a namespace or object
//! names of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod install;
mod kubectl;
mod plane;
mod rejections;
mod required;
mod stored;
