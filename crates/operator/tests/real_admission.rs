//! The operator's webhooks on the real API server, under the operator's own role.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod admission;

use admission::{authorizer, create, good, pods, topology, update};
use grove_api::OperatorConfiguration;
use grove_runtime::clock::Clock;
use grove_testbed::cluster::{NAMESPACE, TestCluster};
use grove_testbed::kinds::{
    ACCOUNTS, AUTOSCALERS, BINDINGS, CLIQUES, CLUSTER_TOPOLOGIES, GANGS, Kind, PODS, ROLES,
    SECRETS, SERVICES, SETS,
};
use grove_testbed::mirror::{Mirror, Namespace, State, send, text};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::sets::{self, Manifest as _};
use grove_testbed::table::select;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use xtask::cluster::{Cluster, Options as ClusterOptions, Parts};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

// === rules ===

mod table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn every_rule_of_admission_is_answered() {
        let creates = create::rows().into_iter().map(|row| (Method::POST, row));
        let updates = update::rows().into_iter().map(|row| (Method::PATCH, row));
        let rows = creates.chain(updates);
        let Some(rows) = select(rows, |(_, (what, ..))| format!("admission: {what}")) else {
            return;
        };
        let cluster = TestCluster::api_server(&OPERATOR);
        let operator = cluster.operator(Setup::default()).await;
        let client = cluster.control_plane.admin().client().await.unwrap();
        let path = SETS.in_namespace(admission::NAMESPACE);
        let mut stored = good();
        stored["metadata"]["name"] = json!("stored");
        let stored = send(&client, Method::POST, &path, &stored).await.unwrap();

        let mut wrong = admission::wrong_answers(&client, &stored, &rows.rows).await;
        if rows.is_all {
            wrong.extend(pods::disagreements(&client).await);
            wrong.extend(another_order_where_there_is_none(&client, &path).await.err());
            fields_that_do_not_work_as_written_are_warned_about(&client).await;
        }
        assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
        operator.stop().await;
    }
}

mod topology_table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn every_rule_about_topology_is_answered() {
        let Some(rows) = select(topology::rows(), |(_, (what, ..))| format!("topology: {what}"))
        else {
            return;
        };
        let cluster = TestCluster::api_server(&OPERATOR);
        let setup = Setup { configuration: topology::CONFIGURATION, ..Setup::default() };
        let operator = cluster.operator(setup).await;
        let client = cluster.control_plane.admin().client().await.unwrap();
        let stored = topology::store(&client).await;
        // The operator's own write is not refused.
        let managed = cluster.mirror_of(&[CLUSTER_TOPOLOGIES]).await.namespace("");
        let exists = |state: &State| state.get(CLUSTER_TOPOLOGIES, "grove-topology").is_some();
        managed.until_is("the operator writes its topology", exists).await;

        let mut wrong = admission::wrong_answers(&client, &stored, &rows.rows).await;
        if rows.is_all {
            let alice = cluster.control_plane.user("alice", &["system:masters"]).unwrap();
            wrong.extend(topology::wrong_answers(&alice.client().await.unwrap()).await);
        }
        assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
        operator.stop().await;
    }
}

/// The order of cliques without a start order may change.
async fn another_order_where_there_is_none(
    client: &kube::Client,
    path: &str,
) -> Result<Value, String> {
    let mut unordered = good();
    unordered["metadata"]["name"] = json!("unordered");
    unordered["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder");
    send(client, Method::POST, path, &unordered).await.unwrap();
    unordered["spec"]["template"]["cliques"].as_array_mut().unwrap().swap(0, 1);
    send(client, Method::PATCH, &format!("{path}/unordered"), &unordered).await
}

