//! A minimum that changes although admission refuses that.

use serde_json::json;

use crate::support::Operator;
use crate::support::bench::Bench;
use crate::support::kinds::{KUBE_GROUPS, KUBE_GROUPS_1_36, KUBE_WORKLOADS, SETS};
use crate::support::mirror::{condition, text};
use crate::support::sets::{clique_with_min, set};

const WEBHOOKS: [&str; 2] = [
    "validatingwebhookconfigurations/podcliqueset-validating-webhook",
    "mutatingwebhookconfigurations/podcliqueset-defaulting-webhook",
];

/// Lowers a minimum while nobody looks. Where groups can be changed, they and their templates follow; else
/// the set says so. Stops the operator.
pub(crate) async fn changed(bench: &Bench, operator: Operator) {
    let namespace = bench.mirror.new_namespace("minimum").await;
    let cliques = [clique_with_min("a", 1, 1), clique_with_min("b", 3, 3)];
    bench.deploy(&namespace, &set("x", &cliques, &[]), 4).await;
    operator.stop().await;
    for webhook in WEBHOOKS {
        bench.world.cluster.kubectl(&["delete", webhook]).unwrap();
    }
    let lower = json!([{
        "op": "replace", "path": "/spec/template/cliques/1/spec/minAvailable", "value": 2,
    }]);
    namespace.patch(SETS, "x", lower).await;
    let operator = bench.world.operator(crate::setup()).await;

    let flat = namespace.look(|state| state.get(KUBE_GROUPS, "x-0").is_some());
    let old = namespace.look(|state| !state.of(KUBE_GROUPS_1_36).is_empty());
    if old {
        namespace
            .until_is("the set says that it cannot be changed", |state| {
                let said = condition(state.get(SETS, "x").unwrap(), "SchedulerBackendReady");
                said["reason"] == "MinimumOutOfSync"
                    && text(&said["message"]).contains("schedulingPolicy.gang.minCount")
            })
            .await;
        assert_eq!(
            namespace.object(KUBE_GROUPS_1_36, "x-0")["spec"]["schedulingPolicy"]["gang"],
            json!({ "minCount": 4 })
        );
    } else {
        let (group, minimum) = if flat { ("x-0", 3) } else { ("x-0-b", 2) };
        let of_group = "/spec/schedulingPolicy/gang/minCount";
        namespace.until_field(KUBE_GROUPS, group, of_group, json!(minimum)).await;
        let of_template = if flat {
            "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"
        } else {
            "/spec/compositePodGroupTemplates/0/podGroupTemplates/1/schedulingPolicy/gang/minCount"
        };
        namespace.until_field(KUBE_WORKLOADS, "x-0", of_template, json!(minimum)).await;
    }
    namespace.until_complete(4).await;
    operator.stop().await;
}
