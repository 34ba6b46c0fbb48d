//! A user of the API server.

use std::path::{Path, PathBuf};

/// A user with their own credential.
#[derive(Debug, Clone)]
pub struct User {
    pub(super) name: String,
    pub(super) kubeconfig: PathBuf,
}

impl User {
    /// The name of the user in the API server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kubeconfig; the file exists as long as the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A typed client without retries: it returns every answer to the caller.
    #[cfg(feature = "client")]
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        use anyhow::Context;
        use kube::config::{Config, KubeConfigOptions, Kubeconfig};

        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)
            .with_context(|| format!("cannot read {}", self.kubeconfig.display()))?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }
}
