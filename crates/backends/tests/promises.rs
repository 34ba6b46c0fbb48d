//! The table of promises in `docs/backends.md` names tests that exist.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/backends.md");

/// The tests that a row names, with their files: a file, a colon, and functions of it.
fn named(row: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut named = Vec::new();
    for word in row.split('`').skip(1).step_by(2) {
        if Path::new(word).extension().is_some_and(|extension| extension == "rs") {
            word.clone_into(&mut file);
        } else {
            named.push((file.clone(), word.to_owned()));
        }
    }
    named
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let (_, section) = PAGE.split_once("## What every backend is held to").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let rows: Vec<_> = rows.filter_map(|row| row.split(" | ").nth(1)).map(named).collect();
    assert_eq!(rows.len(), 15, "14 points, and that all of them behave alike");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for row in &rows {
        assert!(!row.is_empty(), "a promise without a test");
        for (file, test) in row {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(text.contains(&format!("fn {test}(")), "{file} has no {test}");
        }
    }
}
