//! Owner references. The garbage collector deletes an object with its owner.

use grove_api::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The set as controlling owner.
pub fn of_set(set: &PodCliqueSet) -> OwnerReference {
    controller(PodCliqueSet::API_VERSION, PodCliqueSet::KIND, &set.metadata)
}

/// A scaling group as controlling owner.
pub fn of_scaling_group(group: &PodCliqueScalingGroup) -> OwnerReference {
    let kind = PodCliqueScalingGroup::KIND;
    controller(PodCliqueScalingGroup::API_VERSION, kind, &group.metadata)
}

/// A PodClique as controlling owner.
pub fn of_clique(clique: &PodClique) -> OwnerReference {
    controller(PodClique::API_VERSION, PodClique::KIND, &clique.metadata)
}

/// The owner is a stored object with a name and a uid. The API server refuses an empty uid.
fn controller(api_version: &str, kind: &str, metadata: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
