//! Keys that a type does not know.
//!
//! Every struct of this crate ends in a flattened [`Unknown`]. Decoding puts the left-over keys there,
//! encoding writes them back, so a read-modify-write by this version never drops a field of a newer
//! version. It is not part of the schema: the known fields alone decide what a CRD may contain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Left-over keys of one JSON object, kept verbatim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Unknown(pub BTreeMap<String, Value>);

#[cfg(test)]
mod tests;
