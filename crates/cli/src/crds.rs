//! `grove crds`: the custom resource definitions as YAML.

use std::{fs, path::Path};

use anyhow::Context as _;
use grove_api::crd;

/// All definitions as one YAML stream.
pub(crate) fn render() -> String {
    crd::all().iter().map(crd::Crd::to_yaml).collect()
}

/// One file per definition. The directory is created when it is missing; other files in it stay.
pub(crate) fn write_files(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create directory {}", directory.display()))?;
    for definition in crd::all() {
        let path = directory.join(&definition.file_name);
        fs::write(&path, definition.to_yaml())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
