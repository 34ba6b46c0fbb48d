//! The binary from outside: what it prints, where, and how it ends.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use grove_api::crd;
use serde_json::{Value, json};

fn grove(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(args)
        // The terminal of whoever runs the tests must not shape the help text.
        .env_remove("COLUMNS")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

/// Standard output of a call that succeeds and says nothing on standard error.
fn stdout(args: &[&str]) -> String {
    let output = grove(args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a call that fails and says nothing on standard output.
fn failure(args: &[&str]) -> (i32, String) {
    let output = grove(args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A directory of this test binary that does not exist yet.
fn fresh_directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    path
}

#[test]
fn help_lists_commands_and_exit_codes() {
    insta::assert_snapshot!(stdout(&["--help"]));
}

#[test]
fn help_of_a_command_shows_how_to_use_it() {
    insta::assert_snapshot!("help_version", stdout(&["version", "--help"]));
    insta::assert_snapshot!("help_crds", stdout(&["crds", "--help"]));
}

#[test]
fn version_names_binary_kubernetes_and_apis() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        stdout(&["version"]),
        format!(
            "grove {version}\nKubernetes: 1.36, 1.37\nAPIs: grove.io/v1alpha1, \
             scheduler.grove.io/v1alpha1, operator.config.grove.io/v1alpha1\n"
        )
    );
    let answer: Value = serde_json::from_str(&stdout(&["version", "--output", "json"])).unwrap();
    assert_eq!(
        answer,
        json!({
            "version": version,
            "kubernetesVersions": ["1.36", "1.37"],
            "apiVersions": [
                "grove.io/v1alpha1",
                "scheduler.grove.io/v1alpha1",
                "operator.config.grove.io/v1alpha1",
            ],
        })
    );
    assert_eq!(stdout(&["--version"]), format!("grove {version}\n"));
}

#[test]
fn crds_are_one_yaml_stream() {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&stdout(&["crds"])).unwrap();

    let expected: Vec<Value> = crd::all().into_iter().map(|crd| crd.object).collect();
    assert_eq!(documents, expected);
}

#[test]
fn crds_can_be_written_as_files() {
    let directory = fresh_directory("crds").join("new");

    assert_eq!(stdout(&["crds", "--output-dir", directory.to_str().unwrap()]), "");

    for crd in crd::all() {
        assert_eq!(fs::read_to_string(directory.join(&crd.file_name)).unwrap(), crd.to_yaml());
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), crd::all().len());
}

#[test]
fn bad_arguments_end_with_code_one_and_a_hint() {
    for (args, expected) in [
        (&["crsd"][..], "error: unrecognized subcommand 'crsd'"),
        (&["version", "--output", "xml"], "error: invalid value 'xml' for '--output <OUTPUT>'"),
        (&["crds", "extra"], "error: unexpected argument 'extra' found"),
    ] {
        let (code, text) = failure(args);
        assert_eq!(code, 1, "{text}");
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("--help"), "{text}");
    }
    let (code, text) = failure(&[]);
    assert_eq!(code, 1);
    assert!(text.contains("Usage: grove <COMMAND>"), "{text}");
}

#[test]
fn directory_that_cannot_be_made_is_named() {
    let directory = fresh_directory("blocked");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("crds");

    let (code, text) = failure(&["crds", "--output-dir", below.to_str().unwrap()]);

    assert_eq!(code, 6);
    let expected = format!("error: cannot create directory {}: ", below.display());
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_grove"))
        .arg("crds")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Far more than a pipe holds is still to be written when its other end closes.
    drop(child.stdout.take());

    let output = child.wait_with_output().unwrap();

    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
