//! CustomResourceDefinitions of other projects, for control planes on which they do not run.
//!
//! Made from our narrow types, with the constraints of the real ones: an API server that has them refuses
//! what the real one would refuse, and prunes what it would prune of the fields that we know.

use serde_json::{Value, json};

use crate::foreign::{compute_domain, kai, volcano};
use crate::schema;

/// PodGroup, Queue and Topology of KAI.
pub fn kai() -> Vec<Value> {
    let mut group = schema::of::<kai::PodGroupSpec>();
    group["properties"]["preemptibility"]["enum"] = json!(["preemptible", "non-preemptible"]);
    group["x-kubernetes-validations"] = json!([{
        "rule": "!(has(self.minMember) && has(self.minSubGroup))",
        "message": "minMember and minSubGroup are mutually exclusive",
    }]);
    let mut topology = schema::of::<kai::TopologySpec>();
    topology["properties"]["levels"]["x-kubernetes-list-type"] = json!("atomic");
    topology["properties"]["levels"]["x-kubernetes-validations"] = json!([
        {
            "rule": "size(self) == size(oldSelf) && self.map(l, l.nodeLabel) == oldSelf.map(l, l.nodeLabel)",
            "message": "nodeLabel structure is immutable; only aliases may be edited",
        },
        {
            "rule": "self.all(l, l.nodeLabel != 'kubernetes.io/hostname') || \
                     self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
            "message": "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        },
    ]);
    vec![
        crd("scheduling.run.ai", "v2alpha2", ("PodGroup", "podgroups"), "Namespaced", &group),
        crd("scheduling.run.ai", "v2", ("Queue", "queues"), "Cluster", &anything()),
        crd("kai.scheduler", "v1alpha1", ("Topology", "topologies"), "Cluster", &topology),
    ]
}

/// PodGroup and Queue of Volcano.
pub fn volcano() -> Vec<Value> {
    let group = schema::of::<volcano::PodGroupSpec>();
    let names = "scheduling.volcano.sh";
    vec![
        crd(names, "v1beta1", ("PodGroup", "podgroups"), "Namespaced", &group),
        crd(names, "v1beta1", ("Queue", "queues"), "Cluster", &anything()),
    ]
}

/// ComputeDomain of the NVIDIA driver for dynamic resources.
pub fn compute_domain() -> Vec<Value> {
    let mut domain = schema::of::<compute_domain::ComputeDomainSpec>();
    // The driver's own default: what others add must not make us write again.
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
