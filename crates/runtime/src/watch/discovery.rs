//! Optional kinds: decides whether a refused watch means that the kind is gone.

use serde::Deserialize;

use super::{WatchError, Watcher};
use crate::store::Presence;
use crate::view::View;

/// The resources of one version of an API group.
#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
}

impl<T: View> Watcher<T> {
    /// Handles the refusal (403 or 404) of an optional kind: queries discovery, and empties the store only
    /// when the kind is gone.
    pub(super) async fn refused(&self, error: &WatchError) -> Presence {
        let before = self.store.presence();
        // An absent kind stays absent while its path is 404. A 403 proves nothing: the API server checks
        // permissions before it looks up the kind.
        if before == Presence::Absent && error.code() == Some(404) {
            return before;
        }
        if before == Presence::Served {
            self.store.set_presence(Presence::Unknown);
        }
        let is_gone = matches!(self.is_in_discovery().await, Ok(false));
        let presence = if is_gone { Presence::Absent } else { Presence::Unknown };
        if is_gone || !self.store.is_synced() {
            self.show_nothing();
        }
        self.store.set_presence(presence);
        if presence != before {
            let kind = &self.selection.resource;
            tracing::info!(%kind, ?presence, %error, "the API server refuses an optional kind");
        }
        presence
    }

    /// Whether the API server lists the kind among the resources of its group and version.
    async fn is_in_discovery(&self) -> Result<bool, WatchError> {
        let resource = &self.selection.resource;
        let request = http::Request::get(resource.discovery_path()).body(Vec::new());
        let (code, body) = self.send(request.map_err(kube::Error::HttpError)?).await?;
        match code {
            200 => {
                let list: ResourceList = serde_json::from_slice(&self.read_body(body).await?)?;
                Ok(list.resources.iter().any(|listed| *listed.name == *resource.plural))
            }
            404 => Ok(false),
            _ => Err(self.refusal(code, body).await?),
        }
    }
}
