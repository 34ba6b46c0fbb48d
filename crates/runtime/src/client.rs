//! The client of one process.
//!
//! Put together here instead of by `kube` for one reason: the innermost layer takes a last look at
//! the lease (see [`guard`]), which only it can do late enough. It also leaves out `kube`'s retries,
//! which would hide the server's answers from the queue for minutes, and its tracing of every
//! request.

pub(crate) mod guard;

use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// How long connecting may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that identifies itself as `agent` (for example `grove-operator/0.1.0`).
pub fn client(mut config: Config, agent: &str) -> Result<Client, ClientError> {
    let agent = HeaderValue::from_str(agent).map_err(|_| ClientError::Agent(agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    let unusable = |source| ClientError::Config(Box::new(source));

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_https_connector_with_connector(tcp).map_err(unusable)?;
    // Watches are silent by nature and have an idle timeout of their own; writes have theirs.
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let http = legacy::Client::builder(TokioExecutor::new()).build(connector);

    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_request(|request: Request<Body>| guard::attach(request))
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The agent does not fit into a header.
    #[error("{0:?} cannot be sent as User-Agent: use visible ASCII characters")]
    Agent(String),
    /// Certificates, keys or addresses in the configuration are wrong.
    #[error("the client configuration is not usable: {0}")]
    Config(#[source] Box<kube::Error>),
}
