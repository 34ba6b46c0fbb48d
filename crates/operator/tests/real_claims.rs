//! Claims that pods share, and the domains of multi-node networks. Devices are made up, the scheduler that
//! hands them out is real; the driver of the network is played by the test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::collections::BTreeMap;

use grove_api::testkit::foreign_crds;
use grove_testbed::cluster::TestCluster;
use grove_testbed::devices;
use grove_testbed::kinds::{
    CLAIM_TEMPLATES, CLAIMS, CLIQUES, DOMAINS, EVENTS, GANGS, GROUPS, Kind, PODS, SETS,
};
use grove_testbed::mirror::{Namespace, State, condition, name_of, send, text};
use grove_testbed::operator::{OPERATOR, RBAC, Setup};
use grove_testbed::sets::{self, Manifest as _};
use http::Method;
use serde_json::{Value, json};
use xtask::cluster::Kube;

const DOMAINS_ROLE: &str = include_str!("../../../deploy/resources/compute-domains.yaml");

async fn scale(namespace: &Namespace, kind: Kind, name: &str, replicas: i32) {
    let patch = json!({ "spec": { "replicas": replicas } });
    namespace.patch(kind, &format!("{name}/scale"), patch).await;
}

/// Waits until a condition of the set has this status and reason, and its message contains a text.
async fn until_condition(namespace: &Namespace, type_: &str, is: [&str; 2], message: &str) {
    let what = format!("{type_} is {is:?} and says {message:?}");
    namespace
        .until_is(&what, |state| {
            let Some(set) = state.get(SETS, "x") else { return false };
            let found = condition(set, type_);
            [&found["status"], &found["reason"]].map(text) == is
                && text(&found["message"]).contains(message)
        })
        .await;
}

/// Waits until an object reports an error.
async fn until_reported(namespace: &Namespace, kind: Kind, name: &str, message: &str) {
    namespace
        .until_is(&format!("{name} reports {message:?}"), |state| {
            let Some(object) = state.get(kind, name) else { return false };
            object["status"]["lastErrors"].to_string().contains(message)
        })
        .await;
}

fn claims_of(pod: &Value) -> Vec<String> {
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    claims.map(|claim| text(&claim["resourceClaimName"]).to_owned()).collect()
}

/// The claims that pods name, by host name.
fn named(state: &State) -> BTreeMap<String, Vec<String>> {
    let pods = state.of(PODS).into_iter();
    pods.map(|pod| (text(&pod["spec"]["hostname"]).to_owned(), claims_of(pod))).collect()
}

/// The operator's role without the rules for an API group.
fn without(group: &str) -> Value {
    let objects: Vec<Value> = serde_saphyr::from_multiple(RBAC).unwrap();
    let is_role = |object: &Value| object["kind"] == "ClusterRole";
    let mut role = objects.into_iter().find(is_role).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["apiGroups"] != json!([group]));
    role
}

