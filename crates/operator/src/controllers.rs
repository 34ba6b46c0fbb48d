//! The controllers, one folder each, and the modules that they share.

pub(crate) mod claims;
pub(crate) mod clique;
pub(crate) mod compute_domains;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod gang;
pub(crate) mod group;
pub(crate) mod outage;
pub(crate) mod problems;
pub(crate) mod refusals;
pub(crate) mod replica;
pub(crate) mod set;
pub(crate) mod topology;

pub use compute_domains::PreflightError;
