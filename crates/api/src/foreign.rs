//! Kinds of other projects, reduced to the fields that Grove reads or writes.
//!
//! Everything else in such an object ends up in its unknown keys and is written back unchanged. One module
//! per project, or per API version where versions differ.

pub mod compute_domain;
pub mod kai;
pub mod scheduling;
pub mod scheduling_v1alpha2;
pub mod scheduling_v1alpha3;
pub mod scheduling_v1beta1;
pub mod volcano;
