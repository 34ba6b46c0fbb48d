use grove_api::PodGang;
use grove_runtime::class::{Class, Classed};
use serde_json::{Value, json};

use super::*;
use crate::contract::PodProgress;
use crate::objects::testkit::Given;
use grove_runtime::controller::Outside;

fn gangs() -> KubeScheduler {
    KubeScheduler { gang_scheduling: true }
}

fn absent(kinds: &[Resource]) -> Given {
    Given { absent: kinds.to_vec(), ..Given::default() }
}

/// Clusters by what they serve: nothing, 1.36, 1.37 without and with composites.
fn clusters() -> [Given; 4] {
    let all = Api::kinds();
    [absent(&all), absent(&all[2..]), absent(&all[4..]), absent(&[])]
}

fn set(template: &Value) -> PodCliqueSet {
    serde_json::from_value(json!({ "spec": { "template": template } })).unwrap()
}

/// A gang with a minimum of two and of one.
fn gang() -> PodGang {
    let member =
        |name: &str, min: i32| json!({ "name": name, "minReplicas": min, "podReferences": [] });
    serde_json::from_value(json!({
        "metadata": { "name": "x-0", "namespace": "ns", "uid": "gang" },
        "spec": { "podgroups": [member("x-0-a", 2), member("x-0-b", 1)] },
    }))
    .unwrap()
}

/// What the pod with an index of the first member gets.
fn prepared(
    kube: &KubeScheduler,
    set: &PodCliqueSet,
    objects: &Given,
    index: u32,
) -> Result<Value, BackendError> {
    let labels = json!({ "grove.io/podclique": "x-0-a", "grove.io/podgang": "x-0" });
    let draft = json!({ "metadata": { "namespace": "ns", "labels": labels } });
    let outside = &Outside::default();
    let pods = NewPods { draft: &draft, gang: Some(&gang()), set: Some(set), objects, outside };
    let mut pod = json!({});
    kube.prepared(&pods)?.apply(index, &mut pod);
    Ok(pod["spec"].clone())
}

fn group(name: &str, owner: &str) -> Value {
    let owner = json!({ "apiVersion": "v1", "kind": "PodGang", "name": "x-0", "uid": owner,
        "controller": true });
    json!({ "metadata": { "name": name, "namespace": "ns", "ownerReferences": [owner] },
        "spec": { "priorityClassName": "high" } })
}

#[test]
fn the_newest_served_version_is_used() {
    let served = clusters().map(|cluster| Api::served(&cluster).unwrap());
    assert_eq!(served, [None, Some(Api::V1alpha2), Some(Api::V1beta1), Some(Api::Composite)]);
}

#[test]
fn pods_are_held_back_while_a_kind_that_decides_about_their_group_is_unknown() {
    // Absent kinds, unknown kinds, the kind that is reported, and what is assumed meanwhile.
    type Case<'a> = (&'a str, &'a [&'a Resource], &'a [&'a Resource], Option<&'a str>, Option<Api>);
    let [old_workloads, old_groups, workloads, groups, composites] =
        Api::kinds().try_into().unwrap();
    let plain = set(&json!({ "cliques": [] }));
    let old = [&old_workloads, &old_groups];
    let new = [&workloads, &groups, &composites];
    let cases: [Case<'_>; 8] = [
        ("groups", &[], &[&groups], Some("podgroups"), Some(Api::Composite)),
        ("workloads", &[], &[&workloads], Some("workloads"), Some(Api::Composite)),
        ("composites", &[], &[&composites], Some("compositepodgroups"), Some(Api::Composite)),
        ("no fallback to 1.36", &[], &new, Some("workloads"), Some(Api::Composite)),
        ("all", &[], &[&old_groups, &groups], Some("podgroups"), Some(Api::Composite)),
        ("on 1.36", &new, &[&old_groups], Some("podgroups"), Some(Api::V1alpha2)),
        ("an older version does not matter", &[], &old, None, Some(Api::Composite)),
        ("gone in part is gone", &[&workloads, &old_workloads], &[&groups], None, None),
    ];
    for (case, absent, unknown, reported, assumed) in cases {
        let of = |kinds: &[&Resource]| kinds.iter().map(|kind| (*kind).clone()).collect();
        let cluster = Given { absent: of(absent), unknown: of(unknown), ..Given::default() };
        assert_eq!(Api::assumed(&cluster), assumed, "{case}");
        let Some(reported) = reported else {
            assert_eq!(Api::served(&cluster).unwrap(), assumed, "{case}");
            continue;
        };
        // Announced before: its group is in the cache.
        let api = assumed.unwrap();
        let cluster = cluster.with(api.pod_groups(), group("x-0-a", "gang"));
        let error = prepared(&gangs(), &plain, &cluster, 0).unwrap_err();
        assert_eq!((error.reason(), error.class()), ("SchedulerApiUnknown", Class::Invalid));
        assert!(error.to_string().contains(&format!("{reported}.scheduling.k8s.io")), "{error}");
        let gang = gang();
        let progress = PodProgress::default();
        let gang = GangInput {
            object: &gang,
            set: None,
            progress: &progress,
            topology: None,
            objects: &cluster,
        };
        assert_eq!(gangs().plan(&gang).unwrap_err().reason(), "SchedulerApiUnknown", "{case}");
        assert!(gangs().rules(gang.object, &cluster).is_some(), "{case}");
        let off = KubeScheduler { gang_scheduling: false };
        assert!(prepared(&off, &plain, &cluster, 0).is_ok(), "{case}");
    }
}

