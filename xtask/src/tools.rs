//! The programs of the control plane: names, versions and cache.
//!
//! Every program is a Go program pinned by a module under `xtask/tools/`. Binaries are cached outside the
//! source tree, keyed by part, version, build flags and module sums, so that a second call builds nothing and
//! a changed pin never runs an old binary. [`Toolbox`] builds them.

mod build;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use build::Toolbox;
pub(crate) use build::last_lines;

/// Supported Kubernetes versions.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Kube {
    /// 1.37.1, the primary version.
    #[default]
    V1_37,
    /// 1.36.4, the second version.
    V1_36,
}

impl Kube {
    /// Both versions, primary first.
    pub const ALL: [Self; 2] = [Self::V1_37, Self::V1_36];

    /// The full version, such as `1.37.1`.
    pub fn version(self) -> &'static str {
        match self {
            Self::V1_37 => "1.37.1",
            Self::V1_36 => "1.36.4",
        }
    }

    /// Major and minor version, such as `1.37`.
    pub fn minor(self) -> &'static str {
        match self {
            Self::V1_37 => "1.37",
            Self::V1_36 => "1.36",
        }
    }
}

impl fmt::Display for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

/// One program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer(Kube),
    /// kube-controller-manager.
    ControllerManager(Kube),
    /// kube-scheduler.
    Scheduler(Kube),
    /// kubectl.
    Kubectl(Kube),
    /// KWOK, which simulates nodes and kubelets.
    Kwok,
}

impl Part {
    /// All programs of a control plane of this version, in build order.
    pub fn all(kube: Kube) -> Vec<Self> {
        vec![
            Self::Etcd,
            Self::ApiServer(kube),
            Self::ControllerManager(kube),
            Self::Scheduler(kube),
            Self::Kubectl(kube),
            Self::Kwok,
        ]
    }

    /// Name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer(_) => "kube-apiserver",
            Self::ControllerManager(_) => "kube-controller-manager",
            Self::Scheduler(_) => "kube-scheduler",
            Self::Kubectl(_) => "kubectl",
            Self::Kwok => "kwok",
        }
    }

    /// Pinned version of the program.
    pub fn version(self) -> &'static str {
        match self {
            Self::Etcd => "3.7.3",
            Self::Kwok => "0.8.0",
            Self::ApiServer(kube)
            | Self::ControllerManager(kube)
            | Self::Scheduler(kube)
            | Self::Kubectl(kube) => kube.version(),
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok".to_owned(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    /// Directory of the pinning module below `xtask/tools/`.
    fn module(self) -> String {
        match self.kube() {
            Some(kube) => format!("kubernetes-{}", kube.minor()),
            None => self.name().to_owned(),
        }
    }

    fn kube(self) -> Option<Kube> {
        match self {
            Self::Etcd | Self::Kwok => None,
            Self::ApiServer(kube)
            | Self::ControllerManager(kube)
            | Self::Scheduler(kube)
            | Self::Kubectl(kube) => Some(kube),
        }
    }

    /// Linker flags: no debug information, and the version, which a source build does not know.
    fn linker_flags(self) -> String {
        let Some(kube) = self.kube() else {
            return "-s -w".to_owned();
        };
        let at = "k8s.io/component-base/version";
        let minor = kube.minor().trim_start_matches("1.");
        format!("-s -w -X {at}.gitVersion=v{kube} -X {at}.gitMajor=1 -X {at}.gitMinor={minor}")
    }

    /// Minutes of a first build on two cores, downloads included.
    fn expected_minutes(self) -> u32 {
        match self {
            Self::ApiServer(_) => 7,
            Self::Kwok | Self::ControllerManager(_) => 2,
            Self::Etcd | Self::Scheduler(_) | Self::Kubectl(_) => 1,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.version())
    }
}

/// Directory of the binaries: `$GROVE_CACHE_DIR`, else the user's cache directory.
pub fn cache_dir() -> Result<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    var("GROVE_CACHE_DIR")
        .map(PathBuf::from)
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| Path::new(&dir).join("grove")))
        .or_else(|| var("HOME").map(|dir| Path::new(&dir).join(".cache/grove")))
        .context("no place for the cache: set GROVE_CACHE_DIR or HOME")
}

/// Directory of the committed Go modules.
fn modules_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tools")
}
