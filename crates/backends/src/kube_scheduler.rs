//! The scheduler that Kubernetes ships. It needs nothing but its name on the pods; gangs are
//! approximated by our gates: pods are let go together, but may be placed one by one.

use futures::future::BoxFuture;
use grove_api::config::DEFAULT_SCHEDULER;
use serde_json::{Value, json};

use crate::contract::{Backend, BackendError, Preparation};

/// The backend `default-scheduler`.
pub(crate) struct KubeScheduler;

impl Backend for KubeScheduler {
    fn name(&self) -> &str {
        DEFAULT_SCHEDULER
    }

    fn prepare_pods<'a>(
        &'a self,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        let named = Preparation::merge(json!({ "spec": { "schedulerName": DEFAULT_SCHEDULER } }));
        Box::pin(async { Ok(named) })
    }
}
