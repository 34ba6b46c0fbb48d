//! Processor time of a running process. Off by default, and on an address of its own.
//!
//! `/debug/pprof/profile` answers in pprof's format, but with processor time per thread, not per function.
//! Sampling stacks inside the process means unwinding in a signal handler, which needs unsafe code and can
//! deadlock with a lock of the interrupted thread; the `pprof` crate does so and adds a protobuf compiler
//! to the build. `perf record -p PID` gives better results, and the binaries keep the symbols for it.
//! `/debug/pprof/runtime` shows tokio's tasks and queues, which `perf` does not.
//!
//! It reads `/proc`, so it works on Linux; elsewhere it answers with an error.

mod encode;
mod threads;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::clock::Clock;

const DEFAULT_SECONDS: u64 = 30;
const MAX_SECONDS: u64 = 120;
const INDEX: &str = "\
/debug/pprof/profile?seconds=30  processor time per thread, for `go tool pprof` (one at a time)
/debug/pprof/runtime             memory, files, threads, tasks and queues right now

For processor time per function: perf record -g -p PID
";

#[derive(Clone)]
struct Profiler {
    clock: Clock,
    one_at_a_time: Arc<Semaphore>,
}

/// The pages under `/debug/pprof/`. Serve them on 127.0.0.1 by default.
pub fn router(clock: Clock) -> Router {
    let profiler = Profiler { clock, one_at_a_time: Arc::new(Semaphore::new(1)) };
    Router::new()
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route("/debug/pprof/runtime", get(runtime))
        .route("/debug/pprof/profile", get(profile))
        .with_state(profiler)
}

async fn profile(
    State(profiler): State<Profiler>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let seconds = match query.get("seconds").map(|text| text.parse()) {
        None => DEFAULT_SECONDS,
        Some(Ok(seconds @ 1..=MAX_SECONDS)) => seconds,
        Some(_) => {
            let message = format!("seconds must be a number from 1 to {MAX_SECONDS}\n");
            return (StatusCode::BAD_REQUEST, message).into_response();
        }
    };
    let Ok(_running) = profiler.one_at_a_time.try_acquire() else {
        return (StatusCode::TOO_MANY_REQUESTS, "another profile is being taken\n").into_response();
    };
    match take(&profiler.clock, Duration::from_secs(seconds)).await {
        Ok(body) => {
            let file = "attachment; filename=\"profile\"";
            let headers = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, file)];
            (headers, body).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

fn unavailable(error: &io::Error) -> Response {
    let message = format!("/proc cannot be read here: {error}\n");
    (StatusCode::NOT_IMPLEMENTED, message).into_response()
}

async fn take(clock: &Clock, duration: Duration) -> io::Result<Vec<u8>> {
    let before = threads::times()?;
    let started = clock.wall();
    clock.sleep(duration).await;
    let spent = threads::spent(&before, &threads::times()?);
    Ok(encode::profile(&spent, started, duration))
}

async fn runtime() -> Response {
    match describe(&Handle::current()) {
        Ok(text) => text.into_response(),
        Err(error) => unavailable(&error),
    }
}

fn describe(runtime: &Handle) -> io::Result<String> {
    const SHOWN_FIELDS: [&str; 5] = ["VmRSS:", "VmHWM:", "RssAnon:", "VmSize:", "Threads:"];
    let status = fs::read_to_string("/proc/self/status")?;
    let files = fs::read_dir("/proc/self/fd")?.count();
    let metrics = runtime.metrics();
    let mut out = String::new();
    for line in status.lines().filter(|line| SHOWN_FIELDS.iter().any(|want| line.starts_with(want)))
    {
        out.push_str(line);
        out.push('\n');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(out, "open files:\t{files}");
    let _ = writeln!(out, "tokio workers:\t{}", metrics.num_workers());
    let _ = writeln!(out, "tokio tasks:\t{}", metrics.num_alive_tasks());
    let _ = writeln!(out, "tokio global queue:\t{}", metrics.global_queue_depth());
    Ok(out)
}

#[cfg(test)]
mod tests;
