use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodCliqueSet;
use serde_json::{Value, json};

use super::{Gang, GangPlace, Layout};
use crate::children::{self, owner};

fn set(name: &str, cliques: &[&str], groups: &Value) -> PodCliqueSet {
    let clique = |name: &&str| json!({ "name": name, "spec": { "replicas": 1 } });
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default", "uid": "u" },
        "spec": { "replicas": 1, "template": {
            "cliques": cliques.iter().map(clique).collect::<Vec<_>>(),
            "podCliqueScalingGroups": groups,
        }},
    }))
    .unwrap()
}

fn names_of(gang: &Gang<'_>) -> Vec<String> {
    gang.cliques.iter().map(|clique| clique.name.clone()).collect()
}

#[test]
fn base_gang_lists_standalone_cliques_then_the_minimum_of_each_group() {
    let groups = json!([
        { "name": "g", "cliqueNames": ["c", "b"], "replicas": 3, "minAvailable": 2 },
        { "name": "h", "cliqueNames": ["e"] },
    ]);
    let set = set("x", &["a", "b", "c", "d", "e"], &groups);
    let layout = Layout::of(&set);

    let base = layout.base_gang(1);
    let scaled = layout.scaled_gangs(1, &layout.groups()[0], 4);

    assert_eq!(base.name, "x-1");
    assert_eq!(
        names_of(&base),
        ["x-1-a", "x-1-d", "x-1-g-0-c", "x-1-g-0-b", "x-1-g-1-c", "x-1-g-1-b", "x-1-h-0-e"]
    );
    let scaled_names: Vec<_> = scaled.iter().map(|gang| gang.name.as_str()).collect();
    assert_eq!(scaled_names, ["x-1-g-0", "x-1-g-1"]);
    assert_eq!(names_of(&scaled[1]), ["x-1-g-3-c", "x-1-g-3-b"]);
    assert!(scaled.iter().all(|gang| gang.base.as_deref() == Some("x-1")));
    assert!(layout.scaled_gangs(1, &layout.groups()[0], 1).is_empty());
    assert_eq!(layout.groups()[1].min_available(), 1);
    assert_eq!((layout.replicas(), layout.groups()[0].initial_replicas()), (1, 3));
}

#[test]
fn clique_without_a_minimum_needs_all_of_its_pods() {
    let mut set = set("x", &["a"], &json!([]));
    set.spec.template.cliques[0].spec.replicas = 4;
    let of = |set: &PodCliqueSet| Layout::of(set).standalone_cliques(0)[0].min_available();
    assert_eq!(of(&set), 4);
    set.spec.template.cliques[0].spec.min_available = Some(2);
    assert_eq!(of(&set), 2);
}

#[test]
fn a_clique_whose_name_is_a_suffix_of_another_is_found_exactly() {
    let set =
        set("x", &["b", "a-b", "0-b"], &json!([{ "name": "g", "cliqueNames": ["a-b", "b"] }]));
    let layout = Layout::of(&set);
    for place in layout.standalone_cliques(0).into_iter().chain(layout.base_gang(0).cliques) {
        let object = children::pod_clique(&layout, &place, "hash", &owner::of_set(&set), None);
        let labels = object.metadata.labels.unwrap_or_default();

        assert_eq!(layout.find_clique(&place.name, &labels), Some(place.clone()));
        assert_eq!(layout.find_clique("x-0-c", &labels), None);
    }
}

#[test]
fn objects_of_a_set_with_a_common_prefix_are_not_found() {
    let short = set("a", &["0-b", "b"], &json!([]));
    let long = set("a-0", &["b"], &json!([]));
    let [short, long] = [Layout::of(&short), Layout::of(&long)];
    // Both sets have a PodClique of this name; only the label identifies its set.
    assert_eq!(short.standalone_cliques(0)[0].name, long.standalone_cliques(0)[0].name);

    let [short_labels, long_labels] = [&short, &long].map(|layout| {
        let first = &layout.standalone_cliques(0)[0];
        let owner = owner::of_set(layout.set());
        let object = children::pod_clique(layout, first, "hash", &owner, None);
        object.metadata.labels.unwrap_or_default()
    });

    assert_eq!(short.find_clique("a-0-0-b", &short_labels).unwrap().template.name, "0-b");
    assert_eq!(long.find_clique("a-0-0-b", &long_labels).unwrap().template.name, "b");
    assert_eq!(short.find_clique("a-0-0-b", &long_labels), None);
    assert_eq!(long.find_clique("a-0-0-b", &short_labels), None);
    assert_eq!(short.find_clique("a-0-0-b", &BTreeMap::new()), None);
}

#[test]
fn group_is_found_by_its_exact_name() {
    let groups = json!([{ "name": "g", "cliqueNames": [] }, { "name": "g-1", "cliqueNames": [] }]);
    let set = set("x", &[], &groups);
    let layout = Layout::of(&set);
    let object = children::scaling_group(&layout, 3, &layout.groups()[1], None);
    let labels = object.metadata.labels.unwrap_or_default();

    let found = layout.find_group("x-3-g-1", &labels).unwrap();

    assert_eq!((found.0, found.1.template.name.as_str()), (3, "g-1"));
    assert_eq!(layout.find_group("x-4-g-1", &labels), None);
}

#[test]
fn every_gang_of_the_layout_is_found_by_its_name() {
    let groups = json!([
        { "name": "g", "cliqueNames": ["a"], "minAvailable": 1 },
        { "name": "g-0", "cliqueNames": ["b"], "minAvailable": 2 },
        { "name": "0", "cliqueNames": ["c"], "minAvailable": 1 },
    ]);
    let set = set("x-0", &["a", "b", "c"], &groups);
    let layout = Layout::of(&set);
    let mut seen = BTreeSet::new();
    for set_replica in 0..12 {
        let base = layout.base_gang(set_replica);
        assert_eq!(layout.find_gang(&base.name), Some(GangPlace::Base { set_replica }));
        assert!(seen.insert(base.name));
        for group in layout.groups() {
            for group_replica in group.min_available()..12 {
                let gang = layout.scaled_gang(set_replica, group, group_replica).unwrap();
                let place = GangPlace::Scaled { set_replica, group, group_replica };
                assert_eq!(layout.find_gang(&gang.name), Some(place), "{}", gang.name);
                assert!(seen.insert(gang.name));
            }
        }
    }
    for foreign in
        ["x-0", "x-0-", "x-0-01", "x-0-1-g", "x-0-1-g-01", "x-0-1-h-0", "y-0-1", "x-0-+1"]
    {
        assert_eq!(layout.find_gang(foreign), None, "{foreign}");
    }
}
