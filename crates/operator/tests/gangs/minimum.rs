//! What changes while the operator is not there: a minimum, although admission refuses that, and its
//! configuration.

use serde_json::json;

use super::uid;
use grove_testbed::fixture::{Fixture, pod};
use grove_testbed::kinds::{KUBE_GROUPS, KUBE_GROUPS_1_36, KUBE_WORKLOADS, PODS, SETS};
use grove_testbed::mirror::{condition, text};
use grove_testbed::operator::{Operator, Setup};
use grove_testbed::sets::{Manifest as _, clique, set};

const WEBHOOKS: [&str; 2] = [
    "validatingwebhookconfigurations/podcliqueset-validating-webhook-outside",
    "mutatingwebhookconfigurations/podcliqueset-defaulting-webhook-outside",
];

/// Turns gangs off and on again, and lowers a minimum while nobody looks. A gang that began without groups
/// goes on without. Where groups can be changed, they and their templates follow the minimum; else the set
/// says so. Stops the operator.
pub(crate) async fn changed(fixture: &Fixture, operator: Operator) {
    let namespace = fixture.mirror.new_namespace("minimum").await;
    let cliques = [clique("a", 1).min_available(1), clique("b", 3).min_available(3)];
    fixture.deploy(&namespace, &set("x", &cliques, &[]), 4).await;
    operator.stop().await;
    let without = fixture.cluster.operator(Setup::default()).await;
    let plain = fixture.mirror.new_namespace("plain").await;
    fixture.deploy(&plain, &set("x", &cliques, &[]), 4).await;
    without.stop().await;
    for webhook in WEBHOOKS {
        fixture.cluster.control_plane.kubectl(&["delete", webhook]).unwrap();
    }
    let lower = json!([{
        "op": "replace", "path": "/spec/template/cliques/1/spec/minAvailable", "value": 2,
    }]);
    namespace.patch(SETS, "x", lower).await;
    let operator = fixture.cluster.operator(crate::setup()).await;

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

    plain
        .until_is("the set says that it has no groups", |state| {
            let said = condition(state.get(SETS, "x").unwrap(), "SchedulerBackendReady");
            said["reason"] == "GangBegunWithoutGroups"
        })
        .await;
    let lost = pod(&plain, "x-0-b", 1);
    plain.delete(PODS, text(&lost["metadata"]["name"])).await;
    plain
        .until_is("a lost pod is replaced", |state| {
            let new = state.pods_of("x-0-b").remove("x-0-b-1");
            let new = new.filter(|new| uid(new) != uid(&lost));
            new.is_some_and(|new| condition(&new, "Ready")["status"] == "True")
        })
        .await;
    operator.stop().await;
}
