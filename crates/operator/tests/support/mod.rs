//! An operator on a real control plane, under its own role, and ways to watch it.

#![allow(
    dead_code,
    unreachable_pub,
    unused_macros,
    unused_imports,
    reason = "every test binary uses a part of it"
)]
#![allow(clippy::print_stdout, reason = "shown when a test fails")]

pub mod bench;
pub mod cases;
pub mod devices;
pub mod judge;
pub mod kinds;
pub mod mirror;
pub mod picture;
pub mod requests;
pub mod sets;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use grove_api::OperatorConfiguration;
use grove_operator::{Identity, OperatorError, Options, WebhookAddress};
use grove_runtime::clock::Clock;
use grove_runtime::process::Env;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use xtask::cluster::{Cluster, Fleet, Gates, Kube, Options as ClusterOptions, Parts, User};

use self::kinds::{CLIQUES, Kind, SETS};
use self::mirror::Mirror;
use self::requests::{Requests, Sent};

pub const NAMESPACE: &str = "grove-system";
pub const RBAC: &str = include_str!("../../../../deploy/operator/rbac.yaml");
/// Longer than anything here takes; a test that needs it has failed.
pub const DEADLINE: Duration = Duration::from_secs(60);

const OUTSIDE: &str = include_str!("../../../../deploy/outside/rbac.yaml");

const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// How to run an operator.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Lines of the configuration file.
    pub configuration: &'a str,
    /// Who it is in the election.
    pub instance: &'a str,
    pub install_crds: bool,
    pub init_image: Option<&'a str>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            configuration: "",
            instance: "operator-0",
            install_crds: true,
            init_image: Some("grove-initc:test"),
        }
    }
}

/// A control plane with the operator's role, and no operator yet.
pub struct World {
    pub cluster: Cluster,
    operator: User,
    witnesses: AtomicU32,
}

impl World {
    /// Objects are stored and admitted, nothing else acts on them.
    pub fn api_server() -> Self {
        Self::start(ClusterOptions { parts: Parts::ApiServer, ..ClusterOptions::default() })
    }

    /// The same with more flags for the API server.
    pub fn api_server_with(flags: &[&str]) -> Self {
        let api_server_flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let parts = Parts::ApiServer;
        Self::start(ClusterOptions { parts, api_server_flags, ..ClusterOptions::default() })
    }

    /// Pods are scheduled and become ready.
    pub fn full(kube: Kube) -> Self {
        Self::with(kube, Gates::default(), &FLEET)
    }

    /// The same with other features of Kubernetes and other nodes.
    pub fn with(kube: Kube, gates: Gates, fleet: &Fleet) -> Self {
        let world = Self::start(ClusterOptions { kube, gates, ..ClusterOptions::default() });
        world.cluster.nodes(fleet).unwrap();
        world
    }

    fn start(options: ClusterOptions) -> Self {
        let cluster = Cluster::start(options).unwrap();
        cluster.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
        let manifests = format!("{RBAC}---{OUTSIDE}");
        cluster.kubectl_with_stdin(&["apply", "-f", "-"], &manifests).unwrap();
        let name = format!("system:serviceaccount:{NAMESPACE}:grove-operator");
        let operator = cluster.user(&name, &["system:serviceaccounts"]).unwrap();
        Self { cluster, operator, witnesses: AtomicU32::new(0) }
    }

    /// An operator that is ready.
    pub async fn operator(&self, setup: Setup<'_>) -> Operator {
        let operator = self.start_operator(setup).await;
        operator.ready().await;
        operator
    }

    /// An operator that has just been started.
    pub async fn start_operator(&self, setup: Setup<'_>) -> Operator {
        self.start_operator_at(Clock::system(), setup).await
    }

    /// An operator with an idea of its own of what time it is.
    pub async fn start_operator_at(&self, clock: Clock, setup: Setup<'_>) -> Operator {
        let webhooks = WebhookAddress::Host("127.0.0.1".to_owned());
        self.start_operator_behind(webhooks, clock, setup).await
    }

    /// An operator that the API server reaches in another way.
    pub async fn start_operator_behind(
        &self,
        webhooks: WebhookAddress,
        clock: Clock,
        setup: Setup<'_>,
    ) -> Operator {
        let mut configuration = OperatorConfiguration::from_yaml(&format!(
            "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{}",
            setup.configuration
        ))
        .unwrap();
        // The system chooses free ports.
        let server = &mut configuration.server;
        for port in [
            &mut server.webhooks.endpoint.port,
            &mut server.health_probes.port,
            &mut server.metrics.port,
        ] {
            *port = 0;
        }
        let options = Options {
            configuration,
            identity: Identity {
                instance: setup.instance.to_owned(),
                namespace: NAMESPACE.to_owned(),
                service_account: "grove-operator".to_owned(),
            },
            webhooks,
            install_crds: setup.install_crds,
            init_image: setup.init_image.map(str::to_owned),
        };
        // A seed of its own: names of events are random, and another operator's are taken.
        let env = Env { clock, ..Env::system() };
        let requests = Requests::new();
        let client = requests.of(self.client_of(&self.operator).await);
        let task = tokio::task::spawn(grove_operator::run(client, options, env.clone()));
        Operator { env, requests, task }
    }

