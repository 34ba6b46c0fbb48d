//! What the scheduler of Kubernetes does not support for a set on this cluster. Admission refuses a new set
//! whose constraints would be lost; a condition of existing sets reports the rest.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::PodCliqueSet;
use grove_api::topology_constraint::TopologyConstraint;
use grove_core::gang::{Surroundings, pod_gang};
use grove_core::layout::{Layout, min_available};
use grove_core::topology::{self, SetTopology};

use super::NAME;
use super::api::Api;
use super::shape::{Form, TEMPLATES};
use crate::contract::{Limitation, SchedulerObjects};

const COMPOSITES: &str = "enable the feature gates TopologyAwareWorkloadScheduling and CompositePodGroup \
                          and the API version scheduling.k8s.io/v1alpha3";

/// Whether the gangs of a set can become objects of the scheduler. Existing sets are not refused.
pub(super) fn check(
    set: &PodCliqueSet,
    old: Option<&PodCliqueSet>,
    objects: &dyn SchedulerObjects,
) -> Result<(), String> {
    one_priority(set)?;
    let Some(api) = Api::assumed(objects).filter(|_| old.is_none()) else { return Ok(()) };
    let lost = lost_levels(set, api, objects);
    if lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}: the scheduler keeps one required topology level of a gang without CompositePodGroups, that \
         of spec.template.topologyConstraint: remove the others, or {COMPOSITES}",
        lost.join(", ")
    ))
}

/// Whether all pods of a set have one priority: a group has only one.
fn one_priority(set: &PodCliqueSet) -> Result<(), String> {
    let template = &set.spec.template;
    let of_set = template.priority_class_name.as_deref().filter(|name| !name.is_empty());
    let of_cliques = template.cliques.iter().map(|one| one.spec.pod_spec.priority_class_name());
    let classes: BTreeSet<Option<&str>> =
        of_cliques.map(|class| class.or(of_set)).chain(of_set.map(Some)).collect();
    if classes.len() <= 1 {
        return Ok(());
    }
    let classes: Vec<_> = classes.iter().map(|one| format!("{:?}", one.unwrap_or(""))).collect();
    Err(format!(
        "gang scheduling needs one priority for all pods, and the cliques have {}: set \
         spec.template.priorityClassName only, or the same podSpec.priorityClassName everywhere",
        classes.join(", ")
    ))
}

/// The limitations of a set.
pub(super) fn limitations(
    set: &PodCliqueSet,
    objects: &dyn SchedulerObjects,
    gang_scheduling: bool,
) -> Vec<Limitation> {
    let constraints = constraints(set);
    let Some(api) = Api::assumed(objects).filter(|_| gang_scheduling) else {
        let not_served = gang_scheduling.then(|| Limitation {
            reason: "GangSchedulingNotServed",
            message: "gangScheduling is on, but the API server serves no PodGroups of \
                      scheduling.k8s.io (v1beta1, or v1alpha2 of 1.36): enable the feature gate \
                      GenericWorkload and the API version. Pods are let go together and may be \
                      placed one by one"
                .to_owned(),
        });
        let ignored = (!constraints.is_empty()).then(|| Limitation {
            reason: "TopologyIgnored",
            message: format!(
                "{}: the scheduler knows places in the topology only with gangScheduling: true in \
                 the profile {NAME:?}",
                fields(&constraints)
            ),
        });
        return not_served.into_iter().chain(ignored).collect();
    };
    let mut limitations = Vec::new();
    let form = form(set, api, objects);
    if form == Form::Flat && api == Api::Composite {
        let message = format!(
            "spec.template.cliques: a Workload describes at most {TEMPLATES} different groups side by \
             side, in at most {TEMPLATES} parts, and these are more: one group has the minima of all of \
             them. Give some cliques the same minAvailable"
        );
        limitations.push(Limitation { reason: "TooManyGroups", message });
    }
    let lost = lost_levels(set, api, objects);
    if !lost.is_empty() {
        let message = format!(
            "{}: not enforced, because the API server serves no CompositePodGroups: {COMPOSITES}",
            lost.join(", ")
        );
        limitations.push(Limitation { reason: "TopologyPartiallyEnforced", message });
    }
    let whole = set.spec.template.topology_constraint.as_ref();
    let mut cliques = set.spec.template.cliques.iter();
    let surplus = cliques.any(|clique| clique.spec.replicas > min_available(clique));
    if form == Form::Flat && surplus && whole.is_some_and(|one| one.required().is_some()) {
        let message = format!(
            "spec.template.topologyConstraint: pods above minAvailable are packed apart from the \
             others, because the API server serves no CompositePodGroups: {COMPOSITES}"
        );
        limitations.push(Limitation { reason: "TopologyPartiallyEnforced", message });
    }
    let cliques = set.spec.template.cliques.iter().enumerate();
    let may_succeed = cliques.filter(|(_, clique)| clique.spec.pod_spec.may_succeed());
    let may_succeed: Vec<String> = may_succeed
        .map(|(index, _)| format!("spec.template.cliques[{index}].spec.podSpec.restartPolicy"))
        .collect();
    if !may_succeed.is_empty() && !api.has_mutable_minima() {
        let message = format!(
            "{}: when pods have ended, those that come in place of lost ones may wait for them, because \
             the minimum of a PodGroup cannot be lowered: Kubernetes 1.37 can",
            may_succeed.join(", ")
        );
        limitations.push(Limitation { reason: "EndedPodsHoldUpOthers", message });
    }
    let preferred: Vec<_> = constraints
        .into_iter()
        .filter(|(_, constraint)| constraint.preferred().is_some())
        .collect();
    if !preferred.is_empty() {
        let message = format!("{}: the scheduler knows no preferred level", fields(&preferred));
        limitations.push(Limitation { reason: "PreferredTopologyIgnored", message });
    }
    limitations
}

/// The form that gangs of a new set would have. The base gang has every member of other gangs.
fn form(set: &PodCliqueSet, api: Api, objects: &dyn SchedulerObjects) -> Form {
    let layout = Layout::of(set);
    let (default_scheduler, topology) = (NAME, &SetTopology::Unconstrained);
    let surroundings = Surroundings { default_scheduler, topology };
    let base = pod_gang(&layout, &layout.base_gang(0), &BTreeMap::new(), surroundings, None);
    Form::of(&base, api, objects)
}

/// The required levels below that of the set, which one group for a whole gang cannot express.
fn lost_levels(set: &PodCliqueSet, api: Api, objects: &dyn SchedulerObjects) -> Vec<String> {
    if form(set, api, objects) != Form::Flat {
        return Vec::new();
    }
    let below = constraints(set).into_iter().filter(|(field, _)| field.contains('['));
    below
        .filter(|(_, constraint)| constraint.required().is_some())
        .map(|(field, _)| field)
        .collect()
}

/// All constraints of a set, with their fields.
fn constraints(set: &PodCliqueSet) -> Vec<(String, &TopologyConstraint)> {
    topology::constraints(set).map(|(carrier, one)| (carrier.path(), one)).collect()
}

fn fields(constraints: &[(String, &TopologyConstraint)]) -> String {
    constraints.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>().join(", ")
}
