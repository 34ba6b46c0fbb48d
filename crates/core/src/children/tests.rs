//! All objects of two complete examples, and the rules that the examples do not show.

use std::collections::BTreeMap;

use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet, testkit};
use serde_json::{Value, json};

use super::{
    autoscalers, headless_service, owner, pod_clique, role, role_binding, scaling_group,
    service_account, token_secret,
};
use crate::{
    gang,
    hash::pod_template_hashes,
    layout::{Clique, Layout},
    pods::{PodContext, draft, finish},
    start_order,
    topology::SetTopology,
};

/// The documented minimal set after defaulting.
fn demo() -> PodCliqueSet {
    let mut set: PodCliqueSet =
        serde_json::from_value(testkit::worked_examples()[1].clone()).unwrap();
    set.metadata.name = Some("demo".to_owned());
    set.metadata.uid = Some("uid-of-demo".to_owned());
    set.status = None;
    set
}

/// A set with start order, autoscaling, user metadata and variables.
fn simple1() -> PodCliqueSet {
    let pod_spec = json!({
        "containers": [{ "name": "main", "image": "app", "env": [{ "name": "A", "value": "1" }] }],
    });
    let clique = |name: &str, replicas: i32, min_available: i32| {
        json!({
            "name": name,
            "labels": { "role": name, "app.kubernetes.io/component": "overridden" },
            "annotations": { "note": name, "grove.io/topology-name": "stripped" },
            "spec": {
                "roleName": name, "replicas": replicas, "minAvailable": min_available, "podSpec": pod_spec,
            },
        })
    };
    let mut frontend = clique("frontend", 3, 2);
    let metric = json!({ "type": "Resource", "resource": { "name": "cpu" } });
    frontend["spec"]["autoScalingConfig"] =
        json!({ "minReplicas": 2, "maxReplicas": 6, "metrics": [metric] });
    serde_json::from_value(json!({
        "metadata": {
            "name": "simple1", "namespace": "default", "uid": "uid-of-simple1",
            "labels": { "team": "a" }, "annotations": { "grove.io/mnnvl-group": "m" },
        },
        "spec": { "replicas": 1, "template": {
            "cliqueStartupType": "CliqueStartupTypeInOrder",
            "priorityClassName": "high",
            "cliques": [frontend, clique("prefill", 2, 2), clique("decode", 2, 1)],
            "podCliqueScalingGroups": [{
                "name": "workers", "cliqueNames": ["prefill", "decode"], "replicas": 2, "minAvailable": 1,
                "annotations": { "own": "x" }, "scaleConfig": { "maxReplicas": 4 },
            }],
        }},
    }))
    .unwrap()
}

fn stored<T: serde::de::DeserializeOwned>(object: &impl serde::Serialize) -> T {
    let mut object = serde_json::to_value(object).unwrap();
    let uid = format!("uid-of-{}", object["metadata"]["name"].as_str().unwrap());
    object["metadata"]["uid"] = json!(uid);
    serde_json::from_value(object).unwrap()
}

fn pod(layout: &Layout<'_>, place: &Clique<'_>, pod_clique: &PodClique) -> Value {
    let context = PodContext {
        set: layout.set_name(),
        set_replica: place.set_replica,
        pod_clique,
        parents: &start_order::parents(layout, place),
        init_image: Some("initc:1"),
    };
    let mut pod = draft(&context, 0).unwrap();
    finish(&context, 0, &mut pod).unwrap();
    pod
}

/// Every child of replica 0, by kind and name, with the first pod of each PodClique.
fn all(set: &PodCliqueSet) -> BTreeMap<String, Value> {
    let layout = Layout::of(set);
    let hashes = pod_template_hashes(layout.template());
    let mut objects = vec![
        headless_service(&layout, 0),
        service_account(&layout),
        role(&layout),
        role_binding(&layout),
        token_secret(&layout),
    ];
    objects.extend(autoscalers(&layout, 0));
    let mut cliques: Vec<_> = layout.standalone_cliques(0).into_iter().collect();
    let mut gangs = vec![layout.base_gang(0)];
    let mut owners = BTreeMap::new();
    for group in layout.groups() {
        let object = scaling_group(&layout, 0, group, None);
        let live: PodCliqueScalingGroup = stored(&object);
        owners.insert(layout.scaling_group_name(0, group), owner::of_scaling_group(&live));
        objects.push(serde_json::to_value(object).unwrap());
        for replica in 0..group.initial_replicas() {
            cliques.extend(layout.member_cliques(0, group, replica));
        }
        gangs.extend(layout.scaled_gangs(0, group, group.initial_replicas()));
    }
    for place in &cliques {
        let of_group = place.member_of.as_ref().map(|member| &owners[&member.scaling_group]);
        let owner = of_group.cloned().unwrap_or_else(|| owner::of_set(set));
        let hash = &hashes[place.template.name.as_str()];
        let object = pod_clique(&layout, place, hash, &owner, None);
        objects.push(pod(&layout, place, &stored(&object)));
        objects.push(serde_json::to_value(object).unwrap());
    }
    let (default_scheduler, topology) = ("default-scheduler", &SetTopology::Disabled);
    let surroundings = gang::Surroundings { default_scheduler, topology };
    for place in &gangs {
        let object = gang::pod_gang(&layout, place, &BTreeMap::new(), surroundings, None);
        objects.push(serde_json::to_value(object).unwrap());
    }
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str());
        format!("{} {}", object["kind"].as_str().unwrap(), name.unwrap())
    };
    objects.into_iter().map(|object| (key(&object), object)).collect()
}

