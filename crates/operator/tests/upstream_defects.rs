//! Every test that `docs/upstream-defects.md` names exists.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};

/// The sources below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_defect_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let table = fs::read_to_string(root.join("docs/upstream-defects.md")).unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|') && line.contains('`'));
    let mut defects = 0;
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(text.contains(&format!("fn {name}(")), "there is no test {name}: {row}");
        }
        defects += 1;
    }
    assert!(defects > 30, "{defects} rows were read");
}
