//! The LPX scheduler. It detects gangs by itself and only needs its name on the pods.

use futures::future::BoxFuture;
use grove_api::PodCliqueSet;
use serde_json::json;

use crate::contract::{Backend, Capabilities, NewPods, Preparation, SchedulerObjects};
use crate::error::BackendError;
use crate::topology;

/// Name of the backend.
pub(crate) const NAME: &str = "lpx-scheduler";

const CONSTRAINED: &str = "lpx-scheduler does not support Grove topology constraints; placement topology \
     must be expressed through the LPX workload contract";

/// The backend.
pub(crate) struct LpxScheduler;

impl Backend for LpxScheduler {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self, _: &dyn SchedulerObjects) -> Capabilities {
        Capabilities {
            objects: "none".into(),
            minimum: "external".into(),
            gang: "external".into(),
            topology: "refused".into(),
            queue: "none".into(),
            priority: "none".into(),
        }
    }

    fn prepare_pods<'a>(
        &'a self,
        _: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        let named = Preparation::merge(json!({ "spec": { "schedulerName": NAME } }));
        Box::pin(async { Ok(named) })
    }

    fn validate<'a>(
        &'a self,
        set: &'a PodCliqueSet,
        _: Option<&'a PodCliqueSet>,
        _: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let verdict =
            if topology::constrained(set).is_empty() { Ok(Vec::new()) } else { Err(CONSTRAINED) };
        Box::pin(async move { verdict.map_err(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::controller::Outside;
    use serde_json::Value;

    use super::*;
    use crate::objects::testkit::Given;

    #[tokio::test]
    async fn constraints_are_refused_and_pods_get_the_scheduler_name() {
        let set = |template: Value| -> PodCliqueSet {
            serde_json::from_value(json!({ "spec": { "template": template } })).unwrap()
        };
        let pack = json!({ "pack": { "required": "rack" } });
        let cases = [
            (json!({ "cliques": [{ "name": "a" }] }), Ok(Vec::new())),
            (json!({ "topologyConstraint": pack }), Err(CONSTRAINED.to_owned())),
            (
                json!({ "cliques": [{ "name": "a", "topologyConstraint": pack }] }),
                Err(CONSTRAINED.to_owned()),
            ),
        ];
        for (template, expected) in cases {
            let verdict = LpxScheduler.validate(&set(template), None, &Given::default()).await;
            assert_eq!(verdict, expected);
        }
        let mut pod = json!({});
        let draft = json!({});
        let (objects, outside) = (&Given::default(), &Outside::default());
        let pods = NewPods { draft: &draft, gang: None, set: None, objects, outside };
        LpxScheduler.prepare_pods(pods).await.unwrap().apply(0, &mut pod);
        assert_eq!(pod["spec"]["schedulerName"], "lpx-scheduler");
    }
}
