//! Feature gates and API versions, by Kubernetes version and choice.
//!
//! A program exits on an unknown gate, so the table is exact: 1.37 has merged `GangScheduling` and
//! `WorkloadAwarePreemption` into `GenericWorkload`. Gates and served versions belong together: a scheduler
//! with the gate but without the served API schedules nothing.

use super::options::Gates;
use crate::tools::Kube;

/// Flags of the programs that have gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateFlags {
    /// Gates of kube-apiserver and kube-scheduler.
    pub(crate) server: &'static [&'static str],
    /// Gates of kube-controller-manager.
    pub(crate) controller_manager: &'static [&'static str],
    /// Versions of `scheduling.k8s.io` to serve.
    pub(crate) versions: &'static [&'static str],
}

/// Returns the flags of a version and choice.
pub(crate) fn flags(kube: Kube, gates: Gates) -> GateFlags {
    match (kube, gates) {
        (_, Gates::Defaults) => GateFlags { server: &[], controller_manager: &[], versions: &[] },
        (Kube::V1_37, Gates::All) => GateFlags {
            server: &["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"],
            controller_manager: &[
                "GenericWorkload",
                "TopologyAwareWorkloadScheduling",
                "CompositePodGroup",
            ],
            versions: &["v1beta1", "v1alpha3"],
        },
        (Kube::V1_37, Gates::Cautious) => GateFlags {
            server: &["GenericWorkload"],
            controller_manager: &["GenericWorkload"],
            versions: &["v1beta1"],
        },
        (Kube::V1_36, Gates::All) => GateFlags {
            server: &[
                "GenericWorkload",
                "GangScheduling",
                "WorkloadAwarePreemption",
                "TopologyAwareWorkloadScheduling",
            ],
            controller_manager: &["GenericWorkload"],
            versions: &["v1alpha2"],
        },
        // All of it is alpha in 1.36; gangs need only these two.
        (Kube::V1_36, Gates::Cautious) => GateFlags {
            server: &["GenericWorkload", "GangScheduling"],
            controller_manager: &["GenericWorkload"],
            versions: &["v1alpha2"],
        },
    }
}

/// `--feature-gates=A=true,B=true`, or nothing when no gate is set.
pub(crate) fn feature_gates(gates: &[&str]) -> Option<String> {
    let list: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    (!list.is_empty()).then(|| format!("--feature-gates={}", list.join(",")))
}

/// `--runtime-config=scheduling.k8s.io/V=true`, or nothing when no version is added.
pub(crate) fn runtime_config(versions: &[&str]) -> Option<String> {
    let list: Vec<String> =
        versions.iter().map(|version| format!("scheduling.k8s.io/{version}=true")).collect();
    (!list.is_empty()).then(|| format!("--runtime-config={}", list.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_gates_of_the_primary_version_make_these_flags() {
        let flags = flags(Kube::V1_37, Gates::All);
        assert_eq!(
            feature_gates(flags.server).unwrap(),
            "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,\
             CompositePodGroup=true"
        );
        assert_eq!(
            runtime_config(flags.versions).unwrap(),
            "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
        );
    }

    #[test]
    fn defaults_set_no_flag_at_all() {
        for kube in Kube::ALL {
            let flags = flags(kube, Gates::Defaults);
            assert_eq!(feature_gates(flags.server), None);
            assert_eq!(feature_gates(flags.controller_manager), None);
            assert_eq!(runtime_config(flags.versions), None);
        }
    }

    #[test]
    fn the_primary_version_never_gets_a_gate_it_has_dropped() {
        for gates in [Gates::All, Gates::Cautious] {
            let flags = flags(Kube::V1_37, gates);
            for dropped in ["GangScheduling", "WorkloadAwarePreemption"] {
                assert!(!flags.server.contains(&dropped));
                assert!(!flags.controller_manager.contains(&dropped));
            }
        }
    }

    #[test]
    fn a_gate_is_never_on_without_a_served_version() {
        for kube in Kube::ALL {
            for gates in [Gates::All, Gates::Cautious, Gates::Defaults] {
                let flags = flags(kube, gates);
                assert_eq!(flags.server.is_empty(), flags.versions.is_empty());
                assert_eq!(flags.controller_manager.is_empty(), flags.versions.is_empty());
            }
        }
    }
}
