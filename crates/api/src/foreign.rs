//! Kinds of other projects of which core rules build objects, reduced to the fields that Grove reads or
//! writes. Everything else in such an object ends up in its unknown keys and is written back unchanged.
//!
//! Objects of schedulers are not here: their backends read and write them as JSON.

pub mod compute_domain;
