//! A scheduler backend that is a program of its own: the reference implementation, over TLS, on a real
//! control plane. It is killed, started late and shows other certificates; the API server, the operator
//! and everybody else go on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{CLIQUES, CREWS, GANGS, GROUPS, PODS, SETS};
use grove_testbed::mirror::{Mirror, Namespace, condition, send, text};
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::program::Signal;
use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend, ReservedPort};
use grove_testbed::sets::{self, Manifest as _};
use grove_testbed::topology::{BINDINGS, refusal_of};
use http::Method;
use serde_json::{Value, json};
use xtask::cluster::Kube;

const CREW: &str = include_str!("../../../examples/backend/crew.yaml");
const SCHEDULER: &str = "crew-scheduler";

/// A control plane that serves crews to the operator.
fn cluster() -> TestCluster {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], CREW).unwrap();
    let wait =
        ["wait", "--for=condition=Established", "crd/crews.crew.example.com", "--timeout=60s"];
    cluster.control_plane.kubectl(&wait).unwrap();
    cluster
}

fn configuration(pki: &Pki, url: &str, more: &str) -> String {
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|file| pki.path(file));
    format!(
        "scheduler: {{profiles: [{{name: {SCHEDULER}, config: {{endpoint: {{url: '{url}', \
         caFile: '{ca}', certFile: '{cert}', keyFile: '{key}', \
         kinds: [{{group: crew.example.com, version: v1, plural: crews, kind: Crew}}]{more}}}}}}}]}}\n{BINDINGS}"
    )
}

fn setup(configuration: &str) -> Setup<'_> {
    Setup { configuration, ..Setup::default() }
}

/// The small set, for a scheduler.
fn set_for(scheduler: &str) -> Value {
    sets::small("x").scheduler(scheduler)
}

async fn until_backend(namespace: &Namespace, status: &str, says: &[&str]) {
    let what = format!("the scheduler is {status}, {says:?}");
    namespace
        .until_is(&what, |state| {
            let Some(set) = state.get(SETS, "x") else { return false };
            let found = condition(set, "SchedulerBackendReady");
            let message = text(&found["message"]);
            found["status"] == status && says.iter().all(|part| message.contains(part))
        })
        .await;
}

