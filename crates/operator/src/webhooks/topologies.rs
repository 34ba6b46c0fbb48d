//! The webhook about ClusterTopologies and ClusterTopologyBindings.

use std::sync::Arc;

use grove_api::field_error::{FieldError, aggregate};
use grove_api::{ClusterTopology, ClusterTopologyBinding};
use grove_backends::Registry;
use grove_core::admission::{self, Context, TopologyRequest};
use grove_runtime::admission::{Admission, Request};
use kube::core::admission::Operation;
use serde::de::DeserializeOwned;

use super::{decode, operation};

/// What the webhook needs to decide.
pub(super) struct Reviews {
    pub(super) context: Arc<Context>,
    pub(super) backends: Registry,
    /// The users that the operator acts as.
    pub(super) operators: Vec<String>,
}

impl Reviews {
    /// Answers one review.
    pub(super) fn answer(&self, request: &Request) -> Admission {
        let reviewed = match &*request.kind.kind {
            ClusterTopology::KIND => self.cluster_topology(request),
            ClusterTopologyBinding::KIND => self.binding(request),
            _ => Ok(Admission::allow()),
        };
        reviewed.unwrap_or_else(|answer| *answer)
    }

    fn cluster_topology(&self, request: &Request) -> Result<Admission, Box<Admission>> {
        let user = request.user_info.username.as_deref().unwrap_or_default();
        let asked = TopologyRequest { operation: operation(request), user, name: &request.name };
        if let Some(denial) = admission::authorize_topology(&asked, &self.operators) {
            return Ok(Admission::deny(denial));
        }
        let changed = changed(request, |topology: &ClusterTopology| topology.spec.clone())?;
        let errors = changed.as_ref().map(admission::validate_cluster_topology);
        Ok(answer(&errors.unwrap_or_default()))
    }

    fn binding(&self, request: &Request) -> Result<Admission, Box<Admission>> {
        let changed = changed(request, |binding: &ClusterTopologyBinding| binding.spec.clone())?;
        let errors = changed.as_ref().map(|binding| {
            let is_topology_aware =
                |name: &str| self.backends.get(name).is_some_and(|one| one.topology().is_some());
            admission::validate_topology_binding(binding, &self.context, is_topology_aware)
        });
        Ok(answer(&errors.unwrap_or_default()))
    }
}

/// The object to store, if its spec is new. What is stored may break a rule that is younger or depends on the
/// configuration, and can still be labelled.
fn changed<T: DeserializeOwned, S: PartialEq>(
    request: &Request,
    spec: impl Fn(&T) -> S,
) -> Result<Option<T>, Box<Admission>> {
    let new: T = match request.operation {
        Operation::Create | Operation::Update => decode(request.object.as_deref())?,
        Operation::Delete | Operation::Connect => return Ok(None),
    };
    if request.operation == Operation::Create {
        return Ok(Some(new));
    }
    let old: T = decode(request.old_object.as_deref())?;
    let is_same = spec(&old) == spec(&new);
    Ok((!is_same).then_some(new))
}

fn answer(errors: &[FieldError]) -> Admission {
    if errors.is_empty() { Admission::allow() } else { Admission::deny(aggregate(errors)) }
}
