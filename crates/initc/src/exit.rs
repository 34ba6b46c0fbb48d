//! Exit codes. Only success lets the containers of the pod start.

use std::process::ExitCode;

/// Exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All parents are ready.
    Success = 0,
    /// The command line is invalid.
    BadArguments = 1,
    /// Pod information or an API server address is missing, or the program has a bug.
    CannotStart = 2,
    /// Stopped by SIGINT, numbered as shells do.
    Interrupted = 130,
    /// Stopped by SIGTERM, numbered as shells do.
    Terminated = 143,
}

/// The table shown by `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    every PodClique had enough ready pods at the same time
  1    bad arguments
  2    no pod information, no API server to ask, or a defect of this program
  130  stopped by SIGINT
  143  stopped by SIGTERM
Errors of the API server, missing permissions and refused tokens do not end the program.";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
