//! The topologies that constraints are checked against.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use grove_api::cluster_topology::MANAGED_NAME;
use grove_api::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use grove_core::topology::{Hierarchy, Lookup, Mode, SetTopology};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize as _;
use serde_json::Value;

use super::manifest;

/// Topologies by name.
#[derive(Debug, Default)]
pub(super) struct Topologies {
    bindings: BTreeMap<String, Hierarchy>,
    managed: Option<Hierarchy>,
    /// Whether the cluster has no others.
    pub(super) is_complete: bool,
}

impl Topologies {
    /// Adds those of a text. What cannot be read is reported when the text is checked.
    pub(super) fn add_manifests(&mut self, text: &str) {
        for document in manifest::split(text) {
            if let Ok(Some((value, _))) = document.parse() {
                self.add_value(&value);
            }
        }
    }

    fn add_value(&mut self, object: &Value) {
        for item in object["items"].as_array().into_iter().flatten() {
            self.add_value(item);
        }
        if object["apiVersion"] != ClusterTopology::API_VERSION {
            return;
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind.eq_ignore_ascii_case(ClusterTopologyBinding::KIND) {
            if let Ok(binding) = ClusterTopologyBinding::deserialize(object) {
                self.add_binding(&binding);
            }
        } else if kind.eq_ignore_ascii_case(ClusterTopology::KIND)
            && let Ok(topology) = ClusterTopology::deserialize(object)
        {
            self.add_cluster_topology(&topology);
        }
    }

    fn add_binding(&mut self, binding: &ClusterTopologyBinding) {
        let hierarchy = Hierarchy::from(binding);
        self.bindings.insert(hierarchy.name.clone(), hierarchy);
    }

    /// The operator ignores all but one.
    fn add_cluster_topology(&mut self, topology: &ClusterTopology) {
        if topology.metadata.name.as_deref() == Some(MANAGED_NAME) {
            self.managed = Some(topology.into());
        }
    }

    /// Adds those of a cluster. A cluster that does not serve a kind has none.
    pub(super) async fn add_live(&mut self, client: &Client) -> anyhow::Result<()> {
        let bindings = Api::<ClusterTopologyBinding>::all(client.clone());
        let bindings = found(bindings.list(&ListParams::default()).await);
        let bindings = bindings.context("cannot list the ClusterTopologyBindings")?;
        for binding in bindings.into_iter().flat_map(|list| list.items) {
            self.add_binding(&binding);
        }
        let topology = Api::<ClusterTopology>::all(client.clone()).get(MANAGED_NAME).await;
        let topology = found(topology);
        let topology =
            topology.with_context(|| format!("cannot read ClusterTopology {MANAGED_NAME}"))?;
        if let Some(topology) = topology {
            self.add_cluster_topology(&topology);
        }
        Ok(())
    }

    /// What an operator does about constraints: what its configuration says, or what the topologies indicate.
    pub(super) fn mode(&self, configured: &Mode, is_configured: bool) -> Mode {
        match (&self.managed, configured) {
            (_, Mode::Disabled) if is_configured => Mode::Disabled,
            (_, Mode::Managed(_)) | (None, Mode::Bindings) => configured.clone(),
            (Some(managed), _) => Mode::Managed(Arc::new(managed.clone())),
            (None, Mode::Disabled) => Mode::Bindings,
        }
    }

    /// The topology of a set.
    pub(super) fn of(&self, set: &PodCliqueSet, mode: &Mode, is_configured: bool) -> SetTopology {
        let topology = SetTopology::of(set, mode, |name| match self.bindings.get(name) {
            Some(binding) => Lookup::Found(binding.clone()),
            None if self.is_complete => Lookup::NotFound,
            None => Lookup::Unknown,
        });
        match topology {
            // The operator may manage a topology.
            SetTopology::Unnamed if !self.is_complete && !is_configured => SetTopology::Unknown,
            known => known,
        }
    }
}

/// What the API server has, if it has it.
fn found<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
