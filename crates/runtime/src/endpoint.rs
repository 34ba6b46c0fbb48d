//! A client of an external HTTPS endpoint that takes `POST` requests: JSON in, JSON out.
//!
//! Both sides authenticate: the endpoint with a certificate of a known authority, this process with a
//! client certificate, a bearer token, or both. All of them are files that are read again for every call,
//! so that a renewal only has to write the file. Connections are kept while the files stay the same.
//!
//! Limits: the number of calls in flight, the time of a call (including the wait for a slot), and the size
//! of an answer. Retries are up to the caller.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, fs, io};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::process::Env;
use crate::tasks::Shutdown;

/// Maximum size of an answer. An object has at most 1.5 MiB in etcd.
pub const MAX_ANSWER_BYTES: usize = 3 * 1024 * 1024;
/// Characters of an answer that an error shows.
const MAX_SHOWN_CHARS: usize = 200;

/// Address and credentials of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// `https://` URL of the endpoint.
    pub url: Uri,
    /// Authorities that may sign the endpoint's certificate; by default those of the machine.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and its key.
    pub identity: Option<IdentityFiles>,
    /// Bearer token.
    pub token_file: Option<PathBuf>,
    /// Maximum number of calls in flight; further ones wait.
    pub in_flight: usize,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM file with the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file with the key.
    pub key: PathBuf,
}

/// Why a call failed. The text does not contain the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A certificate, key or token cannot be used.
    #[error("not asked: {0}")]
    Files(String),
    /// This process is stopping.
    #[error("not asked: this process is stopping")]
    Stopping,
    /// The timeout has passed.
    #[error("no answer within {0:?}")]
    Slow(Duration),
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// The answer has an error status.
    #[error("answered {code}{}", colon(.text))]
    Status {
        /// HTTP status code.
        code: StatusCode,
        /// Beginning of the body.
        text: String,
    },
    /// The answer is larger than [`MAX_ANSWER_BYTES`].
    #[error("answered with more than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
}

