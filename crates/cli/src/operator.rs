//! `grove operator`: reads its environment and runs the operator until a signal stops it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use grove_api::config::{LogFormat, LogLevel};
use grove_api::{OperatorConfiguration, init_container};
use grove_operator::{Identity, OperatorError, Options, WebhookAddress};
use grove_runtime::logs::{self, Format, Level, LogConfig};
use grove_runtime::process::{Env, signalled_twice};

use crate::args::Output;
use crate::cluster;
use crate::exit::Exit;
use crate::version;

/// The file in which Kubernetes gives a pod its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// How to run the operator.
#[derive(Debug, Args)]
pub(crate) struct OperatorArguments {
    /// Configuration file
    #[arg(long, value_name = "FILE", required_unless_present = "version")]
    config: Option<PathBuf>,
    /// Print the version and exit
    #[arg(long, short, conflicts_with = "config")]
    version: bool,
    /// Install or upgrade the CRDs before anything else
    #[arg(long)]
    install_crds: bool,
    /// Register the webhooks under this host name or address instead of the Service, for an
    /// operator that runs outside the cluster
    #[arg(long, value_name = "HOST")]
    webhook_host: Option<String>,
    /// Namespace of the lease and the certificate; inside a cluster, that of the pod
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Name of the service account that the operator runs under
    #[arg(
        long,
        value_name = "NAME",
        env = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME",
        hide_env_values = true,
        default_value = "grove-operator"
    )]
    service_account: String,
    /// Image of the start-order container, without tag; the tag is the operator's version
    #[arg(
        long,
        value_name = "IMAGE",
        env = "GROVE_INIT_CONTAINER_IMAGE",
        hide_env_values = true,
        default_value = init_container::DEFAULT_IMAGE
    )]
    init_image: String,
    /// Log filter, for example info,kube=debug; replaces the level of the configuration
    #[arg(long, value_name = "FILTER", env = "GROVE_LOG", hide_env_values = true)]
    log: Option<String>,
}

/// Why the operator ended, with its exit code.
struct Failure(Exit, anyhow::Error);

/// Runs the operator, or prints its version.
pub(crate) fn run(arguments: &OperatorArguments) -> Exit {
    match try_run(arguments) {
        Ok(()) => Exit::Success,
        Err(Failure(exit, error)) => {
            crate::note(&format!("error: {error:#}\n"));
            exit
        }
    }
}

fn try_run(arguments: &OperatorArguments) -> Result<(), Failure> {
    let Some(config) = &arguments.config else {
        let version = version::render(Output::Text);
        return crate::print(&version).map_err(|error| Failure(Exit::Failed, error));
    };
    let configuration = load(config).map_err(|error| Failure(Exit::BadConfiguration, error))?;
    // Mostly waiting: one thread has the work done for many thousand pods, and threads cost memory,
    // most of all what the allocator keeps for each of them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
        .map_err(|error| Failure(Exit::Failed, error))?;
    runtime.block_on(serve(arguments, configuration))
}

/// Reads a configuration file.
pub(crate) fn load(path: &Path) -> anyhow::Result<OperatorConfiguration> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    OperatorConfiguration::from_yaml(&text).with_context(|| path.display().to_string())
}

async fn serve(
    arguments: &OperatorArguments,
    configuration: OperatorConfiguration,
) -> Result<(), Failure> {
    let env = Env::system();
    let log = LogConfig {
        level: match configuration.log_level {
            LogLevel::Debug => Level::Debug,
            LogLevel::Error => Level::Error,
            _ => Level::Info,
        },
        format: match configuration.log_format {
            LogFormat::Text => Format::Text,
            _ => Format::Json,
        },
        filter: arguments.log.clone(),
    };
    logs::init(&log, env.clock.clone()).map_err(|error| Failure(Exit::Refused, error.into()))?;
    let connection =
        connect(arguments).await.map_err(|error| Failure(Exit::NoConnection, error))?;
    let options = Options {
        configuration,
        identity: Identity {
            instance: instance(&env),
            namespace: connection.namespace,
            service_account: arguments.service_account.clone(),
        },
        webhooks: arguments
            .webhook_host
            .clone()
            .map_or(WebhookAddress::Service, WebhookAddress::Host),
        install_crds: arguments.install_crds,
        init_image: tagged(&arguments.init_image),
    };
    let operator = grove_operator::run(connection.client, options, env.clone());
    tokio::select! {
        biased;
        ended = operator => ended.map_err(|error| {
            let exit = match &error {
                OperatorError::Serve(_) | OperatorError::CertProvisionMode(_) => Exit::NoConnection,
                OperatorError::Preflight(_) => Exit::NoMnnvl,
                OperatorError::Backend(_) => Exit::NoBackend,
                OperatorError::Topology(_) => Exit::NoTopology,
                OperatorError::InstallCrds(_) | OperatorError::Process(_) => Exit::Failed,
            };
            Failure(exit, error.into())
        }),
        signals = signalled_twice(&env.shutdown) => {
            // The second signal: stop without waiting.
            signals
                .context("cannot listen for signals")
                .map_err(|error| Failure(Exit::Failed, error))
        }
    }
}

/// The image of the start-order container in the operator's version; none if it was set to nothing.
fn tagged(image: &str) -> Option<String> {
    (!image.is_empty()).then(|| format!("{image}:{}", env!("CARGO_PKG_VERSION")))
}

struct Connection {
    client: kube::Client,
    namespace: String,
}

async fn connect(arguments: &OperatorArguments) -> anyhow::Result<Connection> {
    let config = cluster::infer().await?;
    let own = fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    let namespace = arguments.namespace.clone().or(own);
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let agent = concat!("grove-operator/", env!("CARGO_PKG_VERSION"));
    let client = grove_runtime::client::client(config, agent)?;
    Ok(Connection { client, namespace })
}

/// Host name and a number of this start: two starts on one host are two holders of a lease.
fn instance(env: &Env) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), env.rng.fork("instance").next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_image_is_the_one_that_the_installation_names() {
        let deployment = include_str!("../../../deploy/operator/deployment.yaml");
        let deployment: serde_json::Value = serde_saphyr::from_str(deployment).unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let variable = &container["env"][0];
        assert_eq!(variable["name"], "GROVE_INIT_CONTAINER_IMAGE");
        assert_eq!(variable["value"], init_container::DEFAULT_IMAGE);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(container["image"], format!("grove:{version}"));
        assert_eq!(tagged("grove-initc"), Some(format!("grove-initc:{version}")));
        assert_eq!(tagged(""), None);
    }
}
