//! Scheduler backends that are programs of their own come and go. When one answers again, what failed
//! because it did not is tried again at once, instead of whenever its backoff ends.

use std::sync::Arc;

use grove_backends::{Backend, Remote};
use grove_runtime::process::Stage;
use grove_runtime::queue::Queue;
use grove_runtime::resource::ObjectKey;

use crate::controllers::context::Context;

/// Looks after all such backends.
pub(crate) fn follow(
    context: &Arc<Context>,
    gangs: &Queue<ObjectKey>,
    cliques: &Queue<ObjectKey>,
    stage: &Stage,
) {
    let remotes = context.backends.all().filter(|backend| backend.remote().is_some());
    for name in remotes.map(Backend::name) {
        let (context, name) = (context.clone(), name.to_owned());
        let (gangs, cliques) = (gangs.clone(), cliques.clone());
        stage.spawn(|shutdown| async move {
            let Some(remote) = context.backends.get(&name).and_then(Backend::remote) else {
                return;
            };
            let follow = std::pin::pin!(follow_one(&context, remote, &gangs, &cliques));
            futures::future::select(std::pin::pin!(shutdown.requested()), follow).await;
        });
    }
}

async fn follow_one(
    context: &Context,
    remote: &Remote,
    gangs: &Queue<ObjectKey>,
    cliques: &Queue<ObjectKey>,
) {
    loop {
        remote.recovered().await;
        tracing::info!(
            scheduler = remote.name(),
            url = remote.url(),
            "the scheduler backend answers"
        );
        gangs.retry(|gang| {
            // The news that a gang is gone may be for any backend.
            let gang = context.stores.gangs.store.get(gang);
            gang.is_none_or(|gang| context.backends.for_gang(&gang.object).name() == remote.name())
        });
        cliques.retry(|clique| {
            let Some(clique) = context.stores.cliques.store.get(clique) else { return false };
            let name = clique.object.spec.pod_spec.scheduler_name();
            context.backends.for_pods(name).is_some_and(|one| one.name() == remote.name())
        });
    }
}