// === claims ===

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn claims_are_created_used_repaired_and_deleted_with_their_owners() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    devices::install(mirror.client()).await;
    let namespace = mirror.new_namespace("claims").await;

    a_missing_template_is_reported_and_its_creation_noticed(&namespace, &mirror).await;
    let names = namespace.look(named);
    let expected = [
        ("x-0-router-0", vec!["x-0-beside", "x-0-router-0-own"]),
        ("x-0-decode-0-leader-0", vec!["x-all-own", "x-0-beside", "x-0-decode-0-leader-all-own"]),
        ("x-0-decode-0-worker-0", vec!["x-all-own", "x-0-beside", "x-0-decode-0-own"]),
        ("x-0-decode-1-leader-0", vec!["x-all-own", "x-0-beside", "x-0-decode-1-leader-all-own"]),
        ("x-0-decode-1-worker-0", vec!["x-all-own", "x-0-beside", "x-0-decode-1-own"]),
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(host, claims)| {
            (host.to_owned(), claims.into_iter().map(str::to_owned).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(names, expected);
    let shared = namespace.object(CLAIMS, "x-all-own");
    assert_eq!(shared["status"]["reservedFor"].as_array().unwrap().len(), 4, "the group's pods");

    claims_follow_replicas(&namespace).await;
    changed_and_deleted_claims_are_repaired(&namespace).await;

    // Nothing is written about claims that are as they should be.
    cluster
        .until_no_writes(&mirror, &operator.requests, grove_testbed::operator::is_not_for_probe)
        .await;
    let mark = operator.requests.mark();
    namespace.patch(SETS, "x", json!({ "metadata": { "annotations": { "a": "b" } } })).await;
    cluster
        .until_no_writes(&mirror, &operator.requests, grove_testbed::operator::is_not_for_probe)
        .await;
    let writes = operator.writes_since(mark);
    assert!(!writes.iter().any(|write| write.contains("resourceclaims")), "{writes:?}");

    namespace.delete(SETS, "x").await;
    namespace.until_is("nothing is left", State::is_empty).await;
    operator.stop().await;
}

/// The set needs a template that comes late.
async fn a_missing_template_is_reported_and_its_creation_noticed(
    namespace: &Namespace,
    mirror: &grove_testbed::mirror::Mirror,
) {
    namespace.create(SETS, &sets::sharing("x")).await;
    let missing = "ResourceClaimTemplate claims/beside not found";
    until_reported(namespace, SETS, "x", missing).await;
    let is = ["False", "ResourceClaimTemplateNotFound"];
    until_condition(namespace, "ResourceClaimsReady", is, "claims/beside").await;
    namespace
        .until_is("it is reported", |state| {
            state.of(EVENTS).iter().any(|event| {
                event["reason"] == "ResourceClaimCreateFailed"
                    && event["involvedObject"]["kind"] == "PodCliqueSet"
                    && text(&event["message"]).contains(missing)
            })
        })
        .await;
    // Nobody is released before the claims exist that pods of the gang name.
    namespace
        .until_is("the gang waits for its claims", |state| {
            let gang = state.get(GANGS, "x-0");
            let waits = |gang: &Value| {
                let initialized = condition(gang, "Initialized");
                initialized["status"] == "False"
                    && text(&initialized["message"]).starts_with("ResourceClaim x-0-beside")
            };
            gang.is_some_and(|gang| waits(gang)) && state.of(PODS).len() == 5
        })
        .await;
    let gates = namespace.look(|state| {
        let pods = state.of(PODS);
        pods.iter().filter(|pod| !pod["spec"]["schedulingGates"].is_null()).count()
    });
    assert_eq!(gates, 5);
    let templates = CLAIM_TEMPLATES.in_namespace("claims");
    let template = devices::template("beside");
    send(mirror.client(), Method::POST, &templates, &template).await.unwrap();
    namespace.until_complete(5).await;
    let is = ["True", "ResourceClaimsAvailable"];
    until_condition(namespace, "ResourceClaimsReady", is, "").await;
    let errors = namespace.object(SETS, "x")["status"]["lastErrors"].clone();
    assert!(errors.as_array().is_none_or(Vec::is_empty), "{errors}");
}

/// Scaling at every level.
async fn claims_follow_replicas(namespace: &Namespace) {
    let until_claims = |with: &'static [&'static str], without: &'static [&'static str]| async move {
        let what = format!("there are claims {with:?} and no {without:?}");
        namespace
            .until_is(&what, |state| {
                let names = state.names(CLAIMS);
                let has = |name: &&str| names.iter().any(|one| one == name);
                with.iter().all(has) && !without.iter().any(has)
            })
            .await;
    };

    scale(namespace, CLIQUES, "x-0-router", 3).await;
    namespace.until_complete(7).await;
    until_claims(&["x-0-router-0-own", "x-0-router-1-own", "x-0-router-2-own"], &[]).await;
    scale(namespace, CLIQUES, "x-0-router", 1).await;
    namespace.until_complete(5).await;
    let (host, pod) = namespace.look(|state| state.pods_of("x-0-router")).pop_first().unwrap();
    let own = format!("{host}-own");
    assert!(claims_of(&pod).contains(&own));
    // The next pod gets index 0; the claim of any other index is deleted with its pod.
    let kept = [own, "x-0-router-0-own".to_owned()];
    namespace
        .until_is("claims of pods that are gone go", |state| {
            let names = state.names(CLAIMS).into_iter();
            let mut others = names.filter(|name| name.starts_with("x-0-router-"));
            others.all(|name| kept.contains(&name))
        })
        .await;
    assert!(namespace.names(CLAIMS).contains(&kept[0]));

    scale(namespace, GROUPS, "x-0-decode", 3).await;
    namespace.until_complete(7).await;
    until_claims(&["x-0-decode-2-own", "x-0-decode-2-leader-all-own"], &[]).await;
    scale(namespace, GROUPS, "x-0-decode", 2).await;
    namespace.until_complete(5).await;
    until_claims(&["x-0-decode-1-own"], &["x-0-decode-2-own", "x-0-decode-2-leader-all-own"]).await;

    scale(namespace, SETS, "x", 2).await;
    namespace.until_complete(10).await;
    until_claims(&["x-1-beside", "x-1-router-0-own", "x-1-decode-0-own"], &[]).await;
    scale(namespace, SETS, "x", 1).await;
    namespace.until_complete(5).await;
    let gone = &["x-1-beside", "x-1-router-0-own", "x-1-decode-0-own"];
    until_claims(&["x-0-beside", "x-all-own"], gone).await;
}

