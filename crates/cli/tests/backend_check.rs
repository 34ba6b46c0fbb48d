//! `grove backend check` from outside, with the reference implementation on the other side.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

use std::process::{Command, Output};

use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend};
use serde_json::Value;

fn check(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["backend", "check"])
        .args(args)
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_reference_passes_with_either_way_to_show_who_asks() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/cli-reference"));
    let files = ["ca.crt", "client.crt", "client.key", "token"].map(|file| pki.path(file));
    let [ca, cert, key, token] = &files;

    let program = ReferenceBackend::start(&pki, Credential::Certificate, 0);
    let (code, shown, reported) =
        check(&[&program.url(), "--ca-file", ca, "--cert-file", cert, "--key-file", key]);
    assert_eq!((code, reported.as_str()), (0, ""), "{shown}");
    insta::assert_snapshot!("check_of_the_reference", shown);

    let program = ReferenceBackend::start(&pki, Credential::Token, 0);
    let url = program.url();
    let with_token = [url.as_str(), "--ca-file", ca, "--token-file", token, "-o", "json"];
    let (code, shown, reported) = check(&with_token);
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (code, reported.as_str(), &report["passed"]),
        (0, "", &Value::Bool(true)),
        "{shown}"
    );
    assert_eq!(report["kinds"][0], "crew.example.com/v1 Crew");

    // Another token is another caller.
    pki.renew();
    let (code, shown, _) = check(&[&url, "--ca-file", ca, "--token-file", token, "-o", "json"]);
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &report["passed"]), (1, &Value::Bool(false)), "{shown}");
    let came = report["checks"][0]["broken"]["came"].as_str().unwrap();
    assert!(came.starts_with("its certificate is not signed by the authority in "), "{came}");
}

#[test]
fn a_program_that_is_down_fails_with_one_line_per_check() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/cli-down"));
    let url = ReferenceBackend::start(&pki, Credential::Token, 0).url();
    let (ca, token) = (pki.path("ca.crt"), pki.path("token"));
    let (code, shown, reported) = check(&[&url, "--ca-file", &ca, "--token-file", &token]);
    assert_eq!((code, reported.as_str()), (1, ""));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(
        lines[0].starts_with("FAILED  Describe says what the scheduler is: sent Describe; came no")
    );
    assert_eq!(lines[1], "0 ok, 1 FAILED");
}

#[test]
fn wrong_usage_has_another_exit_code_than_a_failing_backend() {
    let cases: [(&[&str], &str); 7] = [
        (&[], "required arguments were not provided"),
        (&["https://a", "--cert-file", "x"], "--key-file <FILE>"),
        (&["https://a", "--tiemout", "1s"], "unexpected argument '--tiemout'"),
        (&["http://a"], "error: \"http://a\" does not begin with https://"),
        (&["https://a", "--timeout", "1"], "missing unit in duration"),
        (&["https://a", "--timeout", "31s"], "31s is not greater than 0 and at most 30s"),
        (&["https://a", "--ca-file", "/none"], "error: cannot read /none: No such file"),
    ];
    for (args, says) in cases {
        let (code, shown, reported) = check(args);
        assert_eq!((code, shown.as_str()), (2, ""), "{args:?}: {reported}");
        assert!(reported.contains(says), "{args:?}: {reported}");
    }
}
