//! The CustomResourceDefinitions of Grove.
//!
//! Each kind describes itself in a [`Definition`]; this module turns that into the object that the API
//! server takes. The result is plain JSON in a stable order, so the committed files can be compared with
//! it byte by byte.

use serde_json::{Value, json};

use crate::{
    VERSION, cluster_topology, cluster_topology_binding, pod_clique, pod_clique_scaling_group,
    pod_clique_set, pod_gang,
};

/// The definition of a kind.
pub(crate) struct Definition {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_name: Option<&'static str>,
    pub(crate) scope: Scope,
    pub(crate) description: &'static str,
    pub(crate) spec: Value,
    pub(crate) status: Value,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
}

/// Where objects of a kind live.
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// The scale subresource. Replicas are at the usual place; the selector is not.
pub(crate) struct Scale {
    pub(crate) selector_path: &'static str,
}

/// A column of `kubectl get`.
pub(crate) struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    wide_only: bool,
}

impl Column {
    pub(crate) const AGE: Self = Self::new("Age", "date", ".metadata.creationTimestamp");
    pub(crate) const MIN_BREACHED: Self = Self::string(
        "MinBreached",
        r#".status.conditions[?(@.type=="MinAvailableBreached")].status"#,
    )
    .wide();

    const fn new(name: &'static str, type_: &'static str, path: &'static str) -> Self {
        Self { name, type_, path, wide_only: false }
    }

    pub(crate) const fn integer(name: &'static str, path: &'static str) -> Self {
        Self::new(name, "integer", path)
    }

    pub(crate) const fn string(name: &'static str, path: &'static str) -> Self {
        Self::new(name, "string", path)
    }

    /// Shown with `-o wide` only.
    pub(crate) const fn wide(mut self) -> Self {
        self.wide_only = true;
        self
    }

    fn to_json(&self) -> Value {
        let mut column = json!({ "name": self.name, "type": self.type_, "jsonPath": self.path });
        if self.wide_only {
            column["priority"] = json!(1);
        }
        column
    }
}

/// A CustomResourceDefinition and the name of the file it is committed as.
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    /// File name below `deploy/crds`, for example `grove.io_podcliquesets.yaml`.
    pub file_name: String,
    /// The object.
    pub object: Value,
}

impl Crd {
    /// The object as a YAML document with a leading `---`.
    pub fn to_yaml(&self) -> String {
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let body = serde_saphyr::to_string_with_options(&self.object, options)
            .expect("plain JSON can always be written as YAML");
        format!("---\n{}\n", body.trim_end())
    }
}

/// All CRDs, in the order in which they should be installed.
pub fn all() -> Vec<Crd> {
    one_by_one().collect()
}

/// The same, each created on demand: together they take megabytes.
pub fn one_by_one() -> impl Iterator<Item = Crd> {
    let definitions: [fn() -> Definition; 6] = [
        pod_clique::definition,
        pod_clique_set::definition,
        pod_clique_scaling_group::definition,
        cluster_topology::definition,
        cluster_topology_binding::definition,
        pod_gang::definition,
    ];
    definitions.into_iter().map(|definition| build(definition()))
}

fn build(definition: Definition) -> Crd {
    let Definition { group, kind, plural, .. } = definition;
    let mut names = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": kind.to_lowercase(),
    });
    if let Some(short_name) = definition.short_name {
        names["shortNames"] = json!([short_name]);
    }
    let scope = match definition.scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    };
    Crd {
        file_name: format!("{group}_{plural}.yaml"),
        object: json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}") },
            "spec": {
                "group": group,
                "names": names,
                "scope": scope,
                "versions": [version(definition)],
            },
        }),
    }
}

fn version(definition: Definition) -> Value {
    let mut subresources = json!({ "status": {} });
    if let Some(scale) = &definition.scale {
        subresources["scale"] = json!({
            "labelSelectorPath": scale.selector_path,
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        });
    }
    let mut version = json!({
        "name": VERSION,
        "schema": { "openAPIV3Schema": {
            "type": "object",
            "description": definition.description,
            "properties": {
                "apiVersion": { "type": "string", "description": "Group and version of the object." },
                "kind": { "type": "string", "description": "Kind of the object." },
                "metadata": { "type": "object" },
            },
            "required": ["spec"],
        } },
        "served": true,
        "storage": true,
        "subresources": subresources,
    });
    if !definition.columns.is_empty() {
        version["additionalPrinterColumns"] =
            definition.columns.iter().map(Column::to_json).collect();
    }
    // Moved, where `json!` would copy.
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"] = definition.spec;
    properties["status"] = definition.status;
    version
}

#[cfg(test)]
mod tests;
