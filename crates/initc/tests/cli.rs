//! The command line of the binary: refusals, output and exit codes.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use grove_testbed::program::{Program, Signal};
use serde_json::json;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grove-initc"));
    // The terminal and the cluster of the user must not affect the tests.
    command.args(args).env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn grove_initc(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Exit code and standard error of a call that prints nothing on standard output.
fn failure(args: &[&str]) -> (i32, String) {
    let output = grove_initc(args);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A directory with the given pod information.
fn pod_info(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    fs::create_dir_all(&directory).unwrap();
    for (name, text) in files {
        fs::write(directory.join(name), text).unwrap();
    }
    directory
}

#[test]
fn help_names_the_flag_and_every_exit_code() {
    let output = grove_initc(&["--help"]);
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    for text in
        ["-p, --podcliques <NAME:MIN>", "  0    ", "  1    ", "  2    ", "  130  ", "  143  "]
    {
        assert!(help.contains(text), "{text:?} is not in\n{help}");
    }
    assert!(!help.contains("pod-info-dir"), "{help}");
}

#[test]
fn bad_arguments_are_named_and_exit_with_1() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "--podcliques <NAME:MIN>"),
        (&["--podcliques"], "'--podcliques <NAME:MIN>'"),
        (&["--podcliques=x-0-a"], "'x-0-a'"),
        (&["--podcliques=x-0-a:0"], "'x-0-a:0'"),
        (&["-p", "x-0-a:1", "-p", "x-0-b:many"], "'x-0-b:many'"),
        (&["-p", "x-0-a:1", "--namespace=x"], "'--namespace'"),
    ];
    for (args, named) in cases {
        let (code, stderr) = failure(args);
        assert_eq!(code, 1, "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

#[test]
fn missing_pod_information_is_named_and_exits_with_2() {
    let namespace = ("namespace", "default");
    let cases = [
        ("nothing", vec![], "namespace: is the pod information mounted?"),
        ("no-gang", vec![namespace], "podgangname: is the pod information mounted?"),
        ("empty", vec![namespace, ("podgangname", "\n")], "podgangname is empty"),
    ];
    for (test, files, said) in cases {
        let directory = pod_info(test, &files);
        let flag = format!("--pod-info-dir={}", directory.display());
        let (code, stderr) = failure(&[&flag, "-p", "x-0-a:1"]);
        assert_eq!(code, 2, "{test}: {stderr}");
        assert!(stderr.contains(said), "{test}: {stderr}");
    }
}

#[test]
fn without_an_api_server_address_it_reports_that_and_exits_with_2() {
    let directory = pod_info("no-server", &[("namespace", "team-a"), ("podgangname", "x-0")]);
    let flag = format!("--pod-info-dir={}", directory.display());
    let (code, stderr) = failure(&[&flag, "-p", "x-0-b:1,x-0-a:2"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("waiting for x-0-a (2 ready), x-0-b (1 ready)"), "{stderr}");
    assert!(stderr.contains("namespace=team-a pod_gang=x-0"), "{stderr}");
    assert!(stderr.contains("no API server: not in a pod"), "{stderr}");
}

#[test]
fn it_waits_for_missing_credentials_until_a_signal() {
    let directory = pod_info("no-token", &[("namespace", "team-a"), ("podgangname", "x-0")]);
    let token = directory.join("token");
    let kubeconfig = directory.join("kubeconfig");
    let context = json!({"name": "pod", "context": {"cluster": "pod", "user": "pod"}});
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "contexts": [context],
        // No process listens on the port of tcpmux.
        "clusters": [{"name": "pod", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "pod", "user": {"tokenFile": token}}],
    });
    fs::write(&kubeconfig, text.to_string()).unwrap();
    let flag = format!("--pod-info-dir={}", directory.display());
    let mut command = command(&[&flag, "-p", "x-0-a:1"]);
    command.env("KUBECONFIG", kubeconfig);

    let mut initc = Program::reading_stderr(command);
    initc.until_line(&["the credentials of this pod cannot be used yet"]);
    assert!(initc.printed.last().unwrap().contains(&token.display().to_string()));
    fs::write(&token, "secret").unwrap();
    initc.until_line(&["the API server cannot be reached"]);
    initc.signal(Signal::TERM);

    let (status, printed) = initc.wait();
    assert_eq!(status.code(), Some(143), "{printed:#?}");
    assert!(!printed.iter().any(|line| line.contains("secret")), "{printed:#?}");
}
