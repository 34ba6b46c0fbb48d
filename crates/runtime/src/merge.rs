//! JSON merge patches between objects.

use serde_json::{Map, Value};

/// The patch that makes a live object say everything that `wanted` says; nothing when it does. Fields
/// that `wanted` does not name are left alone, a `null` removes a field, and lists are taken whole.
pub fn missing(live: &Value, wanted: &Value) -> Option<Value> {
    if let (Value::Object(live), Value::Object(wanted)) = (live, wanted) {
        let patch: Map<String, Value> = wanted
            .iter()
            .filter_map(|(key, wanted)| {
                let change = missing(live.get(key).unwrap_or(&Value::Null), wanted)?;
                Some((key.clone(), change))
            })
            .collect();
        return (!patch.is_empty()).then_some(Value::Object(patch));
    }
    let same = live == wanted || (live.is_null() && is_left_out(wanted));
    (!same).then(|| wanted.clone())
}

/// Whether the API server leaves such a value out.
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
    fn only_what_differs_is_written_and_keys_of_others_stay() {
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
        for (wanted, expected) in cases {
            assert_eq!(missing(&live, &wanted), expected, "{wanted}");
        }
    }
}
