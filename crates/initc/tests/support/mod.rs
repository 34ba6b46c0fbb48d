//! The running container, heard from outside.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by test binaries; a failed step of a test is a failed test"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xtask::poll::Stopwatch;

/// Longer than anything here takes; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// The running container and what it says.
pub struct Initc {
    child: Child,
    lines: Receiver<String>,
    pub heard: Vec<String>,
    watch: Stopwatch,
}

impl Initc {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = mpsc::channel();
        // Ends with the standard error of the child.
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, heard: Vec::new(), watch: Stopwatch::start() }
    }

    /// Waits for a line with this text; lines before it are skipped.
    pub fn says(&mut self, text: &str) {
        self.watch = Stopwatch::start();
        while let Some(line) = self.next_line() {
            let found = line.contains(text);
            self.heard.push(line);
            if found {
                return;
            }
        }
        panic!("it never said {text:?}, only:\n{}", self.heard.join("\n"));
    }

    fn next_line(&self) -> Option<String> {
        self.lines.recv_timeout(DEADLINE.saturating_sub(self.watch.elapsed())).ok()
    }

    /// Waits for the end; everything it said is heard then.
    pub fn ends(mut self) -> (ExitStatus, Vec<String>) {
        self.watch = Stopwatch::start();
        while let Some(line) = self.next_line() {
            self.heard.push(line);
        }
        // The child closes its standard error only when it ends.
        let in_time = self.watch.elapsed() < DEADLINE;
        assert!(in_time, "it did not end, it said:\n{}", self.heard.join("\n"));
        (self.child.wait().unwrap(), std::mem::take(&mut self.heard))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Initc {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
