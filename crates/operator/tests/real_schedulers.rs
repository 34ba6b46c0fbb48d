//! Schedulers other than that of Kubernetes. They do not run here; their CRDs do, with the constraints
//! of the real ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_api::testkit::foreign_crds;
use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{EVENTS, GANGS, KAI_GROUPS, PODS, SETS, VOLCANO_GROUPS};
use grove_testbed::mirror::{Namespace, condition, send, text};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::sets::{self, Manifest as _};
use http::Method;
use serde_json::{Value, json};
use xtask::cluster::Kube;

const KAI_ROLE: &str = include_str!("../../../deploy/schedulers/kai.yaml");
const VOLCANO_ROLE: &str = include_str!("../../../deploy/schedulers/volcano.yaml");

const PROFILES: &str = "scheduler: {profiles: [{name: kai-scheduler, default: true}, \
                        {name: volcano}, {name: lpx-scheduler}]}";

fn setup(configuration: &str) -> Setup<'_> {
    Setup { configuration, ..Setup::default() }
}

fn cluster() -> TestCluster {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let roles = format!("{KAI_ROLE}---\n{VOLCANO_ROLE}");
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], &roles).unwrap();
    cluster
}

/// The small set, for a scheduler.
fn set_for(scheduler: &str, labels: Value) -> Value {
    let mut set = sets::small("x").scheduler(scheduler);
    set["metadata"]["labels"] = labels;
    set
}

