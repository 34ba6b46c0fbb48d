//! JSON merge patches between objects.

use serde_json::{Map, Value};

/// Returns the patch that brings `live` to the desired values, or nothing when it has them. Fields that the
/// desired object does not contain stay as they are, `null` removes a field, and lists are replaced whole.
pub fn missing(live: &Value, desired: &Value) -> Option<Value> {
    if let (Value::Object(live), Value::Object(desired)) = (live, desired) {
        let patch: Map<String, Value> = desired
            .iter()
            .filter_map(|(key, desired)| {
                let change = missing(live.get(key).unwrap_or(&Value::Null), desired)?;
                Some((key.clone(), change))
            })
            .collect();
        return (!patch.is_empty()).then_some(Value::Object(patch));
    }
    let same = live == desired || (live.is_null() && is_left_out(desired));
    (!same).then(|| desired.clone())
}

/// Whether the API server omits such a value.
fn is_left_out(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_left_out),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_patch_contains_only_differences_and_keeps_foreign_keys() {
        let live = json!({"metadata": {"labels": {"ours": "1", "theirs": "x"}},
            "spec": {"list": [1], "defaulted": 5, "old": "x"}});
        let cases = [
            (json!({"metadata": {"labels": {"ours": "1"}}, "spec": {"list": [1]}}), None),
            (
                json!({"metadata": {"labels": {"ours": "2"}}, "spec": {"list": [1, 2]}}),
                Some(json!({"metadata": {"labels": {"ours": "2"}}, "spec": {"list": [1, 2]}})),
            ),
            (json!({"spec": {"left out when empty": "", "off": false, "map": {}}}), None),
            (json!({"spec": {"new": {"a": 1}}}), Some(json!({"spec": {"new": {"a": 1}}}))),
            (json!({"spec": {"old": null, "never": null}}), Some(json!({"spec": {"old": null}}))),
        ];
        for (desired, expected) in cases {
            assert_eq!(missing(&live, &desired), expected, "{desired}");
        }
    }
}
