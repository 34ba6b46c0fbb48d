//! Someone who talks to the API server.

use std::path::{Path, PathBuf};

/// A user with a credential of their own.
#[derive(Debug, Clone)]
pub struct User {
    pub(super) name: String,
    pub(super) kubeconfig: PathBuf,
}

impl User {
    /// The name the API server knows the user by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Client configuration; the file lives as long as the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A typed client that reports every answer as it is: retrying is left to the caller.
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
