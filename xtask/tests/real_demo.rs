//! The demo as a newcomer runs it.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::process::{Command, Stdio};

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_demo_brings_the_example_up_and_leaves_by_itself_when_nobody_watches() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("demo")
        .stdin(Stdio::null())
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("pods: 14 created, 14 scheduled, 14 ready"), "{said}");
    assert!(said.contains("podgang.scheduler.grove.io/inference-0-workers-0"), "{said}");
    assert!(said.contains("kubectl scale"), "{said}");
}
