//! The operator as a task of the test, under the role that the deployment gives it.

use std::sync::atomic::{AtomicU32, Ordering};

use grove_api::OperatorConfiguration;
use grove_operator::{Identity, OperatorError, Options, WebhookAddress};
use grove_runtime::clock::Clock;
use grove_runtime::process::Env;
use serde_json::json;

use crate::cluster::{NAMESPACE, ServiceAccount, TestCluster};
use crate::fixture::Fixture;
use crate::in_time;
use crate::kinds::{CLIQUES, SETS};
use crate::mirror::{Mirror, Namespace, State};
use crate::process::RunningProcess;
use crate::requests::{Requests, Sent};
use crate::sets::{self, Manifest as _};

/// The role of the operator.
pub const RBAC: &str = include_str!("../../../deploy/operator/rbac.yaml");
const RBAC_OUTSIDE: &str = include_str!("../../../deploy/outside/rbac.yaml");

/// The service account of an operator that runs outside the cluster.
pub const OPERATOR: ServiceAccount =
    ServiceAccount { name: "grove-operator", manifests: &[RBAC, RBAC_OUTSIDE] };

/// The webhook configuration that the operator registers last.
const LAST: &str = "validatingwebhookconfigurations/clustertopology-validating-webhook-outside";

/// Namespaces of probe sets start with this.
const PROBE: &str = "probe-";
static PROBES: AtomicU32 = AtomicU32::new(0);

/// How to run an operator.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Lines of the configuration file.
    pub configuration: &'a str,
    /// Its identity in the leader election.
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

/// A running operator.
pub type Operator = RunningProcess<OperatorError>;

impl Operator {
    /// Waits until the operator has registered its webhooks and reports that it is ready.
    pub async fn ready(&self) {
        let ready = async {
            self.requests.until(|sent| sent.registers(LAST)).await;
            self.env.readiness.until_ready().await;
        };
        let in_time = self.env.clock.timeout(crate::DEADLINE, ready).await;
        assert!(in_time.is_some(), "not ready: {:?}", self.env.readiness.missing());
    }

    /// The writes since a mark, without those for the lease and for probe sets.
    pub fn writes_since(&self, mark: usize) -> Vec<String> {
        self.requests.writes_since(mark, is_not_for_probe)
    }
}

impl TestCluster {
    /// Starts an operator and waits until it is ready.
    pub async fn operator(&self, setup: Setup<'_>) -> Operator {
        let operator = self.start_operator(setup).await;
        operator.ready().await;
        operator
    }

    /// Starts an operator.
    pub async fn start_operator(&self, setup: Setup<'_>) -> Operator {
        self.start_operator_at(Clock::system(), setup).await
    }

    /// Starts an operator with its own clock.
    pub async fn start_operator_at(&self, clock: Clock, setup: Setup<'_>) -> Operator {
        let webhooks = WebhookAddress::Host("127.0.0.1".to_owned());
        self.start_operator_behind(webhooks, clock, setup).await
    }

    /// Starts an operator whose webhooks have this address.
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
                service_account: OPERATOR.name.to_owned(),
            },
            webhooks,
            install_crds: setup.install_crds,
            init_image: setup.init_image.map(str::to_owned),
        };
        // `Env::system` has a random seed: names of events are random, and two operators must not share them.
        let env = Env { clock, ..Env::system() };
        let requests = Requests::default();
        let client = requests.of(self.client_of_account().await);
        Operator::start(env.clone(), requests, grove_operator::run(client, options, env))
    }

    /// Waits until the operator has processed every change that was made before.
    ///
    /// A probe set shows it: it is created now and deleted again, and on its way it passes every cache and
    /// every queue after whatever was there. Its status also changes in a way that the operator reports as
    /// late as it reports any change from before.
    pub async fn until_caught_up(&self, mirror: &Mirror) {
        let number = PROBES.fetch_add(1, Ordering::Relaxed);
        let namespace = mirror.new_namespace(&format!("{PROBE}{number}")).await;
        let cliques = [sets::clique("alone", 3).min_available(1), sets::clique("member", 1)];
        let set = sets::set("x", &cliques, &[sets::group("g", &["member"], 1, 1)]);
        namespace.create(SETS, &set).await;
        namespace.until_complete(4).await;
        let fewer = json!({ "spec": { "replicas": 2 } });
        namespace.patch(CLIQUES, "x-0-alone/scale", fewer).await;
        namespace.until_complete(3).await;
        namespace.delete(SETS, "x").await;
        namespace.until_is("the probe set is deleted", State::is_empty).await;
    }

    /// Waits until the operator has caught up and writes nothing more that `matters`.
    pub async fn until_no_writes(
        &self,
        mirror: &Mirror,
        requests: &Requests,
        matters: impl Fn(&Sent) -> bool + Copy,
    ) {
        in_time("the operator stops writing", async {
            loop {
                let mark = requests.mark();
                self.until_caught_up(mirror).await;
                if requests.writes_since(mark, matters).is_empty() {
                    return;
                }
            }
        })
        .await;
    }
}

impl Fixture {
    /// Waits until the operator writes nothing more in a namespace.
    pub async fn until_no_writes(&self, namespace: &Namespace) {
        let is_here = |sent: &Sent| sent.is_in(&namespace.name);
        self.cluster.until_no_writes(&self.mirror, &self.requests, is_here).await;
    }

    /// What the operator writes in a namespace because of `act`, until it writes nothing more there.
    pub async fn writes_after(
        &self,
        namespace: &Namespace,
        act: impl Future<Output = ()>,
    ) -> Vec<String> {
        let mark = self.requests.mark();
        act.await;
        self.until_no_writes(namespace).await;
        self.requests.writes_since(mark, |sent| sent.is_in(&namespace.name))
    }
}

/// Whether a request is not for a probe set.
pub fn is_not_for_probe(sent: &Sent) -> bool {
    !sent.path.contains(&format!("/namespaces/{PROBE}"))
}
