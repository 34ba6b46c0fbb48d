//! Where the API server is and how to be known there.
//!
//! As every Kubernetes client: a kubeconfig if there is one (`KUBECONFIG` or the user's own),
//! otherwise what a pod is given. The client reads token and authority again every minute.

use anyhow::anyhow;
use grove_api::init_container::TOKEN_MOUNT_PATH;
use grove_runtime::client::client;
use kube::config::{InClusterError, KubeConfigOptions};
use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug)]
pub(crate) enum CredentialsError {
    /// Something may still appear: the token secret is filled a moment after it was made.
    NotYet(String),
    /// Nothing tells where the API server is, and no file will.
    Never(anyhow::Error),
}

/// A client with the credentials as they are now.
pub(crate) async fn load() -> Result<Client, CredentialsError> {
    let config = match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => config,
        Err(kubeconfig) => Config::incluster().map_err(|in_cluster| match in_cluster {
            InClusterError::ReadEnvironmentVariable(_) => CredentialsError::Never(anyhow!(
                "no API server: not in a pod ({in_cluster}), and no kubeconfig: {kubeconfig}"
            )),
            // The error does not say where it looked.
            _ => CredentialsError::NotYet(format!("{TOKEN_MOUNT_PATH}: {in_cluster}")),
        })?,
    };
    client(config, concat!("grove-initc/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| CredentialsError::NotYet(error.to_string()))
}
