//! Instance directories: one per control plane, removed with it.
//!
//! The name of a directory contains the process id and start time of its owner, so that every process can
//! check whether the owner still runs, even after the id was reused. Owners that are killed cannot clean up;
//! the next start does.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

const PREFIX: &str = "grove-cluster";
const MEMORY: &str = "/dev/shm";
/// A smaller memory file system is not used.
const MIN_FREE_BYTES: u64 = 2 << 30;

/// A directory that is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// Creates a directory that only this user can read.
    pub(crate) fn create() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let started = start_time(pid).context("cannot read /proc: only Linux is supported")?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = root().join(format!("{PREFIX}-{pid}-{started}-{number}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Process id and start time of the owner, from the name of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    started: u64,
}

impl Owner {
    /// The owner of a directory, or `None` if it is not an instance directory.
    pub fn of(directory: &Path) -> Option<Self> {
        let name = directory.file_name()?.to_str()?;
        let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        Some(Self { pid: fields.next()?.parse().ok()?, started: fields.next()?.parse().ok()? })
    }

    /// Whether the process that created the directory still runs.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// All instance directories of this machine, with or without a running owner, sorted by name.
pub fn list() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = [PathBuf::from(MEMORY), std::env::temp_dir()]
        .iter()
        .filter_map(|root| fs::read_dir(root).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| Owner::of(path).is_some())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Removes directories whose owner has ended.
pub fn sweep() {
    for directory in list() {
        if Owner::of(&directory).is_some_and(|owner| !owner.is_alive()) {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// A memory file system if one has enough space: etcd waits for its disk on every write.
fn root() -> PathBuf {
    let roomy = rustix::fs::statvfs(MEMORY)
        .is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) >= MIN_FREE_BYTES);
    if roomy { PathBuf::from(MEMORY) } else { std::env::temp_dir() }
}

/// Start time of a process in ticks since boot; `None` if it has ended or is a zombie.
pub fn start_time(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program name in the second field may contain anything, so fields count from its last bracket.
fn parse_stat(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_owner_and_is_removed_on_drop() {
        let directory = Directory::create().unwrap();
        let path = directory.path().to_owned();
        let owner = Owner::of(&path).unwrap();
        assert_eq!(owner.pid, std::process::id());
        assert!(owner.is_alive());
        fs::write(path.join("file"), "x").unwrap();
        sweep();
        assert!(list().contains(&path));
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_whose_owner_has_ended_is_removed() {
        let pid = std::process::id();
        let before = start_time(pid).unwrap() - 1;
        let path = root().join(format!("{PREFIX}-{pid}-{before}-7"));
        fs::create_dir(&path).unwrap();
        assert!(!Owner::of(&path).unwrap().is_alive());
        sweep();
        assert!(!path.exists());
    }

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_stat(&format!("42 (a b) c) {fields}")), Some(4711));
        assert_eq!(parse_stat(&format!("42 (x) {}", fields.replace('S', "Z"))), None);
    }

    #[test]
    fn other_names_have_no_owner() {
        for name in ["grove-cluster", "grove-cluster-x-1-0", "grove-cluster-1", "systemd-1-2-3"] {
            assert_eq!(Owner::of(Path::new(name)), None, "{name}");
        }
    }
}
