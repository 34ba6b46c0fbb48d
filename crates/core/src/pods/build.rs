//! Builds a pod of a PodClique.
//!
//! There are two steps because the scheduler's backend prepares the pod in between: it gets the labels and the
//! gate of the [`draft`], and its changes stay; [`finish`] adds what has to come last. The start-order
//! container is appended after the environment variables are set, so it gets none of them.

use std::collections::BTreeMap;

use grove_api::{
    PodClique, annotations, env, error_code::ErrorCode, finalizers, init_container, labels, names,
};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{
    children::{environment, owner},
    start_order::Parent,
};

/// The input of a pod, except its index.
#[derive(Clone, Copy, Debug)]
pub struct PodContext<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// Replica of the set.
    pub set_replica: u32,
    /// The stored PodClique.
    pub pod_clique: &'a PodClique,
    /// The parents of this PodClique in the set, for their minima.
    pub parents: &'a [Parent],
    /// Image of the start-order container, with tag; absent if it is not configured.
    pub init_image: Option<&'a str>,
}

/// A pod cannot be built from its PodClique.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The label with the name of the gang is missing.
    #[error(
        "PodClique {pod_clique} has no label {label}; put it back or delete the PodClique to have it \
         created again",
        label = labels::POD_GANG
    )]
    NoGang {
        /// The PodClique.
        pod_clique: String,
    },
    /// `spec.startsAfter` names a PodClique that is not a parent in the set.
    #[error(
        "PodClique {pod_clique} starts after {parent}, which its PodCliqueSet does not say; delete the \
         PodClique to have it created again"
    )]
    UnknownParent {
        /// The PodClique.
        pod_clique: String,
        /// The unknown parent.
        parent: String,
    },
    /// The image of the start-order container is not configured.
    #[error(
        "PodClique {pod_clique} needs the start-order container, but environment variable {variable} of \
         the operator is not set",
        variable = env::INIT_CONTAINER_IMAGE
    )]
    NoInitImage {
        /// The PodClique.
        pod_clique: String,
    },
}

impl BuildError {
    /// The code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoGang { .. } => ErrorCode::MissingPodGangLabelOnPodClique,
            Self::UnknownParent { .. } => ErrorCode::BuildPodResource,
            Self::NoInitImage { .. } => ErrorCode::InitContainerEnvironmentVariableMissing,
        }
    }
}

impl<'a> PodContext<'a> {
    fn name(&self) -> &'a str {
        self.pod_clique.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.pod_clique.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn labels(&self, index: u32) -> Result<BTreeMap<String, String>, BuildError> {
        let of_clique = self.pod_clique.metadata.labels.as_ref();
        if of_clique.is_none_or(|labels| !labels.contains_key(labels::POD_GANG)) {
            return Err(BuildError::NoGang { pod_clique: self.name().to_owned() });
        }
        let mut all = labels::default_set(self.set);
        all.extend(
            of_clique.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())),
        );
        let mut put = |key: &str, value: String| all.insert(key.to_owned(), value);
        put(labels::POD_CLIQUE, self.name().to_owned());
        put(labels::POD_CLIQUE_SET_REPLICA_INDEX, self.set_replica.to_string());
        put(labels::POD_CLIQUE_POD_INDEX, index.to_string());
        Ok(all)
    }

    fn variables(&self) -> [Value; 5] {
        let address = names::headless_service_address(self.set, self.set_replica, self.namespace());
        [
            environment::literal(env::PCS_NAME, self.set),
            environment::literal(env::PCS_INDEX, &self.set_replica.to_string()),
            environment::literal(env::PCLQ_NAME, self.name()),
            environment::literal(env::HEADLESS_SERVICE, &address),
            environment::from_label(env::PCLQ_POD_INDEX, labels::POD_CLIQUE_POD_INDEX),
        ]
    }

    /// The arguments of the start-order container; none without parents.
    fn arguments(&self) -> Result<Vec<String>, BuildError> {
        let argument = |name: &String| {
            let parent = self.parents.iter().find(|parent| parent.pod_clique == *name);
            let parent = parent.ok_or_else(|| BuildError::UnknownParent {
                pod_clique: self.name().to_owned(),
                parent: name.clone(),
            })?;
            Ok(init_container::parent_argument(name, parent.min_available))
        };
        self.pod_clique.spec.starts_after.iter().map(argument).collect()
    }
}

/// The pod as the scheduler's backend gets it: metadata, the pod spec of the clique, and only our gate.
pub fn draft(context: &PodContext<'_>, index: u32) -> Result<Value, BuildError> {
    let mut spec = context.pod_clique.spec.pod_spec.clone();
    spec.insert("schedulingGates".to_owned(), json!([{ "name": finalizers::SCHEDULING_GATE }]));
    let mut metadata = json!({
        "generateName": names::pod_generate_name(context.name()),
        "namespace": context.namespace(),
        "labels": context.labels(index)?,
        "ownerReferences": [owner::of_clique(context.pod_clique)],
    });
    if let Some(mut texts) = context.pod_clique.metadata.annotations.clone() {
        texts.remove(annotations::RECREATED);
        if !texts.is_empty() {
            metadata["annotations"] = json!(texts);
        }
    }
    Ok(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
}

/// Completes a prepared draft: environment variables, host name and the start-order container.
pub fn finish(context: &PodContext<'_>, index: u32, pod: &mut Value) -> Result<(), BuildError> {
    let arguments = context.arguments()?;
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        unreachable!("the draft has a spec and backends do not remove it")
    };
    environment::prepend(spec, &context.variables());
    let hostname = names::pod_hostname(context.name(), index);
    spec.insert("hostname".to_owned(), hostname.into());
    let subdomain = names::headless_service(context.set, context.set_replica);
    spec.insert("subdomain".to_owned(), subdomain.into());
    if !arguments.is_empty() {
        let missing = || BuildError::NoInitImage { pod_clique: context.name().to_owned() };
        let image = context.init_image.ok_or_else(missing)?;
        append(spec, "initContainers", [start_order_container(image, &arguments)]);
        append(spec, "volumes", start_order_volumes(context.set));
    }
    Ok(())
}

fn append(spec: &mut Map<String, Value>, key: &str, items: impl IntoIterator<Item = Value>) {
    let list = spec.entry(key).or_insert_with(|| json!([]));
    // A template may contain `null`, which means no list.
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(items);
    }
}

fn start_order_container(image: &str, arguments: &[String]) -> Value {
    let mount =
        |name: &str, path: &str| json!({ "name": name, "mountPath": path, "readOnly": true });
    json!({
        "name": init_container::NAME,
        "image": image,
        "args": arguments,
        "volumeMounts": [
            mount(init_container::POD_INFO_VOLUME, init_container::POD_INFO_MOUNT_PATH),
            mount(init_container::TOKEN_VOLUME, init_container::TOKEN_MOUNT_PATH),
        ],
    })
}

fn start_order_volumes(set: &str) -> [Value; 2] {
    let gang = format!("metadata.labels['{}']", labels::POD_GANG);
    let file =
        |path: &str, field: &str| json!({ "path": path, "fieldRef": { "fieldPath": field } });
    [
        json!({
            "name": init_container::TOKEN_VOLUME,
            "secret": {
                "secretName": names::token_secret(set),
                "defaultMode": init_container::TOKEN_DEFAULT_MODE,
            },
        }),
        json!({
            "name": init_container::POD_INFO_VOLUME,
            "downwardAPI": { "items": [
                file(init_container::NAMESPACE_FILE, "metadata.namespace"),
                file(init_container::POD_GANG_NAME_FILE, &gang),
            ]},
        }),
    ]
}
