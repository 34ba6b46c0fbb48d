use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodCliqueSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{is_needed, parents};
use crate::layout::{Gang, Layout};

fn set(startup: &str, cliques: &Value, groups: &Value) -> PodCliqueSet {
    serde_json::from_value(json!({
        "metadata": { "name": "x" },
        "spec": { "replicas": 1, "template": {
            "cliqueStartupType": startup,
            "cliques": cliques,
            "podCliqueScalingGroups": groups,
        }},
    }))
    .unwrap()
}

fn clique(name: &str, starts_after: &[&str]) -> Value {
    let spec = json!({ "replicas": 3, "minAvailable": 2, "startsAfter": starts_after });
    json!({ "name": name, "spec": spec })
}

/// Parents of every PodClique of a gang, by name.
fn order(layout: &Layout<'_>, gang: &Gang<'_>) -> BTreeMap<String, Vec<String>> {
    let names = |clique| parents(layout, clique).into_iter().map(|parent| parent.pod_clique);
    gang.cliques.iter().map(|clique| (clique.name.clone(), names(clique).collect())).collect()
}

fn all(layout: &Layout<'_>, group_replicas: u32) -> BTreeMap<String, Vec<String>> {
    let mut gangs = vec![layout.base_gang(0)];
    for group in layout.groups() {
        gangs.extend(layout.scaled_gangs(0, group, group_replicas));
    }
    gangs.iter().flat_map(|gang| order(layout, gang)).collect()
}

#[test]
fn order_of_the_template_is_kept_inside_each_gang() {
    let cliques = json!([clique("a", &[]), clique("b", &[]), clique("c", &[])]);
    let group = json!([{ "name": "g", "cliqueNames": ["b", "c"], "minAvailable": 2 }]);
    let set = set("CliqueStartupTypeInOrder", &cliques, &group);

    let order = all(&Layout::of(&set), 3);

    assert!(is_needed(&Layout::of(&set)));
    let both = vec!["x-0-g-0-b".to_owned(), "x-0-g-1-b".to_owned()];
    let expected = [
        ("x-0-a", vec![]),
        ("x-0-g-0-b", vec!["x-0-a".to_owned()]),
        ("x-0-g-1-b", vec!["x-0-a".to_owned()]),
        ("x-0-g-0-c", both.clone()),
        ("x-0-g-1-c", both),
        ("x-0-g-2-b", vec![]),
        ("x-0-g-2-c", vec!["x-0-g-2-b".to_owned()]),
    ];
    let expected = expected.map(|(name, parents)| (name.to_owned(), parents));
    assert_eq!(order, BTreeMap::from(expected));
}

#[test]
fn explicit_parents_keep_their_order_and_carry_their_minimum() {
    let cliques = json!([clique("a", &[]), clique("b", &[]), clique("c", &["b", "a"])]);
    let group = json!([{ "name": "g", "cliqueNames": ["b"], "minAvailable": 1 }]);
    let set = set("CliqueStartupTypeExplicit", &cliques, &group);
    let layout = Layout::of(&set);

    let found = parents(&layout, &layout.standalone_cliques(0)[1]);

    let found: Vec<_> =
        found.iter().map(|parent| (parent.pod_clique.as_str(), parent.min_available)).collect();
    assert_eq!(found, [("x-0-g-0-b", 2), ("x-0-a", 2)]);
}

#[test]
fn any_order_has_no_parents_even_when_cliques_name_some() {
    let cliques = json!([clique("a", &[]), clique("b", &["a"])]);
    for startup in ["CliqueStartupTypeAnyOrder", ""] {
        let set = set(startup, &cliques, &json!([]));

        assert!(all(&Layout::of(&set), 0).values().all(Vec::is_empty));
        assert!(!is_needed(&Layout::of(&set)));
    }
}

/// Whether every PodClique can start after its parents.
fn can_start(order: &BTreeMap<String, Vec<String>>) -> bool {
    let mut started = BTreeSet::new();
    while started.len() < order.len() {
        let ready = |parents: &Vec<String>| parents.iter().all(|parent| started.contains(parent));
        let next: Vec<_> = order
            .iter()
            .filter(|(name, parents)| !started.contains(*name) && ready(parents))
            .map(|(name, _)| name.clone())
            .collect();
        if next.is_empty() {
            return false;
        }
        started.extend(next);
    }
    true
}

/// Sets of up to five cliques: which group each is in (or none), which earlier ones it starts after, the
/// minimum of the groups, and the startup type.
fn sets() -> impl Strategy<Value = PodCliqueSet> {
    let cliques = prop::collection::vec((0_usize..3, any::<[bool; 5]>()), 1..6);
    (cliques, 1_i32..4, any::<bool>()).prop_map(|(cliques, min, in_order)| {
        let name = |index: usize| format!("c{index}");
        let template = |(index, (_, after)): (usize, &(usize, [bool; 5]))| {
            let after: Vec<_> = (0..index).filter(|&i| after[i]).map(name).collect();
            clique(&name(index), &after.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let group = |number: usize| {
            let members: Vec<_> =
                (0..cliques.len()).filter(|&i| cliques[i].0 == number).map(name).collect();
            json!({ "name": format!("g{number}"), "cliqueNames": members, "minAvailable": min })
        };
        let startup =
            if in_order { "CliqueStartupTypeInOrder" } else { "CliqueStartupTypeExplicit" };
        let templates: Value = cliques.iter().enumerate().map(template).collect();
        set(startup, &templates, &json!([group(1), group(2)]))
    })
}

proptest! {
    #[test]
    fn every_gang_can_start_without_other_gangs(set in sets()) {
        let layout = Layout::of(&set);
        let mut gangs = vec![layout.base_gang(0)];
        for group in layout.groups() {
            gangs.extend(layout.scaled_gangs(0, group, 5));
        }

        for gang in &gangs {
            let order = order(&layout, gang);
            let inside = |parent: &String| order.contains_key(parent);
            prop_assert!(order.values().flatten().all(inside), "{order:?}");
            prop_assert!(can_start(&order), "{order:?}");
        }
    }
}
