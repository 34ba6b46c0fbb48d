//! References to a claim in a pod spec: one for the pod, and one for every container that uses it.

use serde_json::{Map, Value, json};

/// Adds a claim to a pod spec and to the selected containers. Existing references are not repeated.
pub(crate) fn add(
    pod_spec: &mut Map<String, Value>,
    claim: Value,
    wants: impl Fn(&Map<String, Value>) -> bool,
) {
    let reference = json!({ "name": claim["name"] });
    for containers in ["initContainers", "containers"] {
        let containers = pod_spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            if wants(container) {
                let resources = container.entry("resources").or_insert(Value::Null);
                push(object(resources), "claims", reference.clone());
            }
        }
    }
    push(pod_spec, "resourceClaims", claim);
}

/// Whether a pod spec references a claim.
pub(crate) fn has(pod_spec: &Map<String, Value>, name: &str) -> bool {
    let claims = pod_spec.get("resourceClaims").and_then(Value::as_array);
    claims.into_iter().flatten().any(|claim| claim["name"] == name)
}

fn push(fields: &mut Map<String, Value>, key: &str, item: Value) {
    let list = fields.entry(key).or_insert(Value::Null);
    // A template may contain `null`, which means no list.
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && list.iter().all(|one| one["name"] != item["name"])
    {
        list.push(item);
    }
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_containers_reference_a_claim_once_and_keep_their_other_claims() {
        let mut spec = json!({
            "resourceClaims": [{ "name": "theirs", "resourceClaimName": "t" }],
            "containers": [
                { "name": "a", "resources": { "limits": { "cpu": "1" }, "claims": [{ "name": "c" }] } },
                { "name": "b", "resources": null },
                { "name": "no" },
            ],
            "initContainers": [{ "name": "i", "resources": { "claims": null } }],
        });
        let claim = json!({ "name": "c", "resourceClaimName": "c" });

        for _ in 0..2 {
            let spec = spec.as_object_mut().unwrap();
            add(spec, claim.clone(), |container| container["name"] != "no");
        }

        let named = json!([{ "name": "c" }]);
        let expected = json!({
            "resourceClaims": [{ "name": "theirs", "resourceClaimName": "t" }, claim],
            "containers": [
                { "name": "a", "resources": { "limits": { "cpu": "1" }, "claims": named } },
                { "name": "b", "resources": { "claims": named } },
                { "name": "no" },
            ],
            "initContainers": [{ "name": "i", "resources": { "claims": named } }],
        });
        assert_eq!(spec, expected);
    }
}
