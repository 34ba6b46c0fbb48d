//! A child process and the lines that it prints. It is killed when this value is dropped, so that a failed
//! test leaves no program behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use xtask::poll::Stopwatch;

use crate::DEADLINE;

/// A running program.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    /// The lines that were read so far.
    pub printed: Vec<String>,
}

impl Program {
    /// Starts a program and reads its standard error.
    pub fn reading_stderr(mut command: Command) -> Self {
        let mut child = spawn(command.stderr(Stdio::piped()));
        let stderr = child.stderr.take().unwrap();
        Self::reading(child, stderr)
    }

    /// Starts a program and reads its standard output.
    pub fn reading_stdout(mut command: Command) -> Self {
        let mut child = spawn(command.stdout(Stdio::piped()));
        let stdout = child.stdout.take().unwrap();
        Self::reading(child, stdout)
    }

    fn reading(child: Child, output: impl Read + Send + 'static) -> Self {
        let (send, lines) = mpsc::channel();
        // Ends when the child closes its output.
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.for_each(|line| drop(send.send(line)));
        });
        Self { child, lines, printed: Vec::new() }
    }

    /// Reads the next line, or none when there is none within `timeout`.
    pub fn next_line(&mut self, timeout: Duration) -> Option<&str> {
        self.printed.push(self.lines.recv_timeout(timeout).ok()?);
        self.printed.last().map(String::as_str)
    }

    /// Reads until a line contains all these words, and returns it.
    pub fn until_line(&mut self, words: &[&str]) -> &str {
        let watch = Stopwatch::start();
        loop {
            let Some(line) = self.next_line(DEADLINE.saturating_sub(watch.elapsed())) else {
                panic!("no line with {words:?}, only:\n{}", self.printed.join("\n"));
            };
            if words.iter().all(|word| line.contains(word)) {
                break;
            }
        }
        self.printed.last().unwrap()
    }

    /// Waits until the program ends; returns its exit status and all lines.
    pub fn wait(mut self) -> (ExitStatus, Vec<String>) {
        let watch = Stopwatch::start();
        while self.next_line(DEADLINE.saturating_sub(watch.elapsed())).is_some() {}
        // The child closes its output only when it ends.
        let in_time = watch.elapsed() < DEADLINE;
        assert!(in_time, "it did not end, it printed:\n{}", self.printed.join("\n"));
        (self.child.wait().unwrap(), std::mem::take(&mut self.printed))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn spawn(command: &mut Command) -> Child {
    let program = command.get_program().to_owned();
    command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()))
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
