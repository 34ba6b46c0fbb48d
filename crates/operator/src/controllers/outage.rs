//! Scheduler backends that are programs of their own come and go. When one answers again, calls that failed
//! meanwhile are retried at once, instead of when their backoff ends.

use std::sync::Arc;

use grove_backends::Backend;
use grove_runtime::process::Stage;
use grove_runtime::queue::Queue;
use grove_runtime::resource::ObjectKey;

use crate::controllers::context::Context;

/// Retries the failed calls of each backend when it recovers.
pub(crate) fn follow(
    context: &Arc<Context>,
    gangs: &Queue<ObjectKey>,
    cliques: &Queue<ObjectKey>,
    stage: &Stage,
) {
    for name in context.backends.all().map(Backend::name) {
        let (context, name) = (context.clone(), name.to_owned());
        let (gangs, cliques) = (gangs.clone(), cliques.clone());
        stage.spawn(|shutdown| async move {
            let Some(backend) = context.backends.get(&name) else { return };
            let follow = std::pin::pin!(follow_one(&context, backend, &gangs, &cliques));
            futures::future::select(std::pin::pin!(shutdown.requested()), follow).await;
        });
    }
}

async fn follow_one(
    context: &Context,
    backend: &dyn Backend,
    gangs: &Queue<ObjectKey>,
    cliques: &Queue<ObjectKey>,
) {
    loop {
        backend.recovered().await;
        gangs.retry(|gang| {
            // A gang that no longer exists may have been of any backend.
            let gang = context.stores.gangs.store.get(gang);
            gang.is_none_or(|gang| context.backends.for_gang(&gang.object).name() == backend.name())
        });
        cliques.retry(|clique| {
            let Some(clique) = context.stores.cliques.store.get(clique) else { return false };
            let name = clique.object.spec.pod_spec.scheduler_name();
            context.backends.for_pods(name).is_some_and(|one| one.name() == backend.name())
        });
    }
}
