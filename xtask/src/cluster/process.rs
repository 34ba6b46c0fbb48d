//! Child processes that end with this process.
//!
//! The kernel can kill a child when its parent ends; `setpriv` requests that for the child. The parent is the
//! *thread* that started the child, and tests run in short-lived threads, so one keeper thread that lives as
//! long as the process starts every child.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::tools::last_lines;

/// Lines of a log to show when a program stops.
const LOG_LINES: usize = 15;

type Request = (Command, Sender<io::Result<Child>>);

static KEEPER: OnceLock<Sender<Request>> = OnceLock::new();

/// A command for `program` that ends with this process.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a command made by [`command`] on the keeper thread.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let keeper = KEEPER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        thread::spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = mpsc::channel();
    keeper.send((command, answer)).context("the keeper thread has ended")?;
    match child.recv().context("the keeper thread has ended")? {
        Ok(child) => Ok(child),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "`setpriv` is not on the PATH; it comes with util-linux and makes processes end with \
             their parent"
        ),
        Err(error) => Err(error).context("cannot start a process"),
    }
}

/// Runs a command made by [`command`] until it ends, with this `stdin`.
pub(crate) fn run(mut command: Command, stdin: Option<&str>) -> Result<Output> {
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command)?;
    let feeder = stdin.zip(child.stdin.take()).map(|(text, mut pipe)| {
        let text = text.to_owned();
        // A program that stops reading early reports why on its standard error.
        thread::spawn(move || {
            let _ = pipe.write_all(text.as_bytes());
        })
    });
    let output = child.wait_with_output().context("cannot read the output of a process")?;
    if let Some(feeder) = feeder {
        let _ = feeder.join();
    }
    Ok(output)
}

/// A running program of the control plane and its log file.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `program` with `args` and appends its output to `<directory>/<name>.log`.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        args: &[String],
        directory: &Path,
    ) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let mut command = command(program);
        // Its own home directory, so that the user's is neither read nor written.
        command.args(args).current_dir(directory).env("HOME", directory).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let child = spawn(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns an error with the end of its log if the program has stopped.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("cannot check {}", self.name))? {
            None => Ok(()),
            Some(status) => bail!("{} stopped: {status}\n{}", self.name, self.log_tail()),
        }
    }

    /// The end of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&text), LOG_LINES)
    }

    /// Sends SIGKILL without waiting for the end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits until a killed program has ended.
    pub(crate) fn reap(&mut self) {
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_survives_the_thread_that_requested_it() {
        let mut cat = command(Path::new("cat"));
        cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = thread::spawn(|| spawn(cat).unwrap()).join().unwrap();
        child.stdin.take().unwrap().write_all(b"still here").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"still here");
    }

    #[test]
    fn input_larger_than_a_pipe_is_passed_through() {
        let text = "x".repeat(1 << 20);
        let output = run(command(Path::new("cat")), Some(&text)).unwrap();
        assert_eq!(output.stdout, text.as_bytes());
    }

    #[test]
    fn a_program_that_stops_is_reported_with_the_end_of_its_log() {
        let directory = super::super::directory::Directory::create().unwrap();
        let args = ["-c".to_owned(), "echo the port is taken; exit 3".to_owned()];
        let mut program =
            Program::start("speaker", Path::new("sh"), &args, directory.path()).unwrap();
        program.child.wait().unwrap();
        let error = program.check_running().unwrap_err().to_string();
        assert_eq!(error, "speaker stopped: exit status: 3\n    the port is taken");
    }
}