#[test]
fn pods_wait_for_the_groups_that_they_name() {
    let plain = set(&json!({ "cliques": [] }));
    let [_, old, flat, tree] = clusters();
    for cluster in [old, flat] {
        let groups = Api::served(&cluster).unwrap().unwrap().pod_groups();
        let error = prepared(&gangs(), &plain, &cluster, 0).unwrap_err();
        assert!(error.to_string().contains("PodGroup ns/x-0 does not exist"), "{error}");
        let cluster = cluster.with(groups.clone(), group("x-0", "of a former life"));
        assert!(prepared(&gangs(), &plain, &cluster, 0).is_err());
        let cluster = cluster.with(groups.clone(), group("x-0", "gang"));
        assert!(prepared(&gangs(), &plain, &cluster, 0).is_err(), "for pods above the minimum");
        let cluster = cluster.with(groups, group("x-0-extra", "gang"));
        let of = |index| {
            let spec = prepared(&gangs(), &plain, &cluster, index).unwrap();
            spec["schedulingGroup"]["podGroupName"].clone()
        };
        assert_eq!([0, 1, 2, 3].map(of), ["x-0", "x-0", "x-0-extra", "x-0-extra"]);
    }
    let groups = Api::Composite.pod_groups();
    let tree = tree.with(groups, group("x-0-a", "gang"));
    let important = set(&json!({ "priorityClassName": "changed" }));
    for index in [0, 7] {
        let spec = prepared(&gangs(), &important, &tree, index).unwrap();
        assert_eq!(spec["schedulingGroup"]["podGroupName"], "x-0-a");
        assert_eq!(spec["priorityClassName"], "high", "as its group has it");
    }
}

#[test]
fn minima_come_first_in_gangs_with_several_members() {
    let of = |cluster: &Given| gangs().rules(&gang(), cluster);
    let [nothing, old, flat, tree] = clusters();
    assert_eq!(of(&nothing), None);
    let split = PodRules { minimum_first: true, by_index: true, gated_pods_block: true };
    assert_eq!(of(&old), Some(PodRules { gated_pods_block: false, ..split }));
    assert_eq!(of(&flat), Some(split));
    assert_eq!(of(&tree), Some(PodRules { by_index: false, ..split }));
    let mut alone = gang();
    alone.spec.pod_groups.truncate(1);
    let rules = gangs().rules(&alone, &tree);
    assert_eq!(rules, Some(PodRules { gated_pods_block: true, ..PodRules::default() }));
    let off = KubeScheduler { gang_scheduling: false };
    assert!(off.pods().is_none());
}

#[test]
fn without_the_option_or_the_api_pods_only_get_the_scheduler_name() {
    let important = set(&json!({ "priorityClassName": "high" }));
    let [nothing, .., everything] = clusters();
    let off = KubeScheduler { gang_scheduling: false };
    assert_eq!(off.kinds(), []);
    for (kube, cluster) in [(gangs(), nothing), (off, everything)] {
        let spec = prepared(&kube, &important, &cluster, 0).unwrap();
        assert_eq!(spec["schedulerName"], "default-scheduler");
        assert!(spec["schedulingGroup"].is_null() && spec["priorityClassName"].is_null());
    }
}

