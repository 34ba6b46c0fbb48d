//! The test programs of the workspace, some side by side.
//!
//! Cargo runs them one after another. A program that waits for a control plane leaves most of the
//! machine idle, so there are as many at once as there are processors.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde::Deserialize;
use xtask::rows;

/// One test program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

/// A line of what cargo says about a build, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    profile: Profile,
}

#[derive(Default, Deserialize)]
struct Target {
    name: String,
}

#[derive(Default, Deserialize)]
struct Profile {
    test: bool,
}

/// The programs in cargo's messages, in an order that is always the same.
fn programs(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let mut programs: Vec<Program> = messages
        .filter(|message| message.profile.test)
        .filter_map(|message| {
            let directory = message.manifest_path.parent()?.to_owned();
            Some(Program { name: message.target.name, executable: message.executable?, directory })
        })
        .collect();
    programs.sort();
    programs
}

/// Builds all test programs; none when that fails, which `log` explains.
pub(super) fn build(mut cargo_test: Command, log: &File) -> Result<Option<Vec<Program>>> {
    let built = cargo_test
        .args(["--tests", "--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        .output()
        .context("cannot run cargo")?;
    Ok(built.status.success().then(|| programs(&String::from_utf8_lossy(&built.stdout))))
}

/// Runs the ignored tests of all of them that a filter selects, each program's output in one piece in `log`.
/// Returns whether all succeeded.
pub(super) fn run(programs: Vec<Program>, filter: Option<&str>, log: &File) -> Result<bool> {
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = || -> Result<bool> {
        let mut passed = true;
        while let Some(program) = next() {
            passed &= run_one(&program, filter, log)?;
        }
        Ok(passed)
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_fold(true, |all, lane| {
            let passed = lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(all && passed)
        })
    })
}

fn run_one(program: &Program, filter: Option<&str>, log: &File) -> Result<bool> {
    let filter = filter.filter(|filter| !program.name.contains(filter));
    let mut passed = run_tests(&mut program.ignored_tests(filter), program, "", log)?;
    if let Some(filter) = filter {
        let (tests, rows) = program.tests_with_rows(filter)?;
        if !tests.is_empty() {
            let mut command = program.ignored_tests(["--exact", "--nocapture"]);
            command.args(tests).env(rows::SELECT, filter);
            passed &= run_tests(&mut command, program, &rows, log)?;
        }
    }
    Ok(passed)
}

fn run_tests(command: &mut Command, program: &Program, rows: &str, mut log: &File) -> Result<bool> {
    let Program { name, executable, .. } = program;
    let ended = output(command)?;
    let mut text = format!("     Running {name} ({})\n{rows}", executable.display()).into_bytes();
    text.extend(ended.stdout);
    text.extend(ended.stderr);
    if !ended.status.success() {
        text.extend(format!("error: {name} ended with {}\n", ended.status).into_bytes());
    }
    log.write_all(&text)?;
    Ok(ended.status.success())
}

fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("cannot run {}", command.get_program().display()))
}

impl Program {
    /// Runs ignored tests. A test starts a control plane: with several programs there are enough at once.
    fn ignored_tests<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(["--ignored", "--test-threads=1"])
            .args(arguments)
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }

    /// The tests of tables with rows whose names contain a text, and a line for each of these rows. A test whose
    /// own name contains it runs all rows, and is not among them.
    fn tests_with_rows(&self, part: &str) -> Result<(Vec<String>, String)> {
        let (mut tests, mut rows) = (Vec::new(), String::new());
        let listed = output(&mut self.ignored_tests(["--list", "table::"]))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let all = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        for test in all.filter(|test| !test.contains(part)) {
            let mut command = self.ignored_tests(["--exact", "--nocapture", test]);
            let listed = output(command.env(rows::LIST, "1"))?;
            let found = matching_rows(&String::from_utf8_lossy(&listed.stdout), part);
            if !found.is_empty() {
                tests.push(test.to_owned());
                rows.push_str(&found);
            }
        }
        Ok((tests, rows))
    }
}

/// The lines of rows whose names contain a text. The first may follow other text on its line.
fn matching_rows(listed: &str, part: &str) -> String {
    let names = listed.lines().filter_map(|line| Some(line.split_once(rows::PREFIX)?.1));
    let names = names.filter(|name| name.contains(part));
    names.flat_map(|name| [rows::PREFIX, name, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_found_and_always_in_the_same_order() {
        let messages = r#"
            {"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","target":{"name":"real_b"},"profile":{"test":true},"executable":"/t/real_b"}
            {"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":"/t/a"}
            {"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":"/t/main"}
            {"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":null}
            {"reason":"build-finished","success":true}
            not a message
        "#;
        let found = programs(messages);
        let names: Vec<_> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["a", "real_b"]);
        assert_eq!(found[1].directory, PathBuf::from("/w/b"));
    }

    #[test]
    fn one_failure_does_not_keep_the_others_from_running() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("programs-{}.log", std::process::id()));
        let program = |name: &str, executable: &str| Program {
            name: name.to_owned(),
            executable: executable.into(),
            directory: directory.clone(),
        };
        let all = vec![program("bad", "false"), program("good", "echo")];
        let passed = run(all, None, &File::create(&path).unwrap()).unwrap();
        let output = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();

        assert!(!passed);
        assert!(output.contains("error: bad ended with"), "{output}");
        assert!(output.contains("--test-threads=1"), "{output}");
    }

    #[test]
    fn a_row_is_found_by_a_part_of_its_name() {
        let listed = "running 1 test\n\
                      test table::rules ... row: rules::gangs::a: gangs first\n\
                      row: rules::pods::b: pods then\nok\n";
        assert_eq!(matching_rows(listed, "pods::b"), "row: rules::pods::b: pods then\n");
        assert_eq!(matching_rows(listed, "gangs first"), "row: rules::gangs::a: gangs first\n");
        assert_eq!(matching_rows(listed, "test"), "");
    }
}
