//! Names of every object that Grove creates.
//!
//! Names are only ever built, never taken apart: set, group and clique names may contain hyphens and
//! digits, so `x-0-a-1` has several readings. To find out what an object belongs to, use its labels and
//! compare with a name built here. Indices are never zero padded.

/// Longest allowed sum of the lengths of set, group and clique name. Leaves room for indices, hyphens and
/// the random suffix of pods.
pub const MAX_COMBINED_LENGTH: usize = 45;

/// The sum that [`MAX_COMBINED_LENGTH`] limits, in bytes.
pub fn combined_length(set: &str, group: Option<&str>, clique: &str) -> usize {
    set.len() + group.map_or(0, str::len) + clique.len()
}

/// Headless service of one replica of a set.
pub fn headless_service(set: &str, set_replica: u32) -> String {
    format!("{set}-{set_replica}")
}

/// DNS name of the headless service.
pub fn headless_service_address(set: &str, set_replica: u32, namespace: &str) -> String {
    format!("{}.{namespace}.svc.cluster.local", headless_service(set, set_replica))
}

/// Base PodGang of one replica of a set.
pub fn base_pod_gang(set: &str, set_replica: u32) -> String {
    format!("{set}-{set_replica}")
}

/// PodClique of a clique that is in no scaling group.
pub fn standalone_pod_clique(set: &str, set_replica: u32, clique: &str) -> String {
    format!("{set}-{set_replica}-{clique}")
}

/// PodCliqueScalingGroup of one replica of a set.
pub fn scaling_group(set: &str, set_replica: u32, group: &str) -> String {
    format!("{set}-{set_replica}-{group}")
}

/// PodClique of a clique inside one replica of a PodCliqueScalingGroup, which is given by its full name.
pub fn member_pod_clique(scaling_group: &str, group_replica: u32, clique: &str) -> String {
    format!("{scaling_group}-{group_replica}-{clique}")
}

/// PodGang of a group replica beyond the minimum, or nothing when that replica belongs to the base gang.
/// Scaled gangs count from zero: the first replica beyond the minimum has the gang with index 0.
pub fn scaled_pod_gang(
    scaling_group: &str,
    group_replica: u32,
    min_available: u32,
) -> Option<String> {
    let index = group_replica.checked_sub(min_available)?;
    Some(format!("{scaling_group}-{index}"))
}

/// Name of the topology constraint group that a group replica has in the base PodGang.
pub fn constraint_group(scaling_group: &str, group_replica: u32) -> String {
    format!("{scaling_group}-{group_replica}")
}

/// `generateName` of the pods of a PodClique.
pub fn pod_generate_name(pod_clique: &str) -> String {
    format!("{pod_clique}-")
}

/// Hostname of a pod.
pub fn pod_hostname(pod_clique: &str, pod_index: u32) -> String {
    format!("{pod_clique}-{pod_index}")
}

/// ServiceAccount of the start-order container.
pub fn service_account(set: &str) -> String {
    set.to_owned()
}

/// Role of the start-order container.
pub fn role(set: &str) -> String {
    format!("grove.io:pcs:{set}")
}

/// RoleBinding of the start-order container.
pub fn role_binding(set: &str) -> String {
    role(set)
}

/// Secret with the token of the start-order container.
pub fn token_secret(set: &str) -> String {
    format!("{set}-ic-sat")
}

/// Name that older versions gave to [`token_secret`].
pub fn legacy_token_secret(set: &str) -> String {
    format!("{set}-initc-sa-token-secret")
}

/// ControllerRevision of the template with this generation hash. A set's name fits into a label, so the
/// whole stays far below the length that object names may have.
pub fn revision(set: &str, generation_hash: &str) -> String {
    format!("{set}-{generation_hash}")
}

/// HorizontalPodAutoscaler of a PodClique or PodCliqueScalingGroup.
pub fn autoscaler(target: &str) -> String {
    target.to_owned()
}

/// ResourceClaim shared by all replicas of its owner.
pub fn shared_resource_claim(owner: &str, template: &str) -> String {
    format!("{owner}-all-{template}")
}

/// ResourceClaim of one replica of its owner.
pub fn replica_resource_claim(owner: &str, index: u32, template: &str) -> String {
    format!("{owner}-{index}-{template}")
}

/// ComputeDomain of one MNNVL group in one replica of a set, and its ResourceClaimTemplate.
pub fn compute_domain(set: &str, set_replica: u32, mnnvl_group: &str) -> String {
    format!("{set}-{set_replica}-{mnnvl_group}")
}

/// Name that older versions gave to [`compute_domain`].
pub fn legacy_compute_domain(set: &str, set_replica: u32) -> String {
    format!("{set}-{set_replica}")
}

#[cfg(test)]
mod tests;
