//! CustomResourceDefinitions of other projects, for control planes on which they do not run: an API server
//! that has them refuses what the real one would refuse, and prunes what it would prune of the fields that we
//! know.

use serde_json::{Value, json};

use crate::foreign::compute_domain;
use crate::schema;

const SCHEMAS: &str = include_str!("../../testdata/foreign_schemas.yaml");

/// PodGroup, Queue and Topology of KAI.
pub fn kai() -> Vec<Value> {
    let (group, topology) = (spec("kaiPodGroup"), spec("kaiTopology"));
    vec![
        crd("scheduling.run.ai", "v2alpha2", ("PodGroup", "podgroups"), "Namespaced", &group),
        crd("scheduling.run.ai", "v2", ("Queue", "queues"), "Cluster", &anything()),
        crd("kai.scheduler", "v1alpha1", ("Topology", "topologies"), "Cluster", &topology),
    ]
}

/// PodGroup and Queue of Volcano.
pub fn volcano() -> Vec<Value> {
    let (names, group) = ("scheduling.volcano.sh", spec("volcanoPodGroup"));
    vec![
        crd(names, "v1beta1", ("PodGroup", "podgroups"), "Namespaced", &group),
        crd(names, "v1beta1", ("Queue", "queues"), "Cluster", &anything()),
    ]
}

fn spec(kind: &str) -> Value {
    let schemas: Value = serde_saphyr::from_str(SCHEMAS).expect("schemas are YAML");
    schemas[kind].clone()
}

/// ComputeDomain of the NVIDIA driver for dynamic resources.
pub fn compute_domain() -> Vec<Value> {
    let mut domain = schema::of::<compute_domain::ComputeDomainSpec>();
    // The driver's own default: a field that the server adds must not cause another write.
    domain["properties"]["channel"]["properties"]["allocationMode"] =
        json!({ "type": "string", "enum": ["All", "Single"], "default": "Single" });
    domain["x-kubernetes-validations"] =
        json!([{ "rule": "self == oldSelf", "message": "A computeDomain.spec is immutable" }]);
    let kind = ("ComputeDomain", "computedomains");
    vec![crd("resource.nvidia.com", "v1beta1", kind, "Namespaced", &domain)]
}

fn anything() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn crd(
    group: &str,
    version: &str,
    (kind, plural): (&str, &str),
    scope: &str,
    spec: &Value,
) -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "spec": spec, "status": anything() },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": scope,
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    })
}
