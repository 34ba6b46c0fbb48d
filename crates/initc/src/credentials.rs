//! The address of the API server and the credentials of this pod.
//!
//! As in every Kubernetes client: a kubeconfig if one exists (`KUBECONFIG` or the user's own), otherwise the
//! mounted service account. The client reads token and authority again every minute.

use anyhow::anyhow;
use grove_api::init_container::TOKEN_MOUNT_PATH;
use grove_runtime::client::client;
use kube::config::{InClusterError, KubeConfigOptions};
use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug)]
pub(crate) enum CredentialsError {
    /// The files may still appear: Kubernetes writes the token a moment after the Secret is created.
    NotYet(String),
    /// There is no API server address, and no file will add one.
    Never(anyhow::Error),
}

/// Returns a client with the current credentials.
pub(crate) async fn load() -> Result<Client, CredentialsError> {
    let config = match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => config,
        Err(kubeconfig) => Config::incluster().map_err(|in_cluster| match in_cluster {
            InClusterError::ReadEnvironmentVariable(_) => CredentialsError::Never(anyhow!(
                "no API server: not in a pod ({in_cluster}), and no kubeconfig: {kubeconfig}"
            )),
            // The error does not contain the path.
            _ => CredentialsError::NotYet(format!("{TOKEN_MOUNT_PATH}: {in_cluster}")),
        })?,
    };
    client(config, concat!("grove-initc/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| CredentialsError::NotYet(error.to_string()))
}