#[test]
fn unsupported_features_of_a_cluster_are_limitations() {
    let clique = |name: &str, replicas, min, constraint: Value| {
        json!({ "name": name, "topologyConstraint": constraint,
            "spec": { "replicas": replicas, "minAvailable": min } })
    };
    let none = Value::Null;
    let required = json!({ "packDomain": "rack" });
    let preferred = json!({ "pack": { "preferred": "rack" } });
    let two = |whole: &Value, second: &Value| {
        let cliques = [clique("a", 1, 1, Value::Null), clique("b", 4, 2, second.clone())];
        set(&json!({ "cliques": cliques, "topologyConstraint": whole }))
    };
    let alone = set(&json!({ "cliques": [clique("a", 4, 2, required.clone())] }));
    let said = |set: &PodCliqueSet| {
        clusters().map(|cluster| {
            let limitations = gangs().limitations(set, &cluster);
            limitations.iter().map(|one| one.reason).collect::<Vec<_>>().join(" ")
        })
    };
    let missing = "GangSchedulingNotServed";
    let ignored = "GangSchedulingNotServed TopologyIgnored";
    let partly = "TopologyPartiallyEnforced";
    let cases = [
        (two(&none, &none), [missing, "", "", ""]),
        (two(&none, &required), [ignored, partly, partly, ""]),
        (two(&required, &none), [ignored, partly, partly, ""]),
        (alone, [ignored, "", "", ""]),
        (
            set(&json!({ "cliques": [{ "name": "a",
                "spec": { "replicas": 1, "podSpec": { "restartPolicy": "Never" } } }] })),
            [missing, "EndedPodsHoldUpOthers", "", ""],
        ),
        (
            two(&none, &preferred),
            [
                ignored,
                "PreferredTopologyIgnored",
                "PreferredTopologyIgnored",
                "PreferredTopologyIgnored",
            ],
        ),
    ];
    for (set, expected) in &cases {
        assert_eq!(said(set), *expected);
    }
    let off = KubeScheduler { gang_scheduling: false };
    let limitations = off.limitations(&cases[1].0, &clusters()[3]);
    assert_eq!(limitations[0].reason, "TopologyIgnored");
    assert!(limitations[0].message.contains("spec.template.cliques[1].topologyConstraint"));
    assert_eq!(off.limitations(&cases[0].0, &clusters()[3]), []);
}

#[test]
fn admission_refuses_a_required_level_that_would_be_lost() {
    let clique = |name: &str, constraint: Value| json!({ "name": name, "topologyConstraint": constraint, "spec": { "replicas": 1 } });
    let rack = json!({ "packDomain": "rack" });
    let lost = set(&json!({ "cliques": [clique("a", Value::Null), clique("b", rack.clone())] }));
    let kept = set(&json!({ "topologyConstraint": rack,
        "cliques": [clique("a", Value::Null), clique("b", Value::Null)] }));
    let [nothing, old, flat, tree] = clusters();
    for cluster in [&old, &flat] {
        let refused = limitations::check(&lost, None, cluster).unwrap_err();
        assert!(refused.starts_with("spec.template.cliques[1].topologyConstraint: "), "{refused}");
        assert!(refused.contains("feature gates TopologyAwareWorkloadScheduling"), "{refused}");
        assert_eq!(limitations::check(&lost, Some(&lost), cluster), Ok(()), "it is there already");
        assert_eq!(limitations::check(&kept, None, cluster), Ok(()));
    }
    for cluster in [&nothing, &tree] {
        assert_eq!(limitations::check(&lost, None, cluster), Ok(()));
    }
}

#[test]
fn a_gang_with_too_many_groups_reports_a_limitation() {
    let cliques: Vec<Value> = (1..=65)
        .map(|min| json!({ "name": format!("c{min}"), "spec": { "replicas": min, "minAvailable": min } }))
        .collect();
    let limitations = gangs().limitations(&set(&json!({ "cliques": cliques })), &clusters()[3]);
    assert_eq!(limitations[0].reason, "TooManyGroups");
    assert!(
        limitations[0].message.starts_with("spec.template.cliques: "),
        "{}",
        limitations[0].message
    );
}

#[test]
fn a_gang_has_one_priority() {
    let clique = |class: &str| json!({ "spec": { "podSpec": { "priorityClassName": class } } });
    let cases = [
        (json!({ "cliques": [clique(""), clique("")] }), true),
        (json!({ "cliques": [clique("a"), clique("a")] }), true),
        (json!({ "priorityClassName": "a", "cliques": [clique(""), clique("a")] }), true),
        (json!({ "cliques": [clique("a"), clique("")] }), false),
        (json!({ "priorityClassName": "b", "cliques": [clique("a")] }), false),
    ];
    for (template, good) in cases {
        assert_eq!(
            limitations::check(&set(&template), None, &Given::default()).is_ok(),
            good,
            "{template}"
        );
    }
}
