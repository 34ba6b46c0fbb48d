//! Which cluster a command is about, and a client for it.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Which cluster, and which namespace of it.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Namespace of the set. Without it: the one of the context
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Kubeconfig file. Without it: as KUBECONFIG says, else ~/.kube/config, else the service account of
    /// the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Without it: its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A cluster that can be asked.
pub(crate) struct Cluster {
    pub(crate) client: kube::Client,
    /// The namespace to work in.
    pub(crate) namespace: String,
}

impl ClusterArguments {
    /// A client for the cluster.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let config = self.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Cluster { client: client(config)?, namespace })
    }

    async fn config(&self) -> anyhow::Result<kube::Config> {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return infer().await;
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read().context("cannot read a kubeconfig; set KUBECONFIG")?,
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let context = self.context.as_deref().unwrap_or("that is current");
        kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .with_context(|| format!("cannot use the kubeconfig with the context {context}"))
    }
}

/// What the environment says about the cluster.
pub(crate) async fn infer() -> anyhow::Result<kube::Config> {
    kube::Config::infer().await.context(
        "found neither a kubeconfig nor a service account; set KUBECONFIG or run in a cluster",
    )
}

/// A client of the user's commands.
pub(crate) fn client(config: kube::Config) -> anyhow::Result<kube::Client> {
    let agent = concat!("grove/", env!("CARGO_PKG_VERSION"));
    Ok(grove_runtime::client::client(config, agent)?)
}
