//! Starts the parts of the process in the order in which they depend on each other. They stop in reverse order.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use grove_api::config::{CertProvisionMode, Endpoint, OperatorConfiguration};
use grove_api::duration::GoDuration;
use grove_api::labels;
use grove_backends::{Registry, RegistryError};
use grove_runtime::backoff::Backoff;
use grove_runtime::cache::Caches;
use grove_runtime::certificates::ServingCertificate;
use grove_runtime::certificates::files::CertificateFiles;
use grove_runtime::certificates::managed::{
    AuthorityName, ManagedCertificate, ManagedConfig, Schedule,
};
use grove_runtime::controller::{Attempt, Controller, Due};
use grove_runtime::events::events;
use grove_runtime::health;
use grove_runtime::lease::{Elector, Leadership, LeaseConfig};
use grove_runtime::process::{Env, Process, ProcessError, Stage};
use grove_runtime::profiling;
use grove_runtime::queue::{Key, Queue};
use grove_runtime::resource::ObjectKey;
use grove_runtime::serve::{ServeConfig, ServeError, Server};
use grove_runtime::write::{WriteError, Writer};
use kube::Client;

use crate::caches::Stores;
use crate::controllers::compute_domains::{self, PreflightError};
use crate::controllers::context::Context;
use crate::controllers::error::ReconcileError;
use crate::controllers::problems::Problems;
use crate::controllers::refusals::Refusals;
use crate::controllers::topology::TopologyRefused;
use crate::controllers::{clique, gang, group, outage, replica, set, topology};
use crate::options::{Options, WebhookAddress};
use crate::webhooks::registration::{Address, CERTIFICATE, Registrar};
use crate::{crds, identity, webhooks};
use grove_runtime::report::{Pace, Reporter};

/// Field manager of the operator's writes.
const MANAGER: &str = "grove-operator";
/// Name of the Service in front of the operator.
const SERVICE: &str = "grove-operator";
/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(5);

