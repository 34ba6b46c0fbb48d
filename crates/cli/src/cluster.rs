//! Which cluster a command is about, and a client for it.

use std::fmt::Debug;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use grove_api::PodCliqueSet;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;

/// Which cluster, and which namespace of it.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Namespace of the set. Without it: the one of the context
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Which cluster.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArguments {
    /// Kubeconfig file. Without it: as KUBECONFIG says, else ~/.kube/config, else the service account of
    /// the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Without it: its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// One set, or all of a cluster.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Name of the PodCliqueSet
    #[arg(value_name = "NAME", required_unless_present = "all_namespaces")]
    set: Option<String>,
    /// All sets of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["set", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// What was asked for.
pub(crate) enum Asked {
    /// A set in the namespace of the cluster.
    One(Cluster, String),
    /// Every set with the namespace it is in.
    All(Vec<(Cluster, String)>),
}

impl SetArguments {
    /// A client for the cluster, and the sets.
    pub(crate) async fn sets(&self) -> anyhow::Result<Asked> {
        let cluster = self.cluster.connect().await?;
        if let Some(set) = &self.set {
            return Ok(Asked::One(cluster, set.clone()));
        }
        let api = kube::Api::<PodCliqueSet>::all(cluster.client.clone());
        let list = api.list_metadata(&ListParams::default()).await;
        let list = list.context("cannot list the PodCliqueSets of all namespaces")?;
        let one = |object: kube::core::PartialObjectMeta<PodCliqueSet>| {
            let namespace = object.metadata.namespace.unwrap_or_default();
            let cluster = Cluster { client: cluster.client.clone(), namespace };
            (cluster, object.metadata.name.unwrap_or_default())
        };
        Ok(Asked::All(list.items.into_iter().map(one).collect()))
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> &str {
        self.set.as_deref().unwrap_or("of all namespaces")
    }
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
        let config = self.connection.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Cluster { client: client(config)?, namespace })
    }
}

impl ConnectionArguments {
    /// A client for the cluster.
    pub(crate) async fn connect(&self) -> anyhow::Result<kube::Client> {
        client(self.config().await?)
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

/// The cluster that the environment names.
pub(crate) async fn infer() -> anyhow::Result<kube::Config> {
    kube::Config::infer().await.context(
        "found neither a kubeconfig nor a service account; set KUBECONFIG or run in a cluster",
    )
}

/// Objects per page of a long list.
const PAGE: u32 = 500;

/// Lists all objects of a kind page by page, and keeps a part of each. A kind that is not served has none.
pub(crate) async fn list<K, T>(
    api: &kube::Api<K>,
    mut params: ListParams,
    part: impl Fn(K) -> T,
) -> Result<Vec<T>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    params.limit = Some(PAGE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            page => page?,
        };
        all.extend(page.items.into_iter().map(&part));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

/// A client of the user's commands.
pub(crate) fn client(config: kube::Config) -> anyhow::Result<kube::Client> {
    let agent = concat!("grove/", env!("CARGO_PKG_VERSION"));
    Ok(grove_runtime::client::client(config, agent)?)
}
