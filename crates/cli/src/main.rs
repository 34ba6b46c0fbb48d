//! The `grove` binary: reads the command line, runs one command, turns its outcome into an exit code.

mod age;
mod args;
mod backend_check;
mod backends;
mod cluster;
mod crds;
mod exit;
mod live;
mod operator;
mod rollout;
mod table;
#[cfg(test)]
mod testkit;
mod tree;
mod validate;
mod version;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser as _;

use args::{Arguments, BackendCommand, Command};
use exit::Exit;

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => report(run(&arguments)).into(),
        Err(error) => refused_arguments(&error).into(),
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.command {
        Command::Version { output } => print(&version::render(*output))?,
        Command::Crds { output_dir: None } => print(&crds::render())?,
        Command::Crds { output_dir: Some(directory) } => crds::write_files(directory)?,
        Command::Backends { config, output } => print(&backends::run(config, *output)?)?,
        Command::Backend(BackendCommand::Check(arguments)) => return backend_check::run(arguments),
        Command::Operator(arguments) => return Ok(operator::run(arguments)),
        Command::Tree(arguments) => return wait(tree::run(arguments)),
        Command::Rollout(command) => return wait(rollout::run(command)),
        Command::Validate { filename, config } => {
            let report = validate::run(filename, config.as_deref())?;
            print(&report.findings)?;
            note(&report.notes);
            return Ok(report.exit);
        }
    }
    Ok(Exit::Success)
}

/// Runs a command that talks to a cluster.
fn wait(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(command)
}

/// Writes a whole answer to standard output. A reader that went away early has what it wanted.
fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Says something beside the answer. Nobody is left to tell when the terminal itself is gone.
fn note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Clap calls a request for help an error as well; that one goes to standard output and succeeds.
fn refused_arguments(error: &clap::Error) -> Exit {
    // Nothing is left to tell anybody when the terminal itself is gone.
    let _ = error.print();
    // For those who check a backend, 1 says that the backend is at fault.
    let of_backend = std::env::args_os().nth(1).is_some_and(|command| command == "backend");
    match error.use_stderr() {
        true if of_backend => Exit::BadConfiguration,
        true => Exit::Refused,
        false => Exit::Success,
    }
}

fn report(result: anyhow::Result<Exit>) -> Exit {
    result.unwrap_or_else(|error| {
        note(&format!("error: {error:#}\n"));
        Exit::Failed
    })
}
