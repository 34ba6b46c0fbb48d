//! Starts a control plane in an empty directory: writes files, then starts processes in order.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::certificates::{self, Identity};
use super::kubeconfig::{Credential, Kubeconfig};
use super::options::Parts;
use super::process::Program;
use super::programs::{AUDIT_POLICY, STAGES, Setting};
use super::{Cluster, http};
use crate::poll;
use crate::tools::Part;

/// Time for one program to become ready on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(90);

impl Cluster {
    pub(super) fn write_files(&self, admin: &Identity) -> Result<()> {
        self.write("ca.crt", &self.authority.pem())?;
        let serving = self.authority.serving()?;
        self.write("serving.crt", &serving.certificate)?;
        self.write("serving.key", &serving.key)?;
        let (private, public) = certificates::signing_pair()?;
        self.write("sa.key", &private)?;
        self.write("sa.pub", &public)?;
        self.write_kubeconfig("admin", admin)?;
        if self.options.audit {
            self.write(AUDIT_POLICY, &Setting::audit_policy())?;
        }
        if self.options.parts == Parts::Full {
            for (name, user, groups) in [
                ("kube-controller-manager", "system:kube-controller-manager", &[][..]),
                ("kube-scheduler", "system:kube-scheduler", &[]),
                ("kwok", "kwok", &["system:masters"]),
            ] {
                self.write_kubeconfig(name, &self.authority.client(user, groups)?)?;
            }
            self.write("kube-scheduler.json", &self.setting().scheduler_config())?;
            self.write("stages.yaml", STAGES)?;
        }
        Ok(())
    }

    pub(super) fn start_all(&self) -> Result<()> {
        let kube = self.options.kube;
        self.start_program(Part::Etcd)?;
        self.await_ready(Part::Etcd)?;
        self.start_program(Part::ApiServer(kube))?;
        self.await_ready(Part::ApiServer(kube))?;
        if self.options.parts == Parts::ApiServer {
            return Ok(());
        }
        let rest = [Part::ControllerManager(kube), Part::Scheduler(kube), Part::Kwok];
        rest.into_iter().try_for_each(|part| self.start_program(part))?;
        rest.into_iter().try_for_each(|part| self.await_ready(part))?;
        self.await_default_service_account()
    }

    pub(super) fn start_program(&self, part: Part) -> Result<()> {
        let binary = self.toolbox.path(part)?;
        let args = self.setting().arguments(part);
        let program = Program::start(part.name(), &binary, &args, self.directory.path())?;
        self.programs().insert(part.name(), program);
        Ok(())
    }

    /// Waits until a program is healthy, or fails as soon as it stops.
    pub(super) fn await_ready(&self, part: Part) -> Result<()> {
        let what = format!("{part} is ready");
        let result = poll::until(READY_LIMIT, &what, || {
            if let Some(program) = self.programs().get_mut(part.name()) {
                program.check_running()?;
            }
            Ok(self.health(part).is_ok_and(|answer| answer.status == 200).then_some(()))
        });
        result.with_context(|| format!("cannot start {part}"))
    }

    fn health(&self, part: Part) -> Result<http::Answer> {
        match part {
            Part::Etcd => http::get_plain(self.ports.etcd, "/readyz"),
            Part::Kwok => http::get_plain(self.ports.kwok, "/healthz"),
            Part::ApiServer(_) => self.http.get(self.ports.api_server, "/readyz"),
            Part::ControllerManager(_) => self.http.get(self.ports.controller_manager, "/healthz"),
            Part::Scheduler(_) => self.http.get(self.ports.scheduler, "/readyz"),
            Part::Kubectl(_) => bail!("kubectl is not a server"),
        }
    }

    /// No pod can be created before the controller manager has created its service account.
    fn await_default_service_account(&self) -> Result<()> {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        poll::until(READY_LIMIT, "the default service account exists", || {
            let answer = self.http.get(self.ports.api_server, path);
            Ok(answer.is_ok_and(|answer| answer.status == 200).then_some(()))
        })
    }

    pub(super) fn write_kubeconfig(&self, name: &str, identity: &Identity) -> Result<PathBuf> {
        let certificate = self.write(&format!("{name}.crt"), &identity.certificate)?;
        let key = self.write(&format!("{name}.key"), &identity.key)?;
        let credential = Credential::Certificate { certificate: &certificate, key: &key };
        self.write_kubeconfig_with(name, credential)
    }

    pub(super) fn write_kubeconfig_with(
        &self,
        name: &str,
        credential: Credential<'_>,
    ) -> Result<PathBuf> {
        let kubeconfig = Kubeconfig {
            server: &self.server_url(),
            authority: &self.directory.path().join("ca.crt"),
            credential,
        };
        self.write(&format!("{name}.kubeconfig"), &kubeconfig.to_json().to_string())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
