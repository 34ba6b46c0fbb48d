//! The PodGroup of a gang.

use std::collections::BTreeMap;

use grove_api::pod_gang::TranslatedConstraint;
use grove_api::{PodGang, annotations as keys};
use serde_json::{Map, Value, json};

use super::{NODE_POOL, POD_GROUPS, QUEUE, SKIP_POD_GROUPER};
use crate::objects::{SchedulerObject, owner};

/// The fields of `spec` that Grove owns: `null` where there must be no value.
pub(super) fn spec(gang: &PodGang, topology: Option<&str>) -> Result<Map<String, Value>, String> {
    let spec = &gang.spec;
    let constraint = |one: Option<&TranslatedConstraint>| constraint(one, topology);
    let whole = constraint(spec.topology_constraint.as_ref())?;
    let mut parents = BTreeMap::<&str, &str>::new();
    let mut sub_groups = Vec::new();
    for group in &spec.topology_constraint_group_configs {
        if group.pod_group_names.is_empty() {
            continue;
        }
        parents.extend(group.pod_group_names.iter().map(|name| (&**name, &*group.name)));
        sub_groups.push(json!({
            "name": group.name,
            "minSubGroup": group.pod_group_names.len(),
            "topologyConstraint": constraint(group.topology_constraint.as_ref())?,
        }));
    }
    for clique in &spec.pod_groups {
        sub_groups.push(json!({
            "name": clique.name,
            "minMember": clique.min_replicas,
            "parent": parents.get(&*clique.name),
            "topologyConstraint": constraint(clique.topology_constraint.as_ref())?,
        }));
    }
    let all = spec.pod_groups.iter().map(|clique| clique.min_replicas).sum::<i32>();
    let fields = [
        ("minMember", json!(all)),
        ("priorityClassName", json!(spec.priority_class_name)),
        ("topologyConstraint", whole.unwrap_or_else(|| levels(None, None, None))),
        ("subGroups", Value::Array(sub_groups)),
    ];
    Ok(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The desired group. An existing group keeps what KAI and its users decide: its queue, its node pool and
/// every field that Grove does not own.
pub(super) fn object(
    gang: &PodGang,
    mut spec: Map<String, Value>,
    queue: &str,
    live: Option<&SchedulerObject>,
) -> Value {
    let mut labels = gang.metadata.labels.clone().unwrap_or_default();
    let mut annotations = gang.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(SKIP_POD_GROUPER.to_owned(), "true".to_owned());
    annotations.remove(keys::MIRRORED_KEYS);
    annotations.remove(keys::TERMINATING_POD_CLIQUES);
    annotations.remove(keys::RECREATED_REPLICAS);
    let stored = live.map_or(&Value::Null, |live| &live.object);
    if stored["spec"]["queue"].as_str().is_none_or(str::is_empty) {
        spec.insert("queue".to_owned(), json!(queue));
    }
    for key in [QUEUE, NODE_POOL] {
        let value = stored["metadata"]["labels"][key].as_str();
        if value.is_some_and(|value| !value.is_empty()) {
            labels.remove(key);
        }
    }
    if let Some(sub_groups) = spec.get_mut("subGroups").and_then(Value::as_array_mut) {
        for one in sub_groups {
            keep_unknown(one, &stored["spec"]["subGroups"]);
        }
    }
    json!({
        "apiVersion": POD_GROUPS.api_version(),
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": gang.metadata.name,
            "namespace": gang.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(gang)],
        },
        "spec": spec,
    })
}

/// Adds the unknown fields of the stored subgroup of the same name, because lists are written whole.
fn keep_unknown(wanted: &mut Value, stored: &Value) {
    let mut stored = stored.as_array().into_iter().flatten();
    let known = stored.find(|one| one["name"] == wanted["name"]).cloned();
    let mut merged = known.unwrap_or_else(|| json!({}));
    json_patch::merge(&mut merged, wanted);
    *wanted = merged;
}

/// The constraint of KAI. One without levels would keep KAI from placing anything, so it is omitted. So is a mere
/// preference in a topology that is no longer there, which a gang may have kept.
fn constraint<'g>(
    given: Option<&'g TranslatedConstraint>,
    topology: Option<&str>,
) -> Result<Option<Value>, String> {
    let Some(pack) = given.and_then(|given| given.pack_constraint.as_ref()) else {
        return Ok(None);
    };
    let level = |level: Option<&'g String>| level.map(String::as_str).filter(|one| !one.is_empty());
    let (required, preferred) = (level(pack.required.as_ref()), level(pack.preferred.as_ref()));
    if required.is_none() && (preferred.is_none() || topology.is_none()) {
        return Ok(None);
    }
    let topology =
        topology.ok_or("topology name cannot be empty when topology constraints are defined")?;
    Ok(Some(levels(Some(topology), required, preferred)))
}

fn levels(topology: Option<&str>, required: Option<&str>, preferred: Option<&str>) -> Value {
    json!({
        "topology": topology,
        "requiredTopologyLevel": required,
        "preferredTopologyLevel": preferred,
    })
}
