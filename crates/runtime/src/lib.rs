//! How every Grove process talks to Kubernetes. This crate knows nothing about Grove's own kinds.
//!
//! ```text
//!  API server ──watch──► store ──changed keys──► queue ──one task per key──► reconcile
//!      ▲                   ▲                       │ held until the caches       │ plan
//!      └──────────────── writer ◄───────────────── fence ◄───────────────────────┘
//!                          └─ asks the lease right before every write
//! ```
//!
//! A process is a future made by a constructor that is handed a client, a configuration and an
//! environment (clock, randomness, spawner). Dropping it is a crash that leaves nothing behind.

pub mod admission;
pub mod backoff;
pub mod cache;
pub mod certificates;
pub mod class;
pub mod client;
pub mod clock;
pub mod controller;
pub mod converge;
pub mod endpoint;
pub mod events;
pub mod fence;
pub mod health;
pub mod lease;
pub mod logs;
pub mod merge;
pub mod metrics;
pub mod object;
pub mod plan;
pub mod pool;
pub mod presence;
pub mod process;
pub mod profiling;
pub mod queue;
pub mod report;
pub mod resource;
pub mod rng;
pub mod serve;
pub mod store;
pub mod tasks;
pub mod view;
pub mod wake;
pub mod watch;
pub mod write;
