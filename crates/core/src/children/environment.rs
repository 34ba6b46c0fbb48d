//! Environment variables of containers.
//!
//! Ours come first, because Kubernetes expands `$(NAME)` only for variables that are defined earlier in the
//! list. A user's variable of the same name is dropped.

use grove_api::{env, labels};
use serde_json::{Map, Value, json};

/// Variables of every pod of a group member. Name and index come from the pod's labels, so that the pod spec is
/// the same in every replica of the group.
pub(crate) fn of_group_member(template_pods: u32) -> [Value; 3] {
    [
        from_label(env::PCSG_NAME, labels::POD_CLIQUE_SCALING_GROUP),
        literal(env::PCSG_TEMPLATE_NUM_PODS, &template_pods.to_string()),
        from_label(env::PCSG_INDEX, labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX),
    ]
}

/// A variable with a fixed value.
pub(crate) fn literal(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

/// A variable with the value of a label of the pod.
pub(crate) fn from_label(name: &str, label: &str) -> Value {
    let path = format!("metadata.labels['{label}']");
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

/// Prepends variables to every container and init container of a pod spec.
pub(crate) fn prepend(pod_spec: &mut Map<String, Value>, variables: &[Value]) {
    for list in ["initContainers", "containers"] {
        let containers = pod_spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let theirs = container.remove("env");
            let kept = theirs.as_ref().and_then(Value::as_array).into_iter().flatten();
            let ours = |other: &Value| variables.iter().any(|one| one["name"] == other["name"]);
            let kept = kept.filter(|other| !ours(other));
            let all: Vec<_> = variables.iter().chain(kept).cloned().collect();
            container.insert("env".to_owned(), Value::Array(all));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_come_first_and_replace_variables_of_the_same_name() {
        let user = json!([{ "name": "A", "value": "$(X)" }, { "name": "X", "value": "theirs" }]);
        let mut spec = json!({
            "containers": [{ "name": "a", "env": user }, { "name": "b" }, { "name": "c", "env": null }],
            "initContainers": [{ "name": "i", "env": [{ "name": "Y" }] }],
        });
        let variables = [literal("X", "1"), literal("Y", "2")];

        prepend(spec.as_object_mut().unwrap(), &variables);

        let names = |container: &Value| {
            let env = container["env"].as_array().unwrap();
            env.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&spec["containers"][0]), ["X", "Y", "A"]);
        assert_eq!(names(&spec["containers"][1]), ["X", "Y"]);
        assert_eq!(names(&spec["containers"][2]), ["X", "Y"]);
        assert_eq!(names(&spec["initContainers"][0]), ["X", "Y"]);
        assert_eq!(spec["containers"][0]["env"][0]["value"], "1");
    }

    #[test]
    fn pod_spec_without_containers_stays_as_it_is() {
        let mut spec = Map::new();

        prepend(&mut spec, &of_group_member(3));

        assert!(spec.is_empty());
    }
}
