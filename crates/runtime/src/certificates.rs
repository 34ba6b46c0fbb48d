//! The serving certificate and its sources.
//!
//! The TLS server reads a [`ServingCertificate`] at every handshake. One of two sources fills it:
//! [`managed`] runs a small certificate authority and keeps it in a Secret that all replicas of the process
//! share; [`files`] follows a mounted directory. Replacement is atomic: a handshake gets the old
//! certificate or the new one, never a mixture, and open connections stay open.

mod authority;
mod contents;
mod decide;
pub mod files;
pub mod managed;
mod pair;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

pub use self::pair::PairError;
use crate::health::{Part, Readiness};

/// The certificate that is currently served; clones share it.
#[derive(Clone)]
pub struct ServingCertificate {
    current: Arc<ArcSwapOption<CertifiedKey>>,
    part: Part,
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").field("ready", &self.ready()).finish_non_exhaustive()
    }
}

impl ServingCertificate {
    /// Starts without a certificate: handshakes fail, and `readiness` reports it as missing.
    pub fn new(readiness: &Readiness) -> Self {
        let part = readiness.part("serving certificate");
        Self { current: Arc::default(), part }
    }

    /// Whether there is a certificate to serve.
    pub fn ready(&self) -> bool {
        self.current.load().is_some()
    }

    /// Serves this chain and key (PEM) from the next handshake on. An invalid pair changes nothing.
    pub fn install(&self, chain: &[u8], key: &[u8]) -> Result<(), PairError> {
        let pair = pair::certified_key(chain, key)?;
        self.current.store(Some(Arc::new(pair)));
        self.part.ready();
        Ok(())
    }

    /// Reports in `readiness` why there is no certificate. Later problems, for example with a renewal, do
    /// not make the process unready: it still serves the old certificate.
    fn report(&self, problem: &str) {
        if !self.ready() {
            self.part.not_ready(problem);
        }
    }

    /// TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1 and this certificate.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring offers the cipher suites of TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

#[cfg(test)]
pub(crate) mod testkit;
