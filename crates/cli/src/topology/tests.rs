use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_core::quantity::Quantity;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fits::{Fit, Shape};
use super::nodes::{Capacity, ObservedNode, Requests, with_free};
use super::observe::Declared;
use super::render::{text, written};
use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.com/rack";
const GPU: &str = "nvidia.com/gpu";

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A ready node with 8 processors and 4 GPUs; a place is its zone and its rack.
fn node(name: &str, place: &str) -> Value {
    let labels =
        [ZONE, RACK].into_iter().zip(place.split('/')).filter(|(_, value)| !value.is_empty());
    let labels: serde_json::Map<_, _> =
        labels.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({
        "metadata": { "name": name, "labels": labels },
        "status": {
            "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "10", GPU: "4", "hugepages-2Mi": "0" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn pod(node: &str, requests: &Value) -> Value {
    json!({ "spec": {
        "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": requests } }],
    }})
}

fn capacities(nodes: &[Value], pods: &[Value]) -> Vec<Capacity> {
    let nodes = nodes.iter().map(|node| ObservedNode::from(&object::<Node>(node.clone())));
    let pods = pods.iter().filter_map(|pod| Requests::of(&object::<Pod>(pod.clone())));
    with_free(nodes.collect(), &pods.collect::<Vec<_>>())
}

fn binding(conditions: &Value, schedulers: &Value) -> Declared {
    let binding: ClusterTopologyBinding = object(json!({
        "metadata": { "name": "h100" },
        "spec": { "levels": [
            { "domain": "zone", "key": ZONE }, { "domain": "rack", "key": RACK },
        ]},
        "status": { "conditions": conditions, "schedulerTopologyStatuses": schedulers },
    }));
    Declared::from(&binding)
}

fn shape(text: &str) -> Shape {
    text.parse().unwrap()
}

/// Two zones with a rack of the same name; a rack with an unschedulable and a broken node; two nodes without
/// all labels, one of them without any.
fn cluster() -> Vec<Capacity> {
    let mut nodes = [
        node("a1", "za/r1"),
        node("a2", "za/r1"),
        node("a3", "za/r2"),
        node("a4", "za/r2"),
        node("b1", "zb/r1"),
        node("b2", "zb"),
        node("c1", ""),
    ];
    nodes[2]["spec"] = json!({ "unschedulable": true });
    nodes[3]["status"]["conditions"][0]["status"] = json!("Unknown");
    let pods = [
        pod("a1", &json!({ "cpu": "500m", "memory": "1Gi", GPU: "3" })),
        pod("a2", &json!({ "cpu": "2", GPU: "2" })),
        pod("a3", &json!({ "cpu": "2", GPU: "2" })),
        pod("gone", &json!({ "cpu": "2", GPU: "2" })),
    ];
    capacities(&nodes, &pods)
}

#[test]
fn domains_show_their_nodes_and_free_resources() {
    let drift = json!([{
        "type": "SchedulerTopologyDrift", "status": "True", "reason": "Drift",
        "message": "One or more scheduler backend topologies have drifted",
    }]);
    let schedulers = json!([{
        "schedulerName": "kai-scheduler", "topologyReference": "h100", "inSync": false,
        "message": "KAI Topology \"h100\" not found",
    }]);
    let shape = shape("nvidia.com/gpu=2,cpu=1");
    let topology = Topology::of(binding(&drift, &schedulers), &cluster(), Some(&shape));

    insta::assert_snapshot!(text(std::slice::from_ref(&topology), Some(&shape)));
    insta::assert_json_snapshot!(topology);
}