fn colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Returns the beginning of a text, on one line.
pub fn beginning(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MAX_SHOWN_CHARS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// A client of one endpoint.
pub struct Endpoint {
    config: EndpointConfig,
    agent: String,
    clock: Clock,
    shutdown: Shutdown,
    places: Semaphore,
    current: Mutex<Option<(Contents, Client)>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    authorities: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    token: Option<String>,
}

impl Endpoint {
    /// Creates a client with the user agent `agent`. It reads and sends nothing before the first call.
    pub fn new(config: EndpointConfig, agent: &str, env: &Env) -> Self {
        Self {
            places: Semaphore::new(config.in_flight),
            config,
            agent: agent.to_owned(),
            clock: env.clock.clone(),
            shutdown: env.shutdown.clone(),
            current: Mutex::default(),
        }
    }

    /// URL of the endpoint.
    pub fn url(&self) -> &Uri {
        &self.config.url
    }

    /// Sends a body and returns the body of a successful answer. The body is built when it is sent, so that
    /// waiting calls need no memory for it.
    pub async fn post(
        &self,
        timeout: Duration,
        body: impl FnOnce() -> Vec<u8>,
    ) -> Result<Bytes, CallError> {
        let call = async {
            let _place = self.places.acquire().await.expect("the semaphore is never closed");
            self.exchange(self.client()?, body()).await
        };
        tokio::select! {
            biased;
            () = self.shutdown.requested() => Err(CallError::Stopping),
            answer = self.clock.timeout(timeout, call) => {
                answer.unwrap_or(Err(CallError::Slow(timeout)))
            }
        }
    }

    async fn exchange(&self, client: Client, body: Vec<u8>) -> Result<Bytes, CallError> {
        let path = self.config.url.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Body::from(body))
            .expect("a path of a URL and two constant headers make a request");
        let response = client.send(request).await.map_err(|error| self.connection(&error))?;
        let code = response.status();
        let answer = match Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(CallError::TooLarge),
            Err(error) => return Err(self.connection(&*error)),
        };
        if code == StatusCode::OK {
            return Ok(answer);
        }
        Err(CallError::Status { code, text: beginning(&String::from_utf8_lossy(&answer)) })
    }

    /// Returns the client for the current contents of the files.
    fn client(&self) -> Result<Client, CallError> {
        let contents = self.read()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = &*current
            && *known == contents
        {
            return Ok(client.clone());
        }
        let client = self.connect(&contents)?;
        *current = Some((contents, client.clone()));
        Ok(client)
    }

    fn read(&self) -> Result<Contents, CallError> {
        let config = &self.config;
        let file = |path: Option<&PathBuf>| path.map(|path| read(path)).transpose();
        let token = config.token_file.as_ref().map(|path| {
            let token = String::from_utf8_lossy(&read(path)?).trim().to_owned();
            let empty = || CallError::Files(format!("{} has no token", path.display()));
            if token.is_empty() { Err(empty()) } else { Ok(token) }
        });
        Ok(Contents {
            authorities: file(config.ca_file.as_ref())?,
            certificate: file(config.identity.as_ref().map(|identity| &identity.certificate))?,
            key: file(config.identity.as_ref().map(|identity| &identity.key))?,
            token: token.transpose()?,
        })
    }

    fn connect(&self, contents: &Contents) -> Result<Client, CallError> {
        // Each request sets its own path.
        let mut parts = self.config.url.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let url = Uri::from_parts(parts).expect("a URL stays one with another path");
        let mut config = Config::new(url);
        if let (Some(path), Some(pem)) = (&self.config.ca_file, &contents.authorities) {
            config.root_cert = Some(authorities(path, pem)?);
        }
        if let Some(identity) = &self.config.identity {
            let text = |path: &Path| Some(path.to_string_lossy().into_owned());
            config.auth_info.client_certificate = text(&identity.certificate);
            config.auth_info.client_key = text(&identity.key);
        }
        config.auth_info.token = contents.token.clone().map(Into::into);
        crate::client::client(config, &self.agent).map_err(|error| {
            let files = match &self.config.identity {
                Some(IdentityFiles { certificate, key }) => {
                    format!("{} with {}: ", certificate.display(), key.display())
                }
                None => String::new(),
            };
            CallError::Files(format!("{files}{error}"))
        })
    }

    /// Describes a connection error for the administrator who has to repair it.
    fn connection(&self, error: &(dyn Error + 'static)) -> CallError {
        let mut causes = std::iter::successors(Some(error), |&error| cause(error));
        let tls = causes.clone().find_map(|one| one.downcast_ref::<rustls::Error>());
        CallError::Connection(match tls {
            // The second variant is a new authority with the same name.
            Some(rustls::Error::InvalidCertificate(
                rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature,
            )) => {
                let known = self.config.ca_file.as_ref();
                let known = known.map(|path| format!("the authority in {}", path.display()));
                let known = known.unwrap_or_else(|| "an authority of this machine".to_owned());
                format!("its certificate is not signed by {known}")
            }
            Some(rustls::Error::InvalidCertificate(reason)) => {
                format!("its certificate is not valid: {reason}")
            }
            Some(rustls::Error::AlertReceived(alert)) => {
                format!("it ended the TLS connection: {alert:?}")
            }
            Some(other) => format!("no TLS connection: {other}"),
            None => {
                let last = causes.by_ref().last().map(ToString::to_string).unwrap_or_default();
                format!("no connection: {last}")
            }
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CallError> {
    fs::read(path).map_err(|error| CallError::Files(format!("{}: {error}", path.display())))
}

fn authorities(path: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, CallError> {
    let unusable = |why: String| CallError::Files(format!("{}: {why}", path.display()));
    let certificates = CertificateDer::pem_slice_iter(pem)
        .map(|one| one.map(|one| one.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}

/// An I/O error does not name the error inside it as its source.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_the_beginning_of_an_answer_on_one_line() {
        assert_eq!(beginning(" a\n\tb  "), "a b");
        let shown = beginning(&"ä".repeat(500));
        assert_eq!(shown.chars().count(), MAX_SHOWN_CHARS + 1);
        assert!(shown.ends_with("ä…"), "{shown}");
    }

    #[tokio::test]
    async fn errors_name_the_unusable_file() {
        let directory = std::env::temp_dir().join(format!("grove-endpoint-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let config = EndpointConfig {
            url: "https://127.0.0.1:1/review".parse().unwrap(),
            ca_file: None,
            identity: None,
            token_file: None,
            in_flight: 1,
        };
        let identity = |certificate, key| Some(IdentityFiles { certificate, key });
        let (no, empty) = (directory.join("none"), file("empty", " \n"));
        let cases = [
            (EndpointConfig { ca_file: Some(no.clone()), ..config.clone() }, "none: No such file"),
            (
                EndpointConfig { ca_file: Some(empty.clone()), ..config.clone() },
                "empty: there is no certificate in it",
            ),
            (
                EndpointConfig { token_file: Some(empty.clone()), ..config.clone() },
                "empty has no token",
            ),
            (
                EndpointConfig { identity: identity(empty.clone(), empty), ..config },
                "empty: the client configuration is not usable: ",
            ),
        ];
        for (config, named) in cases {
            let endpoint = Endpoint::new(config, "test", &Env::system());
            let error = endpoint.post(Duration::from_secs(5), Vec::new).await.unwrap_err();
            assert!(matches!(error, CallError::Files(_)), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("not asked: ") && text.contains(named), "{text}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
