//! A real control plane on loopback: etcd, kube-apiserver and optionally the other programs.
//!
//! [`Cluster::start`] returns when all programs are ready; dropping the value kills every process and removes
//! every file. When the owner is killed, the kernel kills its children (see [`process`]); the next start
//! removes the directory. Instances share no port, certificate, data or log.

mod certificates;
mod connection;
pub mod directory;
mod fleet;
mod gates;
mod http;
mod kubeconfig;
mod options;
mod ports;
mod process;
mod programs;
mod startup;
mod user;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::poll::Stopwatch;
use crate::tools::{Part, Toolbox};

use certificates::{Authority, Identity};
use directory::Directory;
use kubeconfig::Credential;
use process::Program;
use programs::{Ports, Setting};

pub use crate::tools::Kube;
pub use connection::{Connection, Connector, Lines};
pub use fleet::{BLOCK_LABEL, Fleet, RACK_LABEL, ZONE_LABEL};
pub use http::{Answer, get_plain};
pub use options::{ClientLimits, Gates, Options, Parts};
pub use user::User;

/// A running control plane.
pub struct Cluster {
    options: Options,
    ports: Ports,
    toolbox: Toolbox,
    authority: Authority,
    admin: User,
    http: http::Client,
    ready_after: Duration,
    users: AtomicU32,
    // Declared before the directory: processes end before their files are removed.
    programs: Mutex<BTreeMap<&'static str, Program>>,
    directory: Directory,
}

impl Cluster {
    /// Builds missing programs, starts all of them and waits until they are ready.
    pub fn start(options: Options) -> Result<Self> {
        directory::sweep();
        let toolbox = Toolbox::open()?;
        toolbox.ensure(&options.parts.programs(options.kube))?;
        match Self::launch(options.clone(), toolbox.clone()) {
            // Another process took a port before our program listened; other ports are free.
            Err(error) if format!("{error:#}").contains("address already in use") => {
                Self::launch(options, toolbox)
            }
            result => result,
        }
    }

    fn launch(options: Options, toolbox: Toolbox) -> Result<Self> {
        let watch = Stopwatch::start();
        let directory = Directory::create()?;
        let [etcd, api_server, controller_manager, scheduler, kwok] = ports::free()?;
        let ports = Ports { etcd, api_server, controller_manager, scheduler, kwok };
        let authority = Authority::generate()?;
        let identity = authority.client("admin", &["system:masters"])?;
        let http = http::Client::new(&authority.pem(), &identity)?;
        let admin =
            User { name: "admin".into(), kubeconfig: directory.path().join("admin.kubeconfig") };
        let mut cluster = Self {
            options,
            ports,
            toolbox,
            authority,
            admin,
            http,
            ready_after: Duration::ZERO,
            users: AtomicU32::new(0),
            programs: Mutex::default(),
            directory,
        };
        cluster.write_files(&identity)?;
        cluster.start_all()?;
        cluster.ready_after = watch.elapsed();
        Ok(cluster)
    }

    // === identity and addresses ===

    /// The administrator, in group `system:masters`.
    pub fn admin(&self) -> &User {
        &self.admin
    }

