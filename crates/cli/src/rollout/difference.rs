//! Where two templates differ, by the path of the field.

use std::collections::BTreeSet;

use serde_json::Value;

/// One line per field that differs: `path: before -> after`. Entries of lists are paired by their name where
/// all have one, else by place.
pub(super) fn difference(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", before, after, &mut lines);
    lines
}

fn compare(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&child(path, key), &before[key], &after[key], lines);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            if let (Some(names), Some(new_names)) = (named(old), named(new)) {
                let stay = |names: &[&str], others: &[&str]| {
                    let stay = names.iter().filter(|name| others.contains(name));
                    stay.copied().collect::<Vec<_>>().join(", ")
                };
                let orders = (stay(&names, &new_names), stay(&new_names, &names));
                if orders.0 != orders.1 {
                    lines.push(format!("{path}: the order: {} -> {}", orders.0, orders.1));
                }
                let added = new_names.iter().filter(|name| !names.contains(name));
                for name in names.iter().chain(added) {
                    let path = format!("{path}[{name}]");
                    compare(&path, entry(old, name), entry(new, name), lines);
                }
            } else {
                for place in 0..old.len().max(new.len()) {
                    let path = format!("{path}[{place}]");
                    compare(&path, item(old, place), item(new, place), lines);
                }
            }
        }
        _ => lines.push(format!("{path}: {} -> {}", shown(before), shown(after))),
    }
}

/// Keys with dots in them, such as labels, are quoted.
fn child(path: &str, key: &str) -> String {
    if key.contains(['.', '/']) {
        format!("{path}[{key:?}]")
    } else if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The names of the entries of a list, if all have one and no two the same.
fn named(list: &[Value]) -> Option<Vec<&str>> {
    let names: Option<Vec<&str>> = list.iter().map(|one| one["name"].as_str()).collect();
    names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
}

fn entry<'v>(list: &'v [Value], name: &str) -> &'v Value {
    list.iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn item(list: &[Value], place: usize) -> &Value {
    list.get(place).unwrap_or(&Value::Null)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_shown_by_path_and_list_entries_by_name() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), vec!["a.b: 1 -> 2"]),
            (json!({"a": 1}), json!({}), vec!["a: 1 -> nothing"]),
            (json!({}), json!({"a": {"b": "x"}}), vec![r#"a: nothing -> {"b":"x"}"#]),
            (
                json!({"labels": {"team.io/x": "a"}}),
                json!({"labels": {"team.io/x": "b"}}),
                vec![r#"labels["team.io/x"]: "a" -> "b""#],
            ),
            (
                json!({"c": [{"name": "x", "image": "a"}, {"name": "y", "image": "b"}]}),
                json!({"c": [{"name": "x", "image": "a"}, {"name": "y", "image": "c"}]}),
                vec![r#"c[y].image: "b" -> "c""#],
            ),
            (
                json!({"c": [{"name": "x"}, {"name": "y"}]}),
                json!({"c": [{"name": "z"}, {"name": "x"}]}),
                vec![r#"c[y]: {"name":"y"} -> nothing"#, r#"c[z]: nothing -> {"name":"z"}"#],
            ),
            (
                json!({"c": [{"name": "x"}, {"name": "y"}]}),
                json!({"c": [{"name": "y"}, {"name": "x"}]}),
                vec!["c: the order: x, y -> y, x"],
            ),
            (
                json!({"args": ["a", "b"]}),
                json!({"args": ["a", "c", "d"]}),
                vec![r#"args[1]: "b" -> "c""#, r#"args[2]: nothing -> "d""#],
            ),
        ];
        for (before, after, expected) in cases {
            assert_eq!(difference(&before, &after), expected, "{before} {after}");
        }
    }
}