    /// The same client that the program has.
    async fn client_of(&self, user: &User) -> Client {
        let kubeconfig = Kubeconfig::read_from(user.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        grove_runtime::client::client(config, "grove-operator/test").unwrap()
    }

    /// A client of the operator's user that nobody listens to.
    pub async fn client_of_operator(&self) -> Client {
        self.client_of(&self.operator).await
    }

    /// Everything there is, followed as the administrator. The CRDs have to be there.
    pub async fn mirror(&self) -> Mirror {
        self.mirror_of(&kinds::ALL).await
    }

    /// A live copy of some kinds, which have to be served.
    pub async fn mirror_of(&self, kinds: &[Kind]) -> Mirror {
        Mirror::start(self.cluster.admin().client().await.unwrap(), kinds).await
    }

    /// Installs CRDs and waits until they are served.
    pub fn install(&self, crds: &[Value]) {
        for crd in crds {
            self.apply(crd).unwrap();
            let name = format!("crd/{}", crd["metadata"]["name"].as_str().unwrap());
            let wait = ["wait", "--for=condition=Established", &name, "--timeout=60s"];
            self.cluster.kubectl(&wait).unwrap();
        }
    }

    pub fn apply(&self, object: &Value) -> Result<String, String> {
        let args = ["apply", "-f", "-", "-o", "json"];
        let applied = self.cluster.kubectl_with_stdin(&args, &object.to_string());
        applied.map_err(|error| format!("{error:#}"))
    }

    pub fn as_user(&self, user: &User, args: &[&str]) -> Result<String, String> {
        self.cluster.kubectl_as(user, args).map_err(|error| format!("{error:#}"))
    }

    /// Waits until the operator has dealt with everything that happened before. A witness shows it:
    /// a set that is created now has come and gone, and on its way it went through every cache and
    /// every queue behind whatever was there. It also changes its status in a way that nobody waits
    /// for, which is written as late as any such change from before.
    pub async fn settled(&self, mirror: &Mirror) {
        let number = self.witnesses.fetch_add(1, Ordering::Relaxed);
        let namespace = mirror.new_namespace(&format!("{WITNESS}{number}")).await;
        let cliques = [sets::clique_with_min("alone", 3, 1), sets::clique("member", 1)];
        let set = sets::set("x", &cliques, &[sets::group("g", &["member"], 1, 1)]);
        namespace.create(SETS, &set).await;
        namespace.until_complete(4).await;
        let fewer = json!({ "spec": { "replicas": 2 } });
        namespace.patch(CLIQUES, "x-0-alone/scale", fewer).await;
        namespace.until_complete(3).await;
        namespace.delete(SETS, "x").await;
        namespace.until_is("the witness is gone", mirror::State::is_empty).await;
    }

    /// Waits until the operator has nothing to write any more that a choice is interested in.
    pub async fn quiet(
        &self,
        mirror: &Mirror,
        requests: &Requests,
        choice: impl Fn(&Sent) -> bool + Copy,
    ) {
        let silence = async {
            loop {
                let mark = requests.mark();
                self.settled(mirror).await;
                if requests.writes_since(mark, choice).is_empty() {
                    return;
                }
            }
        };
        let in_time = Clock::system().timeout(DEADLINE, silence).await;
        assert!(in_time.is_some(), "the operator writes and writes");
    }
}

const VALIDATING: &str = "validatingwebhookconfigurations/podcliqueset-validating-webhook-outside";

/// What the namespaces of witnesses begin with.
const WITNESS: &str = "witness-";

/// Whether a request is not for a witness.
pub fn is_of_interest(sent: &Sent) -> bool {
    !sent.path.contains(&format!("/namespaces/{WITNESS}"))
}

/// An operator that runs as a part of the test.
pub struct Operator {
    pub env: Env,
    pub requests: Requests,
    task: JoinHandle<Result<(), OperatorError>>,
}

impl Operator {
    pub async fn ready(&self) {
        let ready = async {
            // The last part that announces itself is the one that registers the webhooks.
            self.requests.until(|sent| sent.registers(VALIDATING)).await;
            self.env.readiness.until_ready().await;
        };
        let in_time = self.env.clock.timeout(DEADLINE, ready).await;
        assert!(in_time.is_some(), "not ready: {:?}", self.env.readiness.missing());
    }

    /// The writes since a moment, besides those for the lease and for witnesses.
    pub fn writes_since(&self, mark: usize) -> Vec<String> {
        self.requests.writes_since(mark, is_of_interest)
    }

    /// Why it ended by itself.
    pub async fn ended(self) -> OperatorError {
        let ended = self.env.clock.timeout(DEADLINE, self.task).await;
        ended.expect("ends in time").unwrap().unwrap_err()
    }

    pub async fn stop(self) {
        self.env.shutdown.start();
        let stopped = self.env.clock.timeout(DEADLINE, self.task).await;
        stopped.expect("stops in time").unwrap().unwrap();
    }

    /// A crash: nothing is finished, nothing is released.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}
