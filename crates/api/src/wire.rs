//! Small serde functions shared by the wire types.

use serde::{Deserialize, Deserializer};

/// Decodes `null` like an absent key. Go servers write `null` for empty lists, and templated manifests
/// contain keys without a value.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a counter is left out of the JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
pub(crate) fn is_zero(value: &i32) -> bool {
    *value == 0
}