    /// A user with a new client certificate and at most two groups.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<User> {
        let identity = self.authority.client(name, groups)?;
        let kubeconfig = self.write_kubeconfig(&self.file_of_next_user(), &identity)?;
        Ok(User { name: name.to_owned(), kubeconfig })
    }

    /// An existing service account with a token for a day, like a program inside the cluster.
    pub fn service_account(&self, namespace: &str, name: &str) -> Result<User> {
        let token = ["create", "token", name, "--namespace", namespace, "--duration", "24h"];
        let token = self.kubectl(&token)?;
        let credential = Credential::Token(token.trim());
        let kubeconfig = self.write_kubeconfig_with(&self.file_of_next_user(), credential)?;
        Ok(User { name: format!("system:serviceaccount:{namespace}:{name}"), kubeconfig })
    }

    /// The name of a user may contain characters that a file name must not.
    fn file_of_next_user(&self) -> String {
        format!("user-{}", self.users.fetch_add(1, Ordering::Relaxed))
    }

    /// Address of the API server.
    pub fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }

    /// Port of the API server.
    pub fn port(&self) -> u16 {
        self.ports.api_server
    }

    /// Address of etcd, without TLS.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// Certificate of the authority that signed all certificates of the instance.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// Directory with certificates, data and logs; removed when the cluster is dropped.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Time from the first process to readiness.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Programs and their process ids.
    pub fn processes(&self) -> BTreeMap<&'static str, u32> {
        self.programs().iter().map(|(name, program)| (*name, program.pid())).collect()
    }

    /// The log of a program so far.
    pub fn logs(&self, program: &str) -> Result<String> {
        let path = self.directory.path().join(format!("{program}.log"));
        let bytes = fs::read(&path).with_context(|| format!("{program} has no log"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The audit log with every write so far, one JSON document per line, if the instance was started with
    /// [`Options::audit`].
    pub fn audit_log(&self) -> PathBuf {
        self.directory.path().join(programs::AUDIT_LOG)
    }

    // === use ===

    /// Returns a connector for persistent connections as `user`.
    pub fn connector(&self, user: &User) -> Result<Connector> {
        let read = |extension: &str| {
            let path = user.kubeconfig.with_extension(extension);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let identity = Identity { certificate: read("crt")?, key: read("key")? };
        let client = http::Client::new(&self.authority.pem(), &identity)?;
        Ok(Connector::new(client, self.ports.api_server))
    }

    /// Runs kubectl as the administrator and returns its standard output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(&self.admin, args, None)
    }

    /// Runs kubectl as the administrator with standard input, such as `apply -f -`.
    pub fn kubectl_with_stdin(&self, args: &[&str], stdin: &str) -> Result<String> {
        self.run_kubectl(&self.admin, args, Some(stdin))
    }

    /// Runs kubectl as `user`.
    pub fn kubectl_as(&self, user: &User, args: &[&str]) -> Result<String> {
        self.run_kubectl(user, args, None)
    }

    /// Directory of the matching kubectl, for a search path.
    pub fn kubectl_dir(&self) -> Result<PathBuf> {
        let path = self.toolbox.path(Part::Kubectl(self.options.kube))?;
        path.parent().map(Path::to_owned).context("a cached binary has a directory")
    }

    fn run_kubectl(&self, user: &User, args: &[&str], stdin: Option<&str>) -> Result<String> {
        let mut command = process::command(&self.toolbox.path(Part::Kubectl(self.options.kube))?);
        command
            .args(args)
            .env("KUBECONFIG", user.kubeconfig())
            .env("KUBECACHEDIR", self.directory.path().join("kubectl-cache"))
            .env("KUBERC", "off")
            .env("HOME", self.directory.path());
        let Output { status, stdout, stderr } = process::run(command, stdin)?;
        ensure!(
            status.success(),
            "kubectl {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&stderr).trim()
        );
        String::from_utf8(stdout).context("kubectl printed something that is not text")
    }

    /// Creates the nodes of a fleet; existing ones stay as they are.
    pub fn nodes(&self, fleet: &Fleet) -> Result<()> {
        fleet.create(&self.http, self.ports.api_server)
    }

    // === faults ===

    /// Kills kube-apiserver with SIGKILL; returns when it has ended.
    pub fn kill_api_server(&self) -> Result<()> {
        let name = Part::ApiServer(self.options.kube).name();
        let program = self.programs().remove(name);
        program.map(drop).context("kube-apiserver is not running")
    }

    /// Starts kube-apiserver again with the same port and data; returns when it is ready.
    pub fn start_api_server(&self) -> Result<()> {
        let part = Part::ApiServer(self.options.kube);
        ensure!(!self.programs().contains_key(part.name()), "kube-apiserver is running");
        self.start_program(part)?;
        self.await_ready(part)
    }

    /// Compacts etcd to its current revision: older resource versions are removed at once.
    pub fn etcd_compact(&self) -> Result<()> {
        // The answer for any key contains the revision of the whole store.
        let range = self.etcd("/v3/kv/range", &json!({ "key": "AA==", "keys_only": true }))?;
        let revision =
            range["header"]["revision"].as_str().context("the answer of etcd has no revision")?;
        self.etcd("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }))?;
        Ok(())
    }

    fn etcd(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = http::post_plain(self.ports.etcd, path, &body.to_string())?;
        ensure!(answer.status == 200, "etcd {path}: {} {}", answer.status, answer.body);
        serde_json::from_str(&answer.body).with_context(|| format!("etcd {path}: no JSON"))
    }

    // === parts ===

    fn setting(&self) -> Setting<'_> {
        Setting { directory: self.directory.path(), ports: self.ports, options: &self.options }
    }

    /// A panic elsewhere must not prevent the kill of running programs.
    fn programs(&self) -> MutexGuard<'_, BTreeMap<&'static str, Program>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the nodes of a fleet in an instance of another process, identified by its directory and the port
/// of its API server.
pub fn populate(directory: &Path, port: u16, fleet: &Fleet) -> Result<()> {
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let identity = Identity { certificate: read("admin.crt")?, key: read("admin.key")? };
    fleet.create(&http::Client::new(&read("ca.crt")?, &identity)?, port)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut programs = std::mem::take(&mut *self.programs());
        // All are killed before any is awaited, so that none logs errors about the others.
        programs.values_mut().for_each(Program::kill);
        programs.values_mut().for_each(Program::reap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_can_be_shared_by_all_tests_of_a_program() {
        fn assert_shareable<T: Send + Sync>() {}
        assert_shareable::<Cluster>();
    }
}
