//! Certificates, and the reference implementation of a scheduler backend as a process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

const REFERENCE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/backend/crew_scheduler.py");

/// A directory with everything that two sides need to know each other: `ca.crt`, `server.crt`,
/// `server.key`, `client.crt`, `client.key` and `token`.
pub struct Pki {
    directory: PathBuf,
}

impl Pki {
    /// New certificates in a directory of this name.
    pub fn new(name: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).unwrap();
        let pki = Self { directory };
        pki.renew();
        pki
    }

    /// Other certificates by another authority, and another token, in the same files.
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

    /// One of the files.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// What one of the files says.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// How callers show who they are.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    Certificate,
    Token,
}

/// The reference implementation. It ends with this value.
pub struct Program {
    child: Child,
    pub port: u16,
}

impl Program {
    /// Starts it and waits until it listens; port 0 lets the system choose one.
    pub fn start(pki: &Pki, shown: Shown, port: u16) -> Self {
        let (option, file) = match shown {
            Shown::Certificate => ("--client-ca", "ca.crt"),
            Shown::Token => ("--token-file", "token"),
        };
        let mut child = Command::new("python3")
            .args(["-B", REFERENCE, "--port", &port.to_string()])
            .args(["--cert", &pki.path("server.crt"), "--key", &pki.path("server.key")])
            .args([option, &pki.path(file)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("the reference says {line:?}"));
        Self { child, port }
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/", self.port)
    }

    /// Stops it (`STOP`) or lets it go on (`CONT`).
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }
}

/// SIGKILL, as bad as it gets.
impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