async fn changed_and_deleted_claims_are_repaired(namespace: &Namespace) {
    let part_of = "/metadata/labels/app.kubernetes.io~1part-of";
    let edit = json!({ "metadata": {
        "labels": { "app.kubernetes.io/part-of": "y", "theirs": "yes" },
    }});
    namespace.patch(CLAIMS, "x-all-own", edit).await;
    namespace.until_field(CLAIMS, "x-all-own", part_of, json!("x")).await;
    assert_eq!(namespace.object(CLAIMS, "x-all-own")["metadata"]["labels"]["theirs"], "yes");
    for (claim, kind) in [
        ("x-0-beside", "PodCliqueSet"),
        ("x-0-decode-0-own", "PodCliqueScalingGroup"),
        ("x-0-decode-0-leader-all-own", "PodClique"),
    ] {
        let orphan = json!({ "metadata": { "ownerReferences": null } });
        namespace.patch(CLAIMS, claim, orphan).await;
        let owner = "/metadata/ownerReferences/0/kind";
        namespace.until_field(CLAIMS, claim, owner, json!(kind)).await;
    }

    // Kubernetes keeps a claim in use; it is deleted with its pod and recreated for the next one.
    let claim = "x-0-decode-0-own";
    let uid = namespace.object(CLAIMS, claim)["metadata"]["uid"].clone();
    namespace.delete(CLAIMS, claim).await;
    let worker = "x-0-decode-0-worker";
    let (_, pod) = namespace.look(|state| state.pods_of(worker)).pop_first().unwrap();
    namespace.delete(PODS, &name_of(&pod)).await;
    namespace
        .until_is("the claim is another one", |state| {
            state.get(CLAIMS, claim).is_some_and(|claim| claim["metadata"]["uid"] != uid)
        })
        .await;
    namespace.until_complete(5).await;
    let (_, pod) = namespace.look(|state| state.pods_of(worker)).pop_first().unwrap();
    assert!(claims_of(&pod).contains(&claim.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_missing_right_is_reported_and_its_grant_noticed() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let admin = cluster.control_plane.admin().client().await.unwrap();
    devices::install(&admin).await;
    cluster.apply(&without("resource.k8s.io")).unwrap();
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let plain = mirror.new_namespace("plain").await;
    plain.create(SETS, &sets::small("x")).await;
    plain.until_complete(5).await;
    assert_eq!(condition(&plain.object(SETS, "x"), "ResourceClaimsReady"), &Value::Null);
    plain.delete(SETS, "x").await;
    plain.until_is("it goes as well", State::is_empty).await;

    let namespace = mirror.new_namespace("claims").await;
    let templates = CLAIM_TEMPLATES.in_namespace("claims");
    let template = devices::template("beside");
    send(mirror.client(), Method::POST, &templates, &template).await.unwrap();
    namespace.create(SETS, &sets::sharing("x")).await;
    let may_not = "the operator may not list and watch resourceclaims of resource.k8s.io/v1";
    until_condition(&namespace, "ResourceClaimsReady", ["False", "ApiForbidden"], may_not).await;
    until_reported(&namespace, CLIQUES, "x-0-router", may_not).await;
    until_reported(&namespace, GROUPS, "x-0-decode", may_not).await;
    assert_eq!(namespace.names(PODS), [""; 0], "pods would have to do without their claims");

    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], RBAC).unwrap();
    namespace.until_complete(5).await;
    let is = ["True", "ResourceClaimsAvailable"];
    until_condition(&namespace, "ResourceClaimsReady", is, "").await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_cluster_without_the_api_runs_everything_but_sets_that_share() {
    let cluster =
        TestCluster::api_server_with(&OPERATOR, &["--runtime-config=resource.k8s.io/v1=false"]);
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror_of(&[SETS, GROUPS, CLIQUES, PODS]).await;
    let namespace = mirror.new_namespace("claims").await;
    namespace.create(SETS, &sets::sharing("x")).await;
    namespace.create(SETS, &sets::small("plain")).await;

    let not_served = "the API server does not serve resourceclaims of resource.k8s.io/v1";
    until_condition(&namespace, "ResourceClaimsReady", ["False", "ApiNotServed"], not_served).await;
    until_reported(&namespace, SETS, "x", not_served).await;
    until_reported(&namespace, CLIQUES, "x-0-router", not_served).await;
    namespace
        .until_is("the other set has its pods", |state| {
            let hosts = named(state);
            hosts.len() == 5 && hosts.keys().all(|host| host.starts_with("plain-"))
        })
        .await;
    for set in ["x", "plain"] {
        namespace.delete(SETS, set).await;
    }
    namespace.until_is("both go, with all their parts", State::is_empty).await;
    operator.stop().await;
}

// === domains ===

/// A set with GPUs: the router in the group of the set, workers in one of their own.
fn with_domains() -> Value {
    let mut set = sets::small("x");
    set["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": "all" });
    let cliques = set["spec"]["template"]["cliques"].as_array_mut().unwrap();
    for clique in [0, 2] {
        let container = &mut cliques[clique]["spec"]["podSpec"]["containers"][0];
        container["resources"] = json!({ "limits": { "nvidia.com/gpu": 1 } });
    }
    cliques[2]["annotations"] = json!({ "grove.io/mnnvl-group": "work" });
    set
}

