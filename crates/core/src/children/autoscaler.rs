//! Horizontal pod autoscalers of the cliques and groups with a `scaleConfig`.

use grove_api::{
    GROUP, PodClique, PodCliqueScalingGroup, VERSION, labels::Component, names,
    pod_clique::AutoScalingConfig,
};
use serde_json::{Map, Value, json};

use super::metadata_of_set;
use crate::layout::Layout;

/// The autoscalers of one replica of a set: for standalone cliques, then for groups, in template order.
pub fn autoscalers(layout: &Layout<'_>, set_replica: u32) -> Vec<Value> {
    let cliques = layout.standalone_cliques(set_replica).into_iter().filter_map(|clique| {
        let config = clique.template.spec.auto_scaling_config.as_ref()?;
        Some(autoscaler(layout, PodClique::KIND, &clique.name, config))
    });
    let groups = layout.groups().iter().filter_map(|group| {
        let config = group.template.scale_config.as_ref()?;
        let target = layout.scaling_group_name(set_replica, group);
        Some(autoscaler(layout, PodCliqueScalingGroup::KIND, &target, config))
    });
    cliques.chain(groups).collect()
}

fn autoscaler(
    layout: &Layout<'_>,
    target_kind: &str,
    target: &str,
    config: &AutoScalingConfig,
) -> Value {
    let mut spec = Map::new();
    let mut put = |key: &str, value: Value| spec.insert(key.to_owned(), value);
    put(
        "scaleTargetRef",
        json!({ "apiVersion": format!("{GROUP}/{VERSION}"), "kind": target_kind, "name": target }),
    );
    if let Some(min_replicas) = config.min_replicas {
        put("minReplicas", min_replicas.into());
    }
    put("maxReplicas", config.max_replicas.into());
    if !config.metrics.is_empty() {
        put("metrics", config.metrics.clone().into());
    }
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata_of_set(layout, Component::Autoscaler, names::autoscaler(target)),
        "spec": spec,
    })
}
