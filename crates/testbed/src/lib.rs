//! What tests on a real control plane share. Only tests use this crate.
//!
//! | Module | Contents |
//! |---|---|
//! | [`cluster`] | a control plane with the service account of the process under test |
//! | [`process`] | a process that runs as a task of the test |
//! | [`operator`] | the operator as such a process (feature `operator`) |
//! | [`program`] | a child process and the lines that it prints |
//! | [`requests`] | the requests that a process sends |
//! | [`mirror`] | a live copy of the objects of the cluster, to wait on |
//! | [`normalized`] | the objects of a namespace without values that differ between runs |
//! | [`invariants`] | which deletes are justified, and what a converged set looks like |
//! | [`table`], [`fixture`] | tables of rules that run side by side |
//! | [`kinds`], [`sets`], [`devices`], [`reference_backend`] | things to create and to run |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "code of tests: it fails by panicking, prints what a failed test shows, and owns its tasks"
)]

pub mod cluster;
pub mod devices;
pub mod fixture;
pub mod invariants;
pub mod kinds;
pub mod mirror;
pub mod normalized;
#[cfg(feature = "operator")]
pub mod operator;
#[cfg(feature = "operator")]
pub mod placement;
pub mod process;
pub mod program;
pub mod reference_backend;
pub mod requests;
pub mod sets;
pub mod table;
pub mod topology;

use std::time::Duration;

use grove_runtime::clock::Clock;

/// Longer than any step takes; a test that reaches it has failed.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a future until the deadline, and fails with `what` did not happen.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = Clock::system().timeout(DEADLINE, future).await;
    waited.unwrap_or_else(|| panic!("{what}: not within {} s", DEADLINE.as_secs()))
}