/// Nobody else is held up.
async fn others_come_up(mirror: &Mirror, name: &str) {
    let namespace = mirror.new_namespace(name).await;
    namespace.create(SETS, &set_for("default-scheduler")).await;
    namespace.until_complete(5).await;
    assert_eq!(
        condition(&namespace.object(SETS, "x"), "SchedulerBackendReady"),
        &Value::Null,
        "nothing to say about a scheduler without objects"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn gangs_of_a_backend_program_survive_its_death() {
    let cluster = cluster();
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-outlive"));
    let port = ReservedPort::new();
    let program = ReferenceBackend::start(&pki, Credential::Certificate, port.number());
    let url = program.url();
    let configuration = configuration(&pki, &url, ", timeout: 2s");
    let operator = cluster.operator(setup(&configuration)).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("crew").await;
    let crews = cluster.mirror_of(&[CREWS]).await.namespace("crew");
    let mut refused = set_for(SCHEDULER);
    refused["spec"]["template"]["topologyConstraint"] =
        json!({ "topologyName": "dc", "pack": { "required": "rack" } });
    let refusal = refusal_of(&namespace, &refused).await;
    assert!(refusal.contains("crew-scheduler does not know the topology"), "{refusal}");

    // As it should be.
    namespace.create(SETS, &set_for(SCHEDULER)).await;
    crews
        .until_is("every gang has its crew", |state| state.names(CREWS) == ["x-0", "x-0-decode-0"])
        .await;
    let crew = crews.object(CREWS, "x-0");
    assert_eq!(crew["spec"], json!({ "members": 3, "queue": "default" }));
    let owner = &crew["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], namespace.object(GANGS, "x-0")["metadata"]["uid"]);
    namespace
        .until_is("pods are the scheduler's, and let go", |state| {
            let pods = state.of(PODS);
            let base = |pod: &Value| pod["metadata"]["labels"]["grove.io/podgang"] == "x-0";
            pods.len() == 5
                && pods.iter().all(|pod| pod["spec"]["schedulerName"] == SCHEDULER)
                && pods.iter().filter(|pod| base(pod)).all(|pod| {
                    pod["spec"]["schedulingGates"].is_null()
                        && pod["metadata"]["annotations"]["crew.example.com/name"] == "x-0"
                })
        })
        .await;
    crews.delete(CREWS, "x-0").await;
    let uid = crew["metadata"]["uid"].clone();
    crews
        .until_is("a deleted crew comes back", |state| {
            state.get(CREWS, "x-0").is_some_and(|crew| crew["metadata"]["uid"] != uid)
        })
        .await;

    // Dead: existing sets keep running, new ones wait and report that.
    drop(program);
    let denied = namespace.try_patch(SETS, "x", json!({ "spec": { "replicas": 2 } })).await;
    let denied = denied.unwrap_err();
    assert!(denied.contains(&url) && denied.contains("failurePolicy: Fail"), "{denied}");
    let before = namespace.names(PODS);
    let more = json!({ "spec": { "replicas": 3 } });
    namespace.patch(GROUPS, "x-0-decode/scale", more).await;
    until_backend(&namespace, "False", &[&url, "SyncPodGang PodGang crew/x-0", "refused"]).await;
    namespace
        .until_is("cliques without pods say why", |state| {
            state.get(CLIQUES, "x-0-decode-2-leader").is_some_and(|clique| {
                let error = &clique["status"]["lastErrors"][0];
                error["code"] == "ERR_BUILD_POD_RESOURCE"
                    && text(&error["description"]).contains(&url)
            })
        })
        .await;
    assert_eq!(namespace.names(PODS), before);
    others_come_up(&mirror, "others").await;

    // Back: all sets continue.
    let _program = ReferenceBackend::start(&pki, Credential::Certificate, port.number());
    until_backend(&namespace, "True", &[]).await;
    crews
        .until_is("the new gang has its crew", |state| {
            state.names(CREWS) == ["x-0", "x-0-decode-0", "x-0-decode-1"]
        })
        .await;
    namespace.until_is("its pods are there", |state| state.of(PODS).len() == 7).await;
    namespace
        .until_is("no error is left", |state| {
            state.of(CLIQUES).iter().all(|clique| clique["status"]["lastErrors"].is_null())
        })
        .await;
    namespace.patch(SETS, "x", json!({ "spec": { "replicas": 2 } })).await;

    namespace.delete(SETS, "x").await;
    crews.until_is("the crews are collected", |state| state.of(CREWS).is_empty()).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_program_may_come_late_when_failures_are_ignored() {
    let cluster = cluster();
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-late"));
    let port = ReservedPort::new();
    let url = format!("https://127.0.0.1:{}/", port.number());
    let configuration = configuration(&pki, &url, ", timeout: 2s, failurePolicy: Ignore");
    let operator = cluster.operator(setup(&configuration)).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("late").await;
    let crews = cluster.mirror_of(&[CREWS]).await.namespace("late");

    namespace.create(SETS, &set_for(SCHEDULER)).await;
    until_backend(&namespace, "False", &[&url, "no connection", "refused"]).await;
    namespace
        .until_is("pods have the name of the scheduler and no more", |state| {
            let pods = state.of(PODS);
            let plain = |pod: &Value| {
                pod["spec"]["schedulerName"] == SCHEDULER
                    && pod["metadata"]["annotations"]["crew.example.com/name"].is_null()
            };
            pods.len() == 5 && pods.iter().all(|pod| plain(pod))
        })
        .await;
    assert_eq!(crews.names(CREWS), [] as [&str; 0]);
    others_come_up(&mirror, "others").await;

    let _program = ReferenceBackend::start(&pki, Credential::Certificate, port.number());
    until_backend(&namespace, "True", &[]).await;
    crews.until_is("every gang has its crew", |state| state.of(CREWS).len() == 2).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_foreign_certificate_is_reported_and_a_renewed_one_is_used() {
    let cluster = cluster();
    let (pki, other) = (
        Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-renewed")),
        Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-other")),
    );
    let port = ReservedPort::new();
    let program = ReferenceBackend::start(&other, Credential::Certificate, port.number());
    let url = program.url();
    let configuration = configuration(&pki, &url, ", timeout: 2s, failurePolicy: Ignore");
    let operator = cluster.operator(setup(&configuration)).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("renewed").await;
    namespace.create(SETS, &set_for(SCHEDULER)).await;
    let unknown = format!("not signed by the authority in {}", pki.path("ca.crt"));
    until_backend(&namespace, "False", &[&url, &unknown]).await;

    // Both sides get new certificates, the operator without a restart.
    pki.renew();
    drop(program);
    let _program = ReferenceBackend::start(&pki, Credential::Certificate, port.number());
    until_backend(&namespace, "True", &[]).await;

    // Objects of another owner are left alone.
    let client = cluster.control_plane.admin().client().await.unwrap();
    let path = "/apis/crew.example.com/v1/namespaces/taken/crews";
    let taken = mirror.new_namespace("taken").await;
    let crew = json!({
        "apiVersion": "crew.example.com/v1", "kind": "Crew", "metadata": { "name": "x-0" },
        "spec": { "members": 9 },
    });
    send(&client, Method::POST, path, &crew).await.unwrap();
    taken.create(SETS, &set_for(SCHEDULER)).await;
    until_backend(&taken, "False", &["Crew taken/x-0 is not owned by PodGang taken/x-0"]).await;
    let crews = cluster.mirror_of(&[CREWS]).await.namespace("taken");
    assert_eq!(crews.object(CREWS, "x-0")["spec"]["members"], 9);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_stuck_program_delays_no_other_set() {
    let cluster = cluster();
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-stuck"));
    let program = ReferenceBackend::start(&pki, Credential::Certificate, 0);
    let url = program.url();
    // Workers that waited for it would have no time for anybody else.
    let configuration = configuration(&pki, &url, ", timeout: 5s, failurePolicy: Ignore");
    let operator = cluster.operator(setup(&configuration)).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("stuck").await;
    let crews = cluster.mirror_of(&[CREWS]).await.namespace("stuck");
    // More gangs and cliques than there are workers.
    namespace.create(SETS, &set_for(SCHEDULER).replicas(6)).await;
    crews.until_is("every gang has its crew", |state| state.of(CREWS).len() == 12).await;
    namespace.until_is("all pods are there", |state| state.of(PODS).len() == 30).await;

    // A label that it acts on wakes all gangs, and more replicas all workers of cliques.
    program.program.signal(Signal::STOP);
    let moved = json!({
        "metadata": { "labels": { "crew.example.com/queue": "fast" } }, "spec": { "replicas": 12 },
    });
    namespace.patch(SETS, "x", moved).await;
    until_backend(&namespace, "False", &[&url, "SyncPodGang", "no answer within 5s"]).await;
    others_come_up(&mirror, "others").await;

    program.program.signal(Signal::CONT);
    until_backend(&namespace, "True", &[]).await;
    crews
        .until_is("every crew is in the new queue", |state| {
            let crews = state.of(CREWS);
            crews.len() == 24 && crews.iter().all(|crew| crew["spec"]["queue"] == "fast")
        })
        .await;
    namespace.until_is("all pods are there", |state| state.of(PODS).len() == 60).await;
    operator.stop().await;
}
