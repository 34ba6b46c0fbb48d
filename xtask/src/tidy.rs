//! Rules of this workspace that no lint checks: allowed dependencies between crates, banned crates, and no
//! cycles between modules of the rules.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::generate::cargo;

mod modules;

/// The crates of the workspace that each crate may use. Development dependencies are not restricted, so that
/// every crate can be tested on a real control plane.
const MAY_USE: &[(&str, &[&str])] = &[
    ("grove-api", &[]),
    ("grove-core", &["grove-api"]),
    ("grove-placement", &[]),
    ("grove-workload", &["grove-api"]),
    ("grove-runtime", &[]),
    ("grove-backends", &["grove-api", "grove-core", "grove-workload", "grove-runtime"]),
    (
        "grove-operator",
        &["grove-api", "grove-core", "grove-workload", "grove-runtime", "grove-backends"],
    ),
    ("grove-podgrouper", &["grove-api", "grove-workload", "grove-runtime"]),
    ("grove-scheduler", &["grove-api", "grove-placement", "grove-workload", "grove-runtime"]),
    ("grove-apiserver", &[]),
    ("grove-initc", &["grove-api", "grove-runtime"]),
    ("grove-nodes", &["grove-runtime"]),
    ("grove-dashboard", &["grove-api", "grove-placement", "grove-runtime"]),
    ("grove-testbed", &["grove-api", "grove-core", "grove-operator", "grove-runtime", "xtask"]),
    ("xtask", &[]),
];
/// May use everything (except [`LAST`]).
const WIRING: [&str; 2] = ["grove", "grove-sim"];
/// No crate may use it.
const LAST: &str = "grove-sim";

/// Crates of rules and types, without network, async runtime and clock.
const PURE: [&str; 4] = ["grove-api", "grove-core", "grove-placement", "grove-workload"];
const NOT_PURE: [&str; 5] = ["tokio", "kube-client", "hyper", "axum", "tracing-subscriber"];

/// One TLS stack, one time library.
const BANNED: [&str; 6] = ["aws-lc-rs", "aws-lc-sys", "openssl", "native-tls", "chrono", "reqwest"];

/// Sources of the crate whose modules must not form cycles.
const RULES: &str = "crates/core/src";

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Checks the dependency graph of the workspace; the error lists all violations.
pub(crate) fn check(root: &Path) -> Result<()> {
    let metadata = run(root, &["metadata", "--format-version=1", "--no-deps"])?;
    let metadata: Metadata =
        serde_json::from_str(&metadata).context("cannot read the answer of cargo metadata")?;
    let mut wrong = wrong_edges(&metadata.packages);
    let members: BTreeSet<&str> =
        metadata.packages.iter().map(|package| package.name.as_str()).collect();
    for pure in PURE.into_iter().filter(|pure| members.contains(pure)) {
        let tree = tree(root, &["--package", pure, "--edges=normal"])?;
        wrong.extend(
            NOT_PURE
                .into_iter()
                .filter(|&name| tree.contains(name))
                .map(|name| format!("{pure} is pure and must not pull in {name}")),
        );
    }
    let all = tree(root, &["--workspace", "--edges=all"])?;
    wrong.extend(BANNED.into_iter().filter(|&name| all.contains(name)).map(|name| {
        format!("{name} is banned; `cargo tree --invert {name}` shows its dependents")
    }));
    wrong.extend(modules::cycles(&root.join(RULES))?);
    if wrong.is_empty() { Ok(()) } else { bail!(wrong.join("\n")) }
}

fn wrong_edges(packages: &[Package]) -> Vec<String> {
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        let allowed = MAY_USE.iter().find(|(member, _)| *member == name).map(|(_, used)| *used);
        if allowed.is_none() && !WIRING.contains(&name) {
            wrong.push(format!("{name} is not in the table of allowed dependencies in tidy.rs"));
        }
        let used = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.as_str())
            .filter(|used| members.contains(used));
        for used in used {
            if used == LAST || allowed.is_some_and(|allowed| !allowed.contains(&used)) {
                wrong.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    wrong
}

/// Names of all packages in the dependency tree of the selection.
fn tree(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>> {
    let args = [&["tree", "--prefix=none", "--format={p}"], selection].concat();
    let text = run(root, &args)?;
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

fn run(root: &Path, args: &[&str]) -> Result<String> {
    let output = cargo(root).args(args).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {}:\n{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("cargo printed something that is not text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency {
                name: (*name).to_owned(),
                kind: kind.map(str::to_owned),
            })
            .collect();
        Package { name: name.to_owned(), dependencies }
    }

    #[test]
    fn allowed_and_development_dependencies_pass() {
        let packages = [
            package("grove-api", &[("serde", None), ("xtask", Some("dev"))]),
            package("grove-runtime", &[("grove-api", Some("dev"))]),
            package("grove-initc", &[("grove-runtime", None), ("grove-api", None)]),
            package("grove", &[("grove-runtime", None), ("grove-api", None)]),
            package("xtask", &[("anyhow", None)]),
        ];
        assert_eq!(wrong_edges(&packages), Vec::<String>::new());
    }

    #[test]
    fn a_forbidden_dependency_is_named() {
        let packages = [
            package("grove-api", &[("grove-runtime", None)]),
            package("grove-runtime", &[("grove-api", None), ("xtask", Some("build"))]),
            package("grove", &[("grove-sim", None)]),
            package("grove-sim", &[]),
            package("xtask", &[]),
        ];
        assert_eq!(
            wrong_edges(&packages),
            [
                "grove-api must not depend on grove-runtime",
                "grove-runtime must not depend on grove-api",
                "grove-runtime must not depend on xtask",
                "grove must not depend on grove-sim",
            ]
        );
    }

    #[test]
    fn a_crate_that_is_missing_in_the_table_is_named() {
        let wrong = wrong_edges(&[package("grove-extra", &[])]);
        assert_eq!(wrong, ["grove-extra is not in the table of allowed dependencies in tidy.rs"]);
    }

    #[test]
    fn the_table_uses_only_names_that_it_defines() {
        let defined: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
        for (name, used) in MAY_USE {
            assert!(used.iter().all(|used| defined.contains(used)), "{name}");
        }
        assert!(PURE.iter().all(|name| defined.contains(name)));
    }
}
