//! The headless Service that gives the pods of a set replica their DNS names.

use grove_api::{
    labels::{self, Component},
    names,
};
use serde_json::{Value, json};

use super::metadata_of_replica;
use crate::layout::Layout;

/// The headless Service of one replica of a set.
pub fn headless_service(layout: &Layout<'_>, set_replica: u32) -> Value {
    let name = names::headless_service(layout.set_name(), set_replica);
    let mut selector = labels::default_set(layout.set_name());
    selector.insert(labels::POD_CLIQUE_SET_REPLICA_INDEX.to_owned(), set_replica.to_string());
    let config = layout.template().headless_service_config.as_ref();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata_of_replica(layout, Component::HeadlessService, name, set_replica),
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses":
                config.is_some_and(|config| config.publish_not_ready_addresses),
        },
    })
}
