//! The reference implementation of a scheduler backend as a program, and certificates for it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use tokio::net::TcpSocket;

use crate::program::Program;

const REFERENCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/backend/crew_scheduler.py");

/// A directory with everything that a backend and its caller need to trust each other: `ca.crt`, `server.crt`,
/// `server.key`, `client.crt`, `client.key` and `token`.
pub struct Pki {
    directory: PathBuf,
}

impl Pki {
    /// New certificates in a directory, which should be below `CARGO_TARGET_TMPDIR` of the test.
    pub fn new(directory: &str) -> Self {
        let directory = PathBuf::from(directory);
        fs::create_dir_all(&directory).unwrap();
        let pki = Self { directory };
        pki.renew();
        pki
    }

    /// Replaces the certificates by those of another authority, and the token by another one.
    pub fn renew(&self) {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "test authority");
        let ca_key = KeyPair::generate().unwrap();
        self.write("ca.crt", &ca.self_signed(&ca_key).unwrap().pem());
        self.write("token", &format!("{}\n", ca_key.serialize_pem().lines().nth(1).unwrap()));
        let issuer = Issuer::new(ca, ca_key);
        let uses = [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ];
        for (name, usage) in uses {
            let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            self.write(&format!("{name}.crt"), &certificate.pem());
            self.write(&format!("{name}.key"), &key.serialize_pem());
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// The path of one of the files.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// The text of one of the files.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// How callers prove who they are.
#[derive(Clone, Copy, Debug)]
pub enum Credential {
    Certificate,
    Token,
}

/// A port of the loopback interface that no other program gets while its program is down: a bound socket
/// that does not listen.
pub struct ReservedPort(TcpSocket);

impl ReservedPort {
    /// Reserves a free port. A server that sets `SO_REUSEADDR` can listen on it.
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self(socket)
    }

    pub fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

/// The running reference implementation. It is killed when this value is dropped.
pub struct ReferenceBackend {
    pub program: Program,
    pub port: u16,
}

impl ReferenceBackend {
    /// Starts it and waits until it listens; port 0 lets the system choose one.
    pub fn start(pki: &Pki, credential: Credential, port: u16) -> Self {
        let (option, file) = match credential {
            Credential::Certificate => ("--client-ca", "ca.crt"),
            Credential::Token => ("--token-file", "token"),
        };
        let mut command = Command::new("python3");
        command
            .args(["-B", REFERENCE, "--port", &port.to_string()])
            .args(["--cert", &pki.path("server.crt"), "--key", &pki.path("server.key")])
            .args([option, &pki.path(file)]);
        let mut program = Program::reading_stdout(command);
        let line = program.until_line(&[":"]);
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("the reference prints {line:?}"));
        Self { program, port }
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.port)
    }
}
