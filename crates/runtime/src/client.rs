//! The client of one process.
//!
//! This module builds the client instead of `kube` for one reason: its connections check the lease right
//! before they send (see [`guard`]). It also leaves out `kube`'s retries, which would hide the server's
//! answers from the queue for minutes, and its tracing of every request.

pub(crate) mod guard;

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use self::guard::{Guarded, Pools, SharedGuard};

/// Size of a connection's read buffer. By default it grows with the traffic, up to hundreds of kilobytes
/// for each watch, and never shrinks.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// Timeout of a connect, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that identifies itself as `agent` (for example `grove-operator/0.1.0`).
pub fn client(mut config: Config, agent: &str) -> Result<Client, ClientError> {
    let agent = HeaderValue::from_str(agent).map_err(|_| ClientError::Agent(agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    if let Some(proxy) = &config.proxy_url {
        return Err(ClientError::Proxy(proxy.to_string()));
    }
    let unusable = |source| ClientError::Config(Box::new(source));

    let guard = SharedGuard::default();
    let pool = |guard: Option<SharedGuard>| {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let tcp = ServiceBuilder::new()
            .map_response(move |io| Guarded { io, guard: guard.clone() })
            .service(tcp);
        let tls = config.rustls_https_connector_with_connector(tcp).map_err(unusable)?;
        // No read timeout: watches are often silent and have an idle timeout of their own, and so do
        // writes.
        let mut connector = TimeoutConnector::new(tls);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let mut client = legacy::Client::builder(TokioExecutor::new());
        Ok(client.http1_read_buf_exact_size(READ_BUFFER_BYTES).build(connector))
    };
    let pools = Pools { plain: pool(None)?, guarded: pool(Some(guard.clone()))?, guard };

    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(pools);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// Why the client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The agent is not a valid header value.
    #[error("{0:?} cannot be sent as User-Agent: use visible ASCII characters")]
    Agent(String),
    /// Proxies are not supported.
    #[error(
        "the API server is to be reached through the proxy {0}, which is not supported: remove \
         proxy-url from the kubeconfig or unset HTTPS_PROXY"
    )]
    Proxy(String),
    /// Certificates, keys or addresses in the configuration are invalid.
    #[error("the client configuration is not usable: {0}")]
    Config(#[source] Box<kube::Error>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_unusable_setting() {
        let config = || Config::new("https://127.0.0.1:1".parse().unwrap());
        let mut proxied = config();
        proxied.proxy_url = Some("http://proxy:3128".parse().unwrap());
        for (config, agent, named) in
            [(config(), "line\nbreak", "User-Agent"), (proxied, "grove", "proxy http://proxy:3128")]
        {
            let error = client(config, agent).err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
