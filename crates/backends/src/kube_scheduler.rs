//! The scheduler that Kubernetes ships. It only needs its name on the pods; our gates then approximate gangs:
//! pods are released together, but may be placed one by one.
//!
//! With `gangScheduling: true` gangs become objects that the scheduler honours, as far as the cluster serves
//! them. The backend detects the served kinds at run time, so that it uses an upgraded API server at once.

mod api;
mod gangs;
mod limitations;
mod shape;

use futures::future::BoxFuture;
use grove_api::config::DEFAULT_SCHEDULER as NAME;
use grove_api::{PodCliqueSet, PodGang, labels};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::Write;
use serde_json::{Value, json};

use self::api::Api;
use self::shape::{Form, extra_group};
use crate::contract::{
    Backend, Capabilities, GangInput, Limitation, NewPods, PodPart, PodRules, Preparation,
    SchedulerObjects,
};
use crate::error::BackendError;

/// The backend `default-scheduler`.
pub(crate) struct KubeScheduler {
    /// Whether gangs become objects of the scheduler.
    pub(crate) gang_scheduling: bool,
}

impl Backend for KubeScheduler {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self, objects: &dyn SchedulerObjects) -> Capabilities {
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
            gang: "enforced".into(),
            topology: "one required level, if the gate is on".into(),
            priority: "yes".into(),
            ..plain.clone()
        };
        match Api::assumed(objects).filter(|_| self.gang_scheduling) {
            None => plain,
            Some(Api::V1alpha2) => {
                Capabilities { objects: "Workload, PodGroup (v1alpha2)".into(), ..enforced }
            }
            Some(Api::V1beta1) => {
                Capabilities { objects: "Workload, PodGroup (v1beta1)".into(), ..enforced }
            }
            Some(Api::Composite) => Capabilities {
                objects: "Workload, PodGroup, CompositePodGroup".into(),
                topology: "required levels".into(),
                ..enforced
            },
        }
    }

    fn kinds(&self) -> Vec<Resource> {
        if self.gang_scheduling { Api::kinds() } else { Vec::new() }
    }

    fn plan(&self, gang: &GangInput<'_>) -> Result<Vec<Write>, BackendError> {
        match self.api(gang.objects)? {
            Some(api) => gangs::plan(gang, api),
            None => Ok(Vec::new()),
        }
    }

    fn pods(&self) -> Option<&dyn PodPart> {
        self.gang_scheduling.then_some(self)
    }

    fn prepare_pods<'a>(
        &'a self,
        pods: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async move { self.prepared(&pods) })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
        objects: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let verdict =
            if self.gang_scheduling { limitations::check(set, old, objects) } else { Ok(()) };
        Box::pin(async { verdict.map(|()| Vec::new()) })
    }

    fn limitations(&self, set: &PodCliqueSet, objects: &dyn SchedulerObjects) -> Vec<Limitation> {
        limitations::limitations(set, objects, self.gang_scheduling)
    }
}

impl PodPart for KubeScheduler {
    fn rules(&self, gang: &PodGang, objects: &dyn SchedulerObjects) -> Option<PodRules> {
        let api = Api::assumed(objects)?;
        let form = Form::of(gang, api, objects);
        (form != Form::Unreported).then(|| PodRules {
            // Members are placed one after the other, each with as many pods as there is room for.
            minimum_first: matches!(form, Form::Tree | Form::Flat),
            by_index: form == Form::Flat,
            gated_pods_block: api != Api::V1alpha2,
        })
    }
}

impl KubeScheduler {
    /// The API for gangs, if the cluster serves one and the option is on.
    fn api(&self, objects: &dyn SchedulerObjects) -> Result<Option<Api>, BackendError> {
        if self.gang_scheduling { Api::served(objects) } else { Ok(None) }
    }

    fn prepared(&self, pods: &NewPods<'_>) -> Result<Preparation, BackendError> {
        let named = json!({ "spec": { "schedulerName": NAME } });
        let Some(api) = self.api(pods.objects)? else {
            return Ok(Preparation::merge(named));
        };
        let label = |key: &str| {
            pods.draft["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
        };
        let Some(gang) = pods.gang else {
            let message = format!("PodGang {:?} does not exist", label(labels::POD_GANG));
            return Err(BackendError::not_yet(NAME, message));
        };
        let clique = label(labels::POD_CLIQUE);
        let group = |name: &str| in_group(pods, gang, api, name);
        match Form::of(gang, api, pods.objects) {
            Form::Unreported => return Ok(Preparation::merge(named)),
            Form::Flat => {}
            Form::Single | Form::Tree | Form::Separate => {
                return Ok(Preparation::merge(group(&clique)?));
            }
        }
        let name = gang.metadata.name.as_deref().unwrap_or_default();
        let mut members = gang.spec.pod_groups.iter();
        let minimum = members.find(|member| member.name == clique).map(|one| one.min_replicas);
        let minimum = minimum.and_then(|minimum| u32::try_from(minimum).ok()).unwrap_or_default();
        Ok(Preparation::merge(group(name)?).and_from(minimum, group(&extra_group(name))?))
    }
}

/// The patch for pods of a group. The group must exist: pods cannot join one later.
fn in_group(
    pods: &NewPods<'_>,
    gang: &PodGang,
    api: Api,
    name: &str,
) -> Result<Value, BackendError> {
    let namespace = gang.metadata.namespace.as_deref().unwrap_or_default();
    let group = pods.objects.get(&api.pod_groups(), &ObjectKey::new(namespace, name));
    let Some(group) = group.filter(|group| group.is_of(gang)) else {
        let message = format!("PodGroup {namespace}/{name} does not exist");
        return Err(BackendError::not_yet(NAME, message));
    };
    let mut patch = json!({ "spec": {
        "schedulerName": NAME, "schedulingGroup": { "podGroupName": name },
    }});
    // A pod of another priority than its group is never scheduled. 1.36 stores no class unless
    // preemption of groups is enabled, and then does not compare.
    let stored = group.object["spec"]["priorityClassName"].as_str();
    let asked = gangs::priority_class(None, pods.set);
    let class = stored.or_else(|| asked.filter(|_| !api.has_mutable_minima()));
    if class.is_some() || asked.is_some() {
        patch["spec"]["priorityClassName"] = json!(class);
    }
    Ok(patch)
}

#[cfg(test)]
mod tests;
