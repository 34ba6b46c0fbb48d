//! The gangs of one replica, from creation to release, with the rules of `grove_core::gang`.

use std::collections::BTreeMap;

use grove_api::PodGang;
use grove_api::condition::pod_gang::INITIALIZED;
use grove_core::gang::{self, GangPods, Initialization, Member, Surroundings};
use grove_core::layout::{self, Layout};
use grove_core::pods::ObservedPod;
use grove_core::topology::SetTopology;
use grove_runtime::converge;
use grove_runtime::object::Object;
use grove_runtime::report::{Report, Urgency};
use grove_runtime::resource::Resource;
use jiff::Timestamp;

use super::NAME;
use super::decide::DesiredChildren;
use super::observe::Observed;

impl DesiredChildren<'_> {
    /// The next write or report of one gang: its object, then Initialized, then the progress of its pods.
    pub(super) fn gang(&mut self, layout: &Layout<'_>, place: &layout::Gang<'_>, now: Timestamp) {
        let observed = self.observed;
        let live = observed.gangs.get(&place.name).map(|live| &**live);
        // A new gang reports first that it is not complete, and gets its references afterwards.
        if live.is_none_or(|live| has_state(&live.object)) {
            let before = self.writes.len();
            self.object(layout, place, live);
            if self.writes.len() > before {
                // The state follows from what is stored, so it waits for what is being written.
                return;
            }
        }
        let Some(live) = live.filter(|_| self.may_write(&Resource::of::<PodGang>(), live)) else {
            return;
        };
        let (meta, stored) = (&live.meta, live.object.status.as_ref());
        let generation = live.object.metadata.generation;
        let mut names = place.cliques.iter().map(|clique| clique.name.as_str());
        let missing_claim = names.find_map(|name| observed.missing_claims.get(name));
        let state = initialization(observed, place, &live.object);
        let missing_claim = missing_claim.map(String::as_str);
        let mut status = gang::status(stored, generation, now, state, missing_claim);
        let write = converge::status(Resource::of::<PodGang>(), meta, stored, &status);
        if write.is_some() {
            self.writes.extend(write);
            return;
        }
        let members = place.cliques.iter();
        let members = members.map(|one| (one.min_available(), pods(observed, &one.name)));
        gang::report_pods(&mut status, GangPods::of(members), generation, now);
        let (resource, urgency) = (Resource::of::<PodGang>(), Urgency::Idle);
        let report = (stored != Some(&status)).then(|| Report {
            resource,
            meta,
            stored,
            desired: status,
            urgency,
            events: Vec::new(),
            component: NAME,
        });
        self.reports.push((live, report));
    }

    /// The gang itself, with references to its pods.
    fn object(
        &mut self,
        layout: &Layout<'_>,
        place: &layout::Gang<'_>,
        live: Option<&Object<PodGang>>,
    ) {
        let observed = self.observed;
        if live.is_none() && observed.topology == SetTopology::Unknown {
            return;
        }
        let is_pending = live.is_some_and(|live| {
            initialization(observed, place, &live.object) == Initialization::PodsPending
                && !gang::is_initialized(&live.object)
        });
        let references = |clique: &layout::Clique<'_>| {
            let pods = pods(observed, &clique.name);
            (clique.name.clone(), gang::references(layout.namespace(), &place.name, pods))
        };
        // No scheduler reads references before they are complete: one write for all of them.
        let cliques = place.cliques.iter().filter(|_| !is_pending);
        let references: BTreeMap<_, _> = cliques.map(references).collect();
        let stored = live.map(|live| &live.object);
        let (scheduler, topology) = (&observed.scheduler, &observed.topology);
        let surroundings = Surroundings { default_scheduler: &scheduler.default, topology };
        let desired = gang::pod_gang(layout, place, &references, surroundings, stored);
        let acted_on = |key: &str| scheduler.acted_on.contains(key);
        if !stored.is_some_and(|stored| gang::can_wait(stored, &desired, acted_on)) {
            self.own(&observed.gangs, &desired);
        }
    }
}

fn pods<'o>(observed: &'o Observed, clique: &str) -> &'o [ObservedPod] {
    observed.pods.get(clique).map(Vec::as_slice).unwrap_or_default()
}

/// What a stored gang lacks to be initialized.
fn initialization(observed: &Observed, place: &layout::Gang<'_>, gang: &PodGang) -> Initialization {
    let minimum_first = observed.scheduler.minimum_first.contains(&place.name);
    let member = |name: &str| {
        let clique = observed.cliques.get(name).filter(|clique| !clique.meta.deleting)?;
        let replicas = u32::try_from(clique.object.spec.replicas).unwrap_or_default();
        let place = place.cliques.iter().find(|one| one.name == name);
        let desired = place.map_or(replicas, |one| {
            gang::initial_pods(replicas, one.min_available(), minimum_first)
        });
        let missing_claim = observed.missing_claims.get(name).map(String::as_str);
        Some(Member { desired, pods: pods(observed, name), missing_claim })
    };
    gang::initialization(&place.name, &gang.spec, member)
}

/// Whether a gang has the condition Initialized.
fn has_state(gang: &PodGang) -> bool {
    let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == INITIALIZED)
}