async fn until_backend(namespace: &Namespace, status: &str, says: &str) {
    let what = format!("the scheduler is {status}, {says}");
    namespace
        .until_is(&what, |state| {
            let Some(set) = state.get(SETS, "x") else { return false };
            let found = condition(set, "SchedulerBackendReady");
            found["status"] == status && text(&found["message"]).contains(says)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn kai_gets_a_group_for_every_gang_as_soon_as_it_is_installed() {
    let cluster = cluster();
    let operator = cluster.operator(setup(PROFILES)).await;
    let mirror = cluster.mirror().await;
    let kai = mirror.new_namespace("kai").await;
    let refused = kai.try_create(SETS, &set_for("kai-scheduler", json!({}))).await.unwrap_err();
    assert!(refused.contains("no KAI queue is configured on PodCliqueSet kai/x"), "{refused}");
    kai.create(SETS, &set_for("kai-scheduler", json!({ "kai.scheduler/queue": "test" }))).await;

    // Without KAI its sets report that, and other sets come up.
    until_backend(&kai, "False", "podgroups.scheduling.run.ai/v2alpha2").await;
    let reported = |state: &grove_testbed::mirror::State| {
        state.of(EVENTS).iter().any(|event| {
            event["reason"] == "SchedulerNotInstalled"
                && event["involvedObject"]["kind"] == "PodGang"
        })
    };
    kai.until_is("it is reported at the gang", reported).await;
    let plain = mirror.new_namespace("plain").await;
    plain.create(SETS, &set_for("default-scheduler", json!({}))).await;
    plain.until_complete(5).await;
    assert_eq!(
        condition(&plain.object(SETS, "x"), "SchedulerBackendReady"),
        &Value::Null,
        "nothing to say about a scheduler without objects"
    );

    // Installed later, without a restart.
    cluster.install(&foreign_crds::kai());
    until_backend(&kai, "True", "").await;
    let groups = cluster.mirror_of(&[KAI_GROUPS]).await.namespace("kai");
    groups
        .until_is("every gang has its group", |state| {
            state.names(KAI_GROUPS) == ["x-0", "x-0-decode-0"]
        })
        .await;
    let group = groups.object(KAI_GROUPS, "x-0");
    let gang = kai.object(GANGS, "x-0");
    assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], gang["metadata"]["uid"]);
    assert_eq!(gang["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"], "true");
    let sub_groups = json!([
        { "name": "x-0-router", "minMember": 1 },
        { "name": "x-0-decode-0-leader", "minMember": 1 },
        { "name": "x-0-decode-0-worker", "minMember": 1 },
    ]);
    let spec = json!({
        "minMember": 3, "queue": "test", "topologyConstraint": {}, "subGroups": sub_groups,
    });
    assert_eq!(group["spec"], spec);
    let pods = kai.look(|state| state.pods_of("x-0-router"));
    let pod = pods.values().next().unwrap();
    assert_eq!(pod["metadata"]["annotations"]["pod-group-name"], "x-0");
    assert_eq!(pod["metadata"]["labels"]["kai.scheduler/subgroup-name"], "x-0-router");
    kai.until_is("the gates of the base gang are lifted", |state| {
        let pods = state.pods_of("x-0-router");
        pods.values().all(|pod| pod["spec"]["schedulingGates"].is_null())
    })
    .await;

    broken_groups_are_mended(&kai, &groups).await;

    // The group is deleted with its gang.
    kai.delete(SETS, "x").await;
    groups.until_is("the groups are collected", |state| state.of(KAI_GROUPS).is_empty()).await;
    operator.stop().await;
}

/// Changes of a group by other clients, which touch no pod.
async fn broken_groups_are_mended(kai: &Namespace, groups: &Namespace) {
    let before = kai.names(PODS);
    let uid = groups.object(KAI_GROUPS, "x-0")["metadata"]["uid"].clone();
    groups.delete(KAI_GROUPS, "x-0").await;
    groups
        .until_is("a deleted group comes back", |state| {
            state.get(KAI_GROUPS, "x-0").is_some_and(|group| group["metadata"]["uid"] != uid)
        })
        .await;
    let edit = json!({
        "metadata": { "labels": { "app.kubernetes.io/part-of": "y", "theirs": "yes" } },
        "spec": { "minMember": 1, "queue": "moved", "preemptibility": "preemptible" },
    });
    groups.patch(KAI_GROUPS, "x-0", edit).await;
    groups.until_field(KAI_GROUPS, "x-0", "/spec/minMember", json!(3)).await;
    let group = groups.object(KAI_GROUPS, "x-0");
    assert_eq!(group["metadata"]["labels"]["app.kubernetes.io/part-of"], "x");
    assert_eq!(group["metadata"]["labels"]["theirs"], "yes");
    assert_eq!(group["spec"]["queue"], "moved", "that is up to KAI");
    assert_eq!(group["spec"]["preemptibility"], "preemptible");
    assert_eq!(kai.names(PODS), before);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn volcano_has_to_be_new_enough_and_its_queue_open() {
    let cluster = cluster();
    let mut old = foreign_crds::volcano();
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let properties = old[0].pointer_mut(properties).unwrap().as_object_mut().unwrap();
    properties.remove("subGroupPolicy");
    cluster.install(&old);
    let error = cluster.start_operator(setup(PROFILES)).await.failed().await;
    assert!(error.to_string().contains("install Volcano 1.14 or newer"), "{error}");
    cluster.install(&foreign_crds::volcano());
    let event = "/api/v1/namespaces/default/events/podgroups.scheduling.volcano.sh.grove-operator";
    let client = cluster.control_plane.admin().client().await.unwrap();
    let event = send(&client, Method::GET, event, &Value::Null).await.unwrap();
    assert_eq!(event["reason"], "VolcanoCapabilityUnavailable");

    // There before the operator, which therefore knows them when it is ready.
    for (name, state) in [("batch", "Open"), ("full", "Closed")] {
        let queues = "/apis/scheduling.volcano.sh/v1beta1/queues";
        let queue = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": { "name": name }, "spec": {},
        });
        send(&client, Method::POST, queues, &queue).await.unwrap();
        let status = json!({ "status": { "state": state } });
        let path = format!("{queues}/{name}/status");
        send(&client, Method::PATCH, &path, &status).await.unwrap();
    }
    let operator = cluster.operator(setup(PROFILES)).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("volcano").await;
    let in_queue = |queue: &str| {
        let mut set = set_for("volcano", json!({}));
        set["metadata"]["annotations"] = json!({ "scheduling.grove.io/volcano-queue": queue });
        set
    };
    for (queue, reason) in [("nowhere", "does not exist"), ("full", "is not Open")] {
        let refused = namespace.try_create(SETS, &in_queue(queue)).await.unwrap_err();
        let expected = format!("volcano queue \"{queue}\" {reason}");
        assert!(refused.contains(&expected), "{refused}");
    }
    // A group of another owner does not change, and has to be deleted before ours is created.
    let foreign = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "x-0" }, "spec": { "minMember": 7 },
    });
    let path = VOLCANO_GROUPS.in_namespace("volcano");
    let foreign = send(&client, Method::POST, &path, &foreign).await.unwrap();
    namespace.create(SETS, &in_queue("batch")).await;
    namespace
        .until_is("the set reports the group in the way", |state| {
            let set = state.get(SETS, "x").map(|set| set["status"]["conditions"].to_string());
            set.is_some_and(|text| text.contains("x-0 is not owned by PodGang volcano/x-0"))
        })
        .await;
    let path = format!("{path}/x-0");
    let after = send(&client, Method::GET, &path, &Value::Null).await.unwrap();
    assert_eq!(after["metadata"]["resourceVersion"], foreign["metadata"]["resourceVersion"]);
    send(&client, Method::DELETE, &path, &Value::Null).await.unwrap();
    let groups = cluster.mirror_of(&[VOLCANO_GROUPS]).await.namespace("volcano");
    groups
        .until_is("every gang has its group", |state| {
            let ours = |name: &str| {
                let group = state.get(VOLCANO_GROUPS, name);
                group.is_some_and(|group| !group["metadata"]["ownerReferences"].is_null())
            };
            ["x-0", "x-0-decode-0"].into_iter().all(ours)
        })
        .await;
    let group = groups.object(VOLCANO_GROUPS, "x-0");
    assert_eq!(
        (&group["spec"]["minMember"], &group["spec"]["queue"]),
        (&json!(3), &json!("batch"))
    );
    let policies = group["spec"]["subGroupPolicy"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|policy| text(&policy["name"])).collect();
    assert_eq!(names, ["x-0-router", "x-0-decode-0-leader", "x-0-decode-0-worker"]);

    let lpx = mirror.new_namespace("lpx").await;
    lpx.create(SETS, &set_for("lpx-scheduler", json!({}))).await;
    lpx.until_is("pods name the scheduler", |state| {
        let pods = state.of(PODS);
        pods.len() == 5 && pods.iter().all(|pod| pod["spec"]["schedulerName"] == "lpx-scheduler")
    })
    .await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn another_default_scheduler_applies_to_new_pods_and_the_set_reports_it() {
    let cluster = cluster();
    cluster.install(&foreign_crds::kai());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("moved").await;
    let mut set = sets::small("x");
    set["metadata"]["labels"] = json!({ "kai.scheduler/queue": "test" });
    namespace.create(SETS, &set).await;
    namespace.until_complete(5).await;
    let before = namespace.names(PODS);
    operator.stop().await;

    let operator = cluster.operator(setup(PROFILES)).await;
    let limited = |says: &'static str| {
        let namespace = namespace.clone();
        async move {
            namespace
                .until_is(&format!("the set says {says}"), |state| {
                    let said = condition(state.get(SETS, "x").unwrap(), "SchedulerLimits");
                    text(&said["reason"]) == "PodsOfAnotherScheduler"
                        && text(&said["message"]).contains(says)
                })
                .await;
        }
    };
    limited("5 of \"default-scheduler\"").await;
    let groups = cluster.mirror_of(&[KAI_GROUPS]).await.namespace("moved");
    groups.until_is("KAI is reported", |state| state.of(KAI_GROUPS).len() == 2).await;
    assert_eq!(namespace.names(PODS), before, "pods stay");

    let (_, pod) = namespace.look(|state| state.pods_of("x-0-router")).pop_first().unwrap();
    namespace.delete(PODS, text(&pod["metadata"]["name"])).await;
    namespace.until_complete(5).await;
    let (_, pod) = namespace.look(|state| state.pods_of("x-0-router")).pop_first().unwrap();
    assert_eq!(pod["spec"]["schedulerName"], "kai-scheduler", "new ones follow");
    limited("4 of \"default-scheduler\"").await;
    operator.stop().await;
}
