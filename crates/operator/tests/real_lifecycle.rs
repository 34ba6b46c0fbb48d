//! From a PodCliqueSet to ready pods and back to nothing, with the commands that users type, on
//! every version of Kubernetes and with every scheduler.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use grove_api::testkit::foreign_crds;
use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{CLIQUES, GANGS, GROUPS, PODS, SERVICES, SETS};
use grove_testbed::mirror::State;
use grove_testbed::operator::{OPERATOR, Setup};
use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend};
use xtask::cluster::Kube;

const SET: &str = include_str!("../../../examples/minimal.yaml");

/// What the schedulers need that have no CRDs of ours, and the operator for all of them.
const ROLES: [&str; 4] = [
    include_str!("../../../examples/backend/crew.yaml"),
    include_str!("../../../deploy/schedulers/kai.yaml"),
    include_str!("../../../deploy/schedulers/kubernetes.yaml"),
    include_str!("../../../deploy/schedulers/volcano.yaml"),
];

/// `scheduler` is the profile of the scheduler that sets get which name none.
async fn a_set_comes_up_whole_scales_and_goes(kube: Kube, scheduler: &str) {
    let cluster = TestCluster::full(&OPERATOR, kube);
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], &ROLES.join("---\n")).unwrap();
    cluster.install(&[foreign_crds::kai(), foreign_crds::volcano()].concat());
    let queue =
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}";
    cluster.control_plane.kubectl_with_stdin(&["create", "-f", "-"], queue).unwrap();
    let open = r#"{"status": {"state": "Open"}}"#;
    let queue = "queues.scheduling.volcano.sh/default";
    let patch = ["patch", queue, "--subresource=status", "--type=merge", "--patch", open];
    cluster.control_plane.kubectl(&patch).unwrap();
    let configuration = format!(
        "leaderElection: {{enabled: true}}\nscheduler: {{profiles: [{{default: true, {scheduler}}}]}}"
    );
    let operator =
        cluster.operator(Setup { configuration: &configuration, ..Setup::default() }).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.namespace("default");
    let kubectl = |line: &str| {
        let args: Vec<&str> = line.split(' ').collect();
        cluster.control_plane.kubectl(&args).unwrap()
    };

    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], SET).unwrap();
    namespace.until_is("the set is there", |state| state.get(SETS, "demo").is_some()).await;
    namespace.until_complete(9).await;
    assert_eq!(namespace.names(GANGS), ["demo-0", "demo-0-decode-0"]);
    assert_eq!(namespace.names(GROUPS), ["demo-0-decode"]);
    let cliques = [
        "demo-0-decode-0-leader",
        "demo-0-decode-0-worker",
        "demo-0-decode-1-leader",
        "demo-0-decode-1-worker",
        "demo-0-router",
    ];
    assert_eq!(namespace.names(CLIQUES), cliques);

    kubectl("scale pcs/demo --replicas=2");
    namespace.until_complete(18).await;
    kubectl("scale pcsg/demo-0-decode --replicas=1");
    namespace.until_complete(14).await;
    assert_eq!(namespace.names(GANGS), ["demo-0", "demo-1", "demo-1-decode-0"]);
    kubectl("scale pclq/demo-0-router --replicas=3");
    namespace.until_complete(16).await;
    kubectl("scale pcs/demo --replicas=0");
    namespace.until_complete(0).await;
    for kind in [GANGS, GROUPS, CLIQUES] {
        namespace.until_is("no children are left", |state| state.of(kind).is_empty()).await;
    }
    namespace.until_gone(SERVICES, "demo-0").await;
    kubectl("scale pcs/demo --replicas=1");
    namespace.until_complete(9).await;

    // Deleted, and recreated under the same name at once.
    let uid = |name| namespace.object(CLIQUES, name)["metadata"]["uid"].clone();
    let first = uid("demo-0-router");
    kubectl("delete pcs/demo");
    cluster.control_plane.kubectl_with_stdin(&["apply", "-f", "-"], SET).unwrap();
    namespace
        .until_is("the second life", |state| {
            let new = state.get(CLIQUES, "demo-0-router");
            let new = new.is_some_and(|router| router["metadata"]["uid"] != first);
            new && state.is_complete() && state.of(PODS).len() == 9
        })
        .await;
    kubectl("delete pcs/demo");
    namespace.until_is("nothing is left", State::is_empty).await;
    operator.stop().await;
}

/// A test each, because each has a control plane of its own.
macro_rules! lifecycles {
    ($($name:ident: $kube:expr, $scheduler:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs the real control plane: cargo xtask test --only real"]
        async fn $name() {
            a_set_comes_up_whole_scales_and_goes($kube, $scheduler).await;
        }
    )*};
}

lifecycles! {
    on_1_37: Kube::V1_37, "name: default-scheduler";
    on_1_36: Kube::V1_36, "name: default-scheduler";
    with_gangs_of_1_37: Kube::V1_37, "name: default-scheduler, config: {gangScheduling: true}";
    with_gangs_of_1_36: Kube::V1_36, "name: default-scheduler, config: {gangScheduling: true}";
    with_kai: Kube::V1_37, "name: kai-scheduler, config: {defaultQueue: test}";
    with_volcano: Kube::V1_37, "name: volcano";
    with_lpx: Kube::V1_37, "name: lpx-scheduler";
}

/// The reference implementation of a backend, over HTTPS.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn with_a_program_of_its_own() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/real-lifecycle"));
    let program = ReferenceBackend::start(&pki, Credential::Certificate, 0);
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|file| pki.path(file));
    let url = program.url();
    let endpoint = format!(
        "url: '{url}', caFile: '{ca}', certFile: '{cert}', keyFile: '{key}', \
         kinds: [{{group: crew.example.com, version: v1, plural: crews, kind: Crew}}]"
    );
    let scheduler = format!("name: crew-scheduler, config: {{endpoint: {{{endpoint}}}}}");
    a_set_comes_up_whole_scales_and_goes(Kube::V1_37, &scheduler).await;
}
