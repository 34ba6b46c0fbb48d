//! Manifests to start from.

use serde_json::{Value, json};

/// A clique of pods that need nothing.
pub fn clique(name: &str, replicas: i32) -> Value {
    json!({ "name": name, "spec": {
        "roleName": name, "replicas": replicas,
        "podSpec": { "containers": [{ "name": "c", "image": "busybox" }] },
    }})
}

/// A clique of which a part is enough.
pub fn clique_with_min(name: &str, replicas: i32, min_available: i32) -> Value {
    let mut clique = clique(name, replicas);
    clique["spec"]["minAvailable"] = json!(min_available);
    clique
}

/// A scaling group.
pub fn group(name: &str, cliques: &[&str], replicas: i32, min_available: i32) -> Value {
    json!({
        "name": name, "cliqueNames": cliques, "replicas": replicas, "minAvailable": min_available,
    })
}

/// A set with one replica.
pub fn set(name: &str, cliques: &[Value], groups: &[Value]) -> Value {
    let mut template = json!({ "cliques": cliques });
    if !groups.is_empty() {
        template["podCliqueScalingGroups"] = json!(groups);
    }
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": name },
        "spec": { "replicas": 1, "template": template },
    })
}

/// Everything that there is, small: a pod on its own next to a group of two cliques that runs
/// twice, half of it in the base gang. Five pods per replica.
pub fn small(name: &str) -> Value {
    let cliques = [clique("router", 1), clique("leader", 1), clique("worker", 1)];
    set(name, &cliques, &[group("decode", &["leader", "worker"], 2, 1)])
}

/// The small set, whose parts share claims: all copies of the group one of the set, each replica of the
/// set one of a template beside it, the copies of the group one each, the pods of the router one each,
/// and the leaders of a copy one.
pub fn sharing(name: &str) -> Value {
    let mut set = small(name);
    let entry = |name: &str, scope: &str| json!({ "name": name, "scope": scope });
    let template = &mut set["spec"]["template"];
    template["resourceClaimTemplates"] =
        json!([{ "name": "own", "templateSpec": crate::devices::template_spec() }]);
    let mut for_groups = entry("own", "AllReplicas");
    for_groups["filter"] = json!({ "childScalingGroupNames": ["decode"] });
    template["resourceSharing"] = json!([for_groups, entry("beside", "PerReplica")]);
    let mut for_workers = entry("own", "PerReplica");
    for_workers["filter"] = json!({ "childCliqueNames": ["worker"] });
    template["podCliqueScalingGroups"][0]["resourceSharing"] = json!([for_workers]);
    template["cliques"][0]["resourceSharing"] = json!([entry("own", "PerReplica")]);
    template["cliques"][1]["resourceSharing"] = json!([entry("own", "AllReplicas")]);
    set
}

/// The same set with this many replicas.
pub fn with_replicas(mut set: Value, replicas: i32) -> Value {
    set["spec"]["replicas"] = json!(replicas);
    set
}

/// The patch that gives cliques of a stored set another template: one of them, or all.
pub fn new_image(set: &Value, clique: Option<&str>, image: &str) -> Value {
    let mut cliques = set["spec"]["template"]["cliques"].clone();
    for one in cliques.as_array_mut().unwrap() {
        if clique.is_none_or(|clique| one["name"] == clique) {
            one["spec"]["podSpec"]["containers"][0]["image"] = image.into();
        }
    }
    json!({ "spec": { "template": { "cliques": cliques } } })
}
