//! Control planes with our CRDs installed, and requests to them.

use std::{process::Command, sync::OnceLock};

use serde_json::Value;
use tokio::runtime::Runtime;
use xtask::cluster::{Cluster, Gates, Kube, Options, Parts};

/// A control plane of one version.
pub(crate) struct Plane {
    pub(crate) kube: Kube,
    pub(crate) cluster: Cluster,
    client: kube::Client,
    runtime: Runtime,
}

/// Runs a test body on every supported version.
pub(crate) fn on_every_version(body: impl Fn(&Plane)) {
    static PLANES: [OnceLock<Plane>; 2] = [OnceLock::new(), OnceLock::new()];
    for (plane, kube) in PLANES.iter().zip([Kube::V1_37, Kube::V1_36]) {
        body(plane.get_or_init(|| start(kube)));
    }
}

fn start(kube: Kube) -> Plane {
    let options =
        Options { kube, gates: Gates::All, parts: Parts::ApiServer, ..Options::default() };
    let cluster = Cluster::start(options).unwrap();
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(cluster.admin().client()).unwrap();
    let plane = Plane { kube, cluster, client, runtime };
    plane.install();
    plane
}

impl Plane {
    /// What users do: `grove crds | kubectl apply --server-side -f -`. Returns what kubectl says.
    pub(crate) fn install(&self) -> String {
        let crds = Command::new(env!("CARGO_BIN_EXE_grove")).arg("crds").output().unwrap();
        assert!(crds.status.success(), "{crds:?}");
        let crds = String::from_utf8(crds.stdout).unwrap();
        let applied =
            self.cluster.kubectl_with_stdin(&["apply", "--server-side", "-f", "-"], &crds).unwrap();
        for crd in grove_api::crd::all() {
            let name = crd.object["metadata"]["name"].as_str().unwrap().to_owned();
            let args = ["wait", "--for=condition=Established", "--timeout=60s", "crd", &name];
            self.cluster.kubectl(&args).unwrap();
        }
        applied
    }

    pub(crate) fn namespace(&self, name: &str) {
        let namespace = serde_json::json!({"metadata": {"name": name}});
        self.create("/api/v1/namespaces", &namespace).unwrap();
    }

    /// POST. `path` is the collection.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.send("POST", path, object)
    }

    /// PUT. `path` is the object or one of its subresources.
    pub(crate) fn replace(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.send("PUT", path, object)
    }

    /// GET.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null).unwrap()
    }

    /// One request, without anything that a client library or kubectl would check or change. The error
    /// is the message of the server.
    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", "application/json")
            .body(body)
            .unwrap();
        match self.runtime.block_on(self.client.request(request)) {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(other) => panic!("{method} {path}: {other}"),
        }
    }

    /// Creates an object and, when it has a status, writes that through the status subresource.
    /// Returns what is stored, without what the server adds to the metadata.
    pub(crate) fn store(&self, object: &Value) -> Result<Value, String> {
        let path = collection(object);
        let mut created = self.create(&path, object)?;
        let name = object["metadata"]["name"].as_str().unwrap();
        if let Some(status) = object.get("status") {
            created["status"] = status.clone();
            self.replace(&format!("{path}/{name}/status"), &created)?;
        }
        Ok(without_server_metadata(self.get(&format!("{path}/{name}"))))
    }
}

/// Path of the collection that an object belongs to.
pub(crate) fn collection(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap();
    let crd = grove_api::crd::all()
        .into_iter()
        .find(|crd| crd.object["spec"]["names"]["kind"] == object["kind"])
        .unwrap_or_else(|| panic!("no CRD for {}", object["kind"]));
    let plural = crd.object["spec"]["names"]["plural"].as_str().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/apis/{api_version}/namespaces/{namespace}/{plural}"),
        None => format!("/apis/{api_version}/{plural}"),
    }
}

fn without_server_metadata(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
        assert!(metadata.remove(key).is_some(), "the server sets {key}");
    }
    object
}
