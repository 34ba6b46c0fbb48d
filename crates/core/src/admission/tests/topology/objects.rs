//! ClusterTopologies and ClusterTopologyBindings.

use grove_api::{ClusterTopology, ClusterTopologyBinding, field_error::FieldError};

use super::*;
use crate::admission::{
    Operation, TopologyRequest, authorize_topology, validate_cluster_topology,
    validate_topology_binding,
};

fn object<T: serde::de::DeserializeOwned>(spec: &Value) -> T {
    serde_json::from_value(json!({"metadata": {"name": "t"}, "spec": spec})).unwrap()
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn binding_errors(spec: &Value) -> Vec<String> {
    let binding: ClusterTopologyBinding = object(spec);
    let is_topology_aware = |name: &str| name == "kai-scheduler";
    messages(&validate_topology_binding(&binding, &context(), is_topology_aware))
}

#[test]
fn domains_and_keys_are_unique_label_keys() {
    let rows: [(Value, &[&str]); 4] = [
        (
            json!([{"domain": "rack", "key": "a/b"}, {"domain": "host", "key": "kubernetes.io/hostname"}]),
            &[],
        ),
        (
            json!([{"domain": "rack", "key": "a/b"}, {"domain": "rack", "key": "a/c"}]),
            &["spec.levels[1].domain: Duplicate value: \"rack\""],
        ),
        (
            json!([{"domain": "rack", "key": "a/b"}, {"domain": "host", "key": "a/b"}]),
            &["spec.levels[1].key: Duplicate value: \"a/b\""],
        ),
        (
            json!([{"domain": "rack", "key": "a b"}]),
            &["spec.levels[0].key: Invalid value: \"a b\": must be a node label key such as \
               topology.kubernetes.io/zone"],
        ),
    ];
    for (levels, expected) in rows {
        let topology: ClusterTopology = object(&json!({"levels": levels}));
        assert_eq!(messages(&validate_cluster_topology(&topology)), expected);
        assert_eq!(binding_errors(&json!({"levels": levels})), expected);
    }
}

#[test]
fn bindings_refer_to_enabled_topology_aware_schedulers_once() {
    let errors = |names: &[&str]| {
        let references: Vec<_> = names
            .iter()
            .map(|name| json!({"schedulerName": name, "topologyReference": "x"}))
            .collect();
        binding_errors(&json!({
            "levels": [{"domain": "rack", "key": "a/b"}], "schedulerTopologyBindings": references,
        }))
    };
    assert_eq!(errors(&["kai-scheduler"]), [""; 0]);
    let path = |index: usize| format!("spec.schedulerTopologyReferences[{index}].schedulerName");
    assert_eq!(
        errors(&["kai-scheduler", "kai-scheduler", "volcano", "default-scheduler"]),
        [
            format!("{}: Duplicate value: \"kai-scheduler\"", path(1)),
            format!(
                "{}: Invalid value: \"volcano\": scheduler backend is not enabled in Grove",
                path(2)
            ),
            format!(
                "{}: Invalid value: \"default-scheduler\": scheduler backend does not implement topology-aware \
                 scheduling",
                path(3)
            ),
        ]
    );
}

#[test]
fn only_the_operator_writes_the_managed_topology() {
    let operators = ["operator".to_owned(), "admin".to_owned()];
    let denial = |operation, user, name| {
        authorize_topology(&TopologyRequest { operation, user, name }, &operators)
    };
    for (operation, verb) in [
        (Operation::Create, "created"),
        (Operation::Update, "modified"),
        (Operation::Delete, "deleted"),
    ] {
        let text = format!("ClusterTopology 'grove-topology' can only be {verb} by the operator");
        let message = denial(operation, "alice", "grove-topology").unwrap();
        assert!(message.starts_with(&text), "{message}");
        assert_eq!(denial(operation, "operator", "grove-topology"), None);
        assert_eq!(denial(operation, "admin", "grove-topology"), None);
        assert_eq!(denial(operation, "alice", "other"), None);
    }
}
