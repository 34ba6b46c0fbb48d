//! A process: what it is made with, and the order in which it stops.
//!
//! A process is a future over an [`Env`]. It starts its parts as [`Stage`]s, for example lease,
//! caches, events, servers, controllers, and they stop in reverse: no new work, running work done,
//! connections drained, events sent, and only then the lease given up. A part that panics ends the
//! process in the same order. A part that does not stop in time is dropped, and the parts after it still
//! get a moment, so that the lease is released however the process ends. Dropping the process is a crash.

use std::future::Future;
use std::time::Duration;

use crate::clock::Clock;
use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::rng::Rng;
use crate::tasks::{Shutdown, Spawner, Tasks};

/// What a part gets at least to stop, when others have used up the time of the process.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// What every process is handed instead of reaching for it.
#[derive(Clone, Debug)]
pub struct Env {
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub rng: Rng,
    /// The request to stop.
    pub shutdown: Shutdown,
    /// What is counted.
    pub metrics: Metrics,
    /// What must be ready before the process is.
    pub readiness: Readiness,
}

impl Env {
    /// A process on `clock`, with the random numbers of `seed`.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self {
            clock,
            rng: Rng::seeded(seed),
            shutdown: Shutdown::new(),
            metrics: Metrics::new(),
            readiness: Readiness::new(),
        }
    }

    /// The real thing: the machine's clock, and a seed of its own.
    pub fn system() -> Self {
        let clock = Clock::system();
        let seed = clock.wall().as_nanosecond().unsigned_abs() ^ u128::from(std::process::id());
        #[expect(clippy::cast_possible_truncation, reason = "any 64 bits will do")]
        Self::new(clock, seed as u64)
    }
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// A part of it panicked.
    #[error("{stage} panicked: {message}")]
    Panicked {
        /// Which part.
        stage: &'static str,
        /// What it said.
        message: String,
    },
    /// A part did not stop in time and was dropped.
    #[error("{stage} did not stop within {} s and was dropped", .grace.as_secs())]
    StuckAtShutdown {
        /// Which part.
        stage: &'static str,
        /// How long the whole process was given.
        grace: Duration,
    },
}

/// The parts of a running process. Dropping it drops them all at once.
pub struct Process {
    env: Env,
    grace: Duration,
    stages: Vec<(Stage, Tasks)>,
}

/// One part of a process: tasks that are asked to stop together.
#[derive(Clone, Debug)]
pub struct Stage {
    name: &'static str,
    shutdown: Shutdown,
    spawner: Spawner,
}

impl Stage {
    /// Runs a task of this part. It is handed the part's own request to stop.
    pub fn spawn<F>(&self, task: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawner.spawn(task(self.shutdown.clone()));
    }

    /// The part's own request to stop.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// For tasks that take the request to stop in another way.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}

impl Process {
    /// A process without parts, which gets `grace` to stop.
    pub fn new(env: Env, grace: Duration) -> Self {
        Self { env, grace, stages: Vec::new() }
    }

    /// A new part. It is stopped before those that were made earlier.
    pub fn stage(&mut self, name: &'static str) -> Stage {
        let tasks = Tasks::new();
        let stage = Stage { name, shutdown: Shutdown::new(), spawner: tasks.spawner() };
        self.stages.push((stage.clone(), tasks));
        stage
    }

    /// Runs until a stop is asked for or a part panics, then stops the parts in order.
    pub async fn run(mut self) -> Result<(), ProcessError> {
        let mut outcome = self.until_stop().await;
        let deadline = self.env.clock.now() + self.grace;
        while let Some((stage, tasks)) = self.stages.pop() {
            tracing::debug!(stage = stage.name, "stopping");
            stage.shutdown.start();
            let left = deadline.since(self.env.clock.now()).max(LEAST_GRACE);
            if self.env.clock.timeout(left, tasks.join()).await.is_none() && outcome.is_ok() {
                let stuck = ProcessError::StuckAtShutdown { stage: stage.name, grace: self.grace };
                tracing::warn!("{stuck}");
                outcome = Err(stuck);
            }
            // What is stuck does not act any more when the next part, the lease at last, stops.
            drop(tasks);
        }
        outcome
    }

    async fn until_stop(&self) -> Result<(), ProcessError> {
        let panicked =
            futures::future::select_all(self.stages.iter().map(|(stage, tasks)| {
                Box::pin(async move { (stage.name, tasks.panicked().await) })
            }));
        tokio::select! {
            biased;
            () = self.env.shutdown.requested() => Ok(()),
            ((stage, message), ..) = panicked, if !self.stages.is_empty() => {
                tracing::error!(stage, message, "panicked, stopping");
                Err(ProcessError::Panicked { stage, message })
            }
        }
    }
}

/// Starts the shutdown at the first SIGTERM or SIGINT and completes at the second: whoever awaits
/// it next to a process drops the process then.
pub async fn signalled_twice(shutdown: &Shutdown) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for _ in 0..2 {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.start();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    fn env() -> Env {
        Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn parts_stop_in_reverse_each_after_the_one_before_it_is_done() {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        let order = Arc::new(Mutex::new(Vec::new()));
        for name in ["lease", "caches", "controllers"] {
            let (order, clock) = (order.clone(), env.clock.clone());
            process.stage(name).spawn(move |shutdown| async move {
                shutdown.requested().await;
                clock.sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push((name, clock.now()));
            });
        }

        env.shutdown.start();
        assert_eq!(process.run().await, Ok(()));

        let at = |seconds| crate::clock::Instant::START + Duration::from_secs(seconds);
        assert_eq!(
            *order.lock().unwrap(),
            [("controllers", at(1)), ("caches", at(2)), ("lease", at(3))]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_part_costs_the_grace_period_and_is_named() {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        process.stage("lease").spawn(|shutdown| async move { shutdown.requested().await });
        process.stage("controllers").spawn(|_| std::future::pending());

        env.shutdown.start();
        let error = process.run().await.unwrap_err();

        assert_eq!(error.to_string(), "controllers did not stop within 5 s and was dropped");
        assert_eq!(env.clock.now(), crate::clock::Instant::START + Duration::from_secs(5));
    }

    /// A lease that takes a second to be released, and whether it was.
    fn lease(process: &mut Process, env: &Env) -> Arc<AtomicBool> {
        let released = Arc::new(AtomicBool::new(false));
        let (release, clock) = (released.clone(), env.clock.clone());
        process.stage("lease").spawn(|shutdown| async move {
            shutdown.requested().await;
            clock.sleep(Duration::from_secs(1)).await;
            release.store(true, Ordering::SeqCst);
        });
        released
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_part_ends_the_process_and_releases_the_lease() {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        let released = lease(&mut process, &env);
        process.stage("caches").spawn(|_| async { panic!("out of luck") });

        let error = process.run().await.unwrap_err();

        assert_eq!(error.to_string(), "caches panicked: out of luck");
        assert!(released.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_part_is_dropped_before_the_lease_is_released() {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        let released = lease(&mut process, &env);
        let acts = Arc::new(());
        let held = acts.clone();
        process.stage("controllers").spawn(|_| async move {
            std::future::pending::<()>().await;
            drop(held);
        });

        env.shutdown.start();
        process.run().await.unwrap_err();

        assert!(released.load(Ordering::SeqCst));
        assert_eq!(Arc::strong_count(&acts), 1);
    }
}
