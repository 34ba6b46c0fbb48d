//! The sets to deploy, and the expected state of each.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::progress::{Goal, Kind};

/// A shape of PodCliqueSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// One clique of two pods: every replica is a gang of two.
    A,
    /// Three roles, two of them in a scaling group of two: 2 + 2 × (1 + 8) pods, two gangs.
    B,
    /// One clique of ten pods.
    Ten,
    /// Two cliques of two pods each.
    Pair,
}

impl Shape {
    /// Pods of one replica.
    pub(crate) fn pods(self) -> u32 {
        match self {
            Self::A => 2,
            Self::B => 20,
            Self::Ten => 10,
            Self::Pair => 4,
        }
    }

    /// Cliques of one replica.
    pub(crate) fn cliques(self) -> u32 {
        match self {
            Self::A | Self::Ten => 1,
            Self::B => 5,
            Self::Pair => 2,
        }
    }

    /// The expected state with `replicas`; without a set, no objects.
    pub(crate) fn goal(self, replicas: Option<u32>) -> Goal {
        let (groups, gangs) = match self {
            Self::A | Self::Ten | Self::Pair => (0, 1),
            Self::B => (1, 2),
        };
        let count = replicas.unwrap_or_default();
        let objects = BTreeMap::from([
            (Kind::Set, u32::from(replicas.is_some())),
            (Kind::Clique, count * self.cliques()),
            (Kind::Group, count * groups),
            (Kind::Gang, count * gangs),
            (Kind::Service, count),
        ]);
        Goal { pods: count * self.pods(), base_gang: self.base_gang(), objects }
    }

    /// Pods of the base gang of a replica.
    fn base_gang(self) -> u32 {
        match self {
            Self::A => 2,
            Self::B => 11,
            Self::Ten => 10,
            Self::Pair => 4,
        }
    }

    /// The manifest.
    pub(crate) fn set(self, name: &str, replicas: u32) -> Value {
        let template = match self {
            Self::A => json!({ "cliques": [clique("worker", 2)] }),
            Self::Ten => json!({ "cliques": [clique("worker", 10)] }),
            Self::Pair => json!({ "cliques": [clique("prefill", 2), clique("decode", 2)] }),
            Self::B => json!({
                "cliques": [clique("router", 2), clique("leader", 1), clique("worker", 8)],
                "podCliqueScalingGroups": [{
                    "name": "model",
                    "cliqueNames": ["leader", "worker"],
                    "replicas": 2,
                    "minAvailable": 1,
                }],
            }),
        };
        json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": { "name": name },
            "spec": { "replicas": replicas, "template": template },
        })
    }
}

fn clique(name: &str, replicas: u32) -> Value {
    let container =
        json!({ "name": "main", "image": "image", "resources": { "requests": { "cpu": "10m" } } });
    json!({
        "name": name,
        "spec": { "roleName": name, "replicas": replicas, "podSpec": { "containers": [container] } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods and cliques of one replica, counted in the manifest.
    fn counted(shape: Shape) -> (u64, u64) {
        let set = shape.set("x", 1);
        let template = &set["spec"]["template"];
        let group = &template["podCliqueScalingGroups"][0];
        let of_group = |name: &Value| {
            let names = group["cliqueNames"].as_array();
            names.is_some_and(|names| names.contains(name))
        };
        let cliques = template["cliques"].as_array().unwrap().iter();
        cliques.fold((0, 0), |(pods, count), clique| {
            let times =
                if of_group(&clique["name"]) { group["replicas"].as_u64().unwrap() } else { 1 };
            (pods + times * clique["spec"]["replicas"].as_u64().unwrap(), count + times)
        })
    }

    #[test]
    fn pods_and_cliques_of_a_replica_match_its_manifest() {
        for shape in [Shape::A, Shape::B, Shape::Ten, Shape::Pair] {
            let counts = (u64::from(shape.pods()), u64::from(shape.cliques()));
            assert_eq!(counts, counted(shape), "{shape:?}");
        }
    }

    #[test]
    fn a_goal_grows_with_the_replicas_and_is_empty_without_the_set() {
        let goal = Shape::B.goal(Some(50));
        assert_eq!(goal.pods, 1000);
        let counts: Vec<u32> = goal.objects.into_values().collect();
        assert_eq!(counts, [1, 250, 50, 100, 50]);
        let empty = Shape::B.goal(Some(0));
        assert_eq!((empty.pods, empty.objects[&Kind::Set]), (0, 1));
        assert_eq!(Shape::B.goal(None).objects.into_values().sum::<u32>(), 0);
    }
}