#[test]
fn the_heading_shows_the_condition_of_the_topology() {
    let managed = |conditions: Value| {
        let topology: ClusterTopology = object(json!({
            "metadata": { "name": "grove-topology" },
            "spec": { "levels": [
                { "domain": "rack", "key": RACK }, { "domain": "zone", "key": ZONE },
            ]},
            "status": { "conditions": conditions },
        }));
        Declared::from(&topology)
    };
    let condition = |type_: &str, status: &str| json!([{ "type": type_, "status": status, "reason": "Why", "message": "a \u{1b}[2Jmessage" }]);
    let cases = [
        (managed(condition("Ready", "True")), "ClusterTopology grove-topology, Ready=True"),
        (
            managed(condition("Ready", "False")),
            "ClusterTopology grove-topology, Ready=False: Why: a \\u{1b}[2Jmessage",
        ),
        (
            managed(json!([])),
            "ClusterTopology grove-topology, Ready=Unknown: the operator has not reported it; is it \
             running?",
        ),
        (binding(&json!([]), &json!([])), "ClusterTopologyBinding h100"),
        (
            binding(&condition("SchedulerTopologyDrift", "False"), &json!([])),
            "ClusterTopologyBinding h100, SchedulerTopologyDrift=False",
        ),
        (
            binding(&condition("SchedulerTopologyDrift", "Unknown"), &json!([])),
            "ClusterTopologyBinding h100, SchedulerTopologyDrift=Unknown: Why: a \\u{1b}[2Jmessage",
        ),
    ];
    for (declared, expected) in cases {
        let text = text(&[Topology::of(declared, &[], None)], None);
        let lines: Vec<_> = text.lines().take(2).collect();
        // The broadest level comes first, whatever the order in the object.
        let levels = "Levels: zone (topology.kubernetes.io/zone), rack (example.com/rack)";
        assert_eq!(lines, [expected, levels]);
    }
}

#[test]
fn a_pod_takes_what_the_scheduler_reserves_for_it() {
    let container = |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    let sidecar = |cpu: &str| {
        let mut container = container(cpu);
        container["restartPolicy"] = json!("Always");
        container
    };
    let cases = [
        ("no request", json!({ "containers": [{ "name": "c" }] }), "8"),
        ("sum of containers", json!({ "containers": [container("1"), container("500m")] }), "6.5"),
        (
            "highest init container",
            json!({ "initContainers": [container("3"), container("2")], "containers": [container("1")] }),
            "5",
        ),
        (
            "lower init container",
            json!({ "initContainers": [container("1")], "containers": [container("2")] }),
            "6",
        ),
        (
            "sidecar beside containers",
            json!({ "initContainers": [sidecar("1")], "containers": [container("2")] }),
            "5",
        ),
        (
            "sidecar beside a later init container",
            json!({
                "initContainers": [container("3"), sidecar("1"), container("3")],
                "containers": [container("1")],
            }),
            "4",
        ),
        (
            "request of the pod",
            json!({ "resources": { "requests": { "cpu": "4" } }, "containers": [container("1")] }),
            "4",
        ),
        (
            "overhead",
            json!({ "overhead": { "cpu": "250m" }, "containers": [container("1")] }),
            "6.75",
        ),
        ("more than there is", json!({ "containers": [container("9")] }), "0"),
    ];
    for (what, mut spec, free) in cases {
        spec["nodeName"] = json!("a");
        let node = &capacities(&[node("a", "")], &[json!({ "spec": spec })])[0];
        assert_eq!(node.free["cpu"], Quantity::parse(free).unwrap(), "{what}");
        assert_eq!(node.free["pods"], Quantity::parse("9").unwrap(), "{what}");
    }
    let unbound = json!({ "spec": { "containers": [container("1")] } });
    assert_eq!(Requests::of(&object(unbound)), None);
}

