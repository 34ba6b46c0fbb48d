//! The scheduler that Kubernetes ships. It needs nothing but its name on the pods; gangs are
//! approximated by our gates: pods are let go together, but may be placed one by one.

use futures::future::BoxFuture;
use grove_api::config::DEFAULT_SCHEDULER;
use serde_json::{Value, json};

use crate::contract::{Backend, BackendError, Preparation};

/// The backend `default-scheduler`.
pub(crate) struct KubeScheduler {
    /// Whether gangs are wanted as objects of the scheduler.
    pub(crate) gang_scheduling: bool,
}

impl Backend for KubeScheduler {
    fn name(&self) -> &str {
        DEFAULT_SCHEDULER
    }

    fn init(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        if self.gang_scheduling {
            tracing::warn!("gangScheduling has no effect yet: gangs are approximated by gates");
        }
        Box::pin(async { Ok(()) })
    }

    fn prepare_pods<'a>(
        &'a self,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        let named = Preparation::merge(json!({ "spec": { "schedulerName": DEFAULT_SCHEDULER } }));
        Box::pin(async { Ok(named) })
    }
}
