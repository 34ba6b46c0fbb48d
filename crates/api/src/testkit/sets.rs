//! Manifests of sets to start from, and their fields to chain: `clique("a", 3).min_available(2)`.

use serde_json::{Value, json};

/// A clique of pods that need nothing.
pub fn clique(name: &str, replicas: i32) -> Value {
    json!({ "name": name, "spec": {
        "roleName": name, "replicas": replicas,
        "podSpec": { "containers": [{ "name": "c", "image": "busybox" }] },
    }})
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

/// A small set with a standalone pod beside a group of two cliques that runs twice, half of it in the base gang.
/// A replica has five pods.
pub fn small(name: &str) -> Value {
    let cliques = [clique("router", 1), clique("leader", 1), clique("worker", 1)];
    set(name, &cliques, &[group("decode", &["leader", "worker"], 2, 1)])
}

/// Sets fields of the manifest of a set or clique.
pub trait Manifest {
    /// Replicas of a set or clique.
    #[must_use]
    fn replicas(self, replicas: i32) -> Self;
    /// The minimum of a clique.
    #[must_use]
    fn min_available(self, min_available: i32) -> Self;
    /// The image of the first container of a clique.
    #[must_use]
    fn image(self, image: &str) -> Self;
    /// The cliques before a clique.
    #[must_use]
    fn starts_after(self, cliques: &[&str]) -> Self;
    /// The start order of a set: `AnyOrder`, `InOrder` or `Explicit`.
    #[must_use]
    fn start_order(self, order: &str) -> Self;
    /// The termination delay of a set.
    #[must_use]
    fn termination_delay(self, delay: &str) -> Self;
    /// The update strategy of a set.
    #[must_use]
    fn update_strategy(self, strategy: &str) -> Self;
    /// The scheduler of every clique of a set.
    #[must_use]
    fn scheduler(self, name: &str) -> Self;
}

impl Manifest for Value {
    fn replicas(mut self, replicas: i32) -> Self {
        self["spec"]["replicas"] = json!(replicas);
        self
    }

    fn min_available(mut self, min_available: i32) -> Self {
        self["spec"]["minAvailable"] = json!(min_available);
        self
    }

    fn image(mut self, image: &str) -> Self {
        self["spec"]["podSpec"]["containers"][0]["image"] = json!(image);
        self
    }

    fn starts_after(mut self, cliques: &[&str]) -> Self {
        self["spec"]["startsAfter"] = json!(cliques);
        self
    }

    fn start_order(mut self, order: &str) -> Self {
        self["spec"]["template"]["cliqueStartupType"] = json!(format!("CliqueStartupType{order}"));
        self
    }

    fn termination_delay(mut self, delay: &str) -> Self {
        self["spec"]["template"]["terminationDelay"] = json!(delay);
        self
    }

    fn update_strategy(mut self, strategy: &str) -> Self {
        self["spec"]["updateStrategy"] = json!({ "type": strategy });
        self
    }

    fn scheduler(mut self, name: &str) -> Self {
        for clique in self["spec"]["template"]["cliques"].as_array_mut().into_iter().flatten() {
            clique["spec"]["podSpec"]["schedulerName"] = json!(name);
        }
        self
    }
}
