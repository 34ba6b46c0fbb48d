//! Random objects: parts of the complete example are removed or replaced.

use std::sync::{Arc, LazyLock};

use grove_api::{PodCliqueSet, testkit};
use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::json;

use super::*;
use crate::admission::{default, default_patch, validate_update};
use crate::topology::{Hierarchy, Level};

/// JSON pointers of all values below `value`.
fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, child)| (key.replace('~', "~0").replace('/', "~1"), child))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect()
        }
        _ => Vec::new(),
    };
    for (key, child) in children {
        let pointer = format!("{pointer}/{key}");
        pointers(child, &pointer, found);
        found.push(pointer);
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Remove,
    Replace(Value),
    /// Duplicates an element of a list.
    Repeat,
}

fn mutations() -> impl Strategy<Value = Vec<(Index, Mutation)>> {
    let mutation = prop_oneof![
        6 => Just(Mutation::Remove),
        1 => Just(Mutation::Repeat),
        1 => Just(Mutation::Replace(json!(null))),
        1 => Just(Mutation::Replace(json!([]))),
        1 => Just(Mutation::Replace(json!({}))),
        1 => any::<i32>().prop_map(|number| Mutation::Replace(json!(number))),
        1 => "\\PC{0,8}".prop_map(|text| Mutation::Replace(json!(text))),
        2 => prop_oneof!["leader", "worker", "decode", "1s", "none"]
            .prop_map(|text| Mutation::Replace(json!(text))),
    ];
    vec((any::<Index>(), mutation), 0..8)
}

fn mutate(object: &mut Value, mutations: &[(Index, Mutation)]) {
    for (index, mutation) in mutations {
        let mut places = Vec::new();
        pointers(object, "", &mut places);
        if places.is_empty() {
            return;
        }
        let place = index.get(&places);
        let (parent, key) = place.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent).unwrap(), mutation) {
            (Value::Object(map), Mutation::Remove) => {
                map.remove(&key);
            }
            (Value::Array(items), Mutation::Remove) => {
                items.remove(key.parse().unwrap());
            }
            (Value::Array(items), Mutation::Repeat) => {
                items.push(items[key.parse::<usize>().unwrap()].clone());
            }
            (Value::Object(_), Mutation::Repeat) => {}
            (_, Mutation::Replace(value)) => *object.pointer_mut(place).unwrap() = value.clone(),
            (other, _) => panic!("{other} has no children"),
        }
    }
}

/// The complete example without the status, which admission does not read.
static COMPLETE: LazyLock<Value> = LazyLock::new(|| {
    let mut set = testkit::every_field_examples().swap_remove(0);
    remove(&mut set, "status");
    set
});

fn defaulted(set: &PodCliqueSet) -> PodCliqueSet {
    let mut set = set.clone();
    default(&mut set);
    set
}

fn topologies() -> [SetTopology; 6] {
    let level =
        |domain: &str| Level { domain: domain.to_owned(), key: format!("example.com/{domain}") };
    let levels = ["zone", "rack", "host"].map(level).to_vec();
    let hierarchy = Arc::new(Hierarchy { name: "grove-topology".to_owned(), levels });
    [
        SetTopology::Disabled,
        SetTopology::Unnamed,
        SetTopology::NotFound,
        SetTopology::Unknown,
        SetTopology::Binding(hierarchy.clone()),
        SetTopology::Managed(hierarchy),
    ]
}

proptest! {
    #[test]
    fn admission_never_panics_and_defaulting_is_idempotent(mutations in mutations()) {
        let mut raw = COMPLETE.clone();
        mutate(&mut raw, &mutations);

        let patch = default_patch(&raw);
        let decoded = decode(&raw);

        prop_assert_eq!(patch.is_ok(), decoded.is_ok());
        if let (Ok(patch), Ok(set)) = (patch, decoded) {
            let once = defaulted(&set);
            prop_assert_eq!(&defaulted(&once), &once);
            let mut patched = raw.clone();
            json_patch::patch(&mut patched, &patch).unwrap();
            prop_assert!(default_patch(&patched).unwrap().0.is_empty());
            prop_assert_eq!(decode(&patched).unwrap(), once.clone());

            let original = decode(&COMPLETE).unwrap();
            for set in [&set, &once] {
                for topology in topologies() {
                    validate_create(set, &context(), &topology);
                    validate_update(set, &original, &context(), &topology);
                    validate_update(&original, set, &context(), &topology);
                }
            }
        }
    }
}

#[test]
fn an_update_without_changes_is_accepted() {
    let set = decode(&good()).unwrap();

    let validation = validate_update(&set, &set, &context(), &SetTopology::Disabled);

    assert_eq!(validation.message(), None);
}
