//! The `grove` binary: reads the command line, runs one command, turns its outcome into an exit code.

mod age;
mod args;
mod backend_check;
mod backends;
mod cluster;
mod completion;
mod crds;
mod exit;
mod live;
mod operator;
mod rollout;
mod table;
mod terminal;
#[cfg(test)]
mod testkit;
mod topology;
mod tree;
mod validate;
mod version;

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Arguments, BackendCommand, Command};
use exit::Exit;
use terminal::{note, print, print_json, print_raw};

/// What the program is called as a plugin of kubectl, which finds it by this name.
const PLUGIN: &str = "kubectl-grove";

fn main() -> ExitCode {
    match parse(std::env::args_os().collect()) {
        Ok(arguments) => report(run(&arguments)).into(),
        Err(error) => refused_arguments(&error).into(),
    }
}

/// Reads the command line. Help texts call the program what the user called it.
fn parse(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let program = words.first().and_then(|path| Path::new(path).file_stem());
    let mut command = Arguments::command();
    if program.is_some_and(|name| name == PLUGIN) {
        command = command.bin_name("kubectl grove").display_name("kubectl grove");
    }
    let matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.command {
        Command::Version { output } => print(&version::render(*output))?,
        Command::Crds { output_dir: None } => print(&crds::render())?,
        Command::Crds { output_dir: Some(directory) } => crds::write_files(directory)?,
        Command::Backends { config, output, check } => {
            return backends::run(config, *output, *check);
        }
        Command::Completion { shell } => print_raw(&completion::script(*shell))?,
        Command::Backend(BackendCommand::Check(arguments)) => return backend_check::run(arguments),
        Command::Operator(arguments) => return Ok(operator::run(arguments)),
        Command::Tree(arguments) => return wait(tree::run(arguments)),
        Command::Topology(arguments) => return wait(topology::run(arguments)),
        Command::Rollout(command) => return wait(rollout::run(command)),
        Command::Validate(arguments) => {
            let report = wait(validate::run(arguments))?;
            print(&report.findings)?;
            note(&report.notes);
            return Ok(report.exit);
        }
    }
    Ok(Exit::Success)
}

/// Runs a command that may talk to a cluster.
fn wait<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(command)
}

/// Clap calls a request for help an error as well; that one goes to standard output and succeeds.
fn refused_arguments(error: &clap::Error) -> Exit {
    // Without a terminal the message cannot be shown.
    let _ = error.print();
    // For `backend check`, 1 means that the backend is at fault.
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
