//! `cargo xtask bench`: measures cost and duration on a real control plane.
//!
//! [`world`], [`watching`], [`usage`], [`ceiling`], [`deploy`] and [`update`] measure; pure functions in
//! [`audit`], [`progress`], [`budgets`] and [`render`] evaluate the measurements.

mod audit;
mod budgets;
mod ceiling;
mod deploy;
mod floor;
mod progress;
mod render;
mod report;
mod shape;
mod update;
mod usage;
mod watching;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Deploy, scale and delete sets: times, writes, CPU and memory, next to their budgets.
    Deploy(deploy::DeployArguments),
    /// Give a running set another template: time, writes, CPU, and how many pods stay ready.
    Update(update::UpdateArguments),
}

/// Runs one benchmark.
pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::Deploy(arguments) => deploy::run(arguments),
        BenchCommand::Update(arguments) => update::run(arguments),
    }
}
