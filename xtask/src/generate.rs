//! `cargo xtask generate`: writes the generated files that are committed.
//!
//! The CRDs are generated from the types. Their embedded core schemas come from the API description of a real
//! API server, which is fetched only on request because it changes only with the Kubernetes version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use xtask::cluster::{Cluster, Options, Parts};

/// Documents of the API description that contain the embedded schemas.
const DOCUMENTS: [(&str, &str); 3] = [
    ("core.json", "/openapi/v3/api/v1"),
    ("resource.json", "/openapi/v3/apis/resource.k8s.io/v1"),
    ("autoscaling.json", "/openapi/v3/apis/autoscaling/v2"),
];

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Fetch the core schemas again from a real API server first.
    #[arg(long)]
    refresh_openapi: bool,
}

/// Writes all files.
pub(crate) fn run(arguments: &GenerateArguments) -> Result<ExitCode> {
    let root = workspace_root()?;
    if arguments.refresh_openapi {
        refresh_openapi(&root)?;
    }
    generate_crds(&root)?;
    Ok(ExitCode::SUCCESS)
}

/// Directory of the workspace.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_owned).context("xtask lies inside the workspace")
}

/// The running cargo, in the workspace, without the variables that name the current package: build scripts
/// that depend on them, and all their dependents, would be rebuilt each time that a developer calls cargo and
/// this program in turn.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

fn refresh_openapi(root: &Path) -> Result<()> {
    let cluster = Cluster::start(Options { parts: Parts::ApiServer, ..Options::default() })?;
    let mut trim = cargo(root);
    trim.args(["run", "--quiet", "--package", "grove-api", "--example", "trim_openapi", "--"]);
    for (file, path) in DOCUMENTS {
        let document = cluster.directory().join(file);
        fs::write(&document, cluster.kubectl(&["get", "--raw", path])?)?;
        trim.arg(document);
    }
    let output = trim.output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cannot trim the API description:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let target = root.join("crates/api/schema/kubernetes-1.37.json");
    fs::write(&target, output.stdout).with_context(|| format!("cannot write {}", target.display()))
}

/// Empties the directory first, so that a removed kind leaves no file.
fn generate_crds(root: &Path) -> Result<()> {
    let target = root.join("deploy/crds");
    fs::create_dir_all(&target)?;
    for entry in fs::read_dir(&target)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            fs::remove_file(path)?;
        }
    }
    let status = cargo(root)
        .args(["run", "--quiet", "--package", "grove", "--", "crds", "--output-dir"])
        .arg(&target)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "`grove crds` failed");
    Ok(())
}
