//! Where the pods of a gang are, and whether its required constraints are kept.
//!
//! A constraint of a gang names a node label key: the nodes of all its pods have to agree on the value. A node
//! without the label is in no domain, so a pod on it violates the constraint.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use grove_api::pod_gang::{PodGangSpec, PodGroup, TranslatedConstraint};

/// Labels of a node.
pub type NodeLabels = BTreeMap<String, String>;

/// Where the bound pods of a gang are, for every part of it that can have a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement<'a> {
    /// The whole gang.
    pub gang: Placed<'a>,
    /// Replicas of scaling groups, by the name of their entry in `topologyConstraintGroupConfigs`.
    pub groups: BTreeMap<&'a str, Placed<'a>>,
    /// Cliques, by name.
    pub cliques: BTreeMap<&'a str, Placed<'a>>,
}

/// Where the bound pods of one part are, by the levels of its constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed<'a> {
    /// By the level that they have to share a domain of.
    pub required: Option<Spread<'a>>,
    /// By the level that they should share a domain of.
    pub preferred: Option<Spread<'a>>,
}

/// The domains of one level that pods are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread<'a> {
    /// Node label key of the level.
    pub key: &'a str,
    /// Values of the label.
    pub domains: BTreeSet<&'a str>,
    /// Names of the pods on nodes without the label.
    pub outside: BTreeSet<&'a str>,
}

/// Where the pods of a gang are. `node` has the labels of the node that a pod, given by name, is bound to; pods
/// without a node do not count.
pub fn placement<'a>(
    gang: &'a PodGangSpec,
    node: impl Fn(&str) -> Option<&'a NodeLabels>,
) -> Placement<'a> {
    let bound = |group: &'a PodGroup| {
        let pods = group.pod_references.iter().map(|pod| pod.name.as_str());
        pods.filter_map(|pod| Some((pod, node(pod)?))).collect::<Vec<_>>()
    };
    let cliques: BTreeMap<_, _> =
        gang.pod_groups.iter().map(|group| (group.name.as_str(), bound(group))).collect();
    let members = |names: &[String]| {
        let members = names.iter().filter_map(|name| cliques.get(name.as_str()));
        members.flatten().copied().collect::<Vec<_>>()
    };
    let groups = gang.topology_constraint_group_configs.iter().map(|group| {
        let pods = members(&group.pod_group_names);
        (group.name.as_str(), Placed::of(group.topology_constraint.as_ref(), &pods))
    });
    let groups = groups.collect();
    let all: Vec<_> = cliques.values().flatten().copied().collect();
    let cliques = gang.pod_groups.iter().map(|group| {
        let pods = cliques.get(group.name.as_str()).map_or(&[][..], Vec::as_slice);
        (group.name.as_str(), Placed::of(group.topology_constraint.as_ref(), pods))
    });
    Placement {
        gang: Placed::of(gang.topology_constraint.as_ref(), &all),
        groups,
        cliques: cliques.collect(),
    }
}

impl Placement<'_> {
    /// The required constraints that are not kept: the part, and where its pods are.
    pub fn violations(&self) -> Vec<String> {
        let gang = ("gang".to_owned(), &self.gang);
        let groups = self.groups.iter().map(|(name, placed)| (format!("group {name}"), placed));
        let cliques = self.cliques.iter().map(|(name, placed)| (format!("clique {name}"), placed));
        let parts = [gang].into_iter().chain(groups).chain(cliques);
        parts
            .filter_map(|(part, placed)| Some(format!("{part}: {}", placed.violation()?)))
            .collect()
    }
}

impl<'a> Placed<'a> {
    fn of(
        constraint: Option<&'a TranslatedConstraint>,
        pods: &[(&'a str, &'a NodeLabels)],
    ) -> Self {
        let pack = constraint.and_then(|constraint| constraint.pack_constraint.as_ref());
        let spread = |key: Option<&'a str>| Some(Spread::of(key?, pods));
        Self {
            required: pack.and_then(|pack| spread(pack.required.as_deref())),
            preferred: pack.and_then(|pack| spread(pack.preferred.as_deref())),
        }
    }

