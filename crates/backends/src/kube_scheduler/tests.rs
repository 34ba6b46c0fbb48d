use grove_api::PodGang;
use serde_json::{Value, json};

use super::*;
use crate::objects::testkit::Given;

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

fn draft() -> Value {
    let labels = json!({ "grove.io/podclique": "x-0-a", "grove.io/podgang": "x-0" });
    json!({ "metadata": { "namespace": "ns", "labels": labels } })
}

fn prepared(
    kube: &KubeScheduler,
    set: &PodCliqueSet,
    objects: &Given,
) -> Result<Value, BackendError> {
    let mut pod = json!({});
    let gang: PodGang = serde_json::from_value(json!({ "metadata": { "uid": "gang" } })).unwrap();
    let pods = Pods { draft: &draft(), gang: Some(&gang), set: Some(set), objects };
    kube.prepared(&pods)?.apply(&mut pod);
    Ok(pod["spec"].clone())
}

fn group(name: &str, owner: &str) -> Value {
    let owner = json!({ "apiVersion": "v1", "kind": "PodGang", "name": "x-0", "uid": owner,
        "controller": true });
    json!({ "metadata": { "name": name, "namespace": "ns", "ownerReferences": [owner] } })
}

#[test]
fn the_newest_version_that_is_served_is_used() {
    let served = clusters().map(|cluster| Api::served(&cluster));
    assert_eq!(served, [None, Some(Api::V1alpha2), Some(Api::V1beta1), Some(Api::Composite)]);
}

#[test]
fn pods_wait_for_the_group_that_they_name() {
    let plain = set(&json!({ "cliques": [] }));
    for cluster in clusters().into_iter().skip(1) {
        let api = Api::served(&cluster).unwrap();
        let error = prepared(&gangs(), &plain, &cluster).unwrap_err();
        assert!(
            error.to_string().contains("neither PodGroup ns/x-0-a nor ns/x-0 exists"),
            "{error}"
        );
        let cluster = cluster.with(api.pod_groups(), group("x-0", "of a former life"));
        assert!(prepared(&gangs(), &plain, &cluster).is_err());
        let cluster = cluster.with(api.pod_groups(), group("x-0", "gang"));
        let spec = prepared(&gangs(), &plain, &cluster).unwrap();
        assert_eq!(spec["schedulingGroup"]["podGroupName"], "x-0");
        let cluster = cluster.with(api.pod_groups(), group("x-0-a", "gang"));
        let important = set(&json!({ "priorityClassName": "high" }));
        let spec = prepared(&gangs(), &important, &cluster).unwrap();
        assert_eq!(spec["schedulingGroup"]["podGroupName"], "x-0-a");
        assert_eq!(spec["priorityClassName"], "high", "as its group has it");
    }
}

#[test]
fn without_the_option_or_the_api_pods_only_name_the_scheduler() {
    let important = set(&json!({ "priorityClassName": "high" }));
    let [nothing, .., everything] = clusters();
    let off = KubeScheduler { gang_scheduling: false };
    assert_eq!(off.kinds(), []);
    for (kube, cluster) in [(gangs(), nothing), (off, everything)] {
        let spec = prepared(&kube, &important, &cluster).unwrap();
        assert_eq!(spec["schedulerName"], "default-scheduler");
        assert!(spec["schedulingGroup"].is_null() && spec["priorityClassName"].is_null());
    }
}

#[test]
fn what_a_cluster_cannot_do_is_said() {
    let clique = |replicas, min| json!({ "spec": { "replicas": replicas, "minAvailable": min } });
    let part = set(&json!({ "cliques": [clique(1, 1), clique(4, 2)] }));
    let whole = set(&json!({ "cliques": [clique(1, 1), clique(4, 4)] }));
    let alone = set(&json!({ "cliques": [clique(4, 2)] }));
    let said = |set: &PodCliqueSet| {
        clusters().map(|cluster| {
            let limits = gangs().limits(set, &cluster);
            limits.first().map(|limit| limit.reason)
        })
    };
    let missing = Some("GangSchedulingNotServed");
    let partly = Some("GangPartiallyEnforced");
    assert_eq!(said(&part), [missing, partly, partly, None]);
    assert_eq!(said(&whole), [missing, None, None, None]);
    assert_eq!(said(&alone), [missing, None, None, None]);
    let off = KubeScheduler { gang_scheduling: false };
    assert_eq!(off.limits(&part, &clusters()[0]), []);
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
        assert_eq!(one_priority(&set(&template)).is_ok(), good, "{template}");
    }
}
