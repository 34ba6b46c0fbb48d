//! Installs the CRDs, for clusters without another installer.

use grove_api::crd;
use grove_runtime::fence::Fence;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::write::{Verb, Write, WriteError, Writer};

const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
/// Field manager of everything that installs our CRDs.
const MANAGER: &str = "grove-crd-installer";

/// Applies all CRDs. Applying them again changes nothing, so every replica may do it.
pub(crate) async fn install(writer: &Writer) -> Result<(), WriteError> {
    let writer = writer.with_manager(MANAGER).without_election();
    for crd in crd::one_by_one() {
        let name = crd.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let write = Write {
            resource: DEFINITIONS,
            key: ObjectKey::cluster(&name),
            verb: Verb::Apply { body: crd.object, only_if: None, force: true, subresource: None },
            reason: "install the CRD",
        };
        writer.execute(&Fence::default(), &write).await?;
    }
    Ok(())
}
