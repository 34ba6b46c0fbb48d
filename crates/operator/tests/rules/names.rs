//! Names: how long they may be, and that nothing is concluded from how they look.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Fixture, rules, scale};
use grove_testbed::kinds::{CLIQUES, GANGS, GROUPS, Kind, PODS, SECRETS, SERVICES, SETS};
use grove_testbed::mirror::{Namespace, State, text};
use grove_testbed::sets::{Manifest as _, clique, group, set, small};

rules! {
    names_may_have_45_characters_together,
    a_clique_name_may_be_the_suffix_of_another,
    sets_with_similar_names_do_not_touch_each_other,
    sets_of_one_name_in_two_namespaces_are_separate,
    templates_cannot_override_labels_of_the_operator,
}

async fn names_may_have_45_characters_together(fixture: Fixture, namespace: Namespace) {
    let name = "s".repeat(15);
    let (in_group, alone) = ("c".repeat(15), "a".repeat(30));
    let cliques = [clique(&in_group, 1), clique(&alone, 1)];
    let groups = [group(&"g".repeat(15), &[&in_group], 2, 1)];
    let set = set(&name, &cliques, &groups).replicas(2);
    fixture.deploy(&namespace, &set, 6).await;

    let hosts = namespace.look(|state| {
        let pods = state.of(PODS).into_iter();
        pods.map(|pod| text(&pod["spec"]["hostname"]).to_owned()).collect::<Vec<_>>()
    });
    let longest = format!("{name}-1-{}-1-{in_group}-0", "g".repeat(15));
    assert!(hosts.contains(&longest), "{hosts:?}");

    // With nothing left for others, the set itself may be as long.
    let name = "t".repeat(44);
    namespace.create(SETS, &grove_testbed::sets::set(&name, &[clique("c", 1)], &[])).await;
    namespace.until_complete(7).await;
    assert!(namespace.names(SECRETS).contains(&format!("{name}-ic-sat")));
}

async fn a_clique_name_may_be_the_suffix_of_another(fixture: Fixture, namespace: Namespace) {
    let with_image = |name: &str| clique(name, 1).image(&format!("image-of-{name}"));
    let names = ["b", "a-b", "0-b", "a-0-b", "a"];
    let cliques = names.map(with_image);
    let groups = [group("g", &["a-b"], 1, 1), group("g-0", &["a"], 1, 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &groups), 5).await;

    for (clique, name) in [
        ("x-0-b", "b"),
        ("x-0-g-0-a-b", "a-b"),
        ("x-0-0-b", "0-b"),
        ("x-0-a-0-b", "a-0-b"),
        ("x-0-g-0-0-a", "a"),
    ] {
        let object = namespace.object(CLIQUES, clique);
        assert_eq!(object["spec"]["roleName"], name, "{clique}");
        let pod = super::pod(&namespace, clique, 0);
        assert_eq!(pod["spec"]["containers"][0]["image"], format!("image-of-{name}"), "{clique}");
    }
}

/// A set and all its parts, with their versions.
fn versions(state: &State, set: &str) -> Vec<String> {
    let parts = state.objects.iter().filter(|((kind, name), object)| {
        let part_of = &object["metadata"]["labels"]["app.kubernetes.io/part-of"];
        part_of == set || (*kind == SETS && name == set)
    });
    let line = |((kind, name), object): (&(Kind, String), &Arc<Value>)| {
        format!("{} {name} {}", kind.name, object["metadata"]["resourceVersion"])
    };
    parts.map(line).collect()
}

async fn sets_with_similar_names_do_not_touch_each_other(fixture: Fixture, namespace: Namespace) {
    for name in ["a", "a-0", "a-0-0"] {
        namespace.create(SETS, &small(name).replicas(2)).await;
    }
    namespace.until_complete(30).await;
    namespace.until_gangs_run().await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let parts = |name: &str| namespace.look(|state| versions(state, name));
    let others = [parts("a"), parts("a-0-0")];
    assert_eq!(others[0].len(), others[1].len());

    scale(&namespace, SETS, "a-0", 1).await;
    namespace.until_complete(25).await;
    scale(&namespace, GROUPS, "a-0-0-decode", 3).await;
    namespace.until_complete(27).await;
    namespace.delete(SETS, "a-0").await;
    namespace.until_is("a-0 is gone", |state| versions(state, "a-0").is_empty()).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!([parts("a"), parts("a-0-0")], others);
}

async fn sets_of_one_name_in_two_namespaces_are_separate(fixture: Fixture, namespace: Namespace) {
    let others = ["b", "c"].map(|suffix| format!("{}-{suffix}", namespace.name));
    let mut all = vec![namespace.clone()];
    for other in &others {
        all.push(fixture.mirror.new_namespace(other).await);
    }
    for one in &all {
        one.create(SETS, &small("x")).await;
    }
    for one in &all {
        one.until_complete(5).await;
        one.until_gangs_run().await;
    }
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    let parts = |one: &Namespace| one.look(|state| versions(state, "x"));
    let before = parts(&all[1]);
    scale(&all[0], SETS, "x", 0).await;
    all[2].delete(SETS, "x").await;
    all[2].until_is("nothing is left", State::is_empty).await;
    all[0].until_complete(0).await;
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    assert_eq!(parts(&all[1]), before);
}

async fn templates_cannot_override_labels_of_the_operator(fixture: Fixture, namespace: Namespace) {
    let mut labelled = small("x");
    for template in labelled["spec"]["template"]["cliques"].as_array_mut().unwrap() {
        template["labels"] = json!({
            "role": "mine", "app.kubernetes.io/part-of": "y", "grove.io/podgang": "y-0",
            "app.kubernetes.io/component": "mine",
        });
        template["annotations"] = json!({ "note": "mine", "grove.io/topology-name": "mine" });
    }
    fixture.deploy(&namespace, &labelled, 5).await;

    for (clique, component) in
        [("x-0-router", "pcs-podclique"), ("x-0-decode-0-leader", "pcsg-podclique")]
    {
        let object = namespace.object(CLIQUES, clique);
        let pod = super::pod(&namespace, clique, 0);
        for metadata in [&object["metadata"], &pod["metadata"]] {
            let labels = &metadata["labels"];
            assert_eq!(labels["role"], "mine", "{clique}");
            assert_eq!(labels["app.kubernetes.io/part-of"], "x", "{clique}");
            assert_eq!(labels["grove.io/podgang"], "x-0", "{clique}");
            assert_eq!(labels["app.kubernetes.io/component"], component, "{clique}");
            assert_eq!(labels["app.kubernetes.io/name"], clique, "{clique}");
            assert_eq!(metadata["annotations"], json!({ "note": "mine" }), "{clique}");
        }
    }
    let names = [namespace.names(GANGS), namespace.names(SERVICES)].concat();
    assert!(!names.iter().any(|name| name.starts_with('y')), "{names:?}");
}
