//! Instance directories: one per control plane, gone when it is gone.
//!
//! The name of a directory carries the process id and start time of its owner, so anyone can
//! tell at any moment whether the owner still lives, even after the number was used again.
//! Owners that end by a signal cannot clean up; the next start does it for them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

const PREFIX: &str = "grove-cluster";
const MEMORY: &str = "/dev/shm";
/// A memory file system smaller than this stays free for others.
const ROOMY: u64 = 2 << 30;

/// A directory that is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A fresh directory owned by this process, readable by nobody else.
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

/// Process id and start time of the owner, read from the name of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    started: u64,
}

impl Owner {
    /// The owner named by a directory, or `None` if it is not one of ours.
    pub fn of(directory: &Path) -> Option<Self> {
        let name = directory.file_name()?.to_str()?;
        let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        Some(Self { pid: fields.next()?.parse().ok()?, started: fields.next()?.parse().ok()? })
    }

    /// Whether the very process that made the directory still runs.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// All instance directories of this machine, dead or alive, in order of their names.
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

/// Removes what dead owners left behind.
pub fn sweep() {
    for directory in list() {
        if Owner::of(&directory).is_some_and(|owner| !owner.is_alive()) {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// A memory file system when there is a roomy one: etcd waits for its disk on every write.
fn root() -> PathBuf {
    let roomy = rustix::fs::statvfs(MEMORY)
        .is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) >= ROOMY);
    if roomy { PathBuf::from(MEMORY) } else { std::env::temp_dir() }
}

/// When a process started, in ticks since boot; `None` for one that is gone or a zombie.
pub fn start_time(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program name in the second field may hold anything, so fields count from its last bracket.
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
    fn a_directory_names_its_living_owner_and_goes_with_it() {
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
    fn a_directory_of_a_dead_owner_is_swept() {
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
