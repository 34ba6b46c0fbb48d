//! Names of environment variables: those that pods receive and those that the operator reads.

/// Name of the PodCliqueSet.
pub const PCS_NAME: &str = "GROVE_PCS_NAME";
/// Replica index of the PodCliqueSet.
pub const PCS_INDEX: &str = "GROVE_PCS_INDEX";
/// Fully qualified name of the PodClique.
pub const PCLQ_NAME: &str = "GROVE_PCLQ_NAME";
/// Address of the headless service of the set replica.
pub const HEADLESS_SERVICE: &str = "GROVE_HEADLESS_SERVICE";
/// Index of the pod in its PodClique.
pub const PCLQ_POD_INDEX: &str = "GROVE_PCLQ_POD_INDEX";
/// Name of the scaling group, in pods of group members only.
pub const PCSG_NAME: &str = "GROVE_PCSG_NAME";
/// Sum of the template replicas of all cliques of the group.
pub const PCSG_TEMPLATE_NUM_PODS: &str = "GROVE_PCSG_TEMPLATE_NUM_PODS";
/// Replica index of the scaling group.
pub const PCSG_INDEX: &str = "GROVE_PCSG_INDEX";

/// Variables of every pod, in the order in which they are prepended.
pub const POD_VARIABLES: [&str; 5] =
    [PCS_NAME, PCS_INDEX, PCLQ_NAME, HEADLESS_SERVICE, PCLQ_POD_INDEX];
/// Variables of group members, in the order in which they are prepended.
pub const GROUP_VARIABLES: [&str; 3] = [PCSG_NAME, PCSG_TEMPLATE_NUM_PODS, PCSG_INDEX];

/// Read by the operator: its own service account, for the authorizer.
pub const OPERATOR_SERVICE_ACCOUNT_NAME: &str = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME";
/// Read by the operator: image of the start-order container, without tag.
pub const INIT_CONTAINER_IMAGE: &str = "GROVE_INIT_CONTAINER_IMAGE";
