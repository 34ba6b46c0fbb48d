//! The demo as a new user runs it.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::process::{Command, Stdio};

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_demo_deploys_the_example_and_ends_by_itself_without_a_terminal() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("demo")
        .stdin(Stdio::null())
        .output()
        .unwrap();

    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("pods: 14 created, 14 scheduled, 14 ready"), "{text}");
    assert!(text.contains("podgang.scheduler.grove.io/inference-0-workers-0"), "{text}");
    assert!(text.contains("kubectl scale"), "{text}");
}
