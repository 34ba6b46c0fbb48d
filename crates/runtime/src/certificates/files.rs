//! A certificate from a mounted directory.
//!
//! The directory holds `tls.crt` and `tls.key`. It is read every ten seconds and the contents are compared.
//! File notification is not used: a Secret volume changes by swapping a symbolic link two levels up, some
//! file systems (NFS, overlays) never notify, and a notification can arrive between the two files of a
//! pair. Reading two small files is cheaper than handling all of that.
//!
//! An unreadable or mismatched pair leaves the served certificate in place and is logged once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{PairError, ServingCertificate};
use crate::clock::Clock;
use crate::tasks::Shutdown;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// Why the files are not served.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file is missing or not readable.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The files are not a usable pair.
    #[error("{CERTIFICATE} and {KEY} in {}: {source}", directory.display())]
    Pair {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with the pair.
        source: PairError,
    },
}

/// Follows one directory.
#[derive(Debug)]
pub struct CertificateFiles {
    directory: PathBuf,
    serving: ServingCertificate,
    seen: Option<(Vec<u8>, Vec<u8>)>,
    problem: Option<String>,
}

impl CertificateFiles {
    /// Keeps `serving` equal to the pair in `directory`.
    pub fn new(directory: impl Into<PathBuf>, serving: ServingCertificate) -> Self {
        Self { directory: directory.into(), serving, seen: None, problem: None }
    }

    /// Follows the directory until `shutdown`.
    pub async fn run(mut self, clock: Clock, shutdown: Shutdown) {
        loop {
            self.check();
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                () = clock.sleep(READ_INTERVAL) => {}
            }
        }
    }

    fn check(&mut self) {
        match self.reload() {
            Ok(changed) => {
                self.problem = None;
                if changed {
                    tracing::info!(directory = %self.directory.display(), "certificate loaded");
                }
            }
            Err(error) => {
                let problem = error.to_string();
                self.serving.report(&problem);
                if self.problem.as_ref() != Some(&problem) {
                    tracing::warn!(problem, "certificate not loaded");
                    self.problem = Some(problem);
                }
            }
        }
    }

    /// Reads both files and serves them if they changed. Blocking here is acceptable: the files are a few
    /// kilobytes, usually in memory.
    fn reload(&mut self) -> Result<bool, FilesError> {
        let pair = (read(&self.directory, CERTIFICATE)?, read(&self.directory, KEY)?);
        if self.seen.as_ref() == Some(&pair) {
            return Ok(false);
        }
        self.serving
            .install(&pair.0, &pair.1)
            .map_err(|source| FilesError::Pair { directory: self.directory.clone(), source })?;
        self.seen = Some(pair);
        Ok(true)
    }
}

fn read(directory: &Path, file: &str) -> Result<Vec<u8>, FilesError> {
    let path = directory.join(file);
    fs::read(&path).map_err(|source| FilesError::Read { path, source })
}

#[cfg(test)]
mod tests;
