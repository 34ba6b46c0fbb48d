//! Devices that claims can ask for, on every node.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::mirror::send;

const DRIVER: &str = "devices.test";
/// As many as one slice can have.
const DEVICES: u32 = 128;

/// Makes the devices known to the scheduler.
pub async fn install(client: &Client) {
    let selector = format!("device.driver == \"{DRIVER}\"");
    let class = json!({
        "metadata": { "name": DRIVER },
        "spec": { "selectors": [{ "cel": { "expression": selector } }] },
    });
    let devices: Vec<_> = (0..DEVICES).map(|n| json!({ "name": format!("d{n}") })).collect();
    let slice = json!({
        "metadata": { "name": DRIVER },
        "spec": {
            "driver": DRIVER, "allNodes": true, "devices": devices,
            "pool": { "name": "all", "generation": 1, "resourceSliceCount": 1 },
        },
    });
    for (plural, object) in [("deviceclasses", class), ("resourceslices", slice)] {
        let path = format!("/apis/resource.k8s.io/v1/{plural}");
        send(client, Method::POST, &path, &object).await.unwrap();
    }
}

/// A `ResourceClaimTemplateSpec` that asks for one of them.
pub fn template_spec() -> Value {
    let exactly = json!({ "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1 });
    json!({ "spec": { "devices": { "requests": [{ "name": "device", "exactly": exactly }] } } })
}

/// A template object that asks for one of them.
pub fn template(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": template_spec() })
}
