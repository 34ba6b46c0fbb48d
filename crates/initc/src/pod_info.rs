//! Namespace and gang of this pod, from the files that Kubernetes mounts into the container.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use grove_api::init_container::{NAMESPACE_FILE, POD_GANG_NAME_FILE};

/// Namespace and gang of this pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodInfo {
    pub(crate) namespace: String,
    pub(crate) pod_gang: String,
}

impl PodInfo {
    pub(crate) fn read(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            namespace: read(directory, NAMESPACE_FILE)?,
            pod_gang: read(directory, POD_GANG_NAME_FILE)?,
        })
    }
}

/// An empty file is an error: without the gang the watch would cover every pod of the namespace.
fn read(directory: &Path, file: &str) -> anyhow::Result<String> {
    let path = directory.join(file);
    let text = fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}: is the pod information mounted?", path.display())
    })?;
    let text = text.trim();
    ensure!(!text.is_empty(), "{} is empty: does the pod have its Grove labels?", path.display());
    Ok(text.to_owned())
}
