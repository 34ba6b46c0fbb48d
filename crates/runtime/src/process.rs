//! A process: its environment and the order in which it stops.
//!
//! A process is a future over an [`Env`]. It starts its parts as [`Stage`]s, for example lease, caches,
//! events, servers, controllers, and stops them in reverse: no new work, current work finished, connections
//! drained, events sent, and then the lease released. A part that panics stops the process in the same
//! order. A part that does not stop in time is dropped, and the remaining parts still get two seconds, so
//! that the lease is released in every case. Dropping the process is a crash.

use std::future::Future;
use std::time::Duration;

use crate::clock::Clock;
use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::rng::Rng;
use crate::tasks::{Shutdown, Spawner, Tasks};

/// The least time that a part gets to stop, even when earlier parts have used up the grace period.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// The environment of a process.
#[derive(Clone, Debug)]
pub struct Env {
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub rng: Rng,
    /// The request to stop.
    pub shutdown: Shutdown,
    /// Metrics.
    pub metrics: Metrics,
    /// Readiness of the parts.
    pub readiness: Readiness,
}

impl Env {
    /// Creates an environment with `clock` and the random numbers of `seed`.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self {
            clock,
            rng: Rng::seeded(seed),
            shutdown: Shutdown::new(),
            metrics: Metrics::new(),
            readiness: Readiness::new(),
        }
    }

    /// Creates an environment with the machine's clock and a random seed.
    pub fn system() -> Self {
        let clock = Clock::system();
        let seed = clock.wall().as_nanosecond().unsigned_abs() ^ u128::from(std::process::id());
        #[expect(clippy::cast_possible_truncation, reason = "any 64 bits will do")]
        Self::new(clock, seed as u64)
    }
}

/// Why a process failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// A part panicked.
    #[error("{stage} panicked: {message}")]
    Panicked {
        /// The part.
        stage: &'static str,
        /// Message of the panic.
        message: String,
    },
    /// A part did not stop in time and was dropped.
    #[error("{stage} did not stop within {} s and was dropped", .grace.as_secs())]
    StuckAtShutdown {
        /// The part.
        stage: &'static str,
        /// Grace period of the whole process.
        grace: Duration,
    },
}

/// The parts of a running process. Dropping it drops them all at once.
pub struct Process {
    env: Env,
    grace: Duration,
    stages: Vec<(Stage, Tasks)>,
}

/// One part of a process: tasks that stop together.
#[derive(Clone, Debug)]
pub struct Stage {
    name: &'static str,
    shutdown: Shutdown,
    spawner: Spawner,
}

impl Stage {
    /// Spawns a task of this part, with the part's shutdown.
    pub fn spawn<F>(&self, task: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawner.spawn(task(self.shutdown.clone()));
    }

    /// The shutdown of this part.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Spawner for tasks that get the shutdown in another way.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }
}

impl Process {
    /// Creates a process without parts, with a grace period.
    pub fn new(env: Env, grace: Duration) -> Self {
        Self { env, grace, stages: Vec::new() }
    }

    /// Adds a part. It stops before all earlier ones.
    pub fn stage(&mut self, name: &'static str) -> Stage {
        let tasks = Tasks::new();
        let stage = Stage { name, shutdown: Shutdown::new(), spawner: tasks.spawner() };
        self.stages.push((stage.clone(), tasks));
        stage
    }

    /// Runs until a shutdown or a panic of a part, then stops the parts in order.
    pub async fn run(mut self) -> Result<(), ProcessError> {
        let mut outcome = self.until_stop().await;
        let deadline = self.env.clock.now() + self.grace;
        while let Some((stage, tasks)) = self.stages.pop() {
            tracing::debug!(stage = stage.name, "stopping");
            stage.shutdown.start();
            let left = deadline.since(self.env.clock.now()).max(MIN_GRACE);
            if self.env.clock.timeout(left, tasks.join()).await.is_none() && outcome.is_ok() {
                let stuck = ProcessError::StuckAtShutdown { stage: stage.name, grace: self.grace };
                tracing::warn!("{stuck}");
                outcome = Err(stuck);
            }
            // A stuck part must not act while later parts stop, the lease last.
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

/// Starts the shutdown at the first SIGTERM or SIGINT and completes at the second, when the caller drops
/// the process.
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
    async fn parts_stop_in_reverse_order_one_after_the_other() {
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
    async fn a_stuck_part_uses_the_grace_period_and_the_error_names_it() {
        let env = env();
        let mut process = Process::new(env.clone(), Duration::from_secs(5));
        process.stage("lease").spawn(|shutdown| async move { shutdown.requested().await });
        process.stage("controllers").spawn(|_| std::future::pending());

        env.shutdown.start();
        let error = process.run().await.unwrap_err();

        assert_eq!(error.to_string(), "controllers did not stop within 5 s and was dropped");
        assert_eq!(env.clock.now(), crate::clock::Instant::START + Duration::from_secs(5));
    }

    /// A lease whose release takes a second, and whether it was released.
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
    async fn a_panic_in_a_part_stops_the_process_and_releases_the_lease() {
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
