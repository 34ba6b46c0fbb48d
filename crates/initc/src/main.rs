//! `grove-initc`, the start-order init container: it succeeds once every PodClique that must start first has
//! enough ready pods, and so holds back the containers after it.
//!
//! Temporary problems (an unreachable API server, a missing permission, an expired token) are logged and
//! waited out; only a problem that needs a restart ends the process with an error.
//!
//! `cargo initc` builds one small static file for an otherwise empty image.

mod args;
mod credentials;
mod exit;
mod parent;
mod pod;
mod pod_info;
mod problems;
mod progress;
mod session;

use std::process::ExitCode;

use clap::Parser as _;
use grove_runtime::logs::{self, Format, Level, LogConfig};
use grove_runtime::process::Env;
use tokio::signal::unix::{Signal, SignalKind, signal};

use args::Arguments;
use exit::Exit;
use parent::Parents;
use pod_info::PodInfo;
use session::Wait;

/// Log filter. Runtime and client would log every failed attempt; `problems` logs them less often.
const LOG_FILTER: &str = "warn,grove_initc=info,grove_runtime=error,kube_client=off";

fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(error) => refused_arguments(&error),
    };
    exit.into()
}

/// Clap reports a request for help as an error; it goes to standard output and succeeds.
fn refused_arguments(error: &clap::Error) -> Exit {
    // Standard error may be closed; there is no other place to report that.
    let _ = error.print();
    if error.use_stderr() { Exit::BadArguments } else { Exit::Success }
}

fn run(arguments: Arguments) -> Exit {
    // One thread is enough for one connection, and readers of the cache never observe half a list.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Logging has no clock yet.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("error: cannot start the runtime: {error}\n"),
            );
            return Exit::CannotStart;
        }
    };
    let exit = runtime.block_on(async {
        let env = Env::system();
        let config = LogConfig {
            level: Level::Info,
            format: Format::Text,
            filter: Some(LOG_FILTER.to_owned()),
        };
        logs::init(&config, env.clock.clone()).expect("logging is not set up before main");
        wait_or_stop(env, arguments).await.unwrap_or_else(|error| {
            tracing::error!("{error:#}");
            Exit::CannotStart
        })
    });
    // A pending name resolution must not delay the end of the process.
    runtime.shutdown_background();
    exit
}

/// Waits for the parents until a signal arrives. Process 1 of a container gets no signal without a handler,
/// so this comes before everything that takes time.
async fn wait_or_stop(env: Env, arguments: Arguments) -> anyhow::Result<Exit> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let info = PodInfo::read(&arguments.pod_info_dir)?;
    let parents: Parents = arguments.pod_cliques.into_iter().collect();
    let wait = Wait::new(env, info, parents);
    tokio::select! {
        biased;
        () = received(&mut terminate) => {
            tracing::info!("stopped by SIGTERM before all parents were ready");
            Ok(Exit::Terminated)
        }
        () = received(&mut interrupt) => {
            tracing::info!("stopped by SIGINT before all parents were ready");
            Ok(Exit::Interrupted)
        }
        outcome = wait.run() => outcome.map(|()| Exit::Success),
    }
}

async fn received(signal: &mut Signal) {
    // `None` means that no signal can arrive, which is no reason to stop.
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}
