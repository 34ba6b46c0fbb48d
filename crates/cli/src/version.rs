//! `grove version`: what this binary is and what it speaks.

use grove_api::{GROUP, KUBERNETES_VERSIONS, SCHEDULER_GROUP, VERSION, config};
use serde_json::json;

use crate::args::Output;

/// The answer, with a final newline.
pub(crate) fn render(output: Output) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let apis = [
        format!("{GROUP}/{VERSION}"),
        format!("{SCHEDULER_GROUP}/{VERSION}"),
        config::API_VERSION.to_owned(),
    ];
    match output {
        Output::Text => format!(
            "grove {version}\nKubernetes: {}\nAPIs: {}\n",
            KUBERNETES_VERSIONS.join(", "),
            apis.join(", ")
        ),
        Output::Json => {
            let answer = json!({
                "version": version,
                "kubernetesVersions": KUBERNETES_VERSIONS,
                "apiVersions": apis,
            });
            format!("{answer:#}\n")
        }
    }
}
