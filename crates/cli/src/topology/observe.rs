//! Reads topologies, nodes and pods.

use anyhow::{Context as _, bail};
use grove_api::cluster_topology::MANAGED_NAME;
use grove_api::condition::{
    Condition, FALSE, TRUE, UNKNOWN, cluster_topology, cluster_topology_binding,
};
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_core::topology::Hierarchy;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;

use super::nodes::{ObservedNode, Requests};
use crate::cluster::list;

/// What the cluster has.
pub(super) struct Observed {
    pub(super) topologies: Vec<Declared>,
    pub(super) nodes: Vec<ObservedNode>,
    /// Of the pods that have a node and have not ended.
    pub(super) pods: Vec<Requests>,
}

/// A topology object.
pub(super) struct Declared {
    pub(super) kind: &'static str,
    pub(super) hierarchy: Hierarchy,
    pub(super) condition: Option<Reported>,
}

/// The condition of a topology that says whether schedulers have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reported {
    #[serde(rename = "type")]
    pub(super) type_: &'static str,
    pub(super) status: String,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

impl Reported {
    /// `details` are added to the message of a condition that does not have the status `good`.
    fn of(
        conditions: &[Condition],
        type_: &'static str,
        good: &str,
        details: impl Iterator<Item = String>,
    ) -> Option<Self> {
        let found = conditions.iter().find(|condition| condition.type_ == type_)?;
        let Condition { status, reason, message, .. } = found;
        let problem = || {
            let message = format!("{reason}: {message}");
            [message].into_iter().chain(details).collect::<Vec<_>>().join("; ")
        };
        let problem = (status != good).then(problem);
        Some(Self { type_, status: status.clone(), problem })
    }
}

impl From<&ClusterTopology> for Declared {
    fn from(topology: &ClusterTopology) -> Self {
        let status = topology.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let type_ = cluster_topology::READY;
        let unreported = || Reported {
            type_,
            status: UNKNOWN.to_owned(),
            problem: Some("the operator has not reported it; is it running?".to_owned()),
        };
        let reported = Reported::of(conditions, type_, TRUE, std::iter::empty());
        Self {
            kind: ClusterTopology::KIND,
            hierarchy: topology.into(),
            condition: Some(reported.unwrap_or_else(unreported)),
        }
    }
}

/// A binding reports nothing when no scheduler has topology objects.
impl From<&ClusterTopologyBinding> for Declared {
    fn from(binding: &ClusterTopologyBinding) -> Self {
        let status = binding.status.clone().unwrap_or_default();
        let details = status.scheduler_topology_statuses.iter().filter_map(|one| {
            let message = one.message.as_ref().filter(|_| !one.in_sync)?;
            Some(format!("{}: {message}", one.scheduler_name))
        });
        let type_ = cluster_topology_binding::SCHEDULER_TOPOLOGY_DRIFT;
        Self {
            kind: ClusterTopologyBinding::KIND,
            hierarchy: binding.into(),
            condition: Reported::of(&status.conditions, type_, FALSE, details),
        }
    }
}

/// Reads the topologies of this name, or all that Grove uses, with all nodes and pods.
pub(super) async fn observe(client: &Client, name: Option<&str>) -> anyhow::Result<Observed> {
    let topologies = topologies(client, name).await?;
    if topologies.is_empty() {
        return Ok(Observed { topologies, nodes: Vec::new(), pods: Vec::new() });
    }
    let all = ListParams::default;
    let nodes = Api::<Node>::all(client.clone());
    let nodes = list(&nodes, all(), |node| ObservedNode::from(&node)).await;
    let nodes = nodes.context("cannot list nodes")?;
    let pods = Api::<Pod>::all(client.clone());
    let selected = all().fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed");
    let pods = list(&pods, selected, |pod| Requests::of(&pod)).await;
    let pods =
        pods.context("cannot list the pods of all namespaces, which use resources of nodes")?;
    Ok(Observed { topologies, nodes, pods: pods.into_iter().flatten().collect() })
}

async fn topologies(client: &Client, name: Option<&str>) -> anyhow::Result<Vec<Declared>> {
    let managed = Api::<ClusterTopology>::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={MANAGED_NAME}"));
    let managed = list(&managed, named, |topology| Declared::from(&topology)).await;
    let mut all = managed.context("cannot list ClusterTopologies")?;
    let bindings = Api::<ClusterTopologyBinding>::all(client.clone());
    let bindings = list(&bindings, ListParams::default(), |binding| Declared::from(&binding)).await;
    all.extend(bindings.context("cannot list ClusterTopologyBindings")?);
    let Some(name) = name else { return Ok(all) };
    let (found, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|declared| declared.hierarchy.name == name);
    if found.is_empty() {
        let others: Vec<_> = others.iter().map(|one| one.hierarchy.name.as_str()).collect();
        let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        bail!("there is no topology {name:?}; there are: {others}");
    }
    Ok(found)
}