async fn fields_that_do_not_work_as_written_are_warned_about(client: &kube::Client) {
    assert_eq!(admission::warnings(client, |_| {}).await, [""; 0]);
    let system: admission::Change =
        |s| admission::template(s)["priorityClassName"] = json!("system-cluster-critical");
    assert_eq!(admission::warnings(client, system).await, [""; 0]);
    let warned = admission::warnings(client, |s| {
        admission::template(s)["priorityClassName"] = json!("absent");
        let spec = &mut admission::router(s)["spec"]["podSpec"];
        spec["schedulingGates"] = json!([{ "name": "example.com/gate" }]);
        spec["restartPolicy"] = json!("Never");
    })
    .await;
    assert_eq!(warned.len(), 3, "{warned:?}");
    for text in [
        "schedulingGates: ignored",
        "restartPolicy will be ignored",
        "spec.template.priorityClassName: PriorityClass \\\"absent\\\" not found",
    ] {
        assert!(warned.iter().any(|warning| warning.contains(text)), "{text}: {warned:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn sets_are_completed_before_they_are_stored() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let operator = cluster.operator(Setup::default()).await;
    let client = cluster.control_plane.admin().client().await.unwrap();
    let mut set = sets::set("x", &[sets::clique("a", 3), sets::clique("b", 1)], &[]);
    let template = &mut set["spec"]["template"];
    template["cliques"][0]["spec"]["autoScalingConfig"] = json!({ "maxReplicas": 5 });
    template["podCliqueScalingGroups"] = json!([{ "name": "g", "cliqueNames": ["b"], "replicas": 2, "scaleConfig": { "maxReplicas": 5 } }]);

    let path = SETS.in_namespace("default");
    let stored = send(&client, Method::POST, &path, &set).await.unwrap();
    let template = &stored["spec"]["template"];
    for (pointer, value) in [
        ("/cliqueStartupType", json!("CliqueStartupTypeAnyOrder")),
        ("/terminationDelay", json!("4h0m0s")),
        ("/headlessServiceConfig/publishNotReadyAddresses", json!(true)),
        ("/cliques/0/spec/minAvailable", json!(3)),
        ("/cliques/0/spec/autoScalingConfig/minReplicas", json!(3)),
        ("/cliques/0/spec/podSpec/restartPolicy", json!("Always")),
        ("/cliques/0/spec/podSpec/terminationGracePeriodSeconds", json!(30)),
        ("/podCliqueScalingGroups/0/minAvailable", json!(1)),
        ("/podCliqueScalingGroups/0/scaleConfig/minReplicas", json!(2)),
    ] {
        assert_eq!(template.pointer(pointer), Some(&value), "{pointer}");
    }
    let short = json!({ "spec": { "template": { "terminationDelay": "90s" } } });
    let changed = send(&client, Method::PATCH, &format!("{path}/x"), &short).await.unwrap();
    assert_eq!(changed["spec"]["template"]["terminationDelay"], "1m30s");
    operator.stop().await;
}

// === the authorizer ===

/// Everything there is, with autoscalers.
async fn deploy(mirror: &Mirror) -> Namespace {
    let namespace = mirror.namespace("default");
    let mut set = sets::small("x");
    set["spec"]["template"]["cliques"][0]["spec"]["autoScalingConfig"] =
        json!({ "maxReplicas": 5 });
    namespace.create(SETS, &set).await;
    // No scheduler runs here, but the operator creates all pods and the objects beside them.
    let managed = |object: &Value| {
        object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "grove-operator"
    };
    namespace
        .until_is("everything is made", |state| {
            let kinds = [SECRETS, ACCOUNTS, SERVICES, ROLES, BINDINGS, AUTOSCALERS];
            state.of(PODS).len() == 5
                && kinds.iter().all(|kind| state.of(*kind).iter().any(|one| managed(one)))
        })
        .await;
    namespace
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn managed_objects_are_changed_by_the_operator_only() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let mut exempt = authorizer::shipped_exemptions();
    exempt.push("exempt".to_owned());
    let authorizer = json!({ "enabled": true, "exemptServiceAccountUserNames": exempt });
    let configuration = format!("authorizer: {authorizer}");
    let setup = Setup { configuration: &configuration, ..Setup::default() };
    let operator = cluster.operator(setup).await;
    let mirror = cluster.mirror().await;
    let namespace = deploy(&mirror).await;
    let user = async |name: &str| {
        cluster.control_plane.user(name, &["system:masters"]).unwrap().client().await.unwrap()
    };
    let (alice, exempt) = (user("alice").await, user("exempt").await);

    let nothing: [String; 0] = [];
    assert_eq!(authorizer::wrong_answers(&alice, false).await, nothing);
    assert_eq!(authorizer::wrong_answers(&exempt, true).await, nothing);
    for (scheduler, acts) in authorizer::SCHEDULERS {
        let client = user(scheduler).await;
        assert_eq!(authorizer::denied_acts(&client, acts).await, nothing, "{scheduler}");
    }

    // An object with the managed label that belongs to no set is not protected.
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator" });
    let mut stray = json!({ "metadata": { "name": "stray", "labels": labels }, "spec": { "clusterIP": "None" } });
    namespace.create(SERVICES, &stray).await;
    let touch = json!({ "metadata": { "annotations": { "touched": "yes" } } });
    let path = |name: &str| format!("{}/{name}", SERVICES.in_namespace("default"));
    send(&alice, Method::PATCH, &path("stray"), &touch).await.unwrap();
    stray["metadata"]["name"] = json!("orphan");
    stray["metadata"]["labels"]["app.kubernetes.io/part-of"] = json!("gone");
    namespace.create(SERVICES, &stray).await;
    send(&alice, Method::PATCH, &path("orphan"), &touch).await.unwrap();
    // Every user may scale: that changes a subresource.
    namespace.patch(CLIQUES, "x-0-router/scale", json!({ "spec": { "replicas": 2 } })).await;

    let off = json!({ "metadata": { "annotations": {
        "grove.io/disable-managed-resource-protection": "true" } } });
    namespace.patch(SETS, "x", off).await;
    // The authorizer answers from its cache, which hears of the annotation a moment later.
    let allowed = async {
        while send(&alice, Method::PATCH, &path("x-0"), &touch).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(operator.env.clock.timeout(grove_testbed::DEADLINE, allowed).await.is_some());
    assert_eq!(authorizer::wrong_answers(&alice, true).await, nothing);
    operator.stop().await;

    // Without the webhooks managed objects cannot change, and the certificate can be replaced.
    let refusal = send(&alice, Method::PATCH, &path("x-0"), &touch).await.unwrap_err();
    assert!(refusal.contains("failed calling webhook"), "{refusal}");
    let secret = format!("/api/v1/namespaces/{NAMESPACE}/secrets/grove-webhook-server-cert");
    send(&alice, Method::DELETE, &secret, &Value::Null).await.unwrap();
    let again = cluster.operator(setup).await;
    let allowed = async {
        while send(&alice, Method::PATCH, &path("x-0"), &touch).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(again.env.clock.timeout(grove_testbed::DEADLINE, allowed).await.is_some());
    again.stop().await;

    // Switched off, it is not registered any more.
    let off = cluster.operator(Setup::default()).await;
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let path = format!("{configurations}/authorizer-webhook-outside");
    let registered = send(&alice, Method::GET, &path, &Value::Null).await;
    assert!(registered.unwrap_err().starts_with("404 "));
    off.stop().await;
}

// === webhooks that do not work ===

/// Whether nothing of a set is there, not even the set.
async fn is_nowhere(client: &kube::Client, name: &str) -> bool {
    let path = format!("{}/{name}", SETS.in_namespace("default"));
    let found = send(client, Method::GET, &path, &Value::Null).await;
    let is_empty = async |kind: Kind| {
        let part_of = format!("labelSelector=app.kubernetes.io/part-of%3D{name}");
        let path = format!("{}?{part_of}", kind.in_namespace("default"));
        let list = send(client, Method::GET, &path, &Value::Null).await.unwrap();
        list["items"].as_array().unwrap().is_empty()
    };
    found.unwrap_err().starts_with("404 ")
        && is_empty(CLIQUES).await
        && is_empty(GANGS).await
        && is_empty(PODS).await
        && is_empty(SERVICES).await
}

async fn refused(client: &kube::Client, webhook: &str, cause: &str) {
    let path = SETS.in_namespace("default");
    let refusal = send(client, Method::POST, &path, &sets::small("late")).await.unwrap_err();
    let expected = format!("500 Internal error occurred: failed calling webhook \"{webhook}\"");
    assert!(refusal.starts_with(&expected), "{refusal}");
    assert!(refusal.contains(cause), "{refusal}");
    assert!(is_nowhere(client, "late").await);
}

const DEFAULTING: &str = "pcs.defaulting.webhooks.grove.io";
const VALIDATING: &str = "pcs.validating.webhooks.grove.io";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn without_webhooks_no_set_is_stored_and_other_objects_still_scale() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let client = mirror.client();
    let namespace = deploy(&mirror).await;

    // Slow: the first webhook answers, the second never does.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let slow = json!([
        { "op": "replace", "path": "/webhooks/0/clientConfig/url", "value": url },
        { "op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 1 },
    ]);
    let path = format!("{configurations}/podcliqueset-validating-webhook-outside");
    send(client, Method::PATCH, &path, &slow).await.unwrap();
    until_refused_by(client, VALIDATING).await;
    refused(client, VALIDATING, "context deadline exceeded").await;
    // Meanwhile stored sets scale: that changes a subresource.
    namespace.patch(SETS, "x/scale", json!({ "spec": { "replicas": 2 } })).await;
    namespace.until_is("the second replica", |state| state.of(PODS).len() == 10).await;

    // Down.
    operator.stop().await;
    refused(client, DEFAULTING, "connection refused").await;

    // Expired: an operator whose clock is a week late creates certificates for last week.
    let secret = format!("/api/v1/namespaces/{NAMESPACE}/secrets/grove-webhook-server-cert");
    send(client, Method::DELETE, &secret, &Value::Null).await.unwrap();
    let week = jiff::SignedDuration::from_hours(7 * 24);
    let clock = Clock::at(Clock::system().wall() - week);
    let stale = cluster.start_operator_at(clock, Setup::default()).await;
    stale.ready().await;
    refused(client, DEFAULTING, "certificate has expired").await;
    stale.crash().await;

    // The next one finds the expired certificate and renews it.
    let operator = cluster.operator(Setup::default()).await;
    let admitted = async {
        while namespace.try_create(SETS, &sets::small("late")).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = Clock::system().timeout(grove_testbed::DEADLINE, admitted).await;
    assert!(in_time.is_some(), "admission works again");
    namespace.until_is("its pods are made", |state| state.of(PODS).len() == 15).await;
    operator.stop().await;
}

/// A change of a webhook configuration works some time after it is stored.
async fn until_refused_by(client: &kube::Client, webhook: &str) {
    let path = format!("{}?dryRun=All", SETS.in_namespace("default"));
    let refused = async {
        loop {
            let answer = send(client, Method::POST, &path, &sets::small("late")).await;
            if answer.is_err_and(|refusal| refusal.contains(webhook)) {
                return;
            }
        }
    };
    Clock::system().timeout(grove_testbed::DEADLINE, refused).await.expect("the change works");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_set_that_breaks_the_rules_of_today_can_be_deleted() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let namespace = deploy(&mirror).await;
    operator.stop().await;
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let client = mirror.client();
    for path in [
        format!("{configurations}/podcliqueset-validating-webhook-outside"),
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/\
         podcliqueset-defaulting-webhook-outside"
            .to_owned(),
    ] {
        send(client, Method::DELETE, &path, &Value::Null).await.unwrap();
    }
    let wrong = json!([{
        "op": "replace", "path": "/spec/template/cliques/0/spec/minAvailable", "value": 9,
    }]);
    // The API server forgets the webhooks some time after they are gone.
    let stored = async {
        while namespace.try_patch(SETS, "x", wrong.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(Clock::system().timeout(grove_testbed::DEADLINE, stored).await.is_some());

    let operator = cluster.operator(Setup::default()).await;
    namespace.delete(SETS, "x").await;
    namespace.until_gone(SETS, "x").await;
    operator.stop().await;
}

// === installation ===

/// Does what the token controller of Kubernetes does.
async fn fill_token(namespace: &Namespace, secret: &str) {
    namespace.until_is("the Secret is there", |state| state.get(SECRETS, secret).is_some()).await;
    namespace.patch(SECRETS, secret, json!({ "data": { "token": "dG9rZW4=" } })).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_set_that_waits_needs_the_image_of_the_container_that_waits() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let operator = cluster.operator(Setup { init_image: None, ..Setup::default() }).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.namespace("default");
    let cliques = [sets::clique("a", 1), sets::clique("b", 1)];
    namespace.create(SETS, &sets::set("x", &cliques, &[]).start_order("InOrder")).await;

    let reported = async |kind: Kind, name: &str| {
        let error = namespace
            .until("the problem is reported", |state| {
                let errors = state.get(kind, name)?["status"]["lastErrors"].clone();
                let code = "ERR_INITCONTAINER_ENVIRONMENT_VARIABLE_MISSING";
                errors.as_array()?.iter().find(|error| error["code"] == code).cloned()
            })
            .await;
        let description = text(&error["description"]);
        assert!(description.contains("GROVE_INIT_CONTAINER_IMAGE"), "{description}");
    };
    reported(SETS, "x").await;
    namespace.until_is("the first clique has its pod", |state| state.of(PODS).len() == 1).await;
    // Nothing fills in tokens here.
    fill_token(&namespace, "x-ic-sat").await;
    reported(CLIQUES, "x-0-b").await;
    operator.stop().await;

    let operator = cluster.operator(Setup::default()).await;
    namespace.until_is("all are made", |state| state.of(PODS).len() == 2).await;
    namespace.until_field(CLIQUES, "x-0-b", "/status/lastErrors", json!(null)).await;
    namespace.until_field(SETS, "x", "/status/lastErrors", json!(null)).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn the_installation_is_accepted_as_it_is() {
    let options = ClusterOptions { parts: Parts::ApiServer, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).unwrap();

    // Twice: an upgrade is the same command.
    for _ in 0..2 {
        cluster.kubectl(&["apply", "--server-side", "-k", DEPLOY]).unwrap();
    }

    // The namespace enforces the restricted Pod Security Standard, for pods of the Deployment too.
    let level = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    let level = cluster.kubectl(&["get", "namespace", NAMESPACE, "-o", level]).unwrap();
    assert_eq!(level.trim(), "restricted");
    let args = ["get", "deployment", "grove-operator", "-n", NAMESPACE, "-o", "json"];
    let deployment: Value = serde_json::from_str(&cluster.kubectl(&args).unwrap()).unwrap();
    let template = &deployment["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "operator", "namespace": NAMESPACE }, "spec": template["spec"],
    });
    let create = ["create", "--dry-run=server", "-f", "-"];
    cluster.kubectl_with_stdin(&create, &pod.to_string()).unwrap();
    let mut loose = pod;
    loose["spec"]["securityContext"] = json!({});
    let refused = cluster.kubectl_with_stdin(&create, &loose.to_string()).unwrap_err();
    assert!(format!("{refused:#}").contains("violates PodSecurity"), "{refused:#}");

    let args = ["get", "configmap", "grove-operator", "-n", NAMESPACE, "-o"];
    let path = ["jsonpath={.data.config\\.yaml}"];
    let configuration = cluster.kubectl(&[&args[..], &path].concat()).unwrap();
    OperatorConfiguration::from_yaml(&configuration).unwrap();
}

/// The webhook configurations that exist.
async fn configurations(client: &kube::Client) -> Vec<String> {
    let mut names = Vec::new();
    for plural in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let list = send(client, Method::GET, &path, &Value::Null).await.unwrap();
        names.extend(list["items"].as_array().unwrap().iter().map(grove_testbed::mirror::name_of));
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn operators_inside_and_outside_the_cluster_take_over_from_each_other() {
    let cluster = TestCluster::api_server(&OPERATOR);
    let client = cluster.control_plane.admin().client().await.unwrap();
    let install = ["apply", "--server-side", "-k", DEPLOY];
    let inside = [
        "podcliqueset-defaulting-webhook",
        "clustertopology-validating-webhook",
        "podcliqueset-validating-webhook",
    ];
    let outside = inside.map(|name| format!("{name}-outside"));

    // Outside, where there is an installation.
    cluster.control_plane.kubectl(&install).unwrap();
    assert_eq!(configurations(&client).await, inside);
    let operator = cluster.operator(Setup::default()).await;
    assert_eq!(configurations(&client).await, outside);
    let path = SETS.in_namespace("default");
    // A change of the configurations works some time after it is stored.
    let admitted = async {
        while send(&client, Method::POST, &path, &sets::small("x")).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    assert!(operator.env.clock.timeout(grove_testbed::DEADLINE, admitted).await.is_some());
    operator.stop().await;

    // An installation, where there was an operator outside.
    cluster.control_plane.kubectl(&install).unwrap();
    let setup = Setup { install_crds: false, ..Setup::default() };
    let (service, clock) = (grove_operator::WebhookAddress::Service, Clock::system());
    let operator = cluster.start_operator_behind(service, clock, setup).await;
    let taken_over = async {
        while configurations(&client).await != inside {
            tokio::task::yield_now().await;
        }
    };
    assert!(Clock::system().timeout(grove_testbed::DEADLINE, taken_over).await.is_some());
    operator.stop().await;

    // What is not the operator's is not taken over, and it is named.
    let webhook = json!({
        "name": "pods.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://127.0.0.1:1/" },
    });
    let foreign = cluster.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": outside[2] }, "webhooks": [webhook],
    }));
    let foreign: Value = serde_json::from_str(&foreign.unwrap()).unwrap();
    let operator = cluster.start_operator(Setup::default()).await;
    let problem = format!("ValidatingWebhookConfiguration {} already exists", outside[2]);
    let reported = async {
        while !format!("{:?}", operator.env.readiness.missing()).contains(&problem) {
            tokio::task::yield_now().await;
        }
    };
    assert!(operator.env.clock.timeout(grove_testbed::DEADLINE, reported).await.is_some());
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let after = send(&client, Method::GET, &format!("{path}/{}", outside[2]), &Value::Null).await;
    assert_eq!(after.unwrap()["metadata"]["uid"], foreign["metadata"]["uid"]);
    operator.stop().await;
}