/// The object that the driver creates for a domain.
async fn play_driver(
    namespace: &Namespace,
    domains: &Namespace,
    client: &kube::Client,
    name: &str,
) {
    domains
        .until_is(&format!("there is a domain {name}"), |state| state.get(DOMAINS, name).is_some())
        .await;
    let templates = CLAIM_TEMPLATES.in_namespace(&namespace.name);
    send(client, Method::POST, &templates, &devices::template(name)).await.unwrap();
    let held = json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "driver.test/x" }]);
    domains.patch(DOMAINS, name, held).await;
}

async fn driver_is_done(domains: &Namespace, name: &str) {
    domains.until_field(DOMAINS, name, "/metadata/finalizers", json!(["driver.test/x"])).await;
    assert!(!domains.object(DOMAINS, name)["metadata"]["deletionTimestamp"].is_null());
    let released = json!({ "metadata": { "finalizers": null } });
    domains.patch(DOMAINS, name, released).await;
    domains.until_gone(DOMAINS, name).await;
}

async fn until_event(namespace: &Namespace, reason: &str) {
    namespace
        .until_is(&format!("{reason} is reported"), |state| {
            state.of(EVENTS).iter().any(|event| {
                event["reason"] == reason && event["involvedObject"]["kind"] == "PodCliqueSet"
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn replicas_have_their_domains_while_they_need_them() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], DOMAINS_ROLE).unwrap();
    let setup = Setup { configuration: "network: {autoMNNVLEnabled: true}", ..Setup::default() };
    let error = cluster.start_operator(setup).await.failed().await.to_string();
    assert!(error.contains("MNNVL preflight check failed"), "{error}");
    assert!(error.contains("ComputeDomain CRD (computedomains.resource.nvidia.com"), "{error}");

    cluster.install(&foreign_crds::compute_domain());
    let operator = cluster.operator(setup).await;
    let mirror = cluster.mirror().await;
    let client = mirror.client().clone();
    devices::install(&client).await;
    let namespace = mirror.new_namespace("domains").await;
    let all = cluster.mirror_of(&[DOMAINS]).await;
    let domains = all.namespace("domains");

    namespace.create(SETS, &with_domains()).await;
    for domain in ["x-0-all", "x-0-work"] {
        play_driver(&namespace, &domains, &client, domain).await;
    }
    namespace.until_complete(5).await;
    until_event(&namespace, "ComputeDomainCreateSuccessful").await;
    pods_join_their_domains(&namespace);
    let uid = domains.object(DOMAINS, "x-0-all")["metadata"]["uid"].clone();

    // A deleted one is recreated when the driver has released it.
    domains.delete(DOMAINS, "x-0-all").await;
    driver_is_done_and_it_is_back(&domains, &uid).await;

    // Out and in, and down to nothing.
    scale(&namespace, SETS, "x", 2).await;
    for domain in ["x-1-all", "x-1-work"] {
        play_driver(&namespace, &domains, &client, domain).await;
    }
    namespace.until_complete(10).await;
    scale(&namespace, SETS, "x", 1).await;
    for domain in ["x-1-all", "x-1-work"] {
        driver_is_done(&domains, domain).await;
    }
    until_event(&namespace, "ComputeDomainDeleteSuccessful").await;
    scale(&namespace, SETS, "x", 0).await;
    driver_is_done(&domains, "x-0-work").await;
    domains.until_gone(DOMAINS, "x-0-all").await;
    domains.until_is("no domain is left", |state| state.of(DOMAINS).is_empty()).await;

    // They are deleted with the set, even those that the driver still holds then.
    scale(&namespace, SETS, "x", 1).await;
    domains.until_is("they are back", |state| state.of(DOMAINS).len() == 2).await;
    let held = json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "driver.test/x" }]);
    domains.patch(DOMAINS, "x-0-all", held).await;
    namespace.delete(SETS, "x").await;
    namespace.until_gone(SETS, "x").await;
    driver_is_done(&domains, "x-0-all").await;
    domains.until_is("no domain is left", |state| state.of(DOMAINS).is_empty()).await;

    the_kind_may_vanish_and_return(&cluster, &namespace).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn domains_of_a_set_that_was_deleted_without_an_operator_are_released() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], DOMAINS_ROLE).unwrap();
    cluster.install(&foreign_crds::compute_domain());
    let setup = Setup { configuration: "network: {autoMNNVLEnabled: true}", ..Setup::default() };
    let operator = cluster.operator(setup).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("domains").await;
    let domains = cluster.mirror_of(&[DOMAINS]).await.namespace("domains");
    namespace.create(SETS, &with_domains()).await;
    domains.until_is("the domains are made", |state| state.of(DOMAINS).len() == 2).await;
    namespace
        .until_is("the set is held", |state| {
            !state.get(SETS, "x").unwrap()["metadata"]["finalizers"].is_null()
        })
        .await;
    operator.crash().await;

    // Webhooks without a server would refuse what follows.
    let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    cluster.control_plane.kubectl(&["delete", webhooks, "--all"]).unwrap();
    namespace.delete(SETS, "x").await;
    namespace.patch(SETS, "x", json!({ "metadata": { "finalizers": null } })).await;
    namespace.until_gone(SETS, "x").await;
    domains
        .until_is("the garbage collector deletes the domains", |state| {
            let all = state.of(DOMAINS);
            all.len() == 2 && all.iter().all(|one| !one["metadata"]["deletionTimestamp"].is_null())
        })
        .await;

    let operator = cluster.operator(setup).await;
    domains.until_is("they are let go", |state| state.of(DOMAINS).is_empty()).await;
    operator.stop().await;
}

