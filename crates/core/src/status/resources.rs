//! Conditions of a set about unavailable claims and ComputeDomains.

use grove_api::{
    condition::{FALSE, pod_clique_set as condition},
    pod_clique_set::PodCliqueSetStatus,
};
use jiff::Timestamp;

use crate::condition::{ProblemCondition, observe_problem};

/// Why resources of a set are unavailable, with reason and message.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceState<'a> {
    /// Shared claims.
    pub claims: Option<(&'a str, &'a str)>,
    /// Its ComputeDomains.
    pub domains: Option<(&'a str, &'a str)>,
}

/// Reports unavailable resources of a set. Sets without such a problem never have these conditions.
pub fn resources(
    status: &mut PodCliqueSetStatus,
    generation: Option<i64>,
    state: ResourceState<'_>,
    now: Timestamp,
) {
    let claims = (condition::RESOURCE_CLAIMS_AVAILABLE, "The claims of the set can be made");
    let domains = (condition::COMPUTE_DOMAINS_AVAILABLE, "The domains of the set can be made");
    let rows = [
        (condition::RESOURCE_CLAIMS_READY, state.claims, claims),
        (condition::COMPUTE_DOMAINS_READY, state.domains, domains),
    ];
    for (type_, problem, resolved) in rows {
        let condition = ProblemCondition { type_, problem, problem_status: FALSE, resolved };
        observe_problem(&mut status.conditions, &condition, generation, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_conditions_appear_with_the_first_problem() {
        let mut status = PodCliqueSetStatus::default();
        let mut say = |claims, domains| {
            let state = ResourceState { claims, domains };
            resources(&mut status, Some(1), state, Timestamp::UNIX_EPOCH);
            let said = status.conditions.iter();
            said.map(|one| format!("{} {} {}", one.type_, one.status, one.reason))
                .collect::<Vec<_>>()
        };

        assert_eq!(say(None, None), [""; 0]);
        assert_eq!(say(Some(("Gone", "m")), None), ["ResourceClaimsReady False Gone"]);
        assert_eq!(
            say(None, Some(("Gone", "m"))),
            ["ResourceClaimsReady True ResourceClaimsAvailable", "ComputeDomainsReady False Gone"]
        );
        assert_eq!(
            say(None, None),
            [
                "ResourceClaimsReady True ResourceClaimsAvailable",
                "ComputeDomainsReady True ComputeDomainsAvailable"
            ]
        );
    }
}
