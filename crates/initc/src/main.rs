//! `grove-initc`, the start-order init container: it ends well once every PodClique that must come
//! first has enough ready pods, and holds back the containers after it until then.
//!
//! Whatever can heal (an API server that is away, a missing permission, an expired token) is waited
//! out and told; only what a restart must fix ends the process with an error.
//!
//! `cargo initc` builds it for an image without anything else in it: one static file, for size.

mod args;
mod complaints;
mod credentials;
mod exit;
mod parent;
mod pod;
mod pod_info;
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

/// What is printed. Runtime and client would log every failed attempt; we hear of them otherwise and
/// say it in our own words, less and less often.
const LOG_FILTER: &str = "warn,grove_initc=info,grove_runtime=error,kube_client=off";

fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(error) => refused_arguments(&error),
    };
    exit.into()
}

/// Clap calls a request for help an error as well; that one goes to standard output and succeeds.
fn refused_arguments(error: &clap::Error) -> Exit {
    // Nothing is left to tell anybody when standard error itself is gone.
    let _ = error.print();
    if error.use_stderr() { Exit::BadArguments } else { Exit::Success }
}

fn run(arguments: Arguments) -> Exit {
    // One thread: there is one connection to follow, and readers of the cache never see half a list.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // There is no clock yet to log with.
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
        logs::init(&config, env.clock.clone()).expect("nobody set up logging before main");
        wait_or_stop(env, arguments).await.unwrap_or_else(|error| {
            tracing::error!("{error:#}");
            Exit::CannotStart
        })
    });
    // A name that is still being resolved must not keep a process that was told to stop.
    runtime.shutdown_background();
    exit
}

/// Waits for the parents, at most until a signal arrives. The first process of a container gets no
/// signal that it does not ask for, so this comes before everything that takes time.
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
    // `None` means that no signal can arrive any more, which is no reason to stop.
    if signal.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}
