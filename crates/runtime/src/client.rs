//! The client of one process.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

/// A client that identifies itself as `agent` (for example `grove-operator/0.1.0`) and leaves
/// retries to us: kube's own would hide the server's answers from the queue for minutes.
pub fn client(mut config: Config, agent: &str) -> Result<Client, ClientError> {
    let agent = HeaderValue::from_str(agent).map_err(|_| ClientError::Agent(agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    // Watches are silent by nature and have an idle timeout of their own; writes have theirs.
    config.read_timeout = None;
    Client::try_from(config).map_err(|source| ClientError::Config(Box::new(source)))
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
