//! The wait: follows the pods of the gang until all parents are ready.
//!
//! A session is one client and one watch. The watch reconnects by itself; only refused credentials need a new
//! session, because the files may be newer. Each round counts pods, logs changes, then waits for the next
//! change.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use grove_api::labels;
use grove_runtime::backoff::Backoff;
use grove_runtime::cache::Caches;
use grove_runtime::health::Readiness;
use grove_runtime::process::{Env, Process};
use grove_runtime::store::{Store, Trouble};
use grove_runtime::watch::Selection;
use kube::Client;
use tokio::sync::{Notify, watch};

use crate::credentials::{self, CredentialsError};
use crate::parent::Parents;
use crate::pod::{PODS, PodView};
use crate::pod_info::PodInfo;
use crate::problems::{Kind, Problems};
use crate::progress::Progress;

/// A wait for parents.
pub(crate) struct Wait {
    env: Env,
    info: PodInfo,
    parents: Parents,
    problems: Problems,
    last: Option<Progress>,
}

/// Why a session ended.
enum Ended {
    /// All parents are ready.
    Done,
    /// The server refuses the credentials.
    CredentialsRefused,
}

impl Wait {
    pub(crate) fn new(env: Env, info: PodInfo, parents: Parents) -> Self {
        Self { env, info, parents, problems: Problems::default(), last: None }
    }

    /// Returns when all parents are ready.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let PodInfo { namespace, pod_gang } = &self.info;
        tracing::info!(%namespace, %pod_gang, "waiting for {}", self.parents);
        let mut failures = 0;
        loop {
            match credentials::load().await {
                Ok(client) => match self.session(client, &mut failures).await? {
                    Ended::Done => return Ok(()),
                    Ended::CredentialsRefused => {}
                },
                Err(CredentialsError::NotYet(error)) => {
                    self.log_problem(Kind::Credentials, &error);
                }
                Err(CredentialsError::Never(error)) => return Err(error),
            }
            failures += 1;
            self.env.clock.sleep(Backoff::WATCH.after(failures, &self.env.rng)).await;
        }
    }

    async fn session(&mut self, client: Client, failures: &mut u32) -> anyhow::Result<Ended> {
        // Each session has its own readiness; otherwise parts of former sessions would accumulate.
        let env = Env { readiness: Readiness::new(), ..self.env.clone() };
        let mut process = Process::new(env.clone(), Duration::ZERO);
        let mut caches = Caches::new(client, &env, process.stage("pods"));
        let selection = Selection::all(PODS).namespace(&self.info.namespace).labels(&format!(
            "{}={}",
            labels::POD_GANG,
            self.info.pod_gang
        ));
        let store = caches.start(caches.declare::<PodView>(selection));
        let ended = tokio::select! {
            biased;
            broken = process.run() => {
                broken.context("the watch of pods ended")?;
                anyhow::bail!("the watch of pods ended without a reason");
            }
            ended = self.follow(&store) => ended,
        };
        if store.is_synced() {
            *failures = 0;
        }
        Ok(ended)
    }

    async fn follow(&mut self, store: &Store<PodView>) -> Ended {
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        store.on_change(move |_| notify.notify_one());
        let mut trouble = store.trouble();
        loop {
            let kind = self.check_watch(store, &mut trouble);
            if store.is_synced() && self.check_parents(store) {
                return Ended::Done;
            }
            if kind == Some(Kind::Unauthorized) {
                return Ended::CredentialsRefused;
            }
            let repeat = kind.and_then(|kind| self.problems.due(kind));
            let clock = self.env.clock.clone();
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = store.synced(), if !store.is_synced() => {}
                _ = trouble.changed() => {}
                () = clock.sleep_until(repeat.unwrap_or_default()), if repeat.is_some() => {}
            }
        }
    }

    /// Counts ready pods, logs changes, and returns whether all parents are ready.
    fn check_parents(&mut self, store: &Store<PodView>) -> bool {
        let pods = store.all();
        let progress = Progress::of(&self.parents, pods.iter().filter_map(|pod| pod.counts_for()));
        let done = progress.done();
        if done {
            tracing::info!("done: all parents are ready");
        } else if self.last.as_ref() != Some(&progress) {
            tracing::info!("waiting: {progress}");
        }
        self.last = Some(progress);
        done
    }

    /// Logs a problem that is new or lasts, and its end. Returns the current problem.
    fn check_watch(
        &mut self,
        store: &Store<PodView>,
        trouble: &mut watch::Receiver<Option<Trouble>>,
    ) -> Option<Kind> {
        let trouble = trouble.borrow_and_update().clone();
        let Some(trouble) = trouble else {
            // Before the first list, no problem only means that nothing was tried yet.
            if store.is_synced() && self.problems.should_log_end() {
                tracing::info!("pods can be watched now");
            }
            return None;
        };
        let kind = Kind::of(&trouble);
        self.log_problem(kind, &trouble.message);
        Some(kind)
    }

    fn log_problem(&mut self, kind: Kind, cause: &str) {
        if self.problems.should_log(kind, self.env.clock.now()) {
            tracing::warn!(%cause, "{kind}; retrying");
        }
    }
}

#[cfg(test)]
mod tests;
