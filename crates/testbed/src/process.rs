//! A process that runs as a task of the test, so that the test can stop it and can let it crash.

use std::fmt::{Debug, Display};

use grove_runtime::process::Env;
use tokio::task::JoinHandle;

use crate::in_time;
use crate::requests::Requests;

/// A running process and the requests that it sends. `E` is the error that it can end with.
pub struct RunningProcess<E> {
    pub env: Env,
    pub requests: Requests,
    task: JoinHandle<Result<(), E>>,
}

impl<E: Debug + Display + Send + 'static> RunningProcess<E> {
    /// Starts a process that sends its requests through a client of `requests`.
    pub fn start(
        env: Env,
        requests: Requests,
        process: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Self {
        Self { env, requests, task: tokio::task::spawn(process) }
    }

    /// Waits until the process ends by itself, and returns why.
    pub async fn failed(self) -> E {
        in_time("the process fails", self.task).await.unwrap().unwrap_err()
    }

    /// Stops the process as SIGTERM does.
    pub async fn stop(self) {
        self.env.shutdown.start();
        in_time("the process stops", self.task).await.unwrap().unwrap();
    }

    /// Drops the process at once: it finishes nothing and releases nothing.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}
