//! Labels that Grove puts on managed objects, and the selectors it publishes.

use std::collections::BTreeMap;

use crate::cluster_topology::MAX_KEY_LENGTH;

/// Who manages the object; always [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "grove-operator";
/// Name of the PodCliqueSet.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Name of the object itself.
pub const NAME: &str = "app.kubernetes.io/name";
/// Role of the object, see [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Name of the PodClique, on pods and claims.
pub const POD_CLIQUE: &str = "grove.io/podclique";
/// Index of the pod in its PodClique.
pub const POD_CLIQUE_POD_INDEX: &str = "grove.io/podclique-pod-index";
/// Replica index of the PodCliqueSet.
pub const POD_CLIQUE_SET_REPLICA_INDEX: &str = "grove.io/podcliqueset-replica-index";
/// Name of the PodCliqueScalingGroup.
pub const POD_CLIQUE_SCALING_GROUP: &str = "grove.io/podcliquescalinggroup";
/// Replica index of the PodCliqueScalingGroup.
pub const POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX: &str =
    "grove.io/podcliquescalinggroup-replica-index";
/// Name of the PodGang.
pub const POD_GANG: &str = "grove.io/podgang";
/// On members of a scaled gang: name of the base gang they wait for.
pub const BASE_POD_GANG: &str = "grove.io/base-podgang";
/// Hash of the clique template.
pub const POD_TEMPLATE_HASH: &str = "grove.io/pod-template-hash";
/// On PodGangs: the scheduler that is responsible.
pub const SCHEDULER_NAME: &str = "grove.io/scheduler-name";
/// On ComputeDomains: the MNNVL group.
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";

/// The labels of a PodClique with its place in its set. The operator restores them when a user changes
/// them, even where the rest of the object is left alone.
pub const PLACE_OF_POD_CLIQUE: [&str; 7] = [
    MANAGED_BY,
    PART_OF,
    POD_CLIQUE_SET_REPLICA_INDEX,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX,
    POD_GANG,
    BASE_POD_GANG,
];

/// What a managed object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Headless Service of a set replica.
    HeadlessService,
    /// Role of the start-order container.
    Role,
    /// RoleBinding of the start-order container.
    RoleBinding,
    /// ServiceAccount of the start-order container.
    ServiceAccount,
    /// Token Secret of the start-order container.
    TokenSecret,
    /// HorizontalPodAutoscaler.
    Autoscaler,
    /// PodGang.
    PodGang,
    /// PodCliqueScalingGroup.
    ScalingGroup,
    /// PodClique outside any group.
    StandalonePodClique,
    /// PodClique inside a group.
    MemberPodClique,
    /// ResourceClaim.
    ResourceClaim,
    /// ComputeDomain.
    ComputeDomain,
    /// ControllerRevision with a former or the current template of the set.
    Revision,
}

impl Component {
    /// The value of [`COMPONENT`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeadlessService => "pcs-headless-service",
            Self::Role => "pod-role",
            Self::RoleBinding => "pod-role-binding",
            Self::ServiceAccount => "pod-service-account",
            Self::TokenSecret => "pod-sa-token-secret",
            Self::Autoscaler => "pcs-hpa",
            Self::PodGang => "podgang",
            Self::ScalingGroup => "pcs-podcliquescalinggroup",
            Self::StandalonePodClique => "pcs-podclique",
            Self::MemberPodClique => "pcsg-podclique",
            Self::ResourceClaim => "resource-claim",
            Self::ComputeDomain => "pcs-computedomain",
            Self::Revision => "pcs-revision",
        }
    }

    /// Whether objects of this kind repeat their own name in [`NAME`].
    const fn has_name_label(self) -> bool {
        !matches!(self, Self::PodGang | Self::ResourceClaim | Self::Revision)
    }
}

/// The labels that every managed object of a set carries.
pub fn default_set(set: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (MANAGED_BY.to_owned(), MANAGED_BY_VALUE.to_owned()),
        (PART_OF.to_owned(), set.to_owned()),
    ])
}

/// [`default_set`] plus component and, where the kind has one, the name label.
pub fn managed(set: &str, component: Component, name: &str) -> BTreeMap<String, String> {
    let mut labels = default_set(set);
    labels.insert(COMPONENT.to_owned(), component.as_str().to_owned());
    if component.has_name_label() {
        // Role names contain colons, which label values may not.
        labels.insert(NAME.to_owned(), name.replace(':', "-"));
    }
    labels
}

/// Selects the revisions of the templates of a set.
pub fn revision_selector(set: &str) -> String {
    format!("{},{COMPONENT}={}", set_pod_selector(set), Component::Revision.as_str())
}

/// Selects all pods of a set; published in `PodCliqueSet.status.hpaPodSelector`.
pub fn set_pod_selector(set: &str) -> String {
    format!("{MANAGED_BY}={MANAGED_BY_VALUE},{PART_OF}={set}")
}

/// Selects the pods of a PodClique; published in `PodClique.status.hpaPodSelector`.
pub fn clique_pod_selector(set: &str, pod_clique: &str) -> String {
    format!("{},{POD_CLIQUE}={pod_clique}", set_pod_selector(set))
}

/// Selects the pods of a scaling group; published in `PodCliqueScalingGroup.status.selector`.
pub fn scaling_group_pod_selector(set: &str, scaling_group: &str) -> String {
    format!("{},{POD_CLIQUE_SCALING_GROUP}={scaling_group}", set_pod_selector(set))
}

/// Why a text is not a label key that a level of a topology can have.
pub fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if key.len() > MAX_KEY_LENGTH {
        return Some(format!("must be no more than {MAX_KEY_LENGTH} characters"));
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > 63
        || !name.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !name.ends_with(|c: char| c.is_ascii_alphanumeric())
        || !name.chars().all(inner)
    {
        return Some("must be a node label key such as topology.kubernetes.io/zone".to_owned());
    }
    match prefix {
        Some(prefix) if !is_dns_subdomain(prefix) => {
            Some("the part before the slash must be a DNS subdomain".to_owned())
        }
        _ => None,
    }
}

pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            label.starts_with(edge)
                && label.ends_with(edge)
                && label.chars().all(|c| edge(c) || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_name_becomes_a_legal_label_value() {
        let labels = managed("inf", Component::Role, "grove.io:pcs:inf");

        assert_eq!(labels[NAME], "grove.io-pcs-inf");
        assert_eq!(labels[COMPONENT], "pod-role");
        assert_eq!(labels[MANAGED_BY], "grove-operator");
        assert_eq!(labels[PART_OF], "inf");
    }

    #[test]
    fn gangs_claims_and_revisions_have_no_name_label() {
        for component in [Component::PodGang, Component::ResourceClaim, Component::Revision] {
            assert!(!managed("inf", component, "inf-0").contains_key(NAME));
        }
    }

    #[test]
    fn selectors_have_their_documented_text() {
        let managed = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=demo";
        assert_eq!(set_pod_selector("demo"), managed);
        assert_eq!(
            revision_selector("demo"),
            format!("{managed},app.kubernetes.io/component=pcs-revision")
        );
        assert_eq!(
            clique_pod_selector("demo", "demo-0-router"),
            format!("{managed},grove.io/podclique=demo-0-router")
        );
        assert_eq!(
            scaling_group_pod_selector("demo", "demo-0-decode"),
            format!("{managed},grove.io/podcliquescalinggroup=demo-0-decode")
        );
    }
}
