//! Certificates and a TLS client for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority::{AuthorityName, new_ca, new_leaf};

pub(crate) fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

/// A CA with one leaf for 127.0.0.1 and localhost, valid at [`now`].
pub(crate) struct Pki {
    pub(crate) ca: String,
    pub(crate) leaf: String,
    pub(crate) key: String,
}

pub(crate) fn pki() -> Pki {
    let day = Duration::from_secs(24 * 3600);
    let name = AuthorityName { common_name: "Test".into(), organization: "Tests".into() };
    let ca = new_ca(&name, 10 * day, now()).unwrap();
    let der = CertificateDer::from_pem_slice(ca.certificate.as_bytes()).unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let leaf = new_leaf(&names, &der, &ca.key, now() + day, now()).unwrap();
    Pki { ca: ca.certificate, leaf: leaf.certificate, key: leaf.key }
}

#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(now().as_second()).unwrap();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// A TLS connection to a server whose certificate must be signed by one of the CAs in `bundle`.
pub(crate) async fn connect(
    address: SocketAddr,
    bundle: &str,
    alpn: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(ca.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One request on a connection of its own: status and body.
#[expect(clippy::disallowed_methods, reason = "the client of a test is no part of a process")]
pub(crate) async fn exchange(
    address: SocketAddr,
    bundle: &str,
    request: Request<Body>,
) -> (u16, String) {
    let stream = TokioIo::new(connect(address, bundle, b"http/1.1").await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
}

/// The same over HTTP/2.
#[expect(clippy::disallowed_methods, reason = "the client of a test is no part of a process")]
pub(crate) async fn exchange_h2(
    address: SocketAddr,
    bundle: &str,
    request: Request<Body>,
) -> (u16, String) {
    let stream = TokioIo::new(connect(address, bundle, b"h2").await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
}