fn pods_join_their_domains(namespace: &Namespace) {
    let claim = |pod: &Value| {
        let claim = pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"].clone();
        (claim, pod["spec"]["containers"][0]["resources"]["claims"].clone())
    };
    let named = json!([{ "name": "mnnvl-claim" }]);
    for (clique, domain) in [
        ("x-0-router", Some("x-0-all")),
        ("x-0-decode-0-leader", None),
        ("x-0-decode-0-worker", Some("x-0-work")),
        ("x-0-decode-1-worker", Some("x-0-work")),
    ] {
        let (_, pod) = namespace.look(|state| state.pods_of(clique)).pop_first().unwrap();
        let expected =
            domain.map_or((Value::Null, Value::Null), |name| (json!(name), named.clone()));
        assert_eq!(claim(&pod), expected, "{clique}");
        let spec = &namespace.object(CLIQUES, clique)["spec"]["podSpec"];
        assert_eq!(claim(&json!({ "spec": spec })), expected, "{clique}");
    }
}

async fn driver_is_done_and_it_is_back(domains: &Namespace, uid: &Value) {
    domains.until_field(DOMAINS, "x-0-all", "/metadata/finalizers", json!(["driver.test/x"])).await;
    let released = json!({ "metadata": { "finalizers": null } });
    domains.patch(DOMAINS, "x-0-all", released).await;
    domains
        .until_is("it is recreated", |state| {
            state.get(DOMAINS, "x-0-all").is_some_and(|domain| domain["metadata"]["uid"] != *uid)
        })
        .await;
}

/// Somebody removes the driver under a running operator.
async fn the_kind_may_vanish_and_return(cluster: &TestCluster, namespace: &Namespace) {
    let crd = "computedomains.resource.nvidia.com";
    cluster.control_plane.kubectl(&["delete", "crd", crd]).unwrap();
    namespace.create(SETS, &with_domains().replicas(1)).await;
    let not_served = "the API server does not serve computedomains of resource.nvidia.com/v1beta1";
    until_condition(namespace, "ComputeDomainsReady", ["False", "ApiNotServed"], not_served).await;
    until_reported(namespace, SETS, "x", not_served).await;

    cluster.install(&foreign_crds::compute_domain());
    let is = ["True", "ComputeDomainsAvailable"];
    until_condition(namespace, "ComputeDomainsReady", is, "").await;
    let domains = cluster.mirror_of(&[DOMAINS]).await.namespace("domains");
    domains.until_is("the domains are made", |state| state.of(DOMAINS).len() == 2).await;
    namespace.delete(SETS, "x").await;
    domains.until_is("and go", |state| state.of(DOMAINS).is_empty()).await;
}
