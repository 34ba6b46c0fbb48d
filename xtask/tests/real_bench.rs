//! A minimal benchmark: every step is executed and measured.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::process::Command;

use serde_json::Value;

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn the_benchmark_measures_every_step_of_a_set() {
    let file = std::env::temp_dir().join(format!("grove-bench-{}.json", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "deploy", "--profile", "dev", "--shape", "a", "--replicas", "2"])
        .args(["--idle", "1", "--controller-manager-limits", "raised", "--json"])
        .arg(&file)
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(file).unwrap();
    let phases = report["runs"][0]["phases"].as_array().unwrap();
    let steps: Vec<&str> = phases.iter().map(|phase| phase["step"].as_str().unwrap()).collect();
    let expected = [
        "create",
        "halve",
        "double",
        "to-zero",
        "idle-empty",
        "from-zero",
        "idle-full",
        "no-op",
        "delete",
    ];
    assert_eq!(steps, expected);
    let create = &phases[0];
    let seconds = |name: &str| create["seconds"][name].as_f64().unwrap();
    assert!(seconds("created") > 0.0 && seconds("created") <= seconds("ready"), "{create:#}");
    assert_eq!(accepted(create, "grove-operator", "pods", "create"), 4);
    assert_eq!(accepted(create, "kube-scheduler", "pods/binding", "create"), 4);
    assert!(create["memory_kib"]["peak"].as_u64().unwrap() > 1024, "{create:#}");
    assert!(phases[8]["seconds"]["all_gone"].as_f64().unwrap() > 0.0, "{:#}", phases[8]);
    assert!(said.contains("2 → deleted") && said.contains("\nBudgets\n"), "{said}");
}

/// Number of accepted writes of a user.
fn accepted(phase: &Value, user: &str, resource: &str, verb: &str) -> u64 {
    let writes = phase["writes"].as_array().unwrap().iter();
    let found = writes
        .filter(|write| write["user"] == user && write["resource"] == resource)
        .filter(|write| write["verb"] == verb);
    found.map(|write| write["accepted"].as_u64().unwrap()).sum()
}
