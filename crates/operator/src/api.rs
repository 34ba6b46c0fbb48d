//! Kinds that not every cluster serves: whether this one does, and when that changes.

use std::sync::Arc;

use grove_api::condition::pod_clique_set as condition;
use grove_runtime::process::Stage;
use grove_runtime::resource::Resource;
use grove_runtime::store::Store;
use grove_runtime::view::View;

/// Why there are no objects of a kind, as reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Why a kind cannot be seen; `advice` is what to do where it is not served.
pub(crate) fn absence<T: View>(store: &Store<T>, advice: &str) -> Option<Absence> {
    let code = store.trouble().borrow().as_ref().and_then(|trouble| trouble.code);
    (!store.is_served()).then(|| explain(store.resource(), code, advice))
}

fn explain(resource: &Resource, code: Option<u16>, advice: &str) -> Absence {
    let kind = format!("{} of {}", resource.plural, resource.api_version());
    if code == Some(403) {
        let message = format!(
            "the operator may not list and watch {kind}: give it the role that Grove is installed with \
             (deploy/operator and deploy/resources)"
        );
        return Absence { reason: condition::API_FORBIDDEN, message };
    }
    let message = format!("the API server does not serve {kind}: {advice}");
    Absence { reason: condition::API_NOT_SERVED, message }
}

/// Calls `changed` when a kind begins or ceases to be served, and when it is listed for the first time.
pub(crate) fn follow<T: View>(
    store: &Store<T>,
    stage: &Stage,
    changed: Arc<impl Fn() + Send + Sync + 'static>,
) {
    let store = store.clone();
    stage.spawn(|shutdown| async move {
        let follow = async {
            let mut trouble = store.trouble();
            let mut served = store.is_served();
            loop {
                if served {
                    let changed = changed.clone();
                    store.when_listed(move || changed());
                } else {
                    changed();
                }
                while store.is_served() == served {
                    if trouble.changed().await.is_err() {
                        return;
                    }
                }
                served = !served;
            }
        };
        let (follow, stop) = (std::pin::pin!(follow), std::pin::pin!(shutdown.requested()));
        futures::future::select(stop, follow).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let claims = crate::claims::RESOURCE_CLAIMS;
        let absent = explain(&claims, Some(404), "upgrade");
        assert_eq!(absent.reason, "ApiNotServed");
        assert_eq!(
            absent.message,
            "the API server does not serve resourceclaims of resource.k8s.io/v1: upgrade"
        );
        let forbidden = explain(&claims, Some(403), "upgrade");
        assert_eq!(forbidden.reason, "ApiForbidden");
        assert!(forbidden.message.contains("give it the role"), "{}", forbidden.message);
    }
}
