//! Tasks that end with their process, and the request to stop.
//!
//! A process creates one [`Tasks`] and hands out its [`Spawner`]. Dropping the `Tasks` drops every task, so
//! that dropping the process is a crash that leaves nothing behind. An orderly stop is a [`Shutdown`]: all
//! parts stop taking new work, and [`Tasks::join`] waits for the current work.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Owner of a process's tasks. Dropping it drops all of them.
#[derive(Debug)]
pub struct Tasks {
    spawner: Spawner,
    _crash: DropGuard,
}

impl Tasks {
    /// Creates an owner without tasks.
    pub fn new() -> Self {
        let crash = CancellationToken::new();
        let spawner = Spawner {
            crash: crash.clone(),
            tracker: TaskTracker::new(),
            panicked: Arc::new(watch::channel(None).0),
        };
        Self { spawner, _crash: crash.drop_guard() }
    }

    /// Returns the handle that starts tasks.
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Waits until every task has ended.
    pub async fn join(&self) {
        self.spawner.tracker.close();
        self.spawner.tracker.wait().await;
    }

    /// Waits for the first panic of a task and returns its message. Without this, the process would run on
    /// without that task.
    pub async fn panicked(&self) -> String {
        let mut panicked = self.spawner.panicked.subscribe();
        // The sender lives in `self`.
        let message = panicked.wait_for(Option::is_some).await.ok();
        message.and_then(|message| message.clone()).unwrap_or_default()
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts tasks of a [`Tasks`].
#[derive(Clone, Debug)]
pub struct Spawner {
    crash: CancellationToken,
    tracker: TaskTracker,
    panicked: Arc<watch::Sender<Option<String>>>,
}

impl Spawner {
    /// Runs `task` until it ends or its process is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (crash, panicked) = (self.crash.clone(), self.panicked.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = crash.cancelled() => {}
                ended = AssertUnwindSafe(task).catch_unwind() => {
                    if let Err(payload) = ended {
                        panicked.send_replace(Some(panic_message(&*payload)));
                    }
                }
            }
        });
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// The request for an orderly stop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// Creates a request that has not been started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the stop. Calling it twice is harmless.
    pub fn start(&self) {
        self.0.cancel();
    }

    /// Whether a stop was requested.
    pub fn started(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes when a stop is requested.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn dropping_the_owner_drops_every_task() {
        let alive = Arc::new(());
        let tasks = Tasks::new();
        let spawner = tasks.spawner();
        for _ in 0..10 {
            let held = alive.clone();
            spawner.spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
        }
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&alive), 11);

        drop(tasks);
        spawner.tracker.close();
        spawner.tracker.wait().await;

        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test]
    async fn a_task_spawned_after_the_crash_does_nothing() {
        let tasks = Tasks::new();
        let spawner = tasks.spawner();
        drop(tasks);
        let ran = Arc::new(AtomicUsize::new(0));

        let counter = ran.clone();
        spawner.spawn(async move {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        spawner.tracker.close();
        spawner.tracker.wait().await;

        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn join_waits_for_tasks_that_end_by_themselves() {
        let tasks = Tasks::new();
        let shutdown = Shutdown::new();
        let done = Arc::new(AtomicUsize::new(0));
        let (requested, counter) = (shutdown.clone(), done.clone());
        tasks.spawner().spawn(async move {
            requested.requested().await;
            counter.fetch_add(1, Ordering::SeqCst);
        });

        shutdown.start();
        tasks.join().await;

        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}
