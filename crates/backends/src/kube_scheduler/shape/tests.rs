use std::collections::BTreeSet;

use grove_api::pod_gang::NamespacedName;
use serde_json::{Value, json};

use super::*;
use crate::objects::testkit::Given;

/// A gang with these minima, and constraint groups of some of its members.
fn gang(minima: &[i32], configs: &[(&str, &[usize])]) -> PodGang {
    let name = |index: usize| format!("x-0-m{index}");
    let members: Vec<Value> = minima
        .iter()
        .enumerate()
        .map(|(index, min)| json!({ "name": name(index), "minReplicas": min, "podReferences": [] }))
        .collect();
    let configs: Vec<Value> = configs
        .iter()
        .map(|(config, members)| {
            let members: Vec<_> = members.iter().map(|index| name(*index)).collect();
            json!({ "name": config, "podGroupNames": members,
                "topologyConstraint": { "packConstraint": { "required": "rack" } } })
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": "x-0", "namespace": "ns", "uid": "gang" },
        "spec": { "podgroups": members, "topologyConstraintGroupConfigs": configs },
    }))
    .unwrap()
}

fn shape(gang: &PodGang) -> Shape {
    Shape::of(gang, Api::Composite, &Given::default())
}

/// The templates below each composite, and that none has more than a Workload takes.
fn templates(shape: &Shape) -> Vec<(String, usize)> {
    let below = |composite: &Composite| {
        let groups: BTreeSet<_> = shape.below(&composite.name).map(|one| &one.template).collect();
        let inner: BTreeSet<_> =
            shape.composites_below(Some(&composite.name)).map(|one| &one.template).collect();
        assert!(groups.len() <= TEMPLATES && inner.len() <= TEMPLATES, "{}", composite.name);
        let children = shape.below(&composite.name).count()
            + shape.composites_below(Some(&composite.name)).count();
        assert_eq!(composite.min_group_count, children, "{} wants all", composite.name);
        (composite.name.clone(), groups.len() + inner.len())
    };
    shape.composites.iter().map(below).collect()
}

fn named(all: &[(&str, usize)]) -> Vec<(String, usize)> {
    all.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

#[test]
fn equal_groups_share_a_template_when_there_are_many() {
    let few = shape(&gang(&[1, 1, 1], &[]));
    assert_eq!(templates(&few), named(&[("x-0", 3)]));
    let many = shape(&gang(&[1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2], &[]));
    assert_eq!(many.groups.len(), 12);
    assert_eq!(templates(&many), named(&[("x-0", 2)]));
}

#[test]
fn groups_that_exceed_the_templates_are_split_into_composites() {
    let minima: Vec<i32> = (1..=12).collect();
    let split = shape(&gang(&minima, &[]));
    let parts = named(&[("x-0-part-0", 8), ("x-0-part-1", 4), ("x-0", 2)]);
    assert_eq!(templates(&split), parts);
    assert!(split.groups.iter().all(|group| group.parent.is_some()));

    // Below a constraint as well.
    let inner: Vec<usize> = (0..10).collect();
    let split = shape(&gang(&minima, &[("c", &inner)]));
    let parts = named(&[("x-0-c-part-0", 8), ("x-0-c-part-1", 2), ("x-0-c", 2), ("x-0", 3)]);
    assert_eq!(templates(&split), parts);
}

#[test]
fn equal_composites_share_a_template() {
    let minima: Vec<i32> = (0..20).map(|index| 1 + index % 2).collect();
    let pairs: Vec<[usize; 2]> = (0..10).map(|index| [2 * index, 2 * index + 1]).collect();
    let names: Vec<String> = (0..10).map(|index| format!("c{index}")).collect();
    let configs: Vec<(&str, &[usize])> =
        names.iter().zip(&pairs).map(|(name, pair)| (name.as_str(), pair.as_slice())).collect();
    let shared = shape(&gang(&minima, &configs));
    assert_eq!(shared.composites.len(), 11);
    templates(&shared);
    let of_groups: BTreeSet<_> = shared.groups.iter().map(|group| &group.template).collect();
    assert_eq!(of_groups.len(), 2, "those below the first composite");
}

#[test]
fn a_gang_that_no_workload_can_describe_is_flat() {
    let minima: Vec<i32> = (1..=65).collect();
    let gang = gang(&minima, &[]);
    assert_eq!(Form::of(&gang, Api::Composite, &Given::default()), Form::Flat);
    let flat = shape(&gang);
    let reported: Vec<_> =
        flat.groups.iter().map(|one| (one.name.as_str(), one.min_count)).collect();
    assert_eq!(reported, [("x-0", minima.iter().sum()), ("x-0-extra", 0)]);
}

#[test]
fn a_gang_that_had_pods_before_its_groups_gets_none() {
    let new = gang(&[1, 2], &[]);
    let mut listed = new.clone();
    listed.spec.pod_groups[0].pod_references.push(NamespacedName::default());
    let complete = json!({ "conditions": [{ "type": "Initialized", "status": "True" }] });
    let mut initialized = new.clone();
    initialized.status = serde_json::from_value(complete).unwrap();
    let form = |gang: &PodGang, objects: &Given| Form::of(gang, Api::Composite, objects);
    let nothing = Given::default();
    assert_eq!(form(&new, &nothing), Form::Tree);
    assert_eq!(form(&listed, &nothing), Form::Unreported);
    assert_eq!(form(&initialized, &nothing), Form::Unreported);
    let owner = json!({ "apiVersion": "v1", "kind": "PodGang", "name": "x-0", "uid": "gang",
        "controller": true });
    let workload = json!({ "metadata": { "name": "x-0", "namespace": "ns",
        "ownerReferences": [owner] } });
    let reported = Given::default().with(Api::Composite.workloads(), workload);
    assert_eq!(form(&listed, &reported), Form::Tree, "the Workload is there");
}

#[test]
fn names_of_templates_are_short_and_differ() {
    assert_eq!(template_name("serve-0-worker"), "serve-0-worker");
    let long = "a".repeat(70);
    for name in [long.as_str(), "with.dots", &format!("{long}b")] {
        let safe = template_name(name);
        assert!(safe.len() <= LABEL_LENGTH && !safe.contains('.'), "{safe}");
    }
    assert_ne!(template_name(&long), template_name(&format!("{long}b")));
}
