//! `cargo xtask test`: everything that must hold, in the order of what fails fastest.
//!
//! Each step is one line and its output is shown only when it fails; while it runs, the output
//! grows in `target/xtask/`. The last line is always `N passed, M failed, K skipped`. A step
//! that fails without naming a failed test counts as one failure, so that line never claims
//! success for a run that had none. Tests on the real control plane are the ignored ones.

mod programs;
mod summary;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use xtask::cluster::directory;
use xtask::poll::Stopwatch;
use xtask::rows;
use xtask::tools::{Kube, Part, Toolbox};

use crate::generate::{cargo, workspace_root};
use crate::tidy;
use summary::{Summary, without_passes};

#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Run one half: everything that needs no control plane, or only what does.
    #[arg(long, value_enum)]
    only: Option<Half>,
    /// Run only tests whose name contains this, and no format check or lints. On the real control plane, names of
    /// test programs and of rows of tables count too.
    #[arg(long)]
    filter: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    Pure,
    Real,
}

/// Whether the real control plane can be had.
#[derive(Debug, PartialEq, Eq)]
enum RealTier {
    Run,
    /// It cannot; the reason is a sentence.
    Skip(String),
}

/// Runs everything that was asked for.
pub(crate) fn run(arguments: &TestArguments) -> Result<ExitCode> {
    let root = workspace_root()?;
    let logs = root.join("target/xtask");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut suite = Suite { root, logs, summary: Summary::default() };
    if let Err(error) = suite.run_all(arguments) {
        eprintln!("error: {error:#}");
        suite.summary.failed += 1;
    }
    writeln!(io::stdout(), "{}", suite.summary)?;
    Ok(if suite.summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Suite {
    root: PathBuf,
    logs: PathBuf,
    summary: Summary,
}

impl Suite {
    fn run_all(&mut self, arguments: &TestArguments) -> Result<()> {
        let filter = arguments.filter.as_deref();
        if filter.is_none() && arguments.only != Some(Half::Real) && !self.checks()? {
            return Ok(());
        }
        if arguments.only != Some(Half::Real) {
            self.pure_tests(filter)?;
        }
        if arguments.only == Some(Half::Pure) {
            self.summary.skip_ignored();
        } else {
            self.real_tests(filter, arguments.only.is_some() || in_ci())?;
        }
        match filter.filter(|_| self.summary.is_empty()) {
            Some(filter) => bail!("no test and no row has a name that contains {filter:?}"),
            None => Ok(()),
        }
    }

    /// Format, house rules, lints and licences; stops at the first that fails.
    fn checks(&mut self) -> Result<bool> {
        let lints = "clippy --workspace --all-targets --quiet -- -D warnings";
        let passed = self.check("format", "fmt --all --check")?
            && self.check_dependencies()
            && self.check("lints", lints)?;
        if passed && installed("cargo-deny") {
            // Advisories change without us and need a network: they are no matter of this run.
            return self.check("licences", "deny --log-level=error check bans licenses sources");
        }
        if passed {
            eprintln!("licences … left out, cargo-deny is not installed");
        }
        Ok(passed)
    }

    fn check_dependencies(&mut self) -> bool {
        let watch = Stopwatch::start();
        begin("dependencies");
        let result = tidy::check(&self.root);
        end(watch.elapsed(), result.is_ok(), "");
        if let Err(wrong) = &result {
            eprintln!("{wrong:#}");
            self.summary.failed += 1;
        }
        result.is_ok()
    }

    fn check(&mut self, name: &str, args: &str) -> Result<bool> {
        let watch = Stopwatch::start();
        begin(name);
        let mut command = cargo(&self.root);
        command.args(args.split(' '));
        let (passed, output) = self.logged(name, |log| run_to_end(command, log))?;
        end(watch.elapsed(), passed, "");
        if !passed {
            eprintln!("{}", output.trim_end());
            self.summary.failed += 1;
        }
        Ok(passed)
    }

    fn pure_tests(&mut self, filter: Option<&str>) -> Result<()> {
        let mut command = self.cargo_test();
        command.arg("--").args(filter);
        self.tests("tests", |log| run_to_end(command, log))
    }

    fn real_tests(&mut self, filter: Option<&str>, required: bool) -> Result<()> {
        let toolbox = Toolbox::open()?;
        let parts: Vec<Part> = Kube::ALL.into_iter().flat_map(Part::all).collect();
        let can_build = toolbox.has_go() || toolbox.missing(&parts)?.is_empty();
        if let RealTier::Skip(reason) = real_tier(can_build, required)? {
            eprintln!("real control plane … SKIPPED, {reason}");
            self.summary.skip_ignored();
            return Ok(());
        }
        toolbox.ensure(&parts)?;
        let command = self.cargo_test();
        let result = self.tests("real control plane", |log| match programs::build(command, log)? {
            Some(programs) => programs::run(programs, filter, log),
            None => Ok(false),
        });
        directory::sweep();
        result
    }

    fn cargo_test(&self) -> Command {
        let mut command = cargo(&self.root);
        command.args(["test", "--workspace", "--no-fail-fast"]);
        command
    }

    fn tests(&mut self, name: &str, run: impl FnOnce(&File) -> Result<bool>) -> Result<()> {
        let watch = Stopwatch::start();
        begin(name);
        let (passed, output) = self.logged(name, run)?;
        let mut found = Summary::parse(&output);
        if !passed && found.failed == 0 {
            found.failed = 1;
        }
        if passed && found.runs == 0 {
            end(watch.elapsed(), false, "");
            bail!("{name}: cargo reported no test run at all:\n{output}");
        }
        end(watch.elapsed(), passed, &format!(", {} passed", found.passed));
        output
            .lines()
            .filter(|line| line.starts_with(rows::PREFIX))
            .for_each(|row| eprintln!("{row}"));
        if !passed {
            eprintln!("{}", without_passes(&output));
        }
        self.summary.add(&found);
        Ok(())
    }

    /// Runs something whose output goes to a file that can be watched; returns whether it succeeded, and
    /// the output.
    fn logged(
        &self,
        name: &str,
        run: impl FnOnce(&File) -> Result<bool>,
    ) -> Result<(bool, String)> {
        let path = self.logs.join(format!("{}.log", name.replace(' ', "-")));
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let passed = run(&log)?;
        let output = fs::read(&path)?;
        Ok((passed, String::from_utf8_lossy(&output).into_owned()))
    }
}

fn run_to_end(mut command: Command, log: &File) -> Result<bool> {
    let status = command
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}

/// Decides about the real tier: it must run where it is requested, and in CI, where a skipped tier would go
/// unnoticed.
fn real_tier(can_build: bool, required: bool) -> Result<RealTier> {
    let reason = "there is no Go to build the control plane and no built one in the cache";
    match (can_build, required) {
        (true, _) => Ok(RealTier::Run),
        (false, false) => Ok(RealTier::Skip(reason.to_owned())),
        (false, true) => bail!("the real control plane may not be skipped here, but {reason}"),
    }
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn begin(name: &str) {
    eprint!("{name} … ");
}

fn end(elapsed: Duration, passed: bool, note: &str) {
    let result = if passed { "ok" } else { "FAILED" };
    eprintln!("{result}, {:.0} s{note}", elapsed.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_go_and_binaries_the_real_tier_is_skipped_only_where_that_is_allowed() {
        assert_eq!(real_tier(true, false).unwrap(), RealTier::Run);
        assert_eq!(real_tier(true, true).unwrap(), RealTier::Run);
        assert!(matches!(real_tier(false, false).unwrap(), RealTier::Skip(_)));
        let error = real_tier(false, true).unwrap_err().to_string();
        assert!(error.contains("may not be skipped"), "{error}");
    }
}
