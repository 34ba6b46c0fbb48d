//! Names that the start-order init container and the pods that carry it agree on.

/// Name of the container.
pub const NAME: &str = "grove-initc";
/// Default image, without tag.
pub const DEFAULT_IMAGE: &str = "grove-initc";
/// Flag that names one parent PodClique and its minimum: `--podcliques=<name>:<min>`.
pub const POD_CLIQUES_FLAG: &str = "--podcliques";
/// Volume with the pod's namespace and gang name.
pub const POD_INFO_VOLUME: &str = "pod-info-vol";
/// Where [`POD_INFO_VOLUME`] is mounted.
pub const POD_INFO_MOUNT_PATH: &str = "/var/grove/pod-info";
/// File in [`POD_INFO_VOLUME`] with the namespace.
pub const NAMESPACE_FILE: &str = "namespace";
/// File in [`POD_INFO_VOLUME`] with the name of the PodGang.
pub const POD_GANG_NAME_FILE: &str = "podgangname";
/// Volume with the service account token.
pub const TOKEN_VOLUME: &str = "sa-token-secret-vol";
/// Where [`TOKEN_VOLUME`] is mounted.
pub const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// File mode of the token volume.
pub const TOKEN_DEFAULT_MODE: i32 = 0o644;

/// The argument for one parent.
pub fn parent_argument(pod_clique: &str, min_available: i32) -> String {
    format!("{POD_CLIQUES_FLAG}={pod_clique}:{min_available}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn parent_argument_carries_name_and_minimum() {
        assert_eq!(super::parent_argument("inf-0-a", 2), "--podcliques=inf-0-a:2");
        assert_eq!(super::TOKEN_DEFAULT_MODE, 420);
    }
}
