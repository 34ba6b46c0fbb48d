//! The scheduler that Kubernetes ships. All it needs is its name on the pods; gangs are then approximated
//! by our gates: pods are let go together, but may be placed one by one.
//!
//! With `gangScheduling: true` gangs become objects that the scheduler honours, as far as the cluster
//! serves them. What that is, is found out while running: an upgraded API server is used at once.

mod gangs;

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use grove_api::config::DEFAULT_SCHEDULER as NAME;
use grove_api::{PodCliqueSet, labels};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::Write;
use serde_json::{Value, json};

use self::gangs::Api;
use crate::contract::{
    Backend, BackendError, Capabilities, Gang, Limit, Objects, Pods, Preparation,
};

/// The backend `default-scheduler`.
pub(crate) struct KubeScheduler {
    /// Whether gangs are wanted as objects of the scheduler.
    pub(crate) gang_scheduling: bool,
}

impl Backend for KubeScheduler {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self, objects: &dyn Objects) -> Capabilities {
        let plain = Capabilities {
            objects: "none".into(),
            minimum: "gates only".into(),
            gang: "gates only".into(),
            topology: "ignored".into(),
            queue: "none".into(),
            priority: "none".into(),
        };
        let enforced = Capabilities {
            minimum: "enforced".into(),
            gang: "if every pod counts".into(),
            topology: "one required level, if the gate is on".into(),
            priority: "yes".into(),
            ..plain.clone()
        };
        match Api::served(objects).filter(|_| self.gang_scheduling) {
            None => plain,
            Some(Api::V1alpha2) => {
                Capabilities { objects: "Workload, PodGroup (v1alpha2)".into(), ..enforced }
            }
            Some(Api::V1beta1) => {
                Capabilities { objects: "Workload, PodGroup (v1beta1)".into(), ..enforced }
            }
            Some(Api::Composite) => Capabilities {
                objects: "Workload, PodGroup, CompositePodGroup".into(),
                gang: "enforced".into(),
                topology: "required levels".into(),
                ..enforced
            },
        }
    }

    fn kinds(&self) -> Vec<Resource> {
        if self.gang_scheduling { Api::kinds() } else { Vec::new() }
    }

    fn plan(&self, gang: &Gang<'_>) -> Result<Vec<Write>, BackendError> {
        match Api::served(gang.objects).filter(|_| self.gang_scheduling) {
            Some(api) => gangs::plan(gang, api),
            None => Ok(Vec::new()),
        }
    }

    fn prepare_pods<'a>(
        &'a self,
        pods: Pods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async move { self.prepared(&pods) })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        _: Option<&'a PodCliqueSet>,
        _: &'a dyn Objects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let verdict = if self.gang_scheduling { one_priority(set) } else { Ok(()) };
        Box::pin(async { verdict.map(|()| Vec::new()) })
    }

    fn limits(&self, set: &PodCliqueSet, objects: &dyn Objects) -> Vec<Limit> {
        if self.gang_scheduling { limits(set, objects) } else { Vec::new() }
    }
}

impl KubeScheduler {
    fn prepared(&self, pods: &Pods<'_>) -> Result<Preparation, BackendError> {
        let named = json!({ "spec": { "schedulerName": NAME } });
        let Some(api) = Api::served(pods.objects).filter(|_| self.gang_scheduling) else {
            return Ok(Preparation::merge(named));
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pods.draft["metadata"];
        let namespace = text(&metadata["namespace"]);
        let label = |key: &str| text(&metadata["labels"][key]);
        // A member has a group of its own, or that of the whole gang.
        let candidates = [label(labels::POD_CLIQUE), label(labels::POD_GANG)];
        let exists = |name: &&String| {
            let group = pods.objects.get(&api.pod_groups(), &ObjectKey::new(&namespace, name));
            group.zip(pods.gang).is_some_and(|(group, gang)| group.is_of(gang))
        };
        let Some(group) = candidates.iter().find(exists) else {
            let [clique, gang] = &candidates;
            let message =
                format!("neither PodGroup {namespace}/{clique} nor {namespace}/{gang} exists");
            return Err(BackendError::not_yet(NAME, message));
        };
        let mut patch = named;
        patch["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
        // A pod of another priority than its group is never scheduled.
        if let Some(class) = gangs::priority_class(None, pods.set) {
            patch["spec"]["priorityClassName"] = json!(class);
        }
        Ok(Preparation::merge(patch))
    }
}

/// Groups have one priority, and so must all pods of a set.
fn one_priority(set: &PodCliqueSet) -> Result<(), String> {
    let template = &set.spec.template;
    let of_set = template.priority_class_name.as_deref().filter(|name| !name.is_empty());
    let of_cliques = template.cliques.iter().map(|one| one.spec.pod_spec.priority_class_name());
    let classes: BTreeSet<Option<&str>> =
        of_cliques.map(|class| class.or(of_set)).chain(of_set.map(Some)).collect();
    if classes.len() <= 1 {
        return Ok(());
    }
    let classes: Vec<_> = classes.iter().map(|one| format!("{:?}", one.unwrap_or(""))).collect();
    Err(format!(
        "gang scheduling needs one priority for all pods, and the cliques have {}: set \
         spec.template.priorityClassName only, or the same podSpec.priorityClassName everywhere",
        classes.join(", ")
    ))
}

/// What the served version cannot do for a set.
fn limits(set: &PodCliqueSet, objects: &dyn Objects) -> Vec<Limit> {
    let Some(api) = Api::served(objects) else {
        return vec![Limit {
                reason: "GangSchedulingNotServed",
                message: "gangScheduling is on, but the API server serves no PodGroups of \
                          scheduling.k8s.io (v1beta1, or v1alpha2 of 1.36): enable the feature gate \
                          GenericWorkload and the API version. Pods are let go together and may be \
                          placed one by one"
                    .to_owned(),
            }];
    };
    let several = set.spec.template.cliques.len() > 1;
    if api == Api::Composite || !several || gangs::every_pod_counts(set) {
        return Vec::new();
    }
    vec![Limit {
        reason: "GangPartiallyEnforced",
        message:
            "spec.template.cliques: with minAvailable below replicas every clique is a gang of \
                  its own, because the API server serves no CompositePodGroups: enable the feature \
                  gates TopologyAwareWorkloadScheduling and CompositePodGroup and the API version \
                  scheduling.k8s.io/v1alpha3"
                .to_owned(),
    }]
}

#[cfg(test)]
mod tests;
