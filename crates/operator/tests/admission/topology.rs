//! Rules about topology constraints and topologies, of an operator that manages the levels rack and host.

use grove_runtime::clock::Clock;
use grove_testbed::kinds::{CLUSTER_TOPOLOGIES, SETS, TOPOLOGY_BINDINGS};
use grove_testbed::mirror::send;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::Answer::Accepted;
use super::{Answer, NAMESPACE, Row, denied, good, group, remove, router, template};

pub(crate) const CONFIGURATION: &str = "topologyAwareScheduling: {enabled: true, levels: [\
     {domain: host, key: kubernetes.io/hostname}, {domain: rack, key: example.com/rack}]}";

fn constrain(part: &mut Value, constraint: Value) {
    part["topologyConstraint"] = constraint;
}

/// Rows for new sets and for the stored one, which names the binding `dc`.
pub(crate) fn rows() -> Vec<(Method, Row)> {
    let creates = [of_managed(), of_binding()].into_iter().flatten();
    let creates = creates.map(|row| (Method::POST, row));
    creates.chain(changes().into_iter().map(|row| (Method::PATCH, row))).collect()
}

fn of_managed() -> Vec<Row> {
    vec![
        (
            "level of the configuration",
            |s| constrain(template(s), json!({ "packDomain": "rack" })),
            Accepted,
        ),
        (
            "narrower at every step",
            |s| {
                constrain(template(s), json!({ "packDomain": "rack" }));
                constrain(group(s), json!({ "packDomain": "host" }));
            },
            Accepted,
        ),
        (
            "unknown level",
            |s| constrain(template(s), json!({ "packDomain": "block" })),
            denied(&["topology level 'block' not defined in ClusterTopology 'grove-topology'"]),
        ),
        (
            "word that is no level",
            |s| constrain(router(s), json!({ "packDomain": "shelf" })),
            denied(&["cliques[0].topologyConstraint.packDomain: Unsupported value: \"shelf\""]),
        ),
        (
            "child broader than its parent",
            |s| {
                constrain(template(s), json!({ "packDomain": "host" }));
                constrain(group(s), json!({ "packDomain": "rack" }));
            },
            denied(&[
                "child topology constraint 'rack' must be equal to or stricter than parent constraint 'host'",
            ]),
        ),
    ]
}

fn of_binding() -> Vec<Row> {
    vec![
        (
            "domains of a binding",
            |s| {
                constrain(
                    template(s),
                    json!({ "topologyName": "dc", "pack": { "required": "shelf" } }),
                );
                constrain(group(s), json!({ "pack": { "required": "host", "preferred": "host" } }));
            },
            Accepted,
        ),
        (
            "binding that does not exist",
            |s| {
                constrain(
                    router(s),
                    json!({ "topologyName": "absent", "pack": { "required": "host" } }),
                );
            },
            denied(&[
                "spec.template.topologyConstraint.topologyName",
                "ClusterTopologyBinding \"absent\" not found",
            ]),
        ),
        (
            "domain that the binding lacks",
            |s| {
                constrain(
                    template(s),
                    json!({ "topologyName": "dc", "pack": { "required": "rack" } }),
                );
            },
            denied(&[
                "topology domain 'rack' does not exist in cluster topology [zone shelf host]",
            ]),
        ),
        (
            "parent narrower than its child",
            |s| {
                constrain(
                    template(s),
                    json!({ "topologyName": "dc", "pack": { "required": "host" } }),
                );
                constrain(router(s), json!({ "pack": { "required": "shelf" } }));
            },
            denied(&[
                "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'router' topology \
                 constraint domain 'shelf'",
            ]),
        ),
        (
            "different names",
            |s| {
                constrain(
                    template(s),
                    json!({ "topologyName": "dc", "pack": { "required": "host" } }),
                );
                constrain(
                    router(s),
                    json!({ "topologyName": "other", "pack": { "required": "host" } }),
                );
            },
            denied(&[
                "all topologyConstraint.topologyName values within a PodCliqueSet must match",
            ]),
        ),
        (
            "name of another clique",
            |s| {
                constrain(
                    router(s),
                    json!({ "topologyName": "dc", "pack": { "required": "host" } }),
                );
                constrain(group(s), json!({ "pack": { "required": "host" } }));
            },
            denied(&[
                "topologyName is required when topologyConstraint is set and cannot be inherited",
            ]),
        ),
        (
            "older spelling with a name",
            |s| constrain(template(s), json!({ "topologyName": "dc", "packDomain": "host" })),
            denied(&[
                "packDomain is deprecated and cannot be used on new workloads; use pack.required",
            ]),
        ),
    ]
}

