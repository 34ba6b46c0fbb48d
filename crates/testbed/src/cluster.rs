//! A control plane for one test, with the service account of the process under test.

use grove_runtime::client;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use xtask::cluster::{Cluster, Fleet, Gates, Kube, Options, Parts, User};

use crate::kinds::{self, Kind};
use crate::mirror::Mirror;

/// The namespace of the processes under test.
pub const NAMESPACE: &str = "grove-system";

/// Nodes with room for the sets of most tests.
pub const FLEET: Fleet = Fleet { zones: 1, blocks: 1, racks: 2, hosts: 4, gpus: 8 };

/// The identity of a process, and the manifests that grant it what it needs.
#[derive(Clone, Copy, Debug)]
pub struct ServiceAccount {
    pub name: &'static str,
    pub manifests: &'static [&'static str],
}

/// A control plane on which a process can run as its service account.
pub struct TestCluster {
    pub control_plane: Cluster,
    account: User,
}

impl TestCluster {
    /// Only an API server: it stores and admits objects, and no controller acts on them.
    pub fn api_server(account: &ServiceAccount) -> Self {
        Self::api_server_with(account, &[])
    }

    /// Only an API server, with more flags.
    pub fn api_server_with(account: &ServiceAccount, flags: &[&str]) -> Self {
        let api_server_flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let parts = Parts::ApiServer;
        Self::start(account, Options { parts, api_server_flags, ..Options::default() })
    }

    /// A control plane that schedules pods, on nodes that start them.
    pub fn full(account: &ServiceAccount, kube: Kube) -> Self {
        Self::with(account, kube, Gates::default(), &FLEET)
    }

    /// Such a control plane with other feature gates and other nodes.
    pub fn with(account: &ServiceAccount, kube: Kube, gates: Gates, fleet: &Fleet) -> Self {
        let cluster = Self::start(account, Options { kube, gates, ..Options::default() });
        cluster.control_plane.nodes(fleet).unwrap();
        cluster
    }

    fn start(account: &ServiceAccount, options: Options) -> Self {
        let control_plane = Cluster::start(options).unwrap();
        control_plane.kubectl(&["create", "namespace", NAMESPACE]).unwrap();
        let manifests = account.manifests.join("---\n");
        control_plane.kubectl_with_stdin(&["apply", "-f", "-"], &manifests).unwrap();
        let name = format!("system:serviceaccount:{NAMESPACE}:{}", account.name);
        let account = control_plane.user(&name, &["system:serviceaccounts"]).unwrap();
        Self { control_plane, account }
    }

    /// A client of the service account that records nothing.
    pub async fn client_of_account(&self) -> Client {
        client_of(&self.account).await
    }

    /// A live copy of the kinds that every control plane serves. The CRDs of Grove have to be installed.
    pub async fn mirror(&self) -> Mirror {
        self.mirror_of(&kinds::ALL).await
    }

    /// A live copy of these kinds, which have to be served.
    pub async fn mirror_of(&self, kinds: &[Kind]) -> Mirror {
        Mirror::start(self.control_plane.admin().client().await.unwrap(), kinds).await
    }

    /// Installs CRDs and waits until they are served.
    pub fn install(&self, crds: &[Value]) {
        for crd in crds {
            self.apply(crd).unwrap();
            let name = format!("crd/{}", crd["metadata"]["name"].as_str().unwrap());
            let wait = ["wait", "--for=condition=Established", &name, "--timeout=60s"];
            self.control_plane.kubectl(&wait).unwrap();
        }
    }

    pub fn apply(&self, object: &Value) -> Result<String, String> {
        let args = ["apply", "-f", "-", "-o", "json"];
        let applied = self.control_plane.kubectl_with_stdin(&args, &object.to_string());
        applied.map_err(|error| format!("{error:#}"))
    }
}

/// The configuration of a client of a user.
pub async fn config_of(user: &User) -> Config {
    let kubeconfig = Kubeconfig::read_from(user.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()
}

/// The client that a process of Grove would have as a user.
pub async fn client_of(user: &User) -> Client {
    client::client(config_of(user).await, "grove-test").unwrap()
}
