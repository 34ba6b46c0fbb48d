//! Builds missing programs with Go into the cache.
//!
//! A binary is linked under a temporary name and renamed when complete, and a file lock serializes builders
//! on one machine, so that readers never find an incomplete program. Errors are one sentence; if Go failed,
//! the end of its output follows.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use super::{Part, cache_dir, modules_dir};
use crate::poll::Stopwatch;

const GIB: u64 = 1 << 30;
/// Go's module and build caches for Kubernetes, and the binaries.
const KUBERNETES_SPACE_BYTES: u64 = 5 * GIB;
const OTHER_SPACE_BYTES: u64 = 2 * GIB;
/// Lines of Go's output to show: the cause is at the end.
const OUTPUT_LINES: usize = 12;

/// Finds and builds programs.
#[derive(Debug, Clone)]
pub struct Toolbox {
    cache: PathBuf,
    modules: PathBuf,
    search_path: OsString,
}

impl Toolbox {
    /// The toolbox of this user and this source tree.
    pub fn open() -> Result<Self> {
        Ok(Self {
            cache: cache_dir()?,
            modules: modules_dir(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
        })
    }

    /// Path of the binary, whether or not it exists.
    pub fn path(&self, part: Part) -> Result<PathBuf> {
        let module = self.modules.join(part.module());
        let mut key = Fnv::new();
        key.add(std::env::consts::ARCH.as_bytes());
        key.add(part.linker_flags().as_bytes());
        for file in ["go.mod", "go.sum"] {
            let path = module.join(file);
            let text =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            key.add(&text);
        }
        let version = format!("{}-{:016x}", part.version(), key.0);
        Ok(self.cache.join("bin").join(part.name()).join(version).join(part.name()))
    }

    /// The parts that have to be built.
    pub fn missing(&self, parts: &[Part]) -> Result<Vec<Part>> {
        let mut missing = Vec::new();
        for &part in parts {
            if !missing.contains(&part) && !self.path(part)?.is_file() {
                missing.push(part);
            }
        }
        Ok(missing)
    }

    /// Whether a Go toolchain is installed.
    pub fn has_go(&self) -> bool {
        self.find_go().is_some()
    }

    /// Builds the missing ones of `parts`; prints nothing when none is missing.
    pub fn ensure(&self, parts: &[Part]) -> Result<()> {
        if self.missing(parts)?.is_empty() {
            return Ok(());
        }
        let go = self.require_go()?;
        fs::create_dir_all(&self.cache)
            .with_context(|| format!("cannot create the cache {}", self.cache.display()))?;
        let _lock = self.lock()?;
        let missing = self.missing(parts)?;
        check_space(&self.cache, available(&self.cache)?, needed(&missing))?;
        for dir in go_caches(&go) {
            check_space(&dir, available(&dir)?, needed(&missing))?;
        }
        self.build_all(&go, &missing)
    }

    fn build_all(&self, go: &Path, missing: &[Part]) -> Result<()> {
        let minutes: u32 = missing.iter().map(|part| part.expected_minutes()).sum();
        if !missing.is_empty() {
            eprintln!(
                "building {} into {}: about {minutes} min on two cores, once",
                count(missing.len(), "program"),
                self.cache.display(),
            );
        }
        for (index, &part) in missing.iter().enumerate() {
            eprint!("[{}/{}] {part} … ", index + 1, missing.len());
            let watch = Stopwatch::start();
            let built = self.build(go, part);
            eprintln!("{}", if built.is_ok() { duration(&watch) } else { "failed".to_owned() });
            built?;
        }
        Ok(())
    }

    fn build(&self, go: &Path, part: Part) -> Result<()> {
        let target = self.path(part)?;
        let dir = target.parent().context("a cached binary has a directory")?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let partial = target.with_extension("partial");
        let output = Command::new(go)
            .current_dir(self.modules.join(part.module()))
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-buildvcs=false")
            .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &part.linker_flags(), "-o"])
            .arg(&partial)
            .arg(part.package())
            .output()
            .with_context(|| format!("cannot run {}", go.display()))?;
        if !output.status.success() {
            let _ = fs::remove_file(&partial);
            bail!(failure(part, &output));
        }
        fs::rename(&partial, &target).with_context(|| format!("cannot keep {}", target.display()))
    }

    fn lock(&self) -> Result<File> {
        let path = self.cache.join("lock");
        let lock =
            File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("waiting for another build into {}", self.cache.display());
                lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(lock)
    }

    fn find_go(&self) -> Option<PathBuf> {
        std::env::split_paths(&self.search_path).map(|dir| dir.join("go")).find(|go| go.is_file())
    }

    fn require_go(&self) -> Result<PathBuf> {
        if let Some(go) = self.find_go() {
            return Ok(go);
        }
        let required = go_version(&self.modules.join("etcd/go.mod"))?;
        bail!(
            "the control plane is built with Go {required} or newer, and there is no `go` on the \
             PATH: install it and run this again"
        );
    }
}

/// The `go` line of a module file.
fn go_version(path: &Path) -> Result<String> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("go "))
        .map(str::to_owned)
        .with_context(|| format!("{} has no go line", path.display()))
}

/// Directories of Go's build and module caches, or their existing parents. Empty when Go fails: the build
/// then reports why.
fn go_caches(go: &Path) -> Vec<PathBuf> {
    let output = Command::new(go).args(["env", "GOCACHE", "GOMODCACHE"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| Path::new(line).ancestors().find(|dir| dir.is_dir()))
        .map(Path::to_owned)
        .collect()
}

fn available(dir: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot read the free space of {}", dir.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn needed(missing: &[Part]) -> u64 {
    let mut versions: Vec<_> = missing.iter().filter_map(|part| part.kube()).collect();
    versions.sort_unstable();
    versions.dedup();
    if missing.is_empty() {
        return 0;
    }
    OTHER_SPACE_BYTES + KUBERNETES_SPACE_BYTES * versions.len() as u64
}

fn check_space(dir: &Path, available: u64, needed: u64) -> Result<()> {
    if available >= needed {
        return Ok(());
    }
    bail!(
        "building the control plane needs {} GiB free in {} and there are {}.{} GiB: free some \
         space or point GROVE_CACHE_DIR, GOCACHE and GOMODCACHE elsewhere",
        needed / GIB,
        dir.display(),
        available / GIB,
        available % GIB * 10 / GIB,
    );
}

/// One sentence, then the end of Go's output.
fn failure(part: Part, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let cause = if REFUSALS.iter().any(|sign| text.contains(sign)) {
        "the Go module proxy could not be reached or refused a module"
    } else if text.contains("no space left on device") {
        "the disk is full"
    } else {
        "Go could not build it"
    };
    format!("cannot build {part}: {cause}\n{}", last_lines(&text, OUTPUT_LINES))
}

/// Go's messages when a module cannot be downloaded.
const REFUSALS: [&str; 7] = [
    "404 Not Found",
    "403 Forbidden",
    "410 Gone",
    "dial tcp",
    "i/o timeout",
    "module lookup disabled",
    "proxyconnect",
];

/// The last `count` lines, indented.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(count)..];
    tail.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn duration(watch: &Stopwatch) -> String {
    let seconds = watch.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

/// FNV-1a: a cache key must not depend on the Rust version, as the standard hasher may.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        // A separator, so that moving bytes between two inputs changes the key.
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
