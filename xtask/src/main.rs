//! `cargo xtask`: the developer commands of this workspace.
//!
//! Exit code 0 means success, 1 failure (with one sentence on standard error), 2 invalid arguments.

mod bench;
mod cluster_command;
mod demo;
mod generate;
mod instances;
mod operator;
mod suite;
mod table;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of this workspace.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a real Kubernetes control plane as plain processes on this machine.
    #[command(subcommand)]
    Cluster(cluster_command::ClusterCommand),
    /// Check everything: format, lints, tests, then tests on the real control plane.
    Test(suite::TestArguments),
    /// Show the product: a control plane, simulated nodes, the operator and an example service.
    Demo,
    /// Measure the product on a real control plane.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Write generated files again.
    Generate(generate::GenerateArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Cluster(command) => cluster_command::run(command),
        Command::Test(arguments) => suite::run(&arguments),
        Command::Demo => demo::run(),
        Command::Bench(command) => bench::run(&command),
        Command::Generate(arguments) => generate::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
