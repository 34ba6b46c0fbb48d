//! Writes the part of the Kubernetes API description that the CRDs embed to standard output.
//!
//! Arguments: files with the API descriptions (v3) of core/v1, resource.k8s.io/v1 and autoscaling/v2, as
//! a real API server serves them. `cargo xtask generate --refresh-openapi` fetches them and runs this.

use std::{env, error::Error, fs, io::Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let mut documents = Vec::new();
    for path in env::args_os().skip(1) {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        documents.push(serde_json::from_str(&text)?);
    }
    let trimmed = grove_api::schema::trim(&documents)?;
    let mut text = serde_json::to_string_pretty(&trimmed)?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
