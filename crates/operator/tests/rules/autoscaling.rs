//! Autoscalers: created, changed and deleted with the template, and followed.

use serde_json::{Value, json};

use super::{Fixture, rules};
use grove_testbed::kinds::{AUTOSCALERS, CLIQUES, GROUPS, SETS};
use grove_testbed::mirror::Namespace;
use grove_testbed::sets::small;

rules! {
    a_scale_up_by_an_autoscaler_is_followed,
    autoscalers_follow_the_template,
}

/// A set with autoscalers for the router and the group.
fn scaled(min_replicas: i32) -> Value {
    let mut set = small("x");
    let config = json!({ "minReplicas": min_replicas, "maxReplicas": 5 });
    let template = &mut set["spec"]["template"];
    template["cliques"][0]["spec"]["autoScalingConfig"] = config.clone();
    template["podCliqueScalingGroups"][0]["scaleConfig"] = config;
    set
}

async fn a_scale_up_by_an_autoscaler_is_followed(_: Fixture, namespace: Namespace) {
    // Without a metrics server the autoscaler still keeps its bounds. It looks every 15 s.
    namespace.create(SETS, &scaled(3)).await;

    namespace.until_field(CLIQUES, "x-0-router", "/spec/replicas", json!(3)).await;
    namespace.until_field(GROUPS, "x-0-decode", "/spec/replicas", json!(3)).await;
    namespace.until_complete(3 + 3 * 2).await;
}

async fn autoscalers_follow_the_template(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &scaled(1), 5).await;
    assert_eq!(namespace.names(AUTOSCALERS), ["x-0-decode", "x-0-router"]);
    let spec = |name: &str| namespace.object(AUTOSCALERS, name)["spec"].clone();
    let target =
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "x-0-router" });
    assert_eq!(spec("x-0-router")["scaleTargetRef"], target);
    assert_eq!(spec("x-0-decode")["scaleTargetRef"]["kind"], "PodCliqueScalingGroup");
    let bounds =
        |name: &str| [&spec(name)["minReplicas"], &spec(name)["maxReplicas"]].map(Value::to_string);
    assert_eq!(bounds("x-0-router"), ["1", "5"]);

    let path = "/spec/template/podCliqueScalingGroups/0/scaleConfig";
    let metric = json!({ "type": "Resource", "resource": {
        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 42 } } });
    let change = json!([
        { "op": "remove", "path": "/spec/template/cliques/0/spec/autoScalingConfig" },
        { "op": "replace", "path": format!("{path}/maxReplicas"), "value": 7 },
        { "op": "add", "path": format!("{path}/metrics"), "value": [metric] },
    ]);
    namespace.patch(SETS, "x", change).await;
    namespace.until_gone(AUTOSCALERS, "x-0-router").await;
    namespace.until_field(AUTOSCALERS, "x-0-decode", "/spec/maxReplicas", json!(7)).await;
    namespace.until_field(AUTOSCALERS, "x-0-decode", "/spec/metrics/0", metric).await;
}