    /// Where the pods are instead of in one domain of the required level.
    pub fn violation(&self) -> Option<&Spread<'a>> {
        self.required.as_ref().filter(|spread| !spread.is_packed())
    }
}

impl<'a> Spread<'a> {
    fn of(key: &'a str, pods: &[(&'a str, &'a NodeLabels)]) -> Self {
        let mut spread = Self { key, domains: BTreeSet::new(), outside: BTreeSet::new() };
        for &(pod, labels) in pods {
            match labels.get(key) {
                Some(domain) => spread.domains.insert(domain),
                None => spread.outside.insert(pod),
            };
        }
        spread
    }

    /// Whether all pods are in one domain. True without pods.
    pub fn is_packed(&self) -> bool {
        self.domains.len() <= 1 && self.outside.is_empty()
    }
}

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        write!(f, "{}: [{}]", self.key, list(&self.domains))?;
        if self.outside.is_empty() {
            return Ok(());
        }
        write!(f, ", on nodes without the label: [{}]", list(&self.outside))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const RACK: &str = "example.com/rack";
    const HOST: &str = "kubernetes.io/hostname";

    fn pack(required: Option<&str>, preferred: Option<&str>) -> Value {
        json!({ "packConstraint": { "required": required, "preferred": preferred } })
    }

    /// Cliques a, b and c with two pods each; a and b are one replica of a group.
    fn gang(own: &Value, group: &Value, clique: &Value) -> PodGangSpec {
        let member = |name: &str| {
            let pods = [0, 1].map(|n| json!({ "namespace": "ns", "name": format!("{name}-{n}") }));
            json!({ "name": name, "minReplicas": 2, "podReferences": pods })
        };
        let mut members = ["a", "b", "c"].map(member);
        members[2]["topologyConstraint"] = clique.clone();
        serde_json::from_value(json!({
            "podgroups": members,
            "topologyConstraint": own,
            "topologyConstraintGroupConfigs": [
                { "name": "g-0", "podGroupNames": ["a", "b", "gone"], "topologyConstraint": group },
            ],
        }))
        .unwrap()
    }

    /// Pods by name, on nodes of a rack, or without the label.
    fn nodes(pods: &[(&str, &str)]) -> BTreeMap<String, NodeLabels> {
        let labels = |rack: &str| {
            let rack = (!rack.is_empty()).then(|| (RACK.to_owned(), rack.to_owned()));
            rack.into_iter().collect()
        };
        pods.iter().map(|(pod, rack)| ((*pod).to_owned(), labels(rack))).collect()
    }

    /// What it is; the constraints of gang, group and clique c; pods and their racks; violations.
    type Case<'a> = (&'a str, [&'a Value; 3], &'a [(&'a str, &'a str)], &'a [&'a str]);

    #[test]
    fn a_required_constraint_is_kept_when_the_pods_of_its_part_share_a_domain() {
        let (rack, none) = (pack(Some(RACK), None), Value::Null);
        let spread = [("a-0", "r1"), ("a-1", "r1"), ("b-0", "r2"), ("c-0", "r3"), ("c-1", "r3")];
        let cases: [Case<'_>; 11] = [
            ("no constraint", [&none, &none, &none], &spread, &[]),
            ("nothing is bound", [&rack, &rack, &rack], &[], &[]),
            ("one pod", [&rack, &rack, &rack], &[("a-0", "r1")], &[]),
            (
                "one rack",
                [&rack, &rack, &rack],
                &[("a-0", "r1"), ("b-1", "r1"), ("c-0", "r1"), ("c-1", "r1")],
                &[],
            ),
            (
                "the gang in three racks",
                [&rack, &none, &none],
                &spread,
                &["gang: example.com/rack: [r1, r2, r3]"],
            ),
            (
                "the group in two",
                [&none, &rack, &none],
                &spread,
                &["group g-0: example.com/rack: [r1, r2]"],
            ),
            ("the clique in one", [&none, &none, &rack], &spread, &[]),
            (
                "a group and a clique in a rack each",
                [&none, &rack, &rack],
                &[("a-0", "r1"), ("b-0", "r1"), ("c-0", "r2"), ("c-1", "r2")],
                &[],
            ),
            (
                "the clique in two",
                [&none, &none, &rack],
                &[("c-0", "r1"), ("c-1", "r2")],
                &["clique c: example.com/rack: [r1, r2]"],
            ),
            (
                "a node without the label",
                [&none, &none, &rack],
                &[("c-0", "r1"), ("c-1", "")],
                &["clique c: example.com/rack: [r1], on nodes without the label: [c-1]"],
            ),
            (
                "only nodes without the label",
                [&none, &none, &rack],
                &[("c-1", "")],
                &["clique c: example.com/rack: [], on nodes without the label: [c-1]"],
            ),
        ];
        for (what, [own, group, clique], pods, expected) in cases {
            let (gang, nodes) = (gang(own, group, clique), nodes(pods));
            let placement = placement(&gang, |pod| nodes.get(pod));
            assert_eq!(placement.violations(), expected, "{what}");
        }
    }

    #[test]
    fn a_preferred_constraint_is_never_violated_and_shows_its_own_domains() {
        let own = pack(Some(RACK), Some(HOST));
        let gang = gang(&own, &Value::Null, &pack(None, Some(RACK)));
        let mut nodes = nodes(&[("a-0", "r1"), ("c-0", "r1"), ("c-1", "r1")]);
        for (pod, host) in [("a-0", "h1"), ("c-0", "h2")] {
            nodes.get_mut(pod).unwrap().insert(HOST.to_owned(), host.to_owned());
        }

        let placement = placement(&gang, |pod| nodes.get(pod));

        assert_eq!(placement.violations(), [""; 0]);
        let preferred = placement.gang.preferred.as_ref().unwrap();
        assert_eq!(preferred.domains, BTreeSet::from(["h1", "h2"]));
        assert_eq!(preferred.outside, BTreeSet::from(["c-1"]));
        assert!(!preferred.is_packed());
        let clique = &placement.cliques["c"];
        assert_eq!((&clique.required, clique.violation()), (&None, None));
        assert!(clique.preferred.as_ref().is_some_and(Spread::is_packed));
        assert_eq!(placement.cliques["a"], Placed::default());
        assert_eq!(placement.groups["g-0"], Placed::default());
    }

    proptest! {
        /// What holds for the whole gang holds for its parts, with the same level.
        #[test]
        fn a_packed_gang_has_packed_groups_and_cliques(
            racks in prop::collection::vec(prop::option::of("(r[12])?"), 6)
        ) {
            let rack = pack(Some(RACK), None);
            let gang = gang(&rack, &rack, &rack);
            let names = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"];
            let bound: Vec<_> = names.into_iter().zip(&racks)
                .filter_map(|(pod, rack)| Some((pod, rack.as_deref()?))).collect();
            let nodes = nodes(&bound);

            let placement = placement(&gang, |pod| nodes.get(pod));

            let is_packed = |placed: &Placed<'_>| placed.violation().is_none();
            let parts = placement.groups.values().chain(placement.cliques.values());
            if is_packed(&placement.gang) {
                prop_assert!(placement.violations().is_empty());
                prop_assert!(parts.into_iter().all(is_packed));
            }
            let distinct: BTreeSet<_> = bound.iter().map(|(_, rack)| *rack).collect();
            let expected = distinct.len() <= 1 && !distinct.contains("");
            prop_assert_eq!(is_packed(&placement.gang), expected);
        }
    }
}
