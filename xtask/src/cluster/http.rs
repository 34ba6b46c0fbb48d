//! One connection per request: enough HTTP to start and fill a control plane.
//!
//! HTTP/1.0, so that a server sends the whole body and closes. Only for loopback; TLS trusts only the
//! instance's own authority.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::certificates::Identity;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A TLS connection to one of our servers.
pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Status and body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Body.
    pub body: String,
}

/// A client with a client certificate.
#[derive(Debug, Clone)]
pub(crate) struct Client(Arc<ClientConfig>);

impl Client {
    /// A client that trusts `authority` and authenticates as `identity`.
    pub(crate) fn new(authority: &str, identity: &Identity) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Self(Arc::new(config)))
    }

    /// `GET path` over TLS.
    pub(crate) fn get(&self, port: u16, path: &str) -> Result<Answer> {
        self.request(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
    }

    /// `POST path` of a JSON document over TLS.
    pub(crate) fn post(&self, port: u16, path: &str, body: &str) -> Result<Answer> {
        self.request(port, &post(path, body))
    }

    fn request(&self, port: u16, text: &str) -> Result<Answer> {
        exchange(self.stream(port)?, text)
    }

    /// Opens a connection.
    pub(crate) fn stream(&self, port: u16) -> Result<Tls> {
        let name = ServerName::try_from("localhost")?;
        let connection = ClientConnection::new(self.0.clone(), name)?;
        Ok(StreamOwned::new(connection, connect(port)?))
    }
}

/// `GET path` from a server on this machine, without TLS.
pub fn get_plain(port: u16, path: &str) -> Result<Answer> {
    exchange(connect(port)?, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
}

/// `POST path` of a JSON document without TLS.
pub(crate) fn post_plain(port: u16, path: &str, body: &str) -> Result<Answer> {
    exchange(connect(port)?, &post(path, body))
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn exchange(mut stream: impl Read + Write, text: &str) -> Result<Answer> {
    stream.write_all(text.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Servers may close without TLS close_notify; an incomplete body fails to parse.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
        _ => {}
    }
    parse(&String::from_utf8_lossy(&answer)).context("the server did not answer in HTTP")
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn status_and_body_are_parsed() {
        let answer = parse("HTTP/1.0 201 Created\r\nA: b\r\n\r\n{\"x\": 1}").unwrap();
        assert_eq!(answer, Answer { status: 201, body: "{\"x\": 1}".into() });
        assert_eq!(parse("SSH-2.0-x\r\n\r\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_plain_request_reaches_a_server_completely() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = vec![0; post("/put", "{}").len()];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\ndone").unwrap();
            String::from_utf8(received).unwrap()
        });
        assert_eq!(post_plain(port, "/put", "{}").unwrap().body, "done");
        assert!(server.join().unwrap().ends_with("Content-Length: 2\r\n\r\n{}"));
    }
}
