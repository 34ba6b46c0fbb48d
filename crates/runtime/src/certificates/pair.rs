//! Parses PEM text into a certificate and its key.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// Why a certificate and key cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The certificate is not PEM.
    #[error("the certificate is not readable PEM: {0}")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// There is no certificate in the text.
    #[error("there is no certificate")]
    NoCertificate,
    /// The key is not PEM.
    #[error("the private key is not readable PEM: {0}")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The key has an unknown type or belongs to another certificate.
    #[error("certificate and private key do not fit together: {0}")]
    Mismatch(#[source] rustls::Error),
}

/// Returns all certificates in the text, in order.
pub(super) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(PairError::Certificate)
}

/// Returns the chain with its key for the TLS server.
pub(super) fn certified_key(chain_pem: &[u8], key: &[u8]) -> Result<CertifiedKey, PairError> {
    let chain = chain(chain_pem)?;
    if chain.is_empty() {
        return Err(PairError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(PairError::Mismatch)
}