/// Why the operator could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// An address cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The certificate has no provider.
    #[error(
        "server.webhooks.certProvisionMode: {0:?} is not known; use \"auto\" (the operator makes \
         its certificate) or \"manual\" (certificate files are mounted)"
    )]
    CertProvisionMode(String),
    /// The cluster lacks what MNNVL support needs.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// A scheduler that the operator cannot work with.
    #[error(transparent)]
    Backend(#[from] RegistryError),
    /// The CRDs could not be installed.
    #[error("cannot install the CRDs: {0}")]
    InstallCrds(#[source] WriteError),
    /// The API server refuses the topology of the configuration.
    #[error(transparent)]
    Topology(#[from] TopologyRefused),
    /// A part failed or did not stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Runs the operator until `env.shutdown`.
pub async fn run(client: Client, options: Options, env: Env) -> Result<(), OperatorError> {
    let configuration = &options.configuration;
    if configuration.network.auto_mnnvl_enabled {
        compute_domains::preflight(&client).await?;
    }
    if options.init_image.is_none() {
        tracing::warn!(
            "no image for the start-order container: sets whose cliques start after others do not \
             start; set --init-image or GROVE_INIT_CONTAINER_IMAGE"
        );
    }
    let backends = Registry::new(&configuration.scheduler, &env)?;
    backends.init(&client).await?;
    let mut process = Process::new(env.clone(), GRACE);
    // Before the probes answer: a part that has not started yet is not known to be missing.
    let start = env.readiness.part("start");
    start.not_ready("its parts are being started");
    serve_probes(&mut process, configuration, &env).await?;
    let (leadership, election) = take_part(&mut process, &client, &options, &env);
    let writer = Writer::new(client.clone(), &env, leadership.clone(), MANAGER);
    if options.install_crds {
        crds::install(&writer).await.map_err(OperatorError::InstallCrds)?;
    }
    topology::check_start(&writer, &configuration.topology, &env.clock).await?;
    let mut caches = Caches::new(client.clone(), &env, process.stage("caches"));
    let stores = Stores::start(&mut caches, &backends, configuration);

    let serving = ServingCertificate::new(&env.readiness);
    let server = Server::bind(serve_config("webhooks", &configuration.server.webhooks.endpoint));
    let server = server.await?;
    let users = identity::users(&client, &options.identity, &env.clock).await;
    let parts = Parts { client, options: &options, env: &env, writer, leadership, users };
    let address = parts.address(server.address().port());
    parts.keep_certificate(&mut process, &address, serving.clone())?;
    parts.register(&mut process, address);
    let (client, users) = (&parts.client, &parts.users);
    let router = webhooks::webhooks(&options, &env, &stores, &backends, client, users);
    let router = router.into_router();
    let stage = process.stage("webhooks");
    let (stage_of_connections, env_of_server) = (stage.clone(), env.clone());
    stage.spawn(|_| server.run(router, Some(serving), env_of_server, stage_of_connections));
    parts.control(&mut process, &caches, stores, backends);
    // Last, so that a failed start leaves no lease behind that others would have to wait for.
    if let Some((stage, elector)) = election {
        stage.spawn(|shutdown| elector.run(shutdown));
    }
    start.ready();
    Ok(process.run().await?)
}

/// Connections of each server of probes, metrics and profiles. Together with those of the webhooks they
/// stay below the usual limit of 1024 open files.
const PROBE_CONNECTIONS: usize = 64;

fn serve_config(name: &'static str, endpoint: &Endpoint) -> ServeConfig {
    ServeConfig::new(name, endpoint.bind_address.clone(), endpoint.port)
}

/// Health, metrics and, if enabled, profiling: first to start and last to stop.
async fn serve_probes(
    process: &mut Process,
    configuration: &OperatorConfiguration,
    env: &Env,
) -> Result<(), OperatorError> {
    let mut endpoints = vec![
        (
            serve_config("health", &configuration.server.health_probes),
            health::router(env.readiness.clone()),
        ),
        (
            serve_config("metrics", &configuration.server.metrics),
            health::metrics_router(env.metrics.clone()),
        ),
    ];
    let debugging = &configuration.debugging;
    if debugging.enable_profiling {
        let config = ServeConfig::new(
            "profiling",
            debugging.pprof_bind_host.clone(),
            debugging.pprof_bind_port,
        );
        endpoints.push((config, profiling::router(env.clock.clone())));
    }
    let stage = process.stage("probes");
    for (config, router) in endpoints {
        let config = ServeConfig { max_connections: PROBE_CONNECTIONS, ..config };
        let server = Server::bind(config).await?;
        let (env, connections) = (env.clone(), stage.clone());
        stage.spawn(|_| server.run(router, None, env, connections));
    }
    Ok(())
}

/// The leadership of this process, and the election, which is not started yet.
fn take_part(
    process: &mut Process,
    client: &Client,
    options: &Options,
    env: &Env,
) -> (Leadership, Option<(Stage, Elector)>) {
    let election = &options.configuration.leader_election;
    if !election.enabled {
        return (Leadership::without_election(), None);
    }
    let config = LeaseConfig {
        lease: ObjectKey::new(&options.identity.namespace, &election.resource_name),
        identity: options.identity.instance.clone(),
        lease_duration: validated(election.lease_duration),
        renew_deadline: validated(election.renew_deadline),
        retry_period: validated(election.retry_period),
    };
    let elector = Elector::new(client.clone(), env, config);
    (elector.leadership(), Some((process.stage("lease"), elector)))
}

/// What the parts of the process share.
struct Parts<'a> {
    client: Client,
    options: &'a Options,
    env: &'a Env,
    writer: Writer,
    leadership: Leadership,
    /// The users that the operator acts as.
    users: Vec<String>,
}

impl Parts<'_> {
    fn keep_certificate(
        &self,
        process: &mut Process,
        address: &Address,
        serving: ServingCertificate,
    ) -> Result<(), OperatorError> {
        let stage = process.stage("certificates");
        let webhooks = &self.options.configuration.server.webhooks;
        match &webhooks.cert_provision_mode {
            CertProvisionMode::Auto => {
                let config = self.managed_config(address);
                let managed = ManagedCertificate::new(
                    config,
                    &self.client,
                    self.env,
                    &stage,
                    &self.writer,
                    self.leadership.clone(),
                    serving,
                );
                stage.spawn(|shutdown| managed.run(shutdown));
            }
            CertProvisionMode::Manual => {
                let files = CertificateFiles::new(webhooks.server_cert_dir.clone(), serving);
                let clock = self.env.clock.clone();
                stage.spawn(|shutdown| files.run(clock, shutdown));
            }
            CertProvisionMode::Unknown(mode) => {
                return Err(OperatorError::CertProvisionMode(mode.clone()));
            }
        }
        Ok(())
    }

    fn managed_config(&self, address: &Address) -> ManagedConfig {
        let configuration = &self.options.configuration;
        let registrations = Registrar::registrations(configuration.authorizer.enabled);
        let namespace = &self.options.identity.namespace;
        let mut names = vec![
            format!("{SERVICE}.{namespace}.svc"),
            SERVICE.to_owned(),
            format!("{SERVICE}.{namespace}"),
            format!("{SERVICE}.{namespace}.svc.cluster.local"),
        ];
        if let WebhookAddress::Host(host) = &self.options.webhooks {
            names.push(host.clone());
        }
        let own = [
            (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
            (labels::COMPONENT, CERTIFICATE),
            (labels::PART_OF, "grove"),
        ];
        let secret = &configuration.server.webhooks.secret_name;
        ManagedConfig {
            secret: ObjectKey::new(namespace, secret),
            labels: own.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            names,
            authority: AuthorityName {
                common_name: "Grove-CA".to_owned(),
                organization: "Grove".to_owned(),
            },
            webhooks: registrations.iter().map(|one| one.webhook(address)).collect(),
            schedule: Schedule::default(),
        }
    }

    /// Starts the controllers.
    fn control(&self, process: &mut Process, caches: &Caches, stores: Stores, backends: Registry) {
        let configuration = &self.options.configuration;
        let instance = self.options.identity.instance.clone();
        let (recorder, sender) = events(MANAGER, instance, self.env, self.writer.clone());
        process.stage("events").spawn(|shutdown| sender.run(shutdown));
        let (env, stage) = (self.env, process.stage("controllers"));
        let sets = set::queue(&stores, env, &stage);
        let replicas = replica::queue(&stores, env, &stage);
        let groups = group::queue(&stores, env, &stage);
        let cliques = clique::queue(&stores, &backends, env, &stage);
        let gangs = gang::queue(&stores, &backends, env, &stage);
        let topologies = topology::queue(&stores, &backends, env, &stage);
        let context = Arc::new(Context {
            problems: Problems::new(sets.clone()),
            stores,
            writer: self.writer.clone(),
            client: self.client.clone(),
            env: env.clone(),
            backends,
            reporter: Reporter::new(self.writer.clone(), recorder.clone(), env.clock.clone()),
            events: recorder,
            init_image: self.options.init_image.clone(),
            refusals: Refusals::default(),
            refused_updates: Refusals::default(),
            pace_of_sets: Pace::default(),
        });
        outage::follow(&context, &gangs, &cliques, &stage);
        let concurrency = &configuration.controllers;
        let start =
            Start { context: &context, caches, leadership: &self.leadership, stage: &stage };
        start.controller(set::NAME, sets, concurrency.pod_clique_set, |context, attempt| {
            Box::pin(async move { set::reconcile(&context, attempt).await })
        });
        start.controller(
            replica::NAME,
            replicas,
            concurrency.pod_clique_set,
            |context, attempt| Box::pin(async move { replica::reconcile(&context, attempt).await }),
        );
        start.controller(
            group::NAME,
            groups,
            concurrency.pod_clique_scaling_group,
            |context, attempt| Box::pin(async move { group::reconcile(&context, attempt).await }),
        );
        start.controller(clique::NAME, cliques, concurrency.pod_clique, |context, attempt| {
            Box::pin(async move { clique::reconcile(&context, attempt).await })
        });
        // There are few, and they seldom change.
        start.controller(topology::NAME, topologies, 1, |context, attempt| {
            Box::pin(async move { topology::reconcile(&context, attempt).await })
        });
        start.controller("podgang", gangs, concurrency.pod_gang, |context, attempt| {
            Box::pin(async move { gang::reconcile(&context, attempt).await })
        });
    }

    /// How the API server reaches the webhooks, which listen on `port`.
    fn address(&self, port: u16) -> Address {
        match &self.options.webhooks {
            WebhookAddress::Host(host) => Address::Url(format!("https://{host}:{port}")),
            WebhookAddress::Service => Address::Service {
                namespace: self.options.identity.namespace.clone(),
                name: SERVICE.to_owned(),
                port: self.options.configuration.server.webhooks.endpoint.port,
            },
        }
    }

    /// Registers the webhooks once this replica leads.
    fn register(&self, process: &mut Process, address: Address) {
        let registrar = Registrar {
            client: self.client.clone(),
            writer: self.writer.clone(),
            address,
            users: self.users.clone(),
            authorizer: self.options.configuration.authorizer.enabled,
        };
        let (leadership, env) = (self.leadership.clone(), self.env.clone());
        let part = env.readiness.part("webhook registration");
        if matches!(registrar.address, Address::Service { .. }) {
            // Replicas that do not lead answer reviews as well.
            part.ready();
        }
        process.stage("registration").spawn(|shutdown| async move {
            let register = async {
                leadership.acquired(&env.clock).await;
                let mut failures = 0;
                while let Err(error) = registrar.register().await {
                    failures += 1;
                    part.not_ready(error.to_string());
                    tracing::warn!(%error, failures, "webhooks not registered");
                    env.clock.sleep(Backoff::WATCH.after(failures, &env.rng)).await;
                }
                part.ready();
            };
            futures::future::select(std::pin::pin!(shutdown.requested()), std::pin::pin!(register))
                .await;
        });
    }
}

/// What every controller is started with.
struct Start<'a> {
    context: &'a Arc<Context>,
    caches: &'a Caches,
    leadership: &'a Leadership,
    stage: &'a Stage,
}

type Reconciled = BoxFuture<'static, Result<Due, ReconcileError>>;

impl Start<'_> {
    fn controller<K: Key>(
        &self,
        name: &'static str,
        queue: Queue<K>,
        concurrency: i32,
        reconcile: impl Fn(Arc<Context>, Attempt<K>) -> Reconciled + Send + Sync + 'static,
    ) {
        let concurrency = usize::try_from(concurrency).unwrap_or(1).max(1);
        let env = &self.context.env;
        let leadership = self.leadership.clone();
        let controller = Controller::new(name, queue, concurrency, env, self.caches, leadership);
        let context = self.context.clone();
        self.stage.spawn(|shutdown| {
            controller.run(shutdown, move |attempt| reconcile(context.clone(), attempt))
        });
    }
}

/// Validation has refused durations that are not positive.
fn validated(duration: GoDuration) -> Duration {
    duration.to_std().unwrap_or_default()
}
