//! Exit codes. The numbers are an interface: deployments and tests distinguish failures by them.

use std::process::ExitCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Success = 0,
    /// The command line, or what it asked to check, makes no sense; or what it waits for did not come.
    Refused = 1,
    /// The operator configuration, or what is said about a backend to check, cannot be used.
    BadConfiguration = 2,
    /// The API server refuses the topology of the configuration.
    NoTopology = 3,
    /// The cluster, or an address of this machine, cannot be used.
    NoConnection = 4,
    /// A scheduler cannot be worked with.
    NoBackend = 5,
    /// The command line made sense, but the work could not be done.
    Failed = 6,
    /// The cluster lacks what MNNVL support needs.
    NoMnnvl = 7,
}

/// The table shown by `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  success
  1  bad arguments, or what was checked or waited for is not as it should be
  2  operator configuration cannot be loaded or is invalid, or bad arguments of grove backend
  3  the API server refuses the topology of the operator configuration
  4  connection to the cluster, or a server of the operator, could not be set up
  5  a scheduler backend could not be initialised
  6  the command failed, or the operator could not start
  7  prerequisites of MNNVL support are missing";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