fn changes() -> Vec<Row> {
    vec![
        ("replicas of a set that names a topology", |s| s["spec"]["replicas"] = json!(2), Accepted),
        (
            "another required domain",
            |s| template(s)["topologyConstraint"]["pack"]["required"] = json!("host"),
            denied(&[
                "cannot be changed from required=\"shelf\" preferred=\"\" to required=\"host\"",
            ]),
        ),
        (
            "a constraint that is removed",
            |s| remove(template(s), "topologyConstraint"),
            denied(&["topologyName cannot be changed from \"dc\" to \"\""]),
        ),
        (
            "a constraint that is added",
            |s| constrain(router(s), json!({ "pack": { "required": "host" } })),
            denied(&["PodClique 'router' topology constraint cannot be added after creation"]),
        ),
    ]
}

fn topology(kind: &str, name: &str, levels: &[(&str, &str)]) -> Value {
    let level = |(domain, key): &(&str, &str)| json!({ "domain": domain, "key": key });
    let levels: Vec<_> = levels.iter().map(level).collect();
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": { "levels": levels },
    })
}

/// Creates the binding `dc` and a set that names it, as soon as the operator has read the binding.
pub(crate) async fn store(client: &Client) -> Value {
    let levels = [
        ("zone", "example.com/zone"),
        ("shelf", "example.com/shelf"),
        ("host", "kubernetes.io/hostname"),
    ];
    let binding = topology(TOPOLOGY_BINDINGS.name, "dc", &levels);
    send(client, Method::POST, &TOPOLOGY_BINDINGS.everywhere(), &binding).await.unwrap();
    let mut set = good();
    set["metadata"]["name"] = json!("stored");
    constrain(template(&mut set), json!({ "topologyName": "dc", "pack": { "required": "shelf" } }));
    let stored = async {
        loop {
            match send(client, Method::POST, &SETS.in_namespace(NAMESPACE), &set).await {
                Ok(stored) => return stored,
                Err(refusal) => assert!(refusal.contains("not found"), "{refusal}"),
            }
        }
    };
    Clock::system().timeout(grove_testbed::DEADLINE, stored).await.expect("the set is stored")
}

/// What a user may do to topologies, and may not.
pub(crate) async fn wrong_answers(user: &Client) -> Vec<String> {
    let (topologies, bindings) = (CLUSTER_TOPOLOGIES, TOPOLOGY_BINDINGS);
    let rack = [("rack", "example.com/rack")];
    let labels = json!({ "metadata": { "labels": { "touched": "yes" } } });
    let managed = |name: &str| topology(topologies.name, name, &rack);
    let referring = |scheduler: &str| {
        let mut binding = topology(bindings.name, "new", &rack);
        let reference = json!({ "schedulerName": scheduler, "topologyReference": "x" });
        binding["spec"]["schedulerTopologyBindings"] = json!([reference]);
        binding
    };
    let own = format!("{}/grove-topology", topologies.everywhere());
    let twice = [("rack", "example.com/rack"), ("host", "example.com/rack")];
    let rows: Vec<(&str, Method, String, Value, Answer)> = vec![
        (
            "create the managed topology",
            Method::POST,
            topologies.everywhere(),
            managed("grove-topology"),
            denied(&["ClusterTopology 'grove-topology' can only be created by the operator"]),
        ),
        (
            "modify the managed topology",
            Method::PATCH,
            own.clone(),
            labels.clone(),
            denied(&["ClusterTopology 'grove-topology' can only be modified by the operator"]),
        ),
        (
            "delete the managed topology",
            Method::DELETE,
            own,
            Value::Null,
            denied(&["ClusterTopology 'grove-topology' can only be deleted by the operator"]),
        ),
        (
            "create another topology",
            Method::POST,
            topologies.everywhere(),
            managed("other"),
            Accepted,
        ),
        (
            "label a binding",
            Method::PATCH,
            format!("{}/dc", bindings.everywhere()),
            labels,
            Accepted,
        ),
        (
            "create a binding with a key twice",
            Method::POST,
            bindings.everywhere(),
            topology(bindings.name, "new", &twice),
            denied(&["spec.levels[1].key: Duplicate value: \"example.com/rack\""]),
        ),
        (
            "refer to a scheduler that is not enabled",
            Method::POST,
            bindings.everywhere(),
            referring("kai-scheduler"),
            denied(&["scheduler backend is not enabled in Grove"]),
        ),
        (
            "refer to a scheduler without topologies",
            Method::POST,
            bindings.everywhere(),
            referring("default-scheduler"),
            denied(&["scheduler backend does not implement topology-aware scheduling"]),
        ),
    ];
    let mut wrong = Vec::new();
    for (what, method, path, body, answer) in rows {
        let came = send(user, method, &format!("{path}?dryRun=All"), &body).await;
        wrong.extend(answer.compare(&came).map(|text| format!("{what}: {text}")));
    }
    wrong
}
