//! Builds with a substitute for Go: a shell script in its own search path.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::tools::Kube;

/// A toolbox with its own cache and search path, removed at the end of a test.
struct Bench {
    root: PathBuf,
    toolbox: Toolbox,
}

impl Bench {
    fn new(go: Option<&str>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root =
            std::env::temp_dir().join(format!("xtask-build-{}-{number}", std::process::id()));
        let bin = root.join("bin");
        fs::create_dir_all(&bin).unwrap();
        if let Some(script) = go {
            write_program(&bin.join("go"), script);
        }
        let toolbox =
            Toolbox { cache: root.join("cache"), modules: modules_dir(), search_path: bin.into() };
        Self { root, toolbox }
    }

    fn error(&self) -> String {
        self.toolbox.ensure(&[Part::Etcd]).unwrap_err().to_string()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Another process writes the file: a child that another thread starts at the same time would inherit our
/// open file, and an open file cannot be executed.
fn write_program(path: &Path, script: &str) {
    let status = Command::new("sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
        .arg(path)
        .arg(script)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Behaves like `go build … -o FILE PACKAGE` and adds a line to a file for every call.
const WORKING_GO: &str = r#"
[ "$1" = env ] && { echo /; exit 0; }
while [ "$1" != -o ]; do shift; done
echo "$3" > "$2"
echo built >> "${0%/*}/calls"
"#;

#[test]
fn a_missing_program_is_built_once() {
    let bench = Bench::new(Some(WORKING_GO));
    let parts = [Part::Etcd, Part::Kwok, Part::Etcd];
    assert_eq!(bench.toolbox.missing(&parts).unwrap(), [Part::Etcd, Part::Kwok]);
    bench.toolbox.ensure(&parts).unwrap();
    bench.toolbox.ensure(&parts).unwrap();
    let etcd = bench.toolbox.path(Part::Etcd).unwrap();
    assert_eq!(fs::read_to_string(&etcd).unwrap(), "go.etcd.io/etcd/server/v3\n");
    let calls = fs::read_to_string(bench.root.join("bin/calls")).unwrap();
    assert_eq!(calls, "built\nbuilt\n");
    assert_eq!(fs::read_dir(etcd.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn builders_at_the_same_time_build_once() {
    let bench = Bench::new(Some(WORKING_GO));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| bench.toolbox.ensure(&[Part::Etcd]).unwrap());
        }
    });
    assert_eq!(fs::read_to_string(bench.root.join("bin/calls")).unwrap(), "built\n");
}

#[test]
fn without_go_the_error_names_the_version_to_install() {
    let error = Bench::new(None).error();
    assert!(error.starts_with("the control plane is built with Go 1.26."), "{error}");
    assert!(error.ends_with("there is no `go` on the PATH: install it and run this again"));
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_registry_that_refuses_is_named_with_part_and_version() {
    let go = "[ \"$1\" = env ] && exit 0\n\
              echo 'reading https://proxy.example/x.mod: 403 Forbidden' >&2; exit 1";
    let error = Bench::new(Some(go)).error();
    assert_eq!(
        error,
        "cannot build etcd 3.7.3: the Go module proxy could not be reached or refused a module\n    \
         reading https://proxy.example/x.mod: 403 Forbidden"
    );
}

#[test]
fn a_failed_build_shows_the_end_of_the_output_and_leaves_no_file() {
    let go = "[ \"$1\" = env ] && exit 0\n\
              while [ \"$1\" != -o ]; do shift; done; echo half > \"$2\"\n\
              for i in $(seq 40); do echo \"line $i\" >&2; done; exit 2";
    let bench = Bench::new(Some(go));
    let error = bench.error();
    assert!(error.starts_with("cannot build etcd 3.7.3: Go could not build it\n"), "{error}");
    assert!(error.ends_with("line 40"));
    assert!(!error.contains("line 28\n"));
    let path = bench.toolbox.path(Part::Etcd).unwrap();
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn the_error_for_too_little_space_has_both_numbers() {
    let error = check_space(Path::new("/cache"), 3 * GIB / 2, 10 * GIB).unwrap_err().to_string();
    assert_eq!(
        error,
        "building the control plane needs 10 GiB free in /cache and there are 1.5 GiB: free some \
         space or point GROVE_CACHE_DIR, GOCACHE and GOMODCACHE elsewhere"
    );
    assert!(check_space(Path::new("/cache"), 10 * GIB, 10 * GIB).is_ok());
}

#[test]
fn each_kubernetes_version_needs_its_own_space() {
    assert_eq!(needed(&[]), 0);
    assert_eq!(needed(&[Part::Etcd, Part::Kwok]), OTHER_SPACE_BYTES);
    let both: Vec<Part> = Kube::ALL.into_iter().flat_map(Part::all).collect();
    assert_eq!(needed(&both), OTHER_SPACE_BYTES + 2 * KUBERNETES_SPACE_BYTES);
}

#[test]
fn every_part_has_its_own_path() {
    let toolbox = Bench::new(None).toolbox.clone();
    let parts: std::collections::BTreeSet<Part> =
        Kube::ALL.into_iter().flat_map(Part::all).collect();
    let paths: std::collections::BTreeSet<PathBuf> =
        parts.iter().map(|part| toolbox.path(*part).unwrap()).collect();
    assert_eq!(paths.len(), 10);
    assert!(parts.iter().all(|part| toolbox.path(*part).unwrap().ends_with(part.name())));
}

#[test]
fn versions_agree_with_the_pinning_modules() {
    for (part, line) in [
        (Part::Etcd, "go.etcd.io/etcd/server/v3 v3.7.3"),
        (Part::Kwok, "sigs.k8s.io/kwok v0.8.0"),
        (Part::Kubectl(Kube::V1_37), "k8s.io/kubernetes v1.37.1"),
        (Part::Kubectl(Kube::V1_36), "k8s.io/kubernetes v1.36.4"),
    ] {
        assert!(line.ends_with(&format!(" v{}", part.version())));
        let module = modules_dir().join(part.module()).join("go.mod");
        let text = fs::read_to_string(module).unwrap();
        assert!(text.lines().any(|found| found.contains(line)), "{part}");
    }
}
