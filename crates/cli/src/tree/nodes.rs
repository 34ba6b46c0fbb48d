//! The labels of nodes, which say in which domains pods are.

use std::collections::{BTreeMap, BTreeSet};

use grove_core::topology::NodeLabels;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};

/// The labels of nodes. They rarely change, so all nodes are read once, and again when a pod is on another one.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    labels: Option<BTreeMap<String, NodeLabels>>,
    /// Nodes of pods that did not exist when they were read.
    gone: BTreeSet<String>,
    /// Whether the user may not read nodes.
    is_refused: bool,
}

impl Nodes {
    /// Reads the nodes when one of these names is unknown. Without the right to read them, it is noted once.
    pub(super) async fn read(&mut self, client: &Client, names: &[&str]) {
        let is_known = |name: &&str| {
            let labels = self.labels.as_ref();
            labels.is_some_and(|all| all.contains_key(*name)) || self.gone.contains(*name)
        };
        if self.is_refused || names.iter().all(is_known) {
            return;
        }
        match labels(client).await {
            Ok(found) => {
                let gone = names.iter().filter(|name| !found.contains_key(**name));
                self.gone = gone.map(|name| (*name).to_owned()).collect();
                self.labels = Some(found);
            }
            Err(error) => {
                self.is_refused = true;
                crate::note(&format!(
                    "cannot list nodes, so the domains of pods are not shown: {error}\n"
                ));
            }
        }
    }

    pub(super) fn labels(&self) -> Option<&BTreeMap<String, NodeLabels>> {
        self.labels.as_ref()
    }
}

async fn labels(client: &Client) -> Result<BTreeMap<String, NodeLabels>, kube::Error> {
    let api = Api::<Node>::all(client.clone());
    let all = api.list_metadata(&ListParams::default()).await?;
    let one = |node: PartialObjectMeta<Node>| {
        let metadata = node.metadata;
        (metadata.name.unwrap_or_default(), metadata.labels.unwrap_or_default())
    };
    Ok(all.items.into_iter().map(one).collect())
}