#[test]
fn pods_fit_as_often_as_the_scarcest_resource_of_each_node_allows() {
    let fits = |asked: &str, nodes: &[Capacity]| {
        let declared = binding(&json!([]), &json!([]));
        let fits = Topology::of(declared, nodes, Some(&shape(asked))).best_domains;
        let row =
            |Fit { level, pods, domain }: &Fit| format!("{level} {pods} {}", domain.join("/"));
        fits.iter().map(row).collect::<Vec<_>>()
    };
    let cluster = cluster();
    for (asked, expected) in [
        // The last node of zone zb counts for the zone only.
        ("nvidia.com/gpu=4", ["zone 2 zb", "rack 1 zb/r1"]),
        // Of equal domains the first. Two nodes with 1 and 2 GPUs take no pod with 3.
        ("nvidia.com/gpu=1", ["zone 8 zb", "rack 4 zb/r1"]),
        ("nvidia.com/gpu=3", ["zone 2 zb", "rack 1 zb/r1"]),
        ("nvidia.com/gpu=2,cpu=3", ["zone 4 zb", "rack 2 zb/r1"]),
        ("nvidia.com/gpu=1,cpu=3", ["zone 4 zb", "rack 3 za/r1"]),
        ("memory=32Gi", ["zone 2 zb", "rack 1 za/r1"]),
        // Ten pods per node, and two of them are there.
        ("cpu=1m", ["zone 20 zb", "rack 18 za/r1"]),
        ("nvidia.com/gpu=5", ["zone 0 ", "rack 0 "]),
        ("example.com/unknown=1", ["zone 0 ", "rack 0 "]),
        ("ephemeral-storage=1", ["zone 0 ", "rack 0 "]),
    ] {
        assert_eq!(fits(asked, &cluster), expected, "{asked}");
    }
    assert_eq!(fits("cpu=1", &[]), ["zone 0 ", "rack 0 "]);
}

#[test]
fn a_resource_that_no_node_has_is_named() {
    let shape = shape("nvidia.com/gpus=1");
    let topology = Topology::of(binding(&json!([]), &json!([])), &cluster(), Some(&shape));
    let text = text(&[topology], Some(&shape));
    assert!(text.contains("\nNo node of h100 has nvidia.com/gpus\n"), "{text}");
}

#[test]
fn a_shape_is_a_list_of_resources_with_quantities() {
    for (text, error) in [
        ("", "\"\" is not RESOURCE=QUANTITY, for example cpu=4"),
        ("cpu", "\"cpu\" is not RESOURCE=QUANTITY, for example cpu=4"),
        ("=1", "\"=1\" is not RESOURCE=QUANTITY, for example cpu=4"),
        ("cpu=1,", "\"\" is not RESOURCE=QUANTITY, for example cpu=4"),
        ("cpu=1,cpu=2", "cpu is there twice"),
        ("pods=2", "every pod counts as one of \"pods\"; leave it out"),
        ("cpu=0", "\"0\" of cpu is not a quantity greater than zero, for example 500m, 2 or 1.5Gi"),
        (
            "memory=1GB",
            "\"1GB\" of memory is not a quantity greater than zero, for example 500m, 2 or 1.5Gi",
        ),
    ] {
        assert_eq!(text.parse::<Shape>(), Err(error.to_owned()));
    }
    let shape = shape("nvidia.com/gpu=8,cpu=500m");
    assert_eq!(shape.to_string(), "nvidia.com/gpu=8,cpu=500m");
    assert_eq!(shape.resources().collect::<Vec<_>>(), ["cpu", "nvidia.com/gpu"]);
}

#[test]
fn amounts_are_written_in_units_that_people_read() {
    for (resource, amount, expected) in [
        ("memory", "32Gi", "32Gi"),
        ("memory", "1551Gi", "1.5Ti"),
        ("memory", "1023Mi", "1023Mi"),
        ("memory", "500", "500"),
        ("memory", "0", "0"),
        ("cpu", "7500m", "7.5"),
        ("cpu", "2", "2"),
        ("cpu", "99m", "0"),
        ("nvidia.com/gpu", "8", "8"),
        ("example.com/share", "1500m", "1500m"),
    ] {
        assert_eq!(written(resource, Quantity::parse(amount).unwrap()), expected, "{amount}");
    }
}
