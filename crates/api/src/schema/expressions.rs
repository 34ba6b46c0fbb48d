//! The CEL rules of our CRDs (`x-kubernetes-validations`), each as a function of its own.
//!
//! They are few and short, so none of them is interpreted. A test fails when a CRD has a rule that is not
//! here.

use serde_json::Value;

use crate::field_error::FieldError;

/// The errors of those rules of a schema node that a value breaks.
pub(super) fn broken(schema: &Value, value: &Value, path: &str) -> Vec<FieldError> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let broken = rules.filter(|rule| {
        let text = rule["rule"].as_str().unwrap_or_default();
        holds(text).is_some_and(|holds| !holds(value))
    });
    broken.map(|rule| error(rule, value, path)).collect()
}

fn error(rule: &Value, value: &Value, path: &str) -> FieldError {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let path = format!("{path}{}", text("fieldPath"));
    let below = text("fieldPath").replace('.', "/");
    if text("reason") == "FieldValueRequired" {
        return FieldError::required(path, text("message"));
    }
    let value = value.pointer(&below).unwrap_or(value);
    FieldError::invalid(path, value.clone(), text("message"))
}

/// The function that decides a rule.
pub(super) fn holds(rule: &str) -> Option<fn(&Value) -> bool> {
    let function: fn(&Value) -> bool = match rule {
        "has(self.pack) || has(self.packDomain)" => {
            |this| has(this, "/pack") || has(this, "/packDomain")
        }
        "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))" => {
            |this| !(has(this, "/packDomain") && has(this, "/pack/required"))
        }
        "has(self.required) || has(self.preferred)" => {
            |this| has(this, "/required") || has(this, "/preferred")
        }
        "self.all(x, self.filter(y, y.domain == x.domain).size() == 1)" => {
            |this| is_unique(this, "domain")
        }
        "self.all(x, self.filter(y, y.key == x.key).size() == 1)" => |this| is_unique(this, "key"),
        _ => return None,
    };
    Some(function)
}

fn has(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).is_some_and(|child| !child.is_null())
}

fn is_unique(list: &Value, key: &str) -> bool {
    let values: Vec<_> = list.as_array().into_iter().flatten().map(|item| &item[key]).collect();
    values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PACK: &str = "has(self.required) || has(self.preferred)";
    const EITHER: &str = "has(self.pack) || has(self.packDomain)";
    const NOT_BOTH: &str = "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))";
    const DOMAINS: &str = "self.all(x, self.filter(y, y.domain == x.domain).size() == 1)";
    const KEYS: &str = "self.all(x, self.filter(y, y.key == x.key).size() == 1)";

    #[test]
    fn rules_hold_and_break_as_their_expressions_say() {
        for (rule, value, expected) in [
            (PACK, json!({"required": "rack"}), true),
            (PACK, json!({"preferred": "rack"}), true),
            (PACK, json!({}), false),
            (EITHER, json!({"pack": {}}), true),
            (EITHER, json!({"packDomain": "rack"}), true),
            (EITHER, json!({"topologyName": "t"}), false),
            (NOT_BOTH, json!({"packDomain": "rack", "pack": {"preferred": "rack"}}), true),
            (NOT_BOTH, json!({"packDomain": "rack", "pack": {"required": "rack"}}), false),
            (DOMAINS, json!([{"domain": "a"}, {"domain": "b"}]), true),
            (DOMAINS, json!([{"domain": "a"}, {"domain": "a"}]), false),
            (KEYS, json!([{"key": "a"}, {"key": "b"}]), true),
            (KEYS, json!([{"key": "a"}, {"key": "b"}, {"key": "a"}]), false),
        ] {
            assert_eq!(holds(rule).unwrap()(&value), expected, "{rule}: {value}");
        }
    }

    #[test]
    fn messages_name_the_field_that_the_rule_names() {
        let schema = json!({"x-kubernetes-validations": [
            {"rule": EITHER, "message": "say where", "fieldPath": ".pack", "reason": "FieldValueRequired"},
            {"rule": NOT_BOTH, "message": "one only", "fieldPath": ".pack.required"},
        ]});
        let text = |value: Value| {
            broken(&schema, &value, "spec").iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(text(json!({})), ["spec.pack: Required value: say where"]);
        assert_eq!(
            text(json!({"packDomain": "rack", "pack": {"required": "host"}})),
            ["spec.pack.required: Invalid value: \"host\": one only"]
        );
    }
}