#[test]
fn children_of_the_minimal_set() {
    insta::assert_json_snapshot!(all(&demo()));
}

#[test]
fn children_of_a_set_with_start_order_and_autoscaling() {
    insta::assert_json_snapshot!(all(&simple1()));
}

#[test]
fn children_have_the_documented_names() {
    let names = |kind: &str| {
        let prefix = format!("{kind} ");
        let all = all(&simple1());
        all.keys()
            .filter_map(|key| key.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };

    assert_eq!(names("Service"), ["simple1-0"]);
    assert_eq!(names("PodCliqueScalingGroup"), ["simple1-0-workers"]);
    assert_eq!(names("PodGang"), ["simple1-0", "simple1-0-workers-0"]);
    assert_eq!(names("HorizontalPodAutoscaler"), ["simple1-0-frontend", "simple1-0-workers"]);
    assert_eq!(
        names("PodClique"),
        [
            "simple1-0-frontend",
            "simple1-0-workers-0-decode",
            "simple1-0-workers-0-prefill",
            "simple1-0-workers-1-decode",
            "simple1-0-workers-1-prefill",
        ]
    );
    assert_eq!(names("Role"), ["grove.io:pcs:simple1"]);
    assert_eq!(names("Secret"), ["simple1-ic-sat"]);
}

#[test]
fn live_replica_counts_are_kept_and_the_rest_follows_the_template() {
    let set = simple1();
    let layout = Layout::of(&set);
    let owner = owner::of_set(&set);
    let place = &layout.standalone_cliques(0)[0];
    let group = &layout.groups()[0];
    let mut live_clique = pod_clique(&layout, place, "old", &owner, None);
    live_clique.spec.replicas = 0;
    live_clique.spec.role_name = "drifted".to_owned();
    let mut live_group = scaling_group(&layout, 0, group, None);
    live_group.spec.replicas = 7;
    live_group.spec.min_available = Some(5);

    let clique = pod_clique(&layout, place, "new", &owner, Some(&live_clique));
    let group = scaling_group(&layout, 0, group, Some(&live_group));

    assert_eq!((clique.spec.replicas, clique.spec.role_name.as_str()), (0, "frontend"));
    assert_eq!(clique.metadata.labels.unwrap()["grove.io/pod-template-hash"], "new");
    assert_eq!((group.spec.replicas, group.spec.min_available), (7, Some(1)));
}

#[test]
fn a_template_cannot_override_the_place_labels() {
    let mut set = simple1();
    let forged = ["grove.io/podcliquescalinggroup", "grove.io/base-podgang", "grove.io/podgang"];
    for clique in &mut set.spec.template.cliques {
        clique.labels.extend(forged.map(|key| (key.to_owned(), "forged".to_owned())));
    }

    let all = all(&set);

    assert!(all.values().all(|object| !object["metadata"].to_string().contains("forged")));
}

#[test]
fn mnnvl_group_of_the_set_is_inherited_unless_the_group_has_its_own() {
    let mut set = simple1();
    let annotation = |set: &PodCliqueSet| {
        let layout = Layout::of(set);
        let group = scaling_group(&layout, 0, &layout.groups()[0], None);
        group.metadata.annotations.unwrap_or_default().get("grove.io/mnnvl-group").cloned()
    };
    assert_eq!(annotation(&set).as_deref(), Some("m"));
    let own = &mut set.spec.template.pod_clique_scaling_groups[0].annotations;
    own.insert("grove.io/mnnvl-group".to_owned(), "none".to_owned());
    assert_eq!(annotation(&set).as_deref(), Some("none"));
}

#[test]
fn addresses_of_unready_pods_are_published_as_configured() {
    let mut set = demo();
    let published = |set: &PodCliqueSet| {
        headless_service(&Layout::of(set), 0)["spec"]["publishNotReadyAddresses"].clone()
    };
    assert_eq!(published(&set), true);
    set.spec.template.headless_service_config.as_mut().unwrap().publish_not_ready_addresses = false;
    assert_eq!(published(&set), false);
    set.spec.template.headless_service_config = None;
    assert_eq!(published(&set), false);
}
