//! The manifests about which `grove validate` and a cluster have to agree.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct File {
    good: String,
    cases: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    patch: Option<Value>,
    replace: Option<[String; 2]>,
    text: Option<String>,
    #[serde(default)]
    kubectl: bool,
    #[serde(default)]
    refused: bool,
}

/// One manifest.
pub struct Case {
    pub name: String,
    pub text: String,
    /// Whether kubectl has a say in it.
    pub kubectl: bool,
    pub refused: bool,
}

pub fn cases() -> Vec<Case> {
    let File { good, cases } =
        serde_saphyr::from_str(include_str!("../manifests/compared.yaml")).unwrap();
    cases
        .into_iter()
        .map(|row| {
            let Row { name, patch, replace, text, kubectl, refused } = row;
            let text = match (patch, replace, text) {
                (None, None, None) => good.clone(),
                (Some(patch), None, None) => patched(&good, patch),
                (None, Some([from, to]), None) => {
                    assert!(good.contains(&from), "{name}: {from:?} is not there");
                    good.replacen(&from, &to, 1)
                }
                (None, None, Some(text)) => text,
                _ => panic!("{name}: one change at most"),
            };
            Case { name, text, kubectl, refused }
        })
        .collect()
}

fn patched(good: &str, patch: Value) -> String {
    let mut object: Value = serde_saphyr::from_str(good).unwrap();
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    object.to_string()
}

/// Exit code and output of `grove validate` for a text.
pub fn validate(text: &str) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_grove"))
        .args(["validate", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}
